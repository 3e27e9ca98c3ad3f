"""Outputs that cannot be written are an error that says why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import UsageError
from cnn_convertor.files import replacing
from cnn_convertor.files.replacing import replace_all
from files.trees import everything, tree


def told(folder: Path, contents: replacing.Contents = "text", name: str = "a.h") -> str:
    with pytest.raises(UsageError) as caught:
        replace_all(folder, {"first.h": "first", name: contents})
    (problem,) = caught.value.problems
    assert problem.code == "DV110" and problem.hint.endswith("name a folder that can be written")
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


def test_a_link_that_leads_a_file_out_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "p.dox").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "doc").symlink_to(tmp_path / "elsewhere")
    assert (
        told(tmp_path / "out", name="doc/p.dox") == "cannot write the outputs: a link leads doc/p.dox out of the folder"
    )
    assert tree(tmp_path / "elsewhere") == {"p.dox": b"mine"} and not (tmp_path / "out" / "first.h").exists()


def test_a_pipe_is_replaced_and_not_read(tmp_path: Path) -> None:
    replace_all(tmp_path, {"a.h": "a", "b.h": "b"})
    (tmp_path / "a.h").unlink()
    os.mkfifo(tmp_path / "a.h")
    replace_all(tmp_path, {"a.h": "a", "b.h": "b"})
    assert tree(tmp_path) == {"a.h": b"a", "b.h": b"b"}


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    assert told(tmp_path) == "cannot write the outputs: Permission denied"
    assert told(tmp_path / "new") == "cannot write the outputs: Permission denied"


def test_what_the_system_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for names in (("tempfile.mkdtemp",), ("pathlib.Path.replace", "cnn_convertor.files.replacing._exchange_names")):
        with monkeypatch.context() as patched:
            for name in names:
                patched.setattr(name, refuse)
            assert told(tmp_path) == "cannot write the outputs: Permission denied"
        assert everything(tmp_path) == []


def test_a_folder_above_may_be_one_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like /home on computers with many users, for a file in the folder of one."""
    listed = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path == tmp_path:
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    home = tmp_path / "home"
    for text in ("old", "new"):
        replacing.write(home / "a.json", text)
        assert tree(home) == {"a.json": text.encode()}


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
