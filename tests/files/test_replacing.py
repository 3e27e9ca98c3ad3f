"""All files appear, or none."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.monkeypatch import derive_importpath
from numpy.typing import NDArray

from cnn_convertor.errors import UsageError
from cnn_convertor.files import replacing
from cnn_convertor.files.replacing import replace_all
from files.interruptions import at_each_line
from files.trees import everything, tree

Bytes = NDArray[np.uint8]


def piece(*values: int) -> Bytes:
    return np.array(values, np.uint8)


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


@pytest.mark.parametrize("place", [".", "mine", "doc"])
def test_the_current_folder_stays_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """After `cd out`, a shell would otherwise be in a folder that is removed, and see no files."""
    out = tmp_path / "out"
    replace_all(out, {"a.h": "a", "doc/p.dox": "p", "mine/b": "b"})
    monkeypatch.chdir(out / place)
    replace_all(Path(os.path.relpath(out)), {"a.h": "new", "doc/p.dox": "new"}, obsolete=lambda: ["mine/b"])
    assert Path.cwd() == out / place
    assert tree(out) == {"a.h": b"new", "doc/p.dox": b"new"}


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
    earlier: dict[str, replacing.Contents] = {"a.h": "a", "w.bin": [piece(9)], "doc/p.dox": "p"}
    replace_all(tmp_path, earlier)
    before, names = tree(tmp_path), everything(tmp_path)
    texts: dict[str, replacing.Contents] = {"a.h": "b", "doc/p.dox": "q"}
    weights: dict[str, replacing.Contents] = {"w.bin": failing(error)}
    with pytest.raises(type(error)) as caught:
        replace_all(tmp_path, {**weights, **texts} if first else {**texts, **weights})
    assert caught.value is error, "what the pieces raise is not about the folder"
    assert tree(tmp_path) == before
    assert everything(tmp_path) == names


def test_a_failure_leaves_no_folder_that_was_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"):
        replace_all(tmp_path / "a" / "b", {"w.bin": failing(ValueError("no"))})
    assert everything(tmp_path) == []


def no_exchange(*_: object) -> None:
    raise OSError(38, "Function not implemented")


@pytest.fixture(params=["exchange", "journal"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the exchange of folders, and on a system without it."""
    if request.param == "journal":
        monkeypatch.setattr(replacing, "_exchange_names", no_exchange)
    return str(request.param)


OLD: dict[str, replacing.Contents] = {"a.h": "old", "doc/b.cpp": "old", "same.txt": "same", "gone.h": "old"}
NEW: dict[str, replacing.Contents] = {"a.h": "new", "doc/b.cpp": "new", "same.txt": "same", "doc/more/c.h": "new"}


def prepared(folder: Path) -> dict[str, bytes]:
    """A folder with an earlier set and a user's files; gives its contents."""
    replace_all(folder, OLD)
    (folder / "mine.txt").write_text("mine")
    (folder / "doc" / "mine").mkdir()
    (folder / "doc" / "mine" / "deep.txt").write_text("mine")
    (folder / "build" / "empty").mkdir(parents=True)
    (folder / "link").symlink_to("nowhere")
    return tree(folder)


def test_a_set_replaces_the_earlier_one_and_leaves_the_users_files(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "out"
    prepared(folder)
    untouched, others = [(folder / f).stat() for f in ("same.txt", "mine.txt", "doc/mine/deep.txt")], folder.parent
    replace_all(folder, NEW, obsolete=lambda: ["a.h", "gone.h", "never"])
    assert tree(folder) == {
        **{name: str(text).encode() for name, text in NEW.items()},
        "mine.txt": b"mine",
        "doc/mine/deep.txt": b"mine",
    }
    assert (folder / "build" / "empty").is_dir()
    assert (folder / "link").is_symlink()
    after = [(folder / f).stat() for f in ("same.txt", "mine.txt", "doc/mine/deep.txt")]
    assert [(s.st_ino, s.st_mtime_ns, s.st_nlink) for s in after] == [
        (s.st_ino, s.st_mtime_ns, 1) for s in untouched
    ], way
    assert [path.name for path in others.iterdir()] == ["out"]


def test_the_same_set_again_touches_nothing(tmp_path: Path) -> None:
    replace_all(tmp_path / "out", OLD)
    before = [(path, path.stat().st_ino, path.stat().st_mtime_ns) for path in (tmp_path / "out").rglob("*")]
    replace_all(tmp_path / "out", OLD)
    assert [(path, path.stat().st_ino, path.stat().st_mtime_ns) for path in (tmp_path / "out").rglob("*")] == before


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["one file", "a set"])
def test_who_may_read_a_file_stays(names: list[str], tmp_path: Path) -> None:
    replace_all(tmp_path / "out", dict.fromkeys(names, "old"))
    for name in names:
        (tmp_path / "out" / name).chmod(0o604)  # as no umask makes it
    replace_all(tmp_path / "out", dict.fromkeys(names, "new"))
    assert (tmp_path / "out" / names[-1]).read_text() == "new"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()}
    assert [modes[name] for name in names] == [0o604] * len(names)


def test_a_file_system_without_modes_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    replace_all(tmp_path / "out", {"a": "old"})
    (tmp_path / "out" / "a").chmod(0o604)
    monkeypatch.setattr(os, "chmod", refused)
    replace_all(tmp_path / "out", {"a": "new"})
    assert (tmp_path / "out" / "a").read_text() == "new"


def test_one_file_that_changes_is_never_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_all(tmp_path, OLD)
    plain = Path.replace

    def checked(path: Path, target: Path) -> Path:
        found = plain(path, target)
        assert (tmp_path / "a.h").exists()
        return found

    monkeypatch.setattr(Path, "replace", checked)
    replace_all(tmp_path, {**OLD, "a.h": "new"})
    assert tree(tmp_path) == {**{name: str(text).encode() for name, text in OLD.items()}, "a.h": b"new"}


def test_later_files_have_the_digests_of_those_before(tmp_path: Path) -> None:
    seen: list[dict[str, replacing.Digest]] = []

    def more(digests: Any) -> dict[str, str]:
        seen.append(dict(digests))
        return {f"{len(seen)}.json": "more"}

    replace_all(tmp_path, {"a.h": "abc", "w.bin": [piece(1), piece(2)]}, later=[more, more])
    assert tree(tmp_path) == {"a.h": b"abc", "w.bin": b"\x01\x02", "1.json": b"more", "2.json": b"more"}
    first = {"a.h": (3, hashlib.sha256(b"abc").hexdigest()), "w.bin": (2, hashlib.sha256(b"\x01\x02").hexdigest())}
    assert seen == [first, {**first, "1.json": (4, hashlib.sha256(b"more").hexdigest())}]


STEPS = ("os.link", "pathlib.Path.replace", "pathlib.Path.rename", "cnn_convertor.files.replacing._exchange_names")


@pytest.mark.parametrize(
    ("error", "done"),  # a call that fails has done nothing
    [(KeyboardInterrupt(), True), (KeyboardInterrupt(), False), (OSError(5, "Input/output error"), False)],
    ids=["Ctrl-C after", "Ctrl-C before", "OSError"],
)
@pytest.mark.parametrize("at", range(12))
def test_an_interruption_leaves_a_whole_set(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, done: bool, at: int
) -> None:
    """An error before or behind each call that links, moves or exchanges."""
    folder = tmp_path / "out"
    old = prepared(folder)
    calls = []
    with monkeypatch.context() as patched:
        for step in STEPS:
            plain = derive_importpath(step, raising=True)
            function = getattr(plain[1], plain[0])

            def interrupted(*given: Any, _function: Any = function, **settings: Any) -> Any:
                calls.append(given)
                if len(calls) != at + 1:
                    return _function(*given, **settings)
                if done:
                    _function(*given, **settings)
                raise error

            patched.setattr(step, interrupted)
        with suppress(KeyboardInterrupt, UsageError):
            replace_all(folder, NEW, obsolete=lambda: OLD)
    texts = {path: text for path, text in tree(folder).items() if "mine" not in path}
    new = {name: str(text).encode() for name, text in NEW.items()}
    assert texts in (new, {path: text for path, text in old.items() if "mine" not in path}), way
    assert (folder / "mine.txt").read_bytes() == (folder / "doc/mine/deep.txt").read_bytes() == b"mine"
    assert (folder / "build" / "empty").is_dir()
    replace_all(folder, NEW, obsolete=lambda: OLD)
    assert tree(folder) == {**new, "mine.txt": b"mine", "doc/mine/deep.txt": b"mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("old", [{}, {"a.h": "old", "c.h": "old"}], ids=["first", "again"])
def test_an_interruption_at_any_line_leaves_a_whole_set(
    tmp_path: Path, way: str, old: dict[str, str], every: int
) -> None:
    folder = tmp_path / "out"
    new = {"a.h": "new", "b.h": "new"}

    def work() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in old.items():
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        replace_all(folder, new, obsolete=lambda: ["c.h"])

    for line in at_each_line(work, replacing, every=every):
        found = {name: text.decode() for name, text in tree(folder).items()}
        assert found in (old, new), line
        assert [path.name for path in tmp_path.iterdir()] == (["out"] if found else []), line
    assert found == new


KILLED = """
import sys
from pathlib import Path
from cnn_convertor.files import replacing

if sys.argv[2] == "journal":
    def refuse(*_): raise OSError(38, "")
    replacing._exchange_names = refuse
for turn in range(10 ** 6):
    replacing.replace_all(Path(sys.argv[1]), {f"{n}.h": f"{turn} " * 20000 for n in "abcdef"})
    if turn == 1:
        print("ready", flush=True)
"""


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_killed_run_leaves_a_whole_set(tmp_path: Path, way: str, kills: int) -> None:
    """With a journal the set is whole after the next run has begun."""
    folder, random = tmp_path / "out", np.random.default_rng(kills)
    folder.mkdir()
    (folder / "mine").mkdir()
    for _ in range(kills):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder), way],
            stdout=subprocess.PIPE,
            cwd=replacing.__file__.rsplit("/", 3)[0],
        ) as child:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            time.sleep(random.uniform(0, 0.02))
            child.kill()
        if way == "journal":
            replacing.check_writable(folder)
        assert len({(folder / f"{n}.h").read_text() for n in "abcdef"}) == 1
        replacing.check_writable(folder)
        assert (folder / "mine").is_dir()
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


def everything_but(folder: Path, *names: str) -> dict[str, bytes]:
    return {path: content for path, content in tree(folder).items() if not path.startswith(names)}


HOSTILE = {
    "moves into the folder above": '{"replaced": ["../mine"]}',
    "moves a folder": '{"moved": ["../../mine"]}',
    "removes above": '{"added": ["../mine", "../../out/../mine"]}',
    "removes through a link": '{"added": ["up/mine"]}',
    "moves through a link": '{"replaced": ["up/mine"]}',
    "no journal": "[]",
    "no lists": '{"replaced": 3}',
    "no texts": '{"replaced": [3], "added": [null]}',
    "no JSON": "{",
    "too deep": "[" * 100_000,
    "no name": '{"replaced": ["' + "a" * 300 + '"], "added": [""]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_journal_of_a_strangers_changes_nothing_outside_of_the_folder(name: str, tmp_path: Path) -> None:
    """Beside an output folder that came with a repository there may be anything."""
    folder, staging = tmp_path / "nets" / "out", tmp_path / "nets" / ".out.unfinished-x"
    replace_all(folder, OLD)
    for place in (tmp_path, tmp_path / "nets", staging / "new", staging / "old"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "mine").write_text("mine")
    for place in (folder, staging / "old"):
        (place / "up").symlink_to(tmp_path)
    (staging / "journal.json").write_text(HOSTILE[name])
    before = everything_but(tmp_path, "nets/.out", "nets/out")
    replace_all(folder, NEW)
    assert everything_but(tmp_path, "nets/.out", "nets/out") == before
    assert (folder / "a.h").read_text() == "new"


@pytest.mark.filterwarnings("ignore:DV146")
@pytest.mark.parametrize("link", ["", "new", "old"])
def test_a_journal_beside_a_link_is_not_followed(link: str, tmp_path: Path) -> None:
    folder, staging, theirs = tmp_path / "out", tmp_path / ".out.unfinished-x", tmp_path / "theirs"
    replace_all(folder, OLD)
    for place in (theirs, theirs / "new", theirs / "old"):
        place.mkdir()
        (place / "mine").write_text("mine")
    if link:
        staging.mkdir()
        (staging / link).symlink_to(theirs)
    else:
        staging.symlink_to(theirs)
    (staging / "journal.json").write_text('{"replaced": ["mine"], "moved": ["mine"]}')
    before = everything_but(theirs, "journal.json")
    replace_all(folder, NEW)
    assert everything_but(theirs, "journal.json") == before


def test_two_writers_at_once_leave_a_whole_set(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "out"
    children = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                KILLED.replace("10 ** 6", "15").replace("{turn} ", f"{name}{{turn}} "),
                str(folder),
                way,
            ],
            cwd=replacing.__file__.rsplit("/", 3)[0],
        )
        for name in "xy"
    ]
    assert [child.wait() for child in children] == [0, 0]
    assert len({(folder / f"{n}.h").read_text() for n in "abcdef"}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_obsolete_is_asked_while_the_folder_is_locked(tmp_path: Path) -> None:
    """Two writers, each with a file of its own: the second removes that of the first, which came while it was at work."""
    folder = tmp_path / "out"

    def late() -> Iterator[Bytes]:
        replace_all(folder, {"a.h": "first", "first.h": "first"})
        yield piece(1)

    replace_all(
        folder, {"a.h": late()}, obsolete=lambda: [p.relative_to(folder).as_posix() for p in folder.glob("*.h")]
    )
    assert tree(folder) == {"a.h": b"\x01"}


# --- one file --------------------------------------------------------------------------------------------------------------


def test_one_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.bin"
    with pytest.raises(Interrupted):
        replacing.write(path, failing(Interrupted()))
    assert not path.exists()
    replacing.write(path, "old")
    with pytest.raises(Interrupted):
        replacing.write(path, failing(Interrupted()))
    assert everything(tmp_path) == ["new", "new/a.bin"] and path.read_text() == "old"


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target.name)
    for text in ("longer", "short"):
        replacing.write(link, text)
        assert link.is_symlink() and target.read_text() == text


def test_a_pipe_stays_and_gets_the_contents(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        replacing.write(pipe, "text")
        assert reader.communicate(timeout=300)[0] == "text"
    assert pipe.is_fifo()


def test_an_error_about_one_file_names_it(tmp_path: Path) -> None:
    """It need not be in output_folder."""
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "file" / "a", "there is a file in place of a folder"),
    ):
        with pytest.raises(UsageError) as caught:
            replacing.write(path, "text")
        (problem,) = caught.value.problems
        assert (problem.code, problem.message) == ("DV110", f"cannot write the outputs: {reason}")
        assert problem.where is not None and problem.where.file == str(path)
        assert problem.hint == "name a file that can be written"
