"""Measurements of time and memory side by side, a script a question; the book reads their JSON."""
