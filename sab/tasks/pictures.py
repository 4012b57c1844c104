"""Labelled pictures from their files: MNIST, CIFAR-10 in three forms, scikit-learn's digits."""

from __future__ import annotations

import gzip
import importlib.util
import io
import pickle
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sab import data
from sab.data.fetch import held

SOURCES = ("mnist", "cifar10", "cifar10_jpeg", "digits")
SHAPES = {"mnist": (784, 1), "cifar10": (1024, 3), "cifar10_jpeg": (1024, 3), "digits": (64, 1)}
# The last of the training pictures validate; the paper says only that there was validation.
VALID = {"mnist": 5000, "cifar10": 5000, "cifar10_jpeg": 5000, "digits": 297}
DIGITS_TEST = 300  # the last; they are by other writers than the first
CLASSES = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]  # CIFAR-10's, in order


@dataclass(frozen=True)
class Pictures:
    """Pictures as sequences of pixels, row by row.

    Attributes:
        pixels: part → (N, steps, channels) uint8 (digits: 0 to 16).
        labels: part → (N,) int64, 0 to 9.
        top: the largest value a pixel can have.
        about: what was read, in words; it goes into records.
    """

    pixels: dict[str, Tensor]
    labels: dict[str, Tensor]
    top: int
    about: str


@lru_cache(maxsize=2)
def _load(source: str, folder: Path) -> Pictures:
    return {
        "mnist": _mnist,
        "cifar10": _cifar10,
        "cifar10_jpeg": _cifar10_jpeg,
        "digits": _digits,
    }[source]()


def pictures(source: str) -> Pictures:
    """Return the pictures of ``source``, one of `SOURCES`; they are read once a process.

    Raises:
        ValueError: an unknown source, or a file with other content than its kind has.
        DataError: the data are not here and cannot be fetched.
    """
    if source not in SOURCES:
        raise ValueError(f"source={source!r}: must be one of {', '.join(SOURCES)}")
    return _load(source, data.data_dir())


def _parts(
    source: str, train: tuple[Any, Any], test: tuple[Any, Any], top: int, what: str
) -> Pictures:
    """Set the last of the training pictures apart."""
    keep = len(train[1]) - VALID[source]
    shape = (-1, *SHAPES[source])

    def both(images: Any, labels: Any) -> tuple[Tensor, Tensor]:
        pixels = torch.from_numpy(np.array(images, np.uint8, order="C").reshape(shape))
        return pixels, torch.from_numpy(np.asarray(labels).astype(np.int64))

    (pixels, labels), (tested, answers) = both(*train), both(*test)
    about = f"{what}; {keep:,} to train, {VALID[source]:,} to validate, {len(answers):,} to test"
    return Pictures(
        {"train": pixels[:keep], "valid": pixels[keep:], "test": tested},
        {"train": labels[:keep], "valid": labels[keep:], "test": answers},
        top,
        about,
    )


def read_idx(raw: bytes) -> np.ndarray:
    """Read an idx file of unsigned bytes: two zeros, 8, the dimensions, their sizes, the values.

    Raises:
        ValueError: it is not one, or it has more or fewer values than it says.
    """
    if raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise ValueError("idx: not a file of unsigned bytes (it should start with 0, 0, 8)")
    sizes = np.frombuffer(raw, ">u4", raw[3], 4).astype(int)
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if len(values) != sizes.prod():
        raise ValueError(f"idx: says {sizes.tolist()} but holds {len(values)} values")
    return values.reshape(sizes)


def _mnist() -> Pictures:
    paths = data.files("mnist")
    images, labels, tested, answers = (
        read_idx(gzip.decompress(path.read_bytes())) for path in paths.values()
    )
    return _parts("mnist", (images, labels), (tested, answers), 255, "MNIST")


class _OnlyArrays(pickle.Unpickler):
    """Reads CIFAR-10's pickles, which hold NumPy arrays and nothing else that is needed."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise pickle.UnpicklingError(f"CIFAR-10: {module}.{name} has no place in its files")


def _pixel_order(planes: np.ndarray) -> np.ndarray:
    """From (N, 3 · 1024), a colour after the other, to (N, 1024, 3), a pixel after the other."""
    return planes.reshape(-1, 3, 1024).transpose(0, 2, 1)


def cifar10_python(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read the python version: five batches to train, one to test."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"train": [], "test": []}
    with tarfile.open(path) as archive:
        for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
            member = archive.extractfile(f"cifar-10-batches-py/{name}")
            assert member is not None
            batch = _OnlyArrays(io.BytesIO(member.read()), encoding="bytes").load()
            part = "test" if name == "test_batch" else "train"
            found[part].append((_pixel_order(batch[b"data"]), np.array(batch[b"labels"])))
    return _joined(found)


def cifar10_binary(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read the binary version: records of a label and 3,072 values."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"train": [], "test": []}
    with tarfile.open(path) as archive:
        for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
            member = archive.extractfile(f"cifar-10-batches-bin/{name}")
            assert member is not None
            records = np.frombuffer(member.read(), np.uint8).reshape(-1, 3073)
            part = "test" if name == "test_batch.bin" else "train"
            found[part].append((_pixel_order(records[:, 1:]), records[:, 0]))
    return _joined(found)


def _joined(
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        part: (np.concatenate([b[0] for b in batches]), np.concatenate([b[1] for b in batches]))
        for part, batches in found.items()
    }


def _cifar10() -> Pictures:
    if held("cifar10_binary") and not held("cifar10"):
        (path,) = data.files("cifar10_binary").values()
        parts, what = cifar10_binary(path), "CIFAR-10, binary version"
    else:
        (path,) = data.files("cifar10").values()
        parts, what = cifar10_python(path), "CIFAR-10, python version"
    return _parts("cifar10", parts["train"], parts["test"], 255, what)


def cifar10_jpeg(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read the JPEG form, ``train|test/<class>/<number>.jpg``.

    It comes sorted by class; the pictures are taken in turns, one of each class, so that the last
    of them are as mixed as the first.
    """
    from PIL import Image

    found: dict[str, list[tuple[int, int, np.ndarray]]] = {"train": [], "test": []}
    with tarfile.open(path) as archive:
        for member in archive:
            part, *rest = member.name.split("/")
            if not member.isfile() or part not in found or len(rest) != 2:
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            pixels = np.asarray(Image.open(stream).convert("RGB")).reshape(1024, 3)
            found[part].append((int(Path(rest[1]).stem), CLASSES.index(rest[0]), pixels))
    for items in found.values():
        items.sort(key=lambda item: item[:2])
    return {
        part: (np.stack([item[2] for item in items]), np.array([item[1] for item in items]))
        for part, items in found.items()
    }


def _cifar10_jpeg() -> Pictures:
    (path,) = data.files("cifar10_jpeg").values()
    parts = cifar10_jpeg(path)
    what = "CIFAR-10 as JPEG, LOSSY (about 30 dB), not the published pixels"
    return _parts("cifar10_jpeg", parts["train"], parts["test"], 255, what)


def _digits() -> Pictures:
    """The copy in ``SAB_DATA``, else the one inside scikit-learn, else a fetched one."""
    inside = importlib.util.find_spec("sklearn")
    packaged = None
    if inside is not None and inside.submodule_search_locations:
        packaged = Path(inside.submodule_search_locations[0]) / "datasets/data/digits.csv.gz"
    if not held("digits") and packaged is not None and packaged.is_file():
        path = packaged
    else:
        (path,) = data.files("digits").values()
    with gzip.open(path, "rt") as stream:
        table = np.loadtxt(stream, delimiter=",")
    images, labels = table[:, :-1], table[:, -1]
    cut = len(labels) - DIGITS_TEST
    train, test = (images[:cut], labels[:cut]), (images[cut:], labels[cut:])
    return _parts("digits", train, test, 16, "scikit-learn's digits, 8 x 8")
