"""Full and mounted disks, a limit, rights and attributes of files: a set stays whole, and the next run succeeds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnn_convertor.files.replacing import replace_all

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("a.h", "b.cpp", "doc/c.txt", "w.bin")
WRITER = f"""
import os, resource, sys
from pathlib import Path
from cnn_convertor.errors import UsageError
from cnn_convertor.files.replacing import replace_all
folder, size, limit, user = Path(sys.argv[1]), *map(int, sys.argv[2:])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
if user:
    os.setgid(user), os.setuid(user)
try:
    replace_all(folder, {{name: "new " * size for name in {NAMES!r}}})
except UsageError as error:
    (problem,) = error.problems
    sys.exit(f"{{problem.code}} {{problem.message}}")
"""
EARLIER = dict.fromkeys(NAMES, "earlier")
OTHER_USER = 65534  # nobody


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the user who writes, as whom root runs the tests, too."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() == 0:
            os.chown(name, OTHER_USER, OTHER_USER)
        yield Path(name)


@pytest.fixture(params=[True, False], ids=["beside", "inside"])
def folder(request: pytest.FixtureRequest, place: Path) -> Iterator[Path]:
    """An output folder with an earlier set, whose parent can be written or cannot, so that the new set is made inside."""
    folder = place / "parent" / "out"
    replace_all(folder, EARLIER)
    if os.geteuid() == 0:
        for path in (folder.parent, folder, *folder.rglob("*")):
            os.chown(path, OTHER_USER, OTHER_USER)
    if not request.param:
        folder.parent.chmod(0o555)
    yield folder
    folder.parent.chmod(0o755)


def write(folder: Path, *, size: int = 10, limit: int = 0) -> str:
    """Write a new set in another process, which is not root; gives what it says."""
    user = OTHER_USER if os.geteuid() == 0 else 0
    arguments = [str(number) for number in (size, limit, user)]
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(folder), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip()


def holds(folder: Path, size: int | None = None) -> bool:
    """Whether the folder holds the earlier set, or the new one of this size, and nothing else is left."""
    found = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    left = [path.name for path in (*folder.iterdir(), *folder.parent.iterdir()) if "unfinished" in path.name]
    return left == [] and found == (EARLIER if size is None else dict.fromkeys(NAMES, "new " * size))


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 4096, 100_000])
def test_a_limit_of_file_sizes(folder: Path, limit: int) -> None:
    assert write(folder, size=100_000, limit=limit) == "DV110 cannot write the outputs: File too large"
    assert holds(folder)
    assert write(folder) == ""
    assert holds(folder, 10)


def test_a_folder_that_may_not_be_written(folder: Path) -> None:
    folder.chmod(0o555)
    said = write(folder)
    folder.chmod(0o755)
    assert said == "DV110 cannot write the outputs: Permission denied"
    assert holds(folder)
    assert write(folder) == ""
    assert holds(folder, 10)


@pytest.mark.parametrize("name", [".", "a.h", "doc/c.txt"])
def test_a_file_that_may_not_be_changed(folder: Path, name: str) -> None:
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", folder / name], check=False).returncode:
        pytest.skip("no right to make a file immutable, or a file system without it")
    try:
        said = write(folder)
    finally:
        subprocess.run(["chattr", "-i", folder / name], check=True)
    assert said.startswith("DV110 cannot write the outputs: ")
    assert holds(folder)
    assert write(folder) == ""
    assert holds(folder, 10)


@pytest.mark.parametrize("room", [48, 100, 300])
def test_a_full_disk(place: Path, room: int) -> None:
    """room: KB, of a set of 400 KB beside an earlier one."""
    call = ["mount", "-t", "tmpfs", "-o", f"size={room}k,mode=777", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(call, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    try:
        folder = place / "parent" / "out"
        assert write(folder, size=1) == ""
        assert write(folder, size=25_000) == "DV110 cannot write the outputs: No space left on device"
        assert holds(folder, 1)
        assert write(folder, size=2) == ""
        assert holds(folder, 2)
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("disk", [["-t", "tmpfs", "none"], ["--bind"]])
def test_the_top_of_a_disk(place: Path, disk: list[str]) -> None:
    """A folder of a container, or a card for the board: no file moves there from beside it."""
    folder = place / "disk"
    folder.mkdir()
    source = [str(folder)] if "--bind" in disk else []
    call = ["mount", *disk, *source, str(folder)]
    if shutil.which("mount") is None or subprocess.run(call, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a disk")
    try:
        folder.chmod(0o777)
        assert write(folder, size=1) == ""
        assert write(folder, size=2) == ""
        assert holds(folder, 2)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_interrupted_conversions_leave_one_whole_conversion() -> None:
    """A short run of what development/benchmarks/interruptions.py does at length."""
    counts = ["--random", "3", "--aimed", "28", "--ctrl-c", "2"]
    call = [sys.executable, "-m", "development.benchmarks.interruptions", *counts]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.search(r"^(\d+) of 28 conversions killed at one of (\d+) changes", done.stdout, re.MULTILINE)
    assert found, done.stdout
    # One reaches its end where a conversion changes files less often than that.
    assert int(found[1]) in (27, 28) and int(found[2]) >= 27
