"""Sparse Attentive Backtracking (Ke et al., NeurIPS 2018): the companion book's package."""

__version__ = "0.1.0"
