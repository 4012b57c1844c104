"""Experiments: settings, training, records, tables and claims."""
