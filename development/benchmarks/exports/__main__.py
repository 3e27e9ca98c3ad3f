"""Exports networks of model libraries, converts them, compares them with onnxruntime, and keeps docs/networks.md.

python -m development.benchmarks.exports [NAMES]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from development.benchmarks.exports.architectures import ARCHITECTURES
from development.benchmarks.exports.outcome import (
    EXPORTERS,
    Cause,
    Figures,
    Outcome,
    State,
    cause_rows,
    known,
    network_rows,
)
from development.benchmarks.networks_page import Table, replace_rows

CHECKOUT: Final = Path(__file__).resolve().parents[3]
SECONDS: Final = 3600  # for each of an export and a comparison
DEFECTS: Final = (State.INACCURATE, State.FAILED)


class Plan(NamedTuple):
    """results: folder of outcomes. models: folder that keeps exported models; None: each is deleted once it was compared.

    exporters: that are measured. python: with the libraries. commit: of the convertor, now. renew: whether outcomes of other commits are measured again.
    """

    results: Path
    models: Path | None
    exporters: tuple[str, ...]
    python: str
    commit: str
    renew: bool

    def known(self, network: str, exporter: str) -> Outcome | None:
        return known(self.results, network, exporter, self.commit if self.renew else None)

    def missing(self, network: str) -> tuple[str, ...]:
        return tuple(exporter for exporter in self.exporters if self.known(network, exporter) is None)


def run(network: str, plan: Plan) -> tuple[Outcome, ...]:
    """Export a network, measure it, and store the outcomes that are missing, each at once."""
    outcomes: list[Outcome] = []
    exporters = plan.missing(network)
    with tempfile.TemporaryDirectory() as temporary:
        folder = plan.models or Path(temporary)
        if exporters:
            export(network, exporters, folder, plan.python)
        for exporter in exporters:
            outcomes.append(_outcome(network, exporter, folder, plan.commit))
            outcomes[-1].write(plan.results)
    return tuple(outcomes)


def export(network: str, exporters: Sequence[str], folder: Path, python: str) -> None:
    """Write NETWORK.EXPORTER.onnx, and beside it .txt with what is known of it, or why there is none. What is there stays."""
    needed = [exporter for exporter in exporters if not _notes(folder, network, exporter).exists()]
    if needed:
        command = [python, "-m", "development.benchmarks.exports.building", network, str(folder), *needed]
        failure = _finished(command)
        for exporter in needed:
            notes = _notes(folder, network, exporter)
            if not notes.exists():
                notes.write_text(json.dumps({"error": failure or "no file", "versions": {}}), encoding="utf-8")


def _outcome(network: str, exporter: str, folder: Path, commit: str) -> Outcome:
    notes: dict[str, Any] = json.loads(_notes(folder, network, exporter).read_text(encoding="utf-8"))
    size = ARCHITECTURES[network].size
    if "error" in notes:
        return Outcome(network, exporter, size, State.NOT_EXPORTED, commit, notes["versions"], detail=notes["error"])
    model, begin = folder / f"{network}.{exporter}.onnx", time.perf_counter()
    command = [sys.executable, "-m", "development.benchmarks.exports.measuring", str(model)]
    lines: list[str] = []
    failure = _finished(command, lines)
    values: dict[str, Any] = {"state": State.FAILED.name, "detail": failure} if failure else json.loads(lines[-1])
    figures = values.get("figures")
    return Outcome(
        network,
        exporter,
        size,
        State[values["state"]],
        commit,
        notes["versions"],
        causes=tuple(Cause(**cause) for cause in values.get("causes", ())),
        figures=figures and Figures(**figures),
        rounding=notes["life"]["rounding"],
        seconds=round(time.perf_counter() - begin, 1),
        detail=values.get("detail", ""),
    )


def _notes(folder: Path, network: str, exporter: str) -> Path:
    return folder / f"{network}.{exporter}.txt"


def _finished(command: Sequence[str], lines: list[str] | None = None) -> str:
    """Run a command; gives the end of its complaints if it fails, otherwise nothing. lines: gets its output."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    try:
        done = subprocess.run(
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {SECONDS} s"
    if lines is not None:
        lines += done.stdout.splitlines()
    return (done.stderr[-2000:] or f"exit code {done.returncode}") if done.returncode else ""


def stored(results: Path) -> Iterator[Outcome]:
    """Every outcome of a network that the benchmark has, in its order."""
    for network in ARCHITECTURES:
        for exporter in EXPORTERS:
            if outcome := known(results, network, exporter, None):
                yield outcome


def write_page(outcomes: Iterable[Outcome]) -> None:
    outcomes = tuple(outcomes)
    replace_rows(Table.EXPORTS, network_rows(outcomes))
    replace_rows(Table.REFUSALS, cause_rows(outcomes, len(ARCHITECTURES)))


def current_commit() -> str:
    """The last one that changed what converts, with a mark if files have changed since."""
    paths = ("cnn_convertor", "templates")
    commit = _git("log", "-1", "--format=%h", "--abbrev=12", "--", *paths)
    return f"{commit}-changed" if _git("status", "--porcelain", "--", *paths) else commit


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.strip()


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(ARCHITECTURES)), metavar="[NAMES]...")
@click.option("--python", default=sys.executable, help="The Python of an environment with exports/requirements.txt.")
@click.option(
    "--results", type=click.Path(path_type=Path), default=CHECKOUT / "build" / "exports", help="Folder of the results."
)
@click.option("--models", type=click.Path(path_type=Path), help="Folder that keeps the exported models.")
@click.option("--exporter", type=click.Choice(list(EXPORTERS)), help="Measure its exports alone.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Number of networks at a time.")
@click.option("--renew", is_flag=True, help="Measure again what another commit has measured.")
@click.option("--page", is_flag=True, help="Only write docs/networks.md, from the results so far.")
def main(
    names: tuple[str, ...],
    python: str,
    results: Path,
    models: Path | None,
    exporter: str | None,
    jobs: int,
    renew: bool,
    page: bool,
) -> None:
    """Export networks of model libraries, convert them, compare them with onnxruntime, and keep docs/networks.md.

    Without names: every network. What the folder of results has is not measured again, so that a run goes on after an
    interruption. The page is written once every network has its results. Ends with 1 when an output is below 40 dB, or when the convertor fails in another way than with a reason.
    """
    plan = Plan(results, models, (exporter,) if exporter else tuple(EXPORTERS), python, current_commit(), renew)
    for folder in (results, models):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    if not page:
        with ThreadPoolExecutor(jobs) as pool:
            for outcomes in pool.map(lambda name: run(name, plan), names or tuple(ARCHITECTURES)):
                for outcome in outcomes:
                    sqnr = "" if outcome.figures is None else f", {outcome.figures.sqnr:.1f} dB"
                    causes = ", ".join(dict.fromkeys(cause.words for cause in outcome.causes))
                    click.echo(f"{outcome.network} {outcome.exporter}: {outcome.state.value}{sqnr} {causes}".rstrip())
    outcomes = tuple(stored(results))
    if page or len(outcomes) == len(ARCHITECTURES) * len(EXPORTERS):
        write_page(outcomes)
    chosen = set(names or ARCHITECTURES)
    sys.exit(any(outcome.state in DEFECTS for outcome in outcomes if outcome.network in chosen))


if __name__ == "__main__":
    main()
