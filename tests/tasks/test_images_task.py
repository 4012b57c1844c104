"""Pictures from files made here, in every form the data come in."""

import gzip
import io
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import hold

from sab.data import DataError
from sab.tasks import ImageTask, pictures
from sab.tasks.images import on_pixels, order_digest, pixel_order
from sab.tasks.pictures import CLASSES, cifar10_binary, cifar10_jpeg, cifar10_python, read_idx

RANDOM = np.random.RandomState(0)


def idx(values: np.ndarray) -> bytes:
    head = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def tar(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, raw in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))
    return path


@pytest.fixture
def mnist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, np.ndarray]:
    monkeypatch.setitem(pictures.VALID, "mnist", 3)
    made = {
        "train-images-idx3-ubyte": RANDOM.randint(0, 256, (10, 28, 28)),
        "train-labels-idx1-ubyte": np.arange(10),
        "t10k-images-idx3-ubyte": RANDOM.randint(0, 256, (4, 28, 28)),
        "t10k-labels-idx1-ubyte": np.arange(4) + 5,
    }
    packed = {f"{name}.gz": gzip.compress(idx(values)) for name, values in made.items()}
    hold(monkeypatch, tmp_path, "mnist", packed)
    return made


def test_mnist_in_pixel_order_and_permuted(mnist: dict[str, np.ndarray]) -> None:
    plain, mixed = ImageTask("mnist", "pixel"), ImageTask("mnist", "permuted")
    assert [plain.sequences(part) for part in ("train", "valid", "test")] == [7, 3, 4]
    x, y = plain.take("valid", torch.arange(3))
    want = mnist["train-images-idx3-ubyte"][7:].reshape(3, 784, 1) / 255
    assert x.dtype == torch.float32 and torch.allclose(x, torch.from_numpy(want).float())
    assert y.tolist() == [7, 8, 9]
    permuted, _ = mixed.take("valid", torch.arange(3))
    assert not torch.equal(permuted, x)
    assert torch.equal(permuted, x[:, pixel_order(784)])
    assert plain.take("test", torch.tensor([3, 0])).y.tolist() == [8, 5]
    assert "7 to train, 3 to validate, 4 to test" in plain.about
    assert order_digest(784) in mixed.about and order_digest(784) not in plain.about


def test_the_permutation_is_this_one() -> None:
    """The first steps and a checksum: it must never change, for records name it."""
    assert torch.equal(pixel_order(784).sort().values, torch.arange(784))
    assert order_digest(784) == "b228e0fa9698d2a16f89e6d7c9383065c2b2f51b89be3d29736e2c888b0800b9"
    assert order_digest(64) == "854eee660343f9a6207c84bc883102392fa4cfe5c79323c3e328d0ab791a197a"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"<html>", "not a file of unsigned bytes"),
        (b"", "not a file"),
        (idx(np.zeros((2, 3)))[:-1], r"says \[2, 3\] but holds 5"),
        (idx(np.zeros((2, 3))) + b"x", r"says \[2, 3\] but holds 7"),
    ],
)
def test_idx_is_checked(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_idx(raw)


@pytest.fixture
def planes() -> tuple[np.ndarray, np.ndarray]:
    """Twelve pictures as CIFAR-10 has them: a colour after the other; and their labels."""
    return RANDOM.randint(0, 256, (12, 3072)).astype(np.uint8), np.arange(12) % 10


def test_cifar10_python_and_binary_are_the_same(
    tmp_path: Path, planes: tuple[np.ndarray, np.ndarray]
) -> None:
    data, labels = planes
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    python, binary = {}, {}
    for i, name in enumerate(names):
        two = slice(2 * i, 2 * i + 2)
        batch = {b"data": data[two], b"labels": labels[two].tolist()}
        python[f"cifar-10-batches-py/{name}"] = pickle.dumps(batch)
        records = np.concatenate([labels[two, None].astype(np.uint8), data[two]], 1)
        binary[f"cifar-10-batches-bin/{name}.bin"] = records.tobytes()
    one = cifar10_python(tar(tmp_path / "p.tar.gz", python))
    two_ = cifar10_binary(tar(tmp_path / "b.tar.gz", binary))
    for part, count in (("train", 10), ("test", 2)):
        assert one[part][0].shape == (count, 1024, 3)
        assert np.array_equal(one[part][0], two_[part][0])
        assert np.array_equal(one[part][1], two_[part][1])
    # the first pixel's three colours stand 1,024 apart in the file
    assert one["train"][0][0, 0].tolist() == data[0, [0, 1024, 2048]].tolist()
    assert one["test"][0][1, 33].tolist() == data[11, [33, 1057, 2081]].tolist()


def test_a_pickle_with_anything_else_is_refused(tmp_path: Path) -> None:
    evil = {"cifar-10-batches-py/data_batch_1": pickle.dumps({b"data": Path("x")})}
    with pytest.raises(pickle.UnpicklingError, match="has no place"):
        cifar10_python(tar(tmp_path / "p.tar.gz", evil))


def test_jpeg_copies_are_mixed_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from PIL import Image

    contents = {}
    for part, count in (("train", 3), ("test", 1)):
        for label, name in enumerate(CLASSES):
            for number in range(count):
                raw = io.BytesIO()
                Image.new("RGB", (32, 32), (20 * label, 60 * number, 5)).save(raw, "JPEG")
                contents[f"{part}/{name}/{number:04}.jpg"] = raw.getvalue()
    path = tar(tmp_path / "j.tar.gz", contents)
    found = cifar10_jpeg(path)
    assert found["train"][1].tolist() == [*range(10)] * 3
    assert found["train"][0].shape == (30, 1024, 3)
    red, green = found["train"][0][17, 500, :2].astype(int)
    assert abs(red - 140) < 6 and abs(green - 60) < 6
    hold(monkeypatch, tmp_path, "cifar10_jpeg", {"cifar10_jpeg_60000.tar.gz": path.read_bytes()})
    monkeypatch.setitem(pictures.VALID, "cifar10_jpeg", 10)
    about = ImageTask("cifar10_jpeg", "pixel").about
    assert "JPEG, LOSSY" in about and "20 to train, 10 to validate, 10 to test" in about


def test_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pictures, "DIGITS_TEST", 4)
    monkeypatch.setitem(pictures.VALID, "digits", 5)
    table = np.concatenate([RANDOM.randint(0, 17, (20, 64)), np.arange(20)[:, None] % 10], 1)
    text = "\n".join(",".join(map(str, row)) for row in table)
    hold(monkeypatch, tmp_path, "digits", {"digits.csv.gz": gzip.compress(text.encode())})
    task = ImageTask("digits", "pixel")
    assert [task.sequences(part) for part in ("train", "valid", "test")] == [11, 5, 4]
    x, y = task.take("test", torch.arange(4))
    assert torch.equal(x[..., 0] * 16, torch.from_numpy(table[16:, :64]).float())
    assert y.tolist() == [6, 7, 8, 9]
    assert (task.steps, task.input_size, task.output_size) == (64, 1, 10)


def test_only_the_last_step_is_judged() -> None:
    task = ImageTask("digits")
    y = torch.tensor([3, 4])
    logits = torch.randn(2, 64, 10, generator=torch.Generator().manual_seed(0))
    logits[:, -1] = 0.0
    assert task.loss(logits, y).item() == pytest.approx(np.log(10))
    logits[0, -1, 3] = logits[1, -1, 5] = 50.0
    metrics = task.metrics(logits, y)
    assert metrics["accuracy"] == 0.5 and metrics["ce"] == pytest.approx(25.0)
    assert task.weight(y) == 2 and task.goal == ("accuracy", "max")
    assert task.baselines()["accuracy"] == 0.1


def test_bad_settings_and_missing_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="source='svhn'"):
        ImageTask("svhn")
    with pytest.raises(ValueError, match="order='random'"):
        ImageTask("mnist", "random")
    with pytest.raises(ValueError, match="source='svhn'"):
        pictures.pictures("svhn")
    hold(monkeypatch, tmp_path, "cifar10_jpeg", {"cifar10_jpeg_60000.tar.gz": b"x"})
    (tmp_path / "cifar10_jpeg" / "cifar10_jpeg_60000.tar.gz").unlink()
    with pytest.raises(DataError, match="no public address holds it"):
        ImageTask("cifar10_jpeg", "pixel").prepare()
    with pytest.raises(ValueError, match="batch_size=0"):
        ImageTask("digits").batch(0, torch.Generator())


def test_the_way_back_to_the_pixels() -> None:
    values = torch.arange(128.0).reshape(2, 64)
    read = values[:, pixel_order(64)]
    assert torch.equal(on_pixels(read), values)
    assert torch.equal(on_pixels(values, "pixel"), values)
    with pytest.raises(ValueError, match="order='rows'"):
        on_pixels(values, "rows")
