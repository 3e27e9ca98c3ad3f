"""What another user of the computer places where the convertor looks is left alone, with a word, and opened by nobody."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cnn_convertor.errors import ConvertorWarning, UsageError
from cnn_convertor.files import locks, replacing
from cnn_convertor.files.opening import bytes_of, open_file
from cnn_convertor.files.owners import doubt, is_planted
from cnn_convertor.files.temporary import one_at_a_time, remove_abandoned, temporary_folder
from files.trees import tree

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def shared(path: Path) -> Path:
    """A folder like /tmp."""
    path.mkdir()
    path.chmod(0o1777)
    return path


def journal(folder: Path) -> Path:
    """A folder that looks like the rest of a killed run, which removes `mine` and brings another `kept`."""
    staging = folder / ".out.unfinished-x"
    for place in (staging, staging / "new", staging / "old"):
        place.mkdir(mode=0o700)
    (staging / "old" / "kept").write_text("theirs")
    (staging / "journal.json").write_text('{"replaced": ["kept"], "added": ["mine"]}')
    return staging


def of_another_user(staging: Path) -> None:
    os.chown(staging, NOBODY, NOBODY)


def open_to_all(staging: Path) -> None:
    staging.chmod(0o777)


@pytest.mark.parametrize("change", [pytest.param(of_another_user, marks=needs_root), open_to_all])
def test_a_journal_that_another_user_may_have_written_is_left_alone(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = shared(tmp_path / "shared")
    out = folder / "out"
    replacing.replace_all(out, {"kept": "kept", "mine": "mine"})
    change(journal(folder))
    with pytest.warns(ConvertorWarning, match=r"DV146[\s\S]*unfinished-x"):
        replacing.recover(out)
    assert tree(out) == {"kept": b"kept", "mine": b"mine"} and (folder / ".out.unfinished-x" / "journal.json").exists()


def test_a_journal_of_this_user_is_obeyed(tmp_path: Path) -> None:
    """Also on a file system without modes, where everything is open to those who can write the folder above."""
    for mode in (0o700, 0o777):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        replacing.replace_all(folder / "out", {"kept": "kept", "mine": "mine"})
        journal(folder).chmod(mode)
        replacing.recover(folder / "out")
        assert tree(folder) == {"out/kept": b"theirs"}


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc"), lambda path: path.touch()])
@pytest.mark.parametrize("place", [".out.unfinished-x", "out/.out.unfinished-x"])
def test_what_is_no_folder_is_not_opened(make: Callable[[Path], None], place: str, tmp_path: Path) -> None:
    replacing.replace_all(tmp_path / "out", {"a": "old"})
    make(tmp_path / place)
    with pytest.warns(ConvertorWarning, match="DV146.*it is no folder"):
        replacing.replace_all(tmp_path / "out", {"a": "new"})
    assert (tmp_path / "out" / "a").read_text() == "new" and os.path.lexists(tmp_path / place)


@needs_root
def test_a_link_in_a_temporary_folder_of_another_user_is_not_followed(tmp_path: Path) -> None:
    theirs = shared(tmp_path / "shared") / "cnn-convertor-x.temporary"
    theirs.mkdir()
    (theirs / "lock").symlink_to(tmp_path / "made")
    os.chown(theirs, NOBODY, NOBODY)
    remove_abandoned(tmp_path / "shared")
    assert theirs.is_dir() and not (tmp_path / "made").exists()


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "cnn-convertor-x.temporary").mkdir(mode=0o700)
    for lock in (tmp_path / "cnn-convertor-x.temporary" / "lock", tmp_path / "lock"):
        lock.symlink_to(tmp_path / "made")
    remove_abandoned(tmp_path)
    with pytest.raises(OSError, match="symbolic links"), one_at_a_time(tmp_path / "lock"):
        pass
    assert not (tmp_path / "made").exists()


def test_locks_are_for_this_user_alone(tmp_path: Path) -> None:
    with one_at_a_time(tmp_path / "lock"), temporary_folder(tmp_path) as folder:
        for lock in (tmp_path / "lock", folder.with_name("lock")):
            assert lock.stat().st_mode & 0o777 == 0o600


def test_a_lock_that_stays_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Any user who can read a folder can lock it for ever."""
    monkeypatch.setattr(replacing, "_LONGEST", 0.3)
    monkeypatch.setattr(locks, "_SILENT", 0.1)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        begin = time.monotonic()
        for write in (
            lambda: replacing.replace_all(tmp_path / "out", {"a": "a"}),
            lambda: replacing.recover(tmp_path / "out"),
        ):
            with caplog.at_level("INFO"), pytest.raises(UsageError, match=r"DV110: .*has locked .*\n.*\n.*lslocks"):
                write()
            assert f"waiting for another process, which has locked {tmp_path}" in caplog.text
        assert time.monotonic() - begin < 5 and not (tmp_path / "out").exists()
    finally:
        os.close(handle)


def test_a_pipe_that_nobody_reads_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "_READER", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="DV110: cannot write the outputs: nobody reads this pipe"):
        replacing.write(tmp_path / "pipe", "text")


@needs_root
def test_a_link_that_another_user_planted_is_not_written_to(tmp_path: Path) -> None:
    folder = shared(tmp_path / "shared")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    for name, target in (("report.json", "file"), ("out", "")):
        (folder / name).symlink_to(tmp_path / "mine" / target)
        os.chown(folder / name, NOBODY, NOBODY, follow_symlinks=False)
        assert is_planted(folder / name)
    for write in (
        lambda: replacing.write(folder / "report.json", "new"),
        lambda: replacing.replace_all(folder / "out", {"file": "new"}),
        lambda: replacing.replace_all(folder / "out" / "net", {"file": "new"}),
    ):
        with pytest.raises(UsageError, match=r"DV110: .*another user made the link"):
            write()
    assert tree(tmp_path / "mine") == {"file": b"mine"}


@needs_root
def test_whose_folder_it_is(tmp_path: Path) -> None:
    folder = shared(tmp_path / "shared") / "x"
    folder.mkdir(mode=0o700)
    assert not doubt(folder)
    folder.chmod(0o770)
    assert doubt(folder) == "other users can write to it" and not doubt(folder, 0o002)
    os.chown(folder, NOBODY, NOBODY)
    assert doubt(folder) == "it belongs to another user"


def test_files_alone_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for path, reason in (("pipe", "a pipe or a device"), ("endless", "a pipe or a device"), ("", "Is a directory")):
        with pytest.raises(OSError, match=reason):
            open_file(tmp_path / path)
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    assert bytes_of(tmp_path / "link") == b"abc"
