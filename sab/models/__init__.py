"""The models of the book, one file a system."""
