"""Model files are read in pieces, and one that shrinks meanwhile is an error."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.model_file import ModelFile

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "model").write_bytes(CONTENT)
    return tmp_path / "model"


def test_parts_are_those_of_the_bytes(path: Path) -> None:
    file = ModelFile(path)
    assert len(file) == len(CONTENT)
    for part in (
        slice(0, 4),
        slice(255, 257),
        slice(100_000, 170_000),
        slice(5, 7),
        slice(255_999, 300_000),
        slice(9, 9),
    ):
        assert file[part] == CONTENT[part]
    assert file.numbers(np.dtype("<u2"), 3, 1).tolist() == [0x201, 0x403, 0x605]


def test_a_file_that_shrinks_while_it_is_read_is_an_error(path: Path) -> None:
    file = ModelFile(path)
    assert file[:4] == CONTENT[:4]
    with path.open("r+b") as shorter:
        shorter.truncate(1000)
    with pytest.raises(ModelError, match=r"DV201[\s\S]*written or replaced"):
        file.numbers(np.dtype("<f4"), 100, 1000)
    with pytest.raises(ModelError, match=r"DV201[\s\S]*written or replaced"):
        file[200_000:200_004]


@pytest.mark.parametrize("size", [4, 100_000])
def test_a_file_that_is_written_while_it_is_read_is_an_error(size: int, path: Path) -> None:
    """Also one that has its earlier size: weights would be of two models."""
    file = ModelFile(path)
    assert file[:size] == CONTENT[:size]
    with path.open("r+b") as other:
        other.write(b"other")
    os.utime(path, ns=(0, 0))
    with pytest.raises(ModelError, match=r"DV201[\s\S]*written or replaced"):
        file[150_000 : 150_000 + size]


def test_nothing_is_mapped_into_memory() -> None:
    """But the mapping of an array whose size is only compared with that of its file. confined.py names the call of the system."""
    root = Path(__file__).resolve().parents[2] / "cnn_convertor"
    mapping = {path.name for path in root.rglob("*.py") if "mmap" in path.read_text(encoding="utf-8")}
    assert mapping == {"numpy_files.py", "confined.py"}
