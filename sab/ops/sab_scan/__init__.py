"""The SAB recurrence (paper, Algorithm 1), in a readable form and in fast ones behind one call."""

from sab.ops.sab_scan.dispatch import FORMS, sab_scan
from sab.ops.sab_scan.types import Recall, SABState, ScanOptions, ScanWeights, initial_state

__all__ = [
    "FORMS",
    "Recall",
    "SABState",
    "ScanOptions",
    "ScanWeights",
    "initial_state",
    "sab_scan",
]
