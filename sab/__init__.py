"""Sparse Attentive Backtracking (Ke et al., NeurIPS 2018): the package behind the companion book."""

__version__ = "0.1.0"
