"""Converts many networks: one by one, in several processes, or on a cluster. If one fails, the others continue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial as bind
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion import cache, convert
from cnn_convertor.conversion.convert import ConvertedNetwork
from cnn_convertor.files.opening import bytes_of
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.progress import Progress, silent
from cnn_convertor.report import Report
from cnn_convertor.workers.cluster import Cluster, stop_if_unwanted
from cnn_convertor.workers.outcomes import Item, Outcome, attempted
from cnn_convertor.workers.processes import HERE, Workers, spread


class ConversionJob(NamedTuple):
    """A conversion as a value, for any process. cache: a folder, or None. strict: warnings are errors."""

    config: Config
    cache: Path | None = None
    strict: bool = False


class Converted(NamedTuple):
    """is_known: the files come from the cache."""

    conversion: ConvertedNetwork
    is_known: bool

    @property
    def how(self) -> str:
        return "from the cache" if self.is_known else "converted"


class Delivery(NamedTuple):
    """The outputs of a conversion on a computer without the output folder. contents: by file name."""

    contents: dict[str, bytes]
    report: Report


def convert_one(task: ConversionJob, progress: Progress = silent, *, on: Workers = HERE) -> Outcome[Converted]:
    """Convert a network; the outcome has all problems. on: where calibration runs."""
    steps: set[str] = set()

    def note(step: str, done: int, total: int, layer: str = "", /) -> None:
        stop_if_unwanted()
        steps.add(step)
        progress(step, done, total, layer)

    def work() -> Converted:
        conversion = cache.convert(task.config, note, folder=task.cache, on=on)
        return Converted(conversion, cache.FROM_CACHE in steps)

    return attempted(work, strict=task.strict)


def convert_all(
    tasks: Sequence[ConversionJob], *, on: Workers = HERE, started: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[int, Outcome[Converted]]]:
    """The number of each task and its outcome, in the order in which they end. on: where the work runs.

    Two tasks must not write the same files. started: called with the number of each task that starts.
    """
    items = [Item(task, task.config.name, inputs=bind(_inputs, task.config)) for task in tasks]
    if not (isinstance(on, Cluster) and on.ships):
        yield from spread(convert_one, items, on=on, started=started)
        return
    for number, sent in spread(_convert_away, items, on=on, started=started):
        yield number, _delivered(tasks[number], sent)


def _inputs(config: Config) -> tuple[Path, ...]:
    return Request.of(config).inputs


def _convert_away(task: ConversionJob) -> Outcome[Delivery]:
    """Convert a network into a folder of its own."""

    def work() -> Delivery:
        with temporary_folder() as folder:
            config = replace(task.config, output_folder=folder)
            conversion = convert.convert(config, lambda *_: stop_if_unwanted())
            contents = {path.relative_to(config.folder).as_posix(): bytes_of(path) for path in conversion.files}
            return Delivery(contents, conversion.report)

    return attempted(work, strict=task.strict)


def _delivered(task: ConversionJob, sent: Outcome[Any]) -> Outcome[Converted]:
    """Write the outputs that another computer sent."""
    if sent.result is None:
        return sent
    delivery: Delivery = sent.result

    def work() -> Converted:
        files = {name: [np.frombuffer(content, np.uint8)] for name, content in delivery.contents.items()}
        return Converted(ConvertedNetwork(cache.install(task.config, files), delivery.report), is_known=False)

    outcome = attempted(work, strict=task.strict)
    return replace(outcome, warnings=(*sent.warnings, *outcome.warnings))
