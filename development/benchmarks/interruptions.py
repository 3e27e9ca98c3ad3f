"""Interrupted conversions: python -m development.benchmarks.interruptions [--random N] [--way WAY] [--aimed N] [--ctrl-c N]

Ends conversions by SIGKILL, SIGTERM and SIGINT at random moments: single ones, with --jobs (half of the time with all of its
processes, as a terminal does), with a cache, two at once (half of the time both), and on a full disk; kills them at each call that changes the output folder; and presses Ctrl-C in the first second. Two settings of one
network take turns, whose files differ. After each time the folder must hold one whole conversion, the next one must succeed,
and nothing may be left behind, but by SIGKILL until the next one. Prints figures; fails at the first folder that is wrong.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from cnn_convertor.__main__ import run
from cnn_convertor.cli import main as program
from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert

assert callable(program)  # loaded before children start, so that each is quick

ROOT = Path(__file__).resolve().parents[2]
PROGRAM, PACKAGE = ROOT / "convertor.py", ROOT / "cnn_convertor"
EXAMPLE = ROOT / "examples" / "digits_keras"
INI = "[INPUT]\nname = digits\ndefinition = digits.keras\n[OUTPUT]\noutput_folder = out\ngenerate_source = 1\n"
SETTINGS = ("generate_doxy = 1\nquantization = 0\n", "generate_dot = 1\nquantization = 0\ntranspose_weight = 0\n")
CHANGES = {"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "ctypes.call_function", "tempfile.mkdtemp"}
OWN = "mine/deep/note.txt"  # a file of the user's in the output folder


class Trial:
    """A folder with two ini files, their expected outputs, and the output folder that they share."""

    def __init__(self, folder: Path) -> None:
        shutil.copy(EXAMPLE / "digits.keras", folder)
        self.folder, self.out = folder, folder / "out" / "digits"
        self.inis: list[Path] = []
        self.wanted: list[dict[str, bytes]] = []
        for number, settings in enumerate(SETTINGS):
            self.inis.append(folder / f"{number}.ini")
            self.inis[-1].write_text(INI + settings, encoding="utf-8")
            if self.out.exists():
                shutil.rmtree(self.out)
            convert(Config.read(self.inis[-1]))
            self.wanted.append(self.found())
        (self.out / OWN).parent.mkdir(parents=True)
        (self.out / OWN).write_text("mine", encoding="utf-8")
        self.beside = folder / "beside.ini"
        self.beside.write_text(INI.replace("name = digits", "name = beside"), encoding="utf-8")
        self.cache = folder / "cache"
        self.said = Path(tempfile.mkdtemp())  # elsewhere: a disk that is full has no room for it
        (folder / "tmp").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")

    def found(self) -> dict[str, bytes]:
        paths = (path for path in self.out.rglob("*") if path.is_file() and path != self.out / OWN)
        return {path.relative_to(self.out).as_posix(): path.read_bytes() for path in paths}

    def start(self, number: int, way: Way, prepare: Callable[[], None] = lambda: None) -> int:
        """Convert in a child process with a group of its own, by the command; gives its number."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS[1:])
        child = os.fork()
        if child:
            os.setpgid(child, child)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS[1:])
            return child
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.dup2(os.open(self.said / str(os.getpid()), os.O_CREAT | os.O_APPEND | os.O_WRONLY), 2)
            prepare()
            sys.argv = ["convertor.py", "-q", *way(self, number)]
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS[1:])
            os._exit(run())
        finally:
            os._exit(1)

    @contextmanager
    def filled(self, is_full: bool, draw: random.Random) -> Iterator[None]:
        """A disk with room for a part of the outputs only."""
        filler = self.folder / "filler"
        if is_full:
            free = shutil.disk_usage(self.folder).free
            filler.write_bytes(bytes(free - draw.randrange(sum(map(len, self.wanted[0].values())))))
        yield
        filler.unlink(missing_ok=True)

    def what_said(self, child: int) -> str:
        """The messages of a child that has ended, for once."""
        path = self.said / str(child)
        said = path.read_text() if path.exists() else ""  # a child that is ended at once has not opened it
        path.unlink(missing_ok=True)
        return said

    def was_ended(self, child: int, status: int, number: signal.Signals) -> bool:
        """Whether a signal ended a conversion, which then says so in one line."""
        text = self.what_said(child)
        if status in (0, number):
            if status and number != signal.SIGKILL and text:
                sys.exit(f"an end by {number.name} before the program handles it says {text!r}")
            return bool(status)
        said = text.strip().splitlines()  # a line begins behind the ^C of a terminal
        code = os.waitstatus_to_exitcode(status)
        if code == 128 + number and len(said) == 1:
            return True
        if code and said and "DV110" in said[0]:  # the disk is full
            return False
        sys.exit(f"{number.name} ends a conversion with {code} and {said}")

    def check_clean(self, what: str) -> None:
        """Nothing is left behind, and the user's file is there."""
        cached = (path for path in self.cache.rglob("*") if "unfinished" in path.name or "draft" in path.name)
        places = [*self.out.parent.iterdir(), *(self.folder / "tmp").iterdir(), *cached]
        left = [path.name for path in places if path not in (self.out, self.out.with_name("beside"))]
        if left or not (self.out / OWN).is_file():
            sys.exit(f"{what} leaves {left} behind, or loses a file of the user's")

    def check_whole(self) -> int:
        """Which conversion the folder holds."""
        found = self.found()
        if found not in self.wanted:
            sys.exit(f"the folder holds no whole conversion: {sorted(found)}")
        return self.wanted.index(found)

    def check_next(self, number: int, way: Way) -> None:
        """The next run succeeds, cleans up, and leaves the user's file."""
        child, status = os.waitpid(self.start(number, way), 0)
        said = self.what_said(child)
        if status or self.found() != self.wanted[number]:
            sys.exit(f"the next run fails with {status}: {said}")
        self.check_clean("the next run")


Way = Callable[[Trial, int], list[str]]  # number of the settings -> arguments of a conversion

WAYS: dict[str, Way] = {
    "single": lambda trial, number: [str(trial.inis[number])],
    "--jobs 2": lambda trial, number: ["--jobs", "2", str(trial.inis[number]), str(trial.beside)],
    "--cache": lambda trial, number: ["--cache", str(trial.cache), str(trial.inis[number])],
    "two writers": lambda trial, number: [str(trial.inis[number])],
    "full disk": lambda trial, number: [str(trial.inis[number])],
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def killed_at_random(trial: Trial, way: str, times: int, draw: random.Random) -> str:
    """Each of the signals in turn, until a conversion has been ended by one so many times."""
    begin = time.perf_counter()
    trial.check_next(1, WAYS[way])
    longest, runs, ended, new = time.perf_counter() - begin, 0, 0, 0
    while ended < times:
        number = SIGNALS[runs % len(SIGNALS)]
        runs += 1
        other = 1 - trial.check_whole()
        signals = {trial.start(1 - other, WAYS[way]): draw.choice((None, *SIGNALS))} if way == "two writers" else {}
        if draw.random() < 0.5:
            shutil.rmtree(trial.cache, ignore_errors=True)
        with trial.filled(way == "full disk", draw):
            signals[trial.start(other, WAYS[way])] = number
            ended += _end_all(trial, signals, longest, draw, with_group=way == "--jobs 2")
        new += trial.check_whole() == other
        if signal.SIGKILL not in signals.values():
            trial.check_clean(f"an end by {number.name}")
        trial.check_next(other, WAYS[way])
    return f"{way}: {ended} conversions ended by signals at random moments, {runs} turns; {new} had replaced the folder"


def _end_all(
    trial: Trial, signals: dict[int, signal.Signals | None], longest: float, draw: random.Random, *, with_group: bool
) -> int:
    """Give each child its signal, or let it finish; gives how many ended by theirs. with_group: half of the time to its workers, too."""
    for child, number in draw.sample(sorted(signals.items()), len(signals)):
        if number is not None:
            time.sleep(draw.uniform(0, longest))
            (os.killpg if with_group and draw.random() < 0.5 else os.kill)(child, number)
    ended = 0
    for child, number in signals.items():
        status = os.waitpid(child, 0)[1]
        if number is not None:
            ended += trial.was_ended(child, status, number)
        elif status:
            sys.exit(f"the other of two conversions fails: {trial.what_said(child)}")
    return ended


def kills_itself_at(last: int) -> Callable[[], None]:
    """Kill the process when it changes files for this time, before the change takes place."""

    def prepare() -> None:
        calls = 0

        def hook(event: str, _: tuple[Any, ...]) -> None:
            nonlocal calls
            if event in CHANGES:
                calls += 1
                if calls > last:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        import ctypes

        from cnn_convertor.files import replacing

        plain = replacing._exchange_names  # noqa: SLF001  # ctypes reports no call of a plain function

        def exchange(one: Path, other: Path) -> None:
            sys.audit("ctypes.call_function", ctypes, ())
            plain(one, other)
            sys.audit("ctypes.call_function", ctypes, ())

        replacing._exchange_names = exchange  # noqa: SLF001  # as above

    return prepare


def killed_at_changes(trial: Trial, times: int) -> str:
    """Aimed at every change in turn, from the first to the one at which a conversion ends."""
    aim, killed, most, new = 0, 0, 0, 0
    for _ in range(times):
        other = 1 - trial.check_whole()
        child, status = os.waitpid(trial.start(other, WAYS["single"], kills_itself_at(aim)), 0)
        trial.what_said(child)
        killed += status == signal.SIGKILL
        aim, most = (aim + 1, max(most, aim + 1)) if status == signal.SIGKILL else (0, most)
        new += trial.check_whole() == other
        trial.check_next(other, WAYS["single"])
    return f"{killed} of {times} conversions killed at one of {most} changes of files; {new} had replaced the folder"


def is_not_started(code: int, said: str) -> bool:
    """Whether no line of ours had run when Ctrl-C came: Python, until it has a handler, ends in silence; from then on it shows a
    traceback, and ends, or goes on if what it was about is not needed.
    """
    places = re.findall(r'File "([^"\n]+)", line ([0-9]+)', said)
    ours = [
        file for file, line in places if Path(file).is_relative_to(PACKAGE) or (Path(file) == PROGRAM and line != "0")
    ]
    is_silent = code == -signal.SIGINT and not said
    return is_silent or (code in (-signal.SIGINT, 0, 1) and "KeyboardInterrupt" in said and not ours)


def interrupted(trial: Trial, times: int, draw: random.Random) -> str:
    """In the first second: Ctrl-C ends a conversion with 130 and one line, unless it has not started, or is done."""
    call = [sys.executable, str(PROGRAM), "-q"]
    endings = {"before": 0, "during": 0, "after": 0}
    for turn in range(times):
        with subprocess.Popen([*call, str(trial.inis[turn % 2])], stderr=subprocess.PIPE, text=True) as child:
            time.sleep(draw.uniform(0, 1))
            child.send_signal(signal.SIGINT)
            _, said = child.communicate()
        match child.returncode, said.strip():  # a line begins behind the ^C of a terminal
            case 0, "":
                endings["after"] += 1
            case 130, "interrupted":
                endings["during"] += 1
            case code, said if is_not_started(code, said):
                endings["before"] += 1
            case other:
                sys.exit(f"Ctrl-C ends a conversion with {other}")
        trial.check_whole()
        trial.check_clean("Ctrl-C")
    trial.check_next(0, WAYS["single"])
    counts = ", ".join(f"{count} {when}" for when, count in endings.items())
    return f"{times} times Ctrl-C: {counts} the work"


@click.command(help=__doc__)
@click.option("--random", "at_random", default=40, show_default=True, help="For each way to convert.")
@click.option("--way", "ways", multiple=True, type=click.Choice(list(WAYS)), default=list(WAYS)[:-1], show_default=True)
@click.option("--aimed", default=50, show_default=True)
@click.option("--ctrl-c", default=20, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--folder", type=click.Path(path_type=Path), help='Where to work; for "full disk", one of a few megabytes.'
)
def main(at_random: int, ways: tuple[str, ...], aimed: int, ctrl_c: int, seed: int, folder: Path | None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        trial = Trial(Path(name))
        for way in ways:
            print(killed_at_random(trial, way, at_random, draw), flush=True)
        print(killed_at_changes(trial, aimed), flush=True)
        print(interrupted(trial, ctrl_c, draw), flush=True)
        shutil.rmtree(trial.said)


if __name__ == "__main__":
    main()
