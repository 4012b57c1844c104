"""File names and checksums of bAbI's twenty tasks (English, 1,000 questions to train on)."""

from __future__ import annotations

# Task: the name in its files, then the SHA-256 of its training and its test file.
TASKS: dict[int, tuple[str, str, str]] = {
    1: (
        "single-supporting-fact",
        "c64ba9b1a49bbb111ffc4cd2ae4f129d25c012399dd7ade9679eea464b9afb05",
        "55acf66cef2f6d798e2aa1d056e1ec8f24e910ea9215b639450574321132959b",
    ),
    2: (
        "two-supporting-facts",
        "a4978af5bc0dc30191810e7c9949aaa6eae939ed0f6beb9fcb5f4330c2a27860",
        "eff93fb9cd81ba02eb765772cf7cc269769ed44ec71cbbbc19cfb16ee5eba0f6",
    ),
    3: (
        "three-supporting-facts",
        "a6e78019f36a02a7ed71fe6aaded0b563ff09c8deec392931801fcd9c6af4d60",
        "17795c977100baf8188f386522ae301b62d6c1a13efc01b3aea781e588b4d57f",
    ),
    4: (
        "two-arg-relations",
        "c9370502d85fa382f32d1fea2111e817f81ae9e3e79eb2924a1a5392a90417fa",
        "07f0ca18ddeea9eed4ba6d59e162adcb0ce44815721114b3540d92825509331e",
    ),
    5: (
        "three-arg-relations",
        "086cd59c3ca9677bfac3d6a22ca5853c76a5c1fbae3159c7c4a6aef759a74ec0",
        "ec825c1c8a76e63a31f0d7a7763cd63740e98332fa9bdf246a19068949bd5f97",
    ),
    6: (
        "yes-no-questions",
        "5a133115ee35d475776df703ff605d145b11effbcdbf7e74861f9d5639246a5a",
        "b108b16f1eccbd1c24df6dca2649079a7b2f10af7fd12d4c45a3393802de59e3",
    ),
    7: (
        "counting",
        "dca03bd91876951c49f1c971c83c9dd55404de60201b7b6435451cf7ddb4751c",
        "a74d1f2b91329b2bae814d41cdac2fbdfdf0328562b7d8afa9a0fa576d461e27",
    ),
    8: (
        "lists-sets",
        "058604df6f9440458317e8ae685d2b7b84261e1a80b4d6410a9140d16f81bf06",
        "362a653c821a580fa315a85243b4f03bfa06fa7e0269b6f8e596f8fe6911646a",
    ),
    9: (
        "simple-negation",
        "0c3b89921af0caea1c4059ee3f7b7f2a88869f924195a428da37820446b8c49f",
        "63590aff3f89993db409f0e9a9eb39c2a5b9d5efff99b255d800a891b0044d9f",
    ),
    10: (
        "indefinite-knowledge",
        "0b7691689447bab05476c5b48c44999b41e747c3978df69c18fdd87b60d6e8b3",
        "fde8f20ed0b3ba979058ed391a566af34653f23baab5b2793ee37f87ef4e88b7",
    ),
    11: (
        "basic-coreference",
        "9468de9a1f256f43dfda693a5d07182d21149a82b65f7c2451c64e9cff5eb138",
        "46f3290d0158ce1285a40cd2d793f5a65f86ae5000226e165cbc85a3dfeb2f6f",
    ),
    12: (
        "conjunction",
        "45c2764bb2d3c8f699d35e9d9aa7958fcd96379c6e907116cdf74526c108bb25",
        "6437718f8f9801ce345869e910b896836cdc6fd2d01dc7b4d2df49730703b4b1",
    ),
    13: (
        "compound-coreference",
        "533a391edbda743e4c99504de88b40cdded5b1d5ef454d1390f0863f748a4cc9",
        "76a25b684f23c9cc473d8cd1465506168b9a1ec8891cfc59d0bbd87e6a064990",
    ),
    14: (
        "time-reasoning",
        "b7561cbc624205c9c2fdbb8c843cfa8ad90edd65e78bb223fc6dea8113662df8",
        "e3f0b19858ffbec3ed1e49076cc4d1295a89ce146c50318b862f13f202b3caf2",
    ),
    15: (
        "basic-deduction",
        "e856ebfdcce4dd7d617c1d10f985e96a0850c0ca18e9a19a017cb710d135ed3d",
        "32b77e117fe9acf5f94906684e3b5206de0108e646c76e1da3e022896ec7ee94",
    ),
    16: (
        "basic-induction",
        "20121005137e3d4b061a086eb177a456303d5742b764eb8da2d0e480b6af4d28",
        "4a11e55366f2a5a859b5a81f683ee23801bdbe71ef984e51adb976bd053e8dcf",
    ),
    17: (
        "positional-reasoning",
        "20083bf56ff74f0e7cf5e3e2f8c3905cdb8ef09293c3e8cf7a96ed8b45ae2277",
        "9e1e0250ed4ec1831757fab26c04138f81ea557ebf6976a220db879cbed04bac",
    ),
    18: (
        "size-reasoning",
        "18b7dcf52c9a0e87e4e7dd3d65b7e5a630de039645f52a1294197af7481d739d",
        "d34f70eb7228a276fcb3a7854174fe562c5634f4fb454a39fc3d1ad9934be3ef",
    ),
    19: (
        "path-finding",
        "dcb788352a56effb7bea1449128f31cc9c342c8c327b6df2caeee0e379e6ad3a",
        "023e391f0d7f79c9e6ae1c46c093e2d0dbd50ab8fbd8965e037a75e3614c20e5",
    ),
    20: (
        "agents-motivations",
        "29580ad55fb7b4b29ba014696056cc68f8f347dac3be88470fd692ad60150398",
        "bd3bde3788ac14ba0ae095078f7b820fbd2bfa6a34dba9d1d46a34afde9c2729",
    ),
}


def file_name(task: int, part: str) -> str:
    """Name of a file: ``part`` is ``"train"`` or ``"test"``."""
    return f"qa{task}_{TASKS[task][0]}_{part}.txt"
