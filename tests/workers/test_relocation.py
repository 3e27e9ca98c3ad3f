"""Paths move with a value to another computer, and back in its texts."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.ir.constant import Constant
from cnn_convertor.samples import BATCH
from cnn_convertor.verification.keras_runner import _keras_batches
from cnn_convertor.workers.relocation import mapped, packed, placed, read_all, unpacked

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits_keras" / "digits.keras"


def test_paths_become_whole_and_come_back_in_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content, back = packed((Path("nets/a"), Path("nets/ab"), Path("/whole"), "nets/a"))
    assert unpacked(content) == (tmp_path / "nets/a", tmp_path / "nets/ab", Path("/whole"), "nets/a")
    problem = Problem("DV100", f"{tmp_path}/nets/ab is not {tmp_path}/nets/a", Origin(f"{tmp_path}/nets/a/net.ini"))
    assert mapped(problem, back) == Problem("DV100", "nets/ab is not nets/a", Origin("nets/a/net.ini"))
    others = (f"{tmp_path}/nets/abc", f"x{tmp_path}/nets/a", tmp_path / "nets/a.txt")
    assert mapped(others, back) == others


def test_what_lies_in_the_working_directory_comes_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of absolute paths there, those that the value names stay, and those made of "." become relative."""
    monkeypatch.chdir(tmp_path)
    named = tmp_path / "nets" / "model"
    _, back = packed((Path(), named))
    texts = (f"{tmp_path} has {tmp_path}/out/a, not {named}/b", f"{tmp_path}/", f"{tmp_path}x")
    assert mapped(texts, back) == (f". has out/a, not {named}/b", "./", f"{tmp_path}x")
    assert mapped((tmp_path, tmp_path / "out", named), back) == (Path(), Path("out"), named)


def test_a_configuration_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DIGITS.parent)
    config = Config(definition=Path(DIGITS.name), output_folder=Path("../out"))
    content, back = packed(config)
    moved = unpacked(content)
    assert (moved.definition, moved.output_folder) == (DIGITS, DIGITS.parent / "../out")
    assert mapped(moved, back) == config


def test_arrays_are_packed_without_a_copy() -> None:
    values = np.arange(4000, dtype=np.float32).reshape(2, 20, 100)
    packed_values, _ = packed({"some": values[1:], "none": values[:0]})
    assert len(packed_values.content) < 1000
    assert any(np.shares_memory(array, values) for array in packed_values.arrays)
    found = unpacked(pickle.loads(pickle.dumps(packed_values)))
    assert np.array_equal(found["some"], values[1:]) and found["none"].shape == (0, 20, 100)


def test_files_that_travel_are_found_at_another_place(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"12")
    with placed(read_all([tmp_path / "model", tmp_path / "missing"])) as (there, back):
        content, _ = packed((tmp_path / "model", tmp_path / "missing", str(tmp_path)))
        folder, missing, text = unpacked(content, there)
        assert folder != tmp_path / "model" and (folder / "weights").read_bytes() == b"12"
        assert (missing, text) == (tmp_path / "missing", str(tmp_path))
        assert mapped((folder, f"in {folder}/weights"), back) == (tmp_path / "model", f"in {tmp_path}/model/weights")
    assert not folder.exists()


def test_nothing_is_written_outside_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with placed({"/nets/../model": b"12"}) as (there, _):
        assert there(Path("/nets/../model")).read_bytes() == b"12"
    with pytest.raises(ValueError, match="leads out"), placed({"/nets/../../model": b"12"}):
        pass
    assert [*tmp_path.rglob("*")] == [tmp_path / "tmp"]


def test_constants_leave_their_values_behind() -> None:
    rebuild, arguments = Constant.of([[1.0, 2.0]]).__reduce__()
    assert rebuild(*arguments).shape == (1, 2)
    with pytest.raises(AssertionError, match="stay in the process"):
        rebuild(*arguments).load()


def test_no_batch_of_keras_lies_in_two_batches_of_samples() -> None:
    """So the framework computes the same for one of these alone."""
    assert list(_keras_batches(10, 8)) == [(0, 8), (8, 10)]
    crossed = [(start, end) for start, end in _keras_batches(600, 12) if start // BATCH != (end - 1) // BATCH]
    assert not crossed
    assert [n for start, end in _keras_batches(600, 12) for n in range(start, end)] == list(range(600))
