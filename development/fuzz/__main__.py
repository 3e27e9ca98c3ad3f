"""Runs harnesses: coverage-guided with atheris, or, without it, on random mutations of the seeds.

`python -m development.fuzz NAME ... --seconds N` runs one harness after the other, each in a process of its own; `all` names every one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from development.fuzz.harnesses import Harness

try:
    import atheris
except ImportError:  # optional; it exists for Linux and macOS only
    atheris = None

WORK: Final = Path("build/fuzz")
HANGS: Final = 120  # seconds after which libFuzzer ends a process that does not even react to signals
MOST_MEMORY: Final = 4 << 30  # bytes of the process, the fuzzer's own included
LONGEST: Final = 1 << 20  # bytes of an input with a repeated part
SAVE: Final = 5  # seconds between two notes of the figures
COUNTS: Final = 20  # one of so many mutations of ours repeats a part
SECONDS: Final = 10  # of processor time for an input with a repeated part, at least


def main() -> int:
    """Run the wanted harnesses. Gives 1 when one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m development.fuzz", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="harnesses, or all")
    parser.add_argument("--seconds", type=float, default=60, help="for each harness (default: %(default)s)")
    parser.add_argument("--executions", type=int, help="of each harness, at most")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    parser.add_argument(
        "--work", type=Path, default=WORK, help="the folder for corpora and findings (default: %(default)s)"
    )
    parser.add_argument("--input", type=Path, help="run the harness on this file alone, and show what happens")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    harnesses = _harnesses(instrumented=given.child)
    names = list(harnesses) if given.names == ["all"] else given.names
    if unknown := [name for name in names if name not in harnesses]:
        parser.error(f"there is no harness {unknown[0]}; there are {', '.join(harnesses)}")
    if given.input is not None:
        harnesses[names[0]].run(given.input.read_bytes())
        return 0
    if given.child:
        Session(names[0], harnesses[names[0]], given.work, given.seconds, given.executions).start(given.seed)
    return max([_run_apart(name, given) for name in names])


def _harnesses(*, instrumented: bool) -> Mapping[str, Harness]:
    """The table. instrumented: whether the package is to report its coverage, which takes seconds."""
    with atheris.instrument_imports(include=["cnn_convertor"]) if instrumented and atheris else nullcontext():
        from development.fuzz.harnesses import HARNESSES
    return HARNESSES


def _run_apart(name: str, given: argparse.Namespace) -> int:
    """Run one harness in a process of its own, and print its figures. A crash of the process is a finding, too."""
    options = ["--seconds", str(given.seconds), "--seed", str(given.seed), "--work", str(given.work)]
    options += [] if given.executions is None else ["--executions", str(given.executions)]
    folder = given.work / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "development.fuzz", "--child", *options, name], stdout=log, stderr=log, check=False
        )
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    crashed = f", ended with status {done.returncode} (see {folder / 'log'})" if done.returncode else ""
    print(f"{name}: {figures['executions']:,} executions ({figures['repeated']:,} with repeated parts) in {figures['seconds']:.0f} s, "
        f"{len(figures['findings'])} findings{crashed}", flush=True)  # fmt: skip
    return int(bool(figures["findings"] or crashed))


class Session:
    """One harness at work: counts executions and keeps findings, one input for each fault."""

    def __init__(self, name: str, harness: Harness, work: Path, seconds: float, most: int | None) -> None:
        self._harness, self._seconds, self._most = harness, seconds, most
        self._folder = work / name
        (self._folder / "findings").mkdir(parents=True, exist_ok=True)
        (self._folder / "corpus").mkdir(exist_ok=True)
        self._words = harness.words()
        self._executions = self._repeated = 0
        self._findings: dict[str, int] = {}
        self._start = self._saved = time.monotonic()
        self._save()

    def start(self, seed: int) -> None:
        """Run until the time is up, and end the process."""
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        seeds = list(self._harness.seeds())
        if atheris is None:
            self._mutate(seeds, Random(seed))
        for number, content in enumerate(seeds):
            (self._folder / "corpus" / f"seed-{number}").write_bytes(content)
        options = [
            f"-seed={seed}",
            f"-max_len={LONGEST}",
            f"-timeout={HANGS}",
            f"-report_slow_units={HANGS}",  # by the clock; the watch measures the processor's time
            "-rss_limit_mb=0",
            "-print_final_stats=0",
        ]
        handled = [
            f"-handle_{name}=0" for name in ("segv", "bus", "abrt", "ill", "fpe", "xfsz")
        ]  # of the child that reads HDF5
        prefix = f"-artifact_prefix={self._folder / 'findings'}/"
        arguments = [sys.argv[0], str(self._folder / "corpus"), *options, *handled, prefix]
        atheris.Setup(arguments, self.run, custom_mutator=self._guided)
        atheris.Fuzz()

    def _mutate(self, seeds: list[bytes], random: Random) -> None:
        """Without coverage: mutations of the seeds, and of these."""
        kept = list(seeds)
        while True:
            data = self._mutated(random.choice(kept), random)
            self.run(data)
            if len(data) <= self._harness.largest:
                kept[len(seeds) :] = [*kept[len(seeds) :], data][-100:]

    def _mutated(self, data: bytes, random: Random) -> bytes:
        """Seldom with a part that is there many times."""
        from development.fuzz.counts import repeat

        if random.randrange(COUNTS) == 0:
            self._repeated += 1
            return repeat(self._harness.mutate, data, random)
        return self._harness.mutate(data, random, self._words)[: self._harness.largest]

    def _guided(self, data: bytes, max_size: int, seed: int) -> bytes:
        """libFuzzer's own mutations, and as often ours."""
        random = Random(seed)
        if random.randint(0, 1):
            changed: bytes = atheris.Mutate(data, min(max_size, max(self._harness.largest, len(data))))
            return changed
        return self._mutated(data, random)[:max_size]

    def run(self, data: bytes) -> None:
        """One execution; the last one ends the process."""
        from development.fuzz import targets
        from development.fuzz.watching import outcome

        is_long = len(data) > self._harness.largest
        finding = outcome(self._harness.run, data, max(self._harness.seconds, SECONDS * is_long))
        self._executions += 1
        if finding is not None:
            if finding.signature not in self._findings:
                path = self._folder / "findings" / finding.signature
                path.write_bytes(data)
                path.with_name(f"{path.name}.txt").write_text(finding.text, encoding="utf-8", errors="replace")
            self._findings[finding.signature] = self._findings.get(finding.signature, 0) + 1
        now = time.monotonic()
        if now - self._saved > SAVE:
            self._save()
        if now - self._start > self._seconds or self._executions == self._most:
            self._save()
            targets.remove_folder()
            os._exit(0)  # libFuzzer has no other way to end from inside

    def _save(self) -> None:
        self._saved = time.monotonic()
        figures = {
            "executions": self._executions,
            "repeated": self._repeated,
            "seconds": self._saved - self._start,
            "findings": self._findings,
        }
        (self._folder / "figures.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
