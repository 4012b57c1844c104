"""Every figure of the book: one function a figure, drawn from data or from the rules."""

from sab.figures.backward import backward_diagram, backward_panels
from sab.figures.blanks import score_margins, settling_curve, share_against
from sab.figures.distance import gradient_by_distance
from sab.figures.effects import switch_effects
from sab.figures.forward import forward_diagram
from sab.figures.learning import learning_curve
from sab.figures.lengths import scaling, transfer_curve
from sab.figures.matrices import attention_map, credit_matrix
from sab.figures.pixels import Panel, picture_panels
from sab.figures.places import place_losses
from sab.figures.positions import position_course
from sab.figures.rea import accuracy_dots, curves, rea_channels, window_scores
from sab.figures.reads import read_weights
from sab.figures.sequences import adding_sequence
from sab.figures.shares import share_bars
from sab.figures.texts import TextRow, text_cells

__all__ = [
    "Panel",
    "TextRow",
    "accuracy_dots",
    "adding_sequence",
    "attention_map",
    "backward_diagram",
    "backward_panels",
    "credit_matrix",
    "curves",
    "forward_diagram",
    "gradient_by_distance",
    "learning_curve",
    "picture_panels",
    "place_losses",
    "position_course",
    "rea_channels",
    "read_weights",
    "scaling",
    "score_margins",
    "settling_curve",
    "share_against",
    "share_bars",
    "switch_effects",
    "text_cells",
    "transfer_curve",
    "window_scores",
]
