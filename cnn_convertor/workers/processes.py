"""Applies a function to many items: in this process, in several processes, or on a cluster.

If a process dies, only the item that it worked on fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from cnn_convertor.errors import ConvertorError, Problem, UsageError, assert_never, warn
from cnn_convertor.workers import cluster
from cnn_convertor.workers.cluster import Cluster
from cnn_convertor.workers.outcomes import Item, Outcome
from cnn_convertor.workers.pool import Lost, can_start_processes, divided

T = TypeVar("T")
R = TypeVar("R")


class Processes(NamedTuple):
    """Processes of this computer. jobs: the largest number, with those that they start; 1: the items run in this process."""

    jobs: int = 1


Workers: TypeAlias = Processes | Cluster
HERE: Final = Processes()


def spread(
    work: Callable[[T], Outcome[R]],
    items: Sequence[Item[T]],
    *,
    on: Workers = HERE,
    uses: Sequence[str] = (),
    started: Callable[[int], None] = lambda _: None,
) -> Generator[tuple[int, Outcome[R]], None, None]:
    """The number of each item and what came of it, in the order in which they end.

    work: a function of a module; the function, the values and the results are pickled. on: where the work runs.
    uses: libraries, beside those of a conversion, whose versions must be the same on a cluster.
    started: called with the number of each item that starts.
    If the caller stops early, processes are interrupted like by Ctrl-C, and the tasks of a cluster are canceled.
    """
    if not isinstance(on, Processes | Cluster):
        raise TypeError(f"on: expected Processes(N) or Cluster(address), not a value of type {type(on).__qualname__}")
    if isinstance(on, Processes) and on.jobs > 1 and not can_start_processes():
        warn(Problem("DV140", "this system cannot start processes as Linux does, so all work is done in one"))
        on = HERE
    match on:
        case Processes() if min(on.jobs, len(items)) < 2:
            for number, item in enumerate(items):
                started(number)
                yield number, work(item.value)
        case Processes():
            values = (item.value for item in items)
            count = min(on.jobs, len(items))
            for number, _, result in divided(work, values, count, processes_each=on.jobs // count, started=started):
                yield number, _lost(items[number], result) if isinstance(result, Lost) else result
        case Cluster():
            yield from cluster.spread(work, items, cluster=on, uses=uses, started=started)
        case _:
            assert_never(on)


def _lost(item: Item[Any], lost: Lost) -> Outcome[Any]:
    problem = f"the process that worked on {item.name} {lost.how}"
    return Outcome(problems=(Problem("DV127", problem, hint="if memory was short, use fewer --jobs"),))


def gather(
    work: Callable[[T], Outcome[R]],
    items: Sequence[Item[T]],
    *,
    on: Workers = HERE,
    uses: Sequence[str] = (),
    finished: Callable[[int], None] = lambda _: None,
) -> list[R]:
    """The results in the order of the items; as `gathered`."""
    return list(gathered(work, items, on=on, uses=uses, finished=finished))


def gathered(
    work: Callable[[T], Outcome[R]],
    items: Sequence[Item[T]],
    *,
    on: Workers = HERE,
    uses: Sequence[str] = (),
    finished: Callable[[int], None] = lambda _: None,
) -> Generator[R, None, None]:
    """The results in the order of the items, each as early as possible; as `spread`.

    finished: called with the number of finished items.
    Raises ConvertorError with the problems of the first item that fails, as soon as those before it have ended.
    """
    outcomes: dict[int, Outcome[R]] = {}
    following = 0
    finished(0)
    with closing(spread(work, items, on=on, uses=uses)) as arriving:
        for done, (number, outcome) in enumerate(arriving, start=1):
            outcomes[number] = outcome
            finished(done)
            while following in outcomes:
                yield _result(outcomes.pop(following))
                following += 1


class _ElsewhereError(Exception):
    """The trace of a failure, from where the work was done."""


def _result(outcome: Outcome[R]) -> R:
    """The result, with its warnings. Raises ConvertorError."""
    warn(*outcome.warnings)
    for text in outcome.python_warnings:
        warnings.warn(text.rstrip(), RuntimeWarning, stacklevel=2)
    if outcome.result is None:
        cause = _ElsewhereError(outcome.trace) if outcome.trace else None
        raise (UsageError if outcome.is_misuse else ConvertorError)(outcome.problems) from cause
    return outcome.result
