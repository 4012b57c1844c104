"""Every figure of the book: one function a figure, drawn from data or from the rules."""

from sab.figures.backward import backward_diagram, backward_panels
from sab.figures.blanks import score_margins, settling_curve, share_against
from sab.figures.distance import gradient_by_distance
from sab.figures.forward import forward_diagram
from sab.figures.learning import learning_curve
from sab.figures.lengths import scaling, transfer_curve
from sab.figures.matrices import attention_map, credit_matrix
from sab.figures.rea import accuracy_dots, curves, rea_channels, window_scores
from sab.figures.reads import read_weights

__all__ = [
    "accuracy_dots",
    "attention_map",
    "backward_diagram",
    "backward_panels",
    "credit_matrix",
    "curves",
    "forward_diagram",
    "gradient_by_distance",
    "learning_curve",
    "rea_channels",
    "read_weights",
    "scaling",
    "score_margins",
    "settling_curve",
    "share_against",
    "transfer_curve",
    "window_scores",
]
