"""The mathematics of the book: each operation as a readable reference, the costly ones beside a
fast form."""
