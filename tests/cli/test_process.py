"""The program as a process: how it starts, what it imports, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cnn_convertor import cli

ROOT = Path(__file__).resolve().parents[2]


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"cnn-convertor \d+\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize("entry", [["convertor.py"], ["-m", "cnn_convertor"]])
def test_the_program_runs_from_a_checkout(entry: list[str]) -> None:
    done = subprocess.run([sys.executable, *entry, "--version"], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.startswith(b"cnn-convertor ")


ENDINGS = {"SIGINT": b"interrupted\n", "SIGTERM": b"ended by SIGTERM\n", "SIGHUP": b"ended by SIGHUP\n"}


@pytest.mark.parametrize("end", ENDINGS)
def test_a_signal_while_modules_load_ends_the_program_with_one_line(end: str) -> None:
    code = f"""
import builtins, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
from cnn_convertor.__main__ import run
plain = builtins.__import__
def slowly(name, *rest):
    if name == "cnn_convertor.cli":
        os.kill(os.getpid(), signal.{end})
    return plain(name, *rest)
builtins.__import__ = slowly
run()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.Signals[end], b"", ENDINGS[end])


@pytest.mark.parametrize("module", ["contextlib", "signal", "enum", "cnn_convertor.files.interruption"])
def test_ctrl_c_while_the_handler_loads_ends_the_program_with_one_line(module: str) -> None:
    code = f"""
import builtins, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from cnn_convertor.__main__ import run
plain = builtins.__import__
def slowly(name, *rest):
    if name == "{module}":
        os.kill(os.getpid(), signal.SIGINT)
    return plain(name, *rest)
builtins.__import__ = slowly
run()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, b"", b"interrupted\n")


def test_before_that_the_program_loads_nothing() -> None:
    """A traceback would show what it loads."""
    code = "import sys; before = {*sys.modules}; import cnn_convertor.__main__; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"cnn_convertor", "cnn_convertor.__main__", "gc"}


@pytest.mark.parametrize("end", ENDINGS)
def test_a_signal_ends_the_work_with_its_cleanup_and_one_line(end: str, tmp_path: Path) -> None:
    code = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.__main__ import run
def work(*_, **__):
    with temporary_folder():
        os.kill(os.getpid(), signal.{end})
import cnn_convertor.cli.console as console
console.Console.notes = work
sys.argv[1:] = ["docs"]
sys.exit(run())
"""
    alone = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=alone, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.Signals[end], b"", b"\n" + ENDINGS[end])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("after", ["pass", "raise ImportError('circular')"], ids=["lost", "another error"])
def test_a_signal_in_an_import_that_loses_it_ends_the_work(after: str) -> None:
    code = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from cnn_convertor.__main__ import run
class Loader:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)  # what a destructor raises is only printed
def work(*_, **__):
    Loader()
    {after}
import cnn_convertor.cli.pages as pages
pages.text_of = work
sys.argv[1:] = ["docs", "layers"]
sys.exit(run())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, b"\ninterrupted\n")


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As `nohup` starts a program."""
    code = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from cnn_convertor.__main__ import run
sys.argv[1:] = ["init"]
run()
sys.exit(signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("again", ["raise KeyboardInterrupt", "atexit.register(os.kill, os.getpid(), signal.SIGINT)"])
def test_ctrl_c_once_more_at_the_end_shows_no_traceback(again: str) -> None:
    """While the first one is reported, or while Python ends."""
    code = f"""
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from cnn_convertor import cli
from cnn_convertor.__main__ import run
def main():
    {again}
    return 130
cli.main = main
sys.exit(run())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_end_of_the_program_looks_for_no_garbage() -> None:
    """A search takes a third of the time of loading modules."""
    code = """
import gc, sys
from cnn_convertor.__main__ import run
sys.argv[1:] = ["init"]
assert run() == 2 and gc.get_freeze_count() > 10_000 > gc.collect()
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("arguments", ["--help", "convert --help", "docs messages"])
def test_a_full_disk_is_no_traceback(arguments: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no full disk here")
    with Path("/dev/full").open("w") as full:
        call = [sys.executable, "-m", "cnn_convertor", *arguments.split()]
        done = subprocess.run(call, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    problem, hint = done.stderr.splitlines()
    assert (done.returncode, problem) == (1, "error DV113: the system says: No space left on device")
    assert hint == "  try: make room on that disk, or write to another"


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["0", "1", "2"])
@pytest.mark.parametrize("command", ["convert", "inspect"])
def test_the_program_needs_nobody_to_talk_to(tmp_path: Path, command: str, closed: str) -> None:
    """A daemon may have no standard input, output or error."""
    ini = (ROOT / "examples/digits_keras/net.ini").read_text()
    (tmp_path / "net.ini").write_text(ini.replace("digits.keras", str(ROOT / "examples/digits_keras/digits.keras")))
    shell = f'exec "$0" "$1" {command} "$2" {closed}{"<" if closed == "0" else ">"}&-'
    arguments = [sys.executable, str(ROOT / "convertor.py"), str(tmp_path / "net.ini")]
    done = subprocess.run(["sh", "-c", shell, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output/digits/digits_gen.cpp").exists() is (command == "convert")


def test_help_imports_nothing_that_takes_long() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(ROOT / "convertor.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert {"click", "cnn_convertor"} <= imported
    slow = {"numpy", "h5py", "google", "jinja2", "rich", "tensorflow", "keras", "cv2"}
    assert imported & slow == set(), "cli and config.py, with what they import, are to do without them"


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, cnn_convertor; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint({"numpy", "h5py", "google", "click", "rich", "tensorflow", "cv2"})


def test_a_conversion_imports_only_what_it_uses(tmp_path: Path) -> None:
    ini = ROOT / "examples/digits_keras/net.ini"
    code = f"""
import sys
from cnn_convertor import cli
assert cli.main(["-q", {str(ini)!r}, "--output", {str(tmp_path)!r}]) == 0
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    ours = {f"cnn_convertor.{name}" for name in ("devices.dv700.fitting", "emulation.network", "report.page")}
    assert "cnn_convertor.pipeline" in found
    assert found.isdisjoint({*ours, "numpy.ma", "numpy.random", "rich", "statistics", "google.protobuf"})


@pytest.mark.parametrize("first", ["", "import cnn_convertor.pipeline", "from cnn_convertor import cli"])
def test_public_names_are_what_they_say(first: str) -> None:
    code = f"""
{first}
import cnn_convertor
from cnn_convertor import Config, ConvertorError, convert, load
assert convert is cnn_convertor.convert and callable(convert) and callable(load)
assert issubclass(ConvertorError, Exception) and callable(Config.read)
try:
    cnn_convertor.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise SystemExit("a name from nowhere")
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, str(ROOT / "convertor.py"), "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.stderr == ""
