"""A temporary folder ends with its block, wherever an interruption comes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cnn_convertor.files import temporary
from cnn_convertor.files.temporary import remove_abandoned, temporary_folder
from files.interruptions import at_each_line


def use(parent: Path) -> None:
    with temporary_folder(parent) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").touch()
        assert folder.parent == parent
    assert not folder.exists()


def test_a_folder_lasts_as_long_as_its_block(tmp_path: Path) -> None:
    use(tmp_path)


def test_an_interruption_at_any_line_leaves_no_folder(tmp_path: Path) -> None:
    for _ in at_each_line(lambda: use(tmp_path), temporary, tempfile):
        assert not [*tmp_path.iterdir()]


def test_folders_of_killed_processes_go_after_a_day(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    os.utime(tmp_path / "old", (1, 1))
    remove_abandoned([*tmp_path.iterdir(), tmp_path / "gone"])
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
