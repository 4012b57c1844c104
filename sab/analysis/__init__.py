"""Looks into finished models: who receives gradient from whom, and what a run costs."""
