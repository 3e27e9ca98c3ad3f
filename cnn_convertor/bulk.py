"""Converts many networks: one after the other, or in several processes; one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cnn_convertor import cache
from cnn_convertor.config import Config
from cnn_convertor.failures import Ending, attempted
from cnn_convertor.pipeline import ConvertedNetwork
from cnn_convertor.progress import Progress, silent
from cnn_convertor.workers import spread


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


def convert_one(task: ConversionJob, progress: Progress = silent) -> Ending[Converted]:
    """Convert a network; all that goes wrong is in the outcome."""
    steps: set[str] = set()

    def note(step: str, done: int, total: int, layer: str = "", /) -> None:
        steps.add(step)
        progress(step, done, total, layer)

    def work() -> Converted:
        conversion = cache.convert(task.config, note, folder=task.cache)
        return Converted(conversion, cache.FROM_CACHE in steps)

    return attempted(work, strict=task.strict)


def convert_all(
    tasks: Sequence[ConversionJob], *, jobs: int, started: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[int, Ending[Converted]]]:
    """The number of each task and its outcome, in the order in which they end. jobs: processes at a time.

    Of tasks that write the same files, one alone may be given. started: called with the number of a task.
    """
    names = [task.config.name for task in tasks]
    return spread(convert_one, tasks, names=names, jobs=jobs, preload=[__name__], started=started)
