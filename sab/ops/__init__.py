"""The mathematics of the book: readable references, and fast forms of the costly ones."""
