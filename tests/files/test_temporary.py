"""A temporary folder ends with its block, wherever an interruption comes."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cnn_convertor.files import temporary
from cnn_convertor.files.temporary import one_at_a_time, temporary_folder
from files.interruptions import at_each_line

ROOT = Path(__file__).resolve().parents[2]


def use(parent: Path) -> None:
    with temporary_folder(parent) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").touch()
        assert folder.parents[1] == parent
    assert not folder.exists()


def test_a_folder_lasts_as_long_as_its_block(tmp_path: Path) -> None:
    use(tmp_path)


def test_an_interruption_at_any_line_leaves_no_folder(tmp_path: Path) -> None:
    for _ in at_each_line(lambda: use(tmp_path), temporary, tempfile):
        assert not [*tmp_path.iterdir()]


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """But nothing that is in use, and nothing of the user's."""
    killed = "import os; from cnn_convertor.files.temporary import LockedFolder; made = LockedFolder(); os.kill(os.getpid(), 9)"
    alone = os.environ | {"TMPDIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", killed], cwd=ROOT, env=alone, check=False).returncode == -9
    (tmp_path / "cnn-convertor-mine").mkdir()
    assert len([*tmp_path.iterdir()]) == 2
    with temporary_folder(tmp_path) as used:
        again = "from cnn_convertor.files.temporary import LockedFolder; LockedFolder().remove()"
        subprocess.run([sys.executable, "-c", again], cwd=ROOT, env=alone, check=True)
        assert {*tmp_path.iterdir()} == {used.parent, tmp_path / "cnn-convertor-mine"}


def test_without_locks_folders_of_killed_processes_go_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    for name in ("old", "new"):
        (tmp_path / f"cnn-convertor-{name}.temporary").mkdir()
        (tmp_path / f"cnn-convertor-{name}.temporary" / "lock").touch()
    os.utime(tmp_path / "cnn-convertor-old.temporary" / "lock", (1, 1))
    use(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cnn-convertor-new.temporary"]


def test_blocks_for_one_file_come_one_after_the_other(tmp_path: Path) -> None:
    """The second finds what the first left, and no lock is left over."""
    program = """
import pathlib, sys, time
from cnn_convertor.files.temporary import one_at_a_time
made = pathlib.Path(sys.argv[1])
with one_at_a_time(made.with_name("lock")):
    print("found" if made.exists() else "made")
    time.sleep(0.2)
    made.touch()
"""
    command = [sys.executable, "-c", program, str(tmp_path / "made")]
    processes = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sorted(process.communicate()[0] for process in processes) == ["found\n", "found\n", "made\n"]
    assert [*tmp_path.iterdir()] == [tmp_path / "made"]


def test_an_interruption_at_any_line_leaves_no_lock(tmp_path: Path) -> None:
    def enter() -> None:
        with one_at_a_time(tmp_path / "lock"):
            assert (tmp_path / "lock").exists()

    for _ in at_each_line(enter, temporary):
        assert not [*tmp_path.iterdir()]
