"""Every figure of the book: one function a figure, drawn from data or from the rules."""

from sab.figures.backward import backward_diagram, backward_panels
from sab.figures.forward import forward_diagram

__all__ = ["backward_diagram", "backward_panels", "forward_diagram"]
