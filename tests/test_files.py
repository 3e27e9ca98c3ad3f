"""All files appear, or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor import files
from cnn_convertor.errors import UsageError
from cnn_convertor.files import replace_all

Bytes = NDArray[np.uint8]


def piece(*values: int) -> Bytes:
    return np.array(values, np.uint8)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def everything(folder: Path) -> list[str]:
    """Files and folders, also hidden ones."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_texts_and_pieces_are_written(tmp_path: Path) -> None:
    written = replace_all(
        tmp_path / "new" / "out",
        {"a.h": "größe\n", "w.bin": iter([piece(1, 2), piece(), piece(0, 255)]), "doc/p.dox": "p"},
    )
    out = tmp_path / "new" / "out"
    assert written == (out / "a.h", out / "w.bin", out / "doc" / "p.dox")
    assert tree(out) == {"a.h": "größe\n".encode(), "w.bin": b"\x01\x02\x00\xff", "doc/p.dox": b"p"}
    assert everything(out) == ["a.h", "doc", "doc/p.dox", "w.bin"]


def test_earlier_files_are_replaced_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("earlier and longer")
    (tmp_path / "mine.txt").write_text("mine")
    replace_all(tmp_path, {"a.h": "new"})
    assert tree(tmp_path) == {"a.h": b"new", "mine.txt": b"mine"}


class Interrupted(BaseException):
    """Something like KeyboardInterrupt."""


def failing(error: BaseException) -> Iterator[Bytes]:
    yield piece(1, 2, 3)
    raise error


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), Interrupted(), OSError("the model's file is gone"), FileNotFoundError(2, "No such file", "m")],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_failure_in_the_middle_leaves_earlier_files(tmp_path: Path, error: BaseException, first: bool) -> None:
    earlier: dict[str, files.Contents] = {"a.h": "a", "w.bin": [piece(9)], "doc/p.dox": "p"}
    replace_all(tmp_path, earlier)
    before, names = tree(tmp_path), everything(tmp_path)
    texts: dict[str, files.Contents] = {"a.h": "b", "doc/p.dox": "q"}
    weights: dict[str, files.Contents] = {"w.bin": failing(error)}
    with pytest.raises(type(error)) as caught:
        replace_all(tmp_path, {**weights, **texts} if first else {**texts, **weights})
    assert caught.value is error, "what the pieces raise is not about the folder"
    assert tree(tmp_path) == before
    assert everything(tmp_path) == names


def test_a_failure_leaves_no_folder_that_was_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"):
        replace_all(tmp_path / "a" / "b", {"w.bin": failing(ValueError("no"))})
    assert everything(tmp_path) == []


@pytest.mark.parametrize("moved_before", [0, 1, 2])
@pytest.mark.parametrize("moves", [True, False])
def test_an_interruption_while_files_are_moved_leaves_no_mixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved_before: int, moves: bool
) -> None:
    """Ctrl-C may come before or after a file has moved."""
    names = ("a.h", "b.cpp", "w.bin")
    replace_all(tmp_path, dict.fromkeys(names, "old"))
    plain, calls = Path.replace, []

    def interrupted(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) != moved_before + 1:
            return plain(self, target)
        if moves:
            plain(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_all(tmp_path, dict.fromkeys(names, "new"))
    assert {name: (tmp_path / name).read_text() for name in names} == dict.fromkeys(names, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def told(folder: Path, contents: files.Contents = "text", name: str = "a.h") -> str:
    with pytest.raises(UsageError) as caught:
        replace_all(folder, {"first.h": "first", name: contents})
    (problem,) = caught.value.problems
    assert (problem.code, problem.hint) == ("DV110", "check output_folder")
    assert problem.where is not None and problem.where.file == str(folder)
    return problem.message


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    assert told(tmp_path / "out") == "cannot write the outputs: there is a file in place of a folder"
    assert told(tmp_path / "out" / "below") == "cannot write the outputs: there is a file in place of a folder"
    assert tree(tmp_path) == {"out": b"a file"}


def test_a_folder_where_a_file_should_be_is_told_before_anything_moves(tmp_path: Path) -> None:
    (tmp_path / "a.h").mkdir()
    assert told(tmp_path) == "cannot write the outputs: a.h is a folder"
    assert everything(tmp_path) == ["a.h"]


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    assert told(tmp_path) == "cannot write the outputs: Permission denied"
    assert told(tmp_path / "new") == "cannot write the outputs: Permission denied"


def test_what_the_system_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("tempfile.mkdtemp", "pathlib.Path.replace"):
        with monkeypatch.context() as patched:
            patched.setattr(name, refuse)
            assert told(tmp_path) == "cannot write the outputs: Permission denied"
        assert everything(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to write to")
def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def full(path: Path, *arguments: Any) -> object:
        return opened(Path("/dev/full") if path.name == "a.h" else path, *arguments)

    monkeypatch.setattr(Path, "open", full)
    assert told(tmp_path, [np.zeros(1 << 20, np.uint8)]) == "cannot write the outputs: No space left on device"
    assert (
        told(tmp_path, "only a few bytes, which the system would keep in a buffer")
        == "cannot write the outputs: No space left on device"
    )
    assert everything(tmp_path) == []
