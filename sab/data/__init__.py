"""Data sets: where they come from, how a copy is checked, how one is fetched."""

from sab.data.fetch import DataError, data_dir, files
from sab.data.sources import DATASETS, DataFile, Dataset

__all__ = ["DATASETS", "DataError", "DataFile", "Dataset", "data_dir", "files"]
