"""Interrupted conversions: python -m development.benchmarks.interruptions [--random N] [--aimed N] [--at-once N] [--ctrl-c N]

Kills conversions at random moments, and at each call that changes the output folder; starts two at once; and presses Ctrl-C.
Two settings of one network take turns, whose files differ. After each time the folder must hold one whole conversion, the next
one must succeed, and nothing may be left behind. Prints figures; fails at the first folder that is wrong.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert

ROOT = Path(__file__).resolve().parents[2]
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

    def found(self) -> dict[str, bytes]:
        paths = (path for path in self.out.rglob("*") if path.is_file() and path != self.out / OWN)
        return {path.relative_to(self.out).as_posix(): path.read_bytes() for path in paths}

    def start(self, number: int, prepare: Callable[[], None] = lambda: None) -> int:
        """Convert in a child process; gives its number."""
        child = os.fork()
        if child:
            return child
        try:
            prepare()
            convert(Config.read(self.inis[number]))
            os._exit(0)
        finally:
            os._exit(1)

    def check_whole(self) -> int:
        """Which conversion the folder holds."""
        found = self.found()
        if found not in self.wanted:
            sys.exit(f"the folder holds no whole conversion: {sorted(found)}")
        return self.wanted.index(found)

    def check_next(self, number: int) -> None:
        """The next run succeeds, cleans up, and leaves the user's file."""
        _, status = os.waitpid(self.start(number), 0)
        if status or self.found() != self.wanted[number]:
            sys.exit(f"the next run fails with {status}")
        left = [path.name for path in self.out.parent.iterdir() if path != self.out]
        if left or not (self.out / OWN).is_file():
            sys.exit(f"the next run leaves {left} behind, or loses a file of the user's")


def killed_at_random(trial: Trial, times: int, draw: random.Random) -> str:
    begin = time.perf_counter()
    trial.check_next(1)
    longest, runs, killed, new = time.perf_counter() - begin, 0, 0, 0
    while killed < times:
        runs += 1
        other = 1 - trial.check_whole()
        child = trial.start(other)
        time.sleep(draw.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        killed += os.waitpid(child, 0)[1] == signal.SIGKILL
        new += trial.check_whole() == other
        trial.check_next(other)
    return f"{killed} of {runs} conversions killed at random moments; {new} had replaced the folder"


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
        _, status = os.waitpid(trial.start(other, kills_itself_at(aim)), 0)
        killed += status == signal.SIGKILL
        aim, most = (aim + 1, max(most, aim + 1)) if status == signal.SIGKILL else (0, most)
        new += trial.check_whole() == other
        trial.check_next(other)
    return f"{killed} of {times} conversions killed at one of {most} changes of files; {new} had replaced the folder"


def two_at_once(trial: Trial, times: int) -> str:
    for _ in range(times):
        children = [trial.start(number) for number in range(2)]
        if any(os.waitpid(child, 0)[1] for child in children):
            sys.exit("one of two conversions at once fails")
        trial.check_whole()
    trial.check_next(0)
    return f"{times} times two conversions at once"


def interrupted(trial: Trial, times: int, draw: random.Random) -> str:
    """Ctrl-C ends a conversion with 130 and one line; while modules load, as the signal does, in silence."""
    call = [sys.executable, str(ROOT / "convertor.py"), "-q"]
    endings = {"before": 0, "during": 0, "after": 0}
    begin = time.perf_counter()
    subprocess.run([*call, str(trial.inis[1])], check=True)
    longest = 1.1 * (time.perf_counter() - begin)
    for turn in range(times):
        with subprocess.Popen([*call, str(trial.inis[turn % 2])], stderr=subprocess.PIPE, text=True) as child:
            time.sleep(draw.uniform(longest / 5, longest))
            child.send_signal(signal.SIGINT)
            _, said = child.communicate()
        match child.returncode, said.strip():  # a line begins behind the ^C of a terminal
            case 0, "":
                endings["after"] += 1
            case 130, "interrupted":
                endings["during"] += 1
            case -2, "":
                endings["before"] += 1
            case other:
                sys.exit(f"Ctrl-C ends a conversion with {other}")
        trial.check_whole()
    trial.check_next(0)
    counts = ", ".join(f"{count} {when}" for when, count in endings.items())
    return f"{times} times Ctrl-C: {counts} the work"


@click.command(help=__doc__)
@click.option("--random", "at_random", default=200, show_default=True)
@click.option("--aimed", default=50, show_default=True)
@click.option("--at-once", default=80, show_default=True)
@click.option("--ctrl-c", default=20, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(at_random: int, aimed: int, at_once: int, ctrl_c: int, seed: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        trial = Trial(Path(name))
        print(killed_at_random(trial, at_random, draw), flush=True)
        print(killed_at_changes(trial, aimed), flush=True)
        print(two_at_once(trial, at_once), flush=True)
        print(interrupted(trial, ctrl_c, draw), flush=True)


if __name__ == "__main__":
    main()
