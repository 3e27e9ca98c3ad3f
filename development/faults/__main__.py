"""Puts one-line faults into a copy of the convertor, one at a time, and counts those that verify finds.

python -m development.faults [--jobs 2] [--store FILE] [WORDS]

For each fault, a small network that it concerns is converted and verified with the faulty convertor. What the device computes then
tells whether a bit changes. WORDS: parts of a row's file, network or text, to run only these.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import click
import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.checking import what_runs
from cnn_convertor.devices.target import Quantized
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.pipeline import quantize, read_whole
from development.faults.networks import write
from development.faults.rows import FAULTS, ROOMS, ROOT, Fault

TIMEOUT = 600  # seconds for one network
_COPIED = ("cnn_convertor", "templates")
_RENDERING = ("registers and FP16", "generated sources")  # rooms whose faults only the generated sources have
_MOST_MISSED = 0.02  # of the faults that change a bit


class Trial(NamedTuple):
    """What a convertor does with a network. folder: its files. error: why it stops, or empty. passes: whether it passes by itself."""

    folder: Path
    error: str
    passes: bool

    @property
    def outputs(self) -> list[Maps]:
        with np.load(self.folder / "outputs.npz") as file:
            return [file[name] for name in file.files]


class Outcome(NamedTuple):
    """stops: the faulty convertor stops with an error. changes: another bit in an output. by_itself: its own verify fails.

    on_disk: verify --disk of the right convertor finds its files.
    """

    stops: bool
    changes: bool
    by_itself: bool
    on_disk: bool


class Network(NamedTuple):
    """A network, and what the right convertor makes of it."""

    ini: Path
    right: Trial
    request: Request
    quantized: Quantized


def tried(copy: Path, ini: Path, folder: Path, *, compiled: bool) -> Trial:
    """Convert and verify a network with a copy of the convertor. compiled: the generated sources run."""
    environment = {
        "CNN_CONVERTOR_CACHE": str(copy.parent / "compiled"),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (copy, ROOT))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }
    command = [sys.executable, "-m", "development.faults.trial", str(ini), str(folder), *["--compiled"] * compiled]
    try:
        ended = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return Trial(folder, f"no end in {TIMEOUT} s", passes=False)
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        named = [line for line in lines if "Error" in line]
        return Trial(folder, (named or lines)[-1], passes=False)
    return Trial(folder, "", json.loads(ended.stdout.splitlines()[-1]))


def network(name: str, copy: Path, scratch: Path) -> Network:
    folder = scratch / "networks" / name
    folder.mkdir(parents=True)
    ini = write(name, folder)
    right = tried(copy, ini, folder / "right", compiled=False)
    if right.error or not right.passes:
        sys.exit(f"the network {name} does not pass without a fault: {right.error or 'verify fails'}")
    request = Request.of(replace(Config.of(ini), output_folder=folder / "right"))
    return Network(ini, right, request, quantize(read_whole(request), request))


def outcome(fault: Fault, copy: Path, of: Network, folder: Path) -> tuple[Outcome, str]:
    """What becomes of a fault in a copy of the convertor, and why the convertor stops."""
    path = copy / fault.path
    text = path.read_text()
    path.write_text(fault.applied(text))
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()  # its time and size can be those of the new text
    try:
        trial = tried(copy, of.ini, folder, compiled=fault.room in _RENDERING)
    finally:
        path.write_text(text)
    differs = _differs(of, folder)
    if trial.error:
        return Outcome(True, True, True, differs), trial.error
    right, outputs = of.right.outputs, trial.outputs
    is_same = len(outputs) == len(right) and all(map(_are_equal, outputs, right))
    return Outcome(False, not is_same, not trial.passes, differs), ""


def _are_equal(one: Maps, other: Maps) -> bool:
    return np.array_equal(one, other, equal_nan=True)


def _differs(of: Network, folder: Path) -> bool:
    """Whether the right convertor's verify --disk finds the files of a folder."""
    name = of.request.name
    fresh = {path.name: path for path in (of.right.folder / name).iterdir() if path.suffix != ".json"}
    return bool(what_runs(replace(of.request, folder=folder / name), of.quantized, fresh))


def measure(faults: Sequence[Fault], jobs: int, stored: Mapping[str, Outcome], store: Path | None) -> list[Outcome]:
    """The outcome of each fault. stored: of faults that ran before."""
    outcomes = dict(stored)
    with tempfile.TemporaryDirectory() as root:
        scratch = Path(root)
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copy = scratch / f"copy{number}"
            copies.put(copy)
            for part in _COPIED:
                shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
            compileall.compile_dir(copy, quiet=2)
        waiting = [fault for fault in faults if repr(fault) not in outcomes]
        names = list(dict.fromkeys(fault.network for fault in waiting))

        def prepared(name: str) -> Network:
            copy = copies.get()
            try:
                return network(name, copy, scratch)
            finally:
                copies.put(copy)

        def run(numbered: tuple[int, Fault]) -> tuple[Outcome, str]:
            number, fault = numbered
            copy, folder = copies.get(), scratch / f"fault{number}"
            try:
                return outcome(fault, copy, networks[fault.network], folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            networks = dict(zip(names, pool.map(prepared, names), strict=True))
            running = {pool.submit(run, numbered): numbered[1] for numbered in enumerate(waiting)}
            for ended in as_completed(running):
                fault, (result, error) = running[ended], ended.result()
                outcomes[repr(fault)] = result
                if store is not None:
                    with store.open("a") as file:
                        file.write(json.dumps([repr(fault), *result]) + "\n")
                said = f"stops: {error}" if error else _words(result)
                click.echo(f"{fault.path} ({fault.network}): {fault.new.strip()[:60]}: {said}")
    return [outcomes[repr(fault)] for fault in faults]


def _words(result: Outcome) -> str:
    if not result.changes:
        return "changes no bit" + ", but the files" * result.on_disk
    found = ["verify"] * result.by_itself + ["verify --disk"] * result.on_disk
    return f"found by {' and '.join(found)}" if found else "MISSED"


@click.command(help=__doc__.partition("\n")[0])
@click.option("--jobs", default=2, show_default=True, help="Convertors that run at a time.")
@click.option("--store", type=click.Path(path_type=Path), help="Keeps the outcomes, so that the same call can go on.")
@click.argument("words", nargs=-1)
def main(jobs: int, store: Path | None, words: Sequence[str]) -> None:
    """Print what becomes of each fault, and a table by room. Fails if verify misses more than 2 % of those that change a bit."""
    warnings.simplefilter("ignore")
    faults = [fault for fault in FAULTS if all(word in repr(fault) for word in words)]
    for fault in faults:
        fault.applied((ROOT / fault.path).read_text())
    rows = [json.loads(line) for line in store.read_text().splitlines()] if store and store.exists() else []
    outcomes = measure(faults, jobs, {key: Outcome(*values) for key, *values in rows}, store)
    every, changing, by_itself, found = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for fault, result in zip(faults, outcomes, strict=True):
        every[fault.room] += 1
        changing[fault.room] += result.changes
        by_itself[fault.room] += result.changes and result.by_itself
        found[fault.room] += result.changes and (result.by_itself or result.on_disk)
    click.echo("| room | faults | change a bit | found by their own verify | found |")
    for room in [room for room in ROOMS if every[room]]:
        click.echo(f"| {room} | {every[room]} | {changing[room]} | {by_itself[room]} | {found[room]} |")
    click.echo(f"| all | {every.total()} | {changing.total()} | {by_itself.total()} | {found.total()} |")
    if changing.total() - found.total() > _MOST_MISSED * changing.total():
        sys.exit("verify misses more than 2 %")


if __name__ == "__main__":
    main()
