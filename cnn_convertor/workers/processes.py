"""Applies a function to many items: in this process, in several processes, or on a cluster.

If a process dies, only the item that it worked on fails.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from cnn_convertor.errors import ConvertorError, Problem, UsageError, assert_never, warn
from cnn_convertor.files.interruption import uninterrupted
from cnn_convertor.workers import cluster
from cnn_convertor.workers.cluster import Cluster
from cnn_convertor.workers.outcomes import Outcome

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE: Final = 5.0  # seconds in which an interrupted process may clean up


class Processes(NamedTuple):
    """Processes of this computer. jobs: their number; 1: the work runs in this process."""

    jobs: int = 1


Workers: TypeAlias = Processes | Cluster
HERE: Final = Processes()


def spread(
    work: Callable[[T], Outcome[R]],
    items: Sequence[T],
    *,
    names: Sequence[str],
    on: Workers = HERE,
    preload: Sequence[str] = (),
    uses: Sequence[str] = (),
    carries: Callable[[T], Sequence[Path]] = lambda _: (),
    reads: Callable[[T], Sequence[Path]] = lambda _: (),
    started: Callable[[int], None] = lambda _: None,
) -> Generator[tuple[int, Outcome[R]], None, None]:
    """The number of each item and what came of it, in the order in which they end.

    work: a function of a module; the function, the items and the results are pickled. names: of the items, for messages.
    on: where the work runs. preload: modules that `work` needs; one process imports them for all.
    uses: libraries, beside those of a conversion, whose versions must be the same on a cluster.
    carries: files and folders that an item names and other computers never have; reads: those that they have if they share a
    folder. started: called with the number of each item that starts.
    If the caller stops early, processes are interrupted like by Ctrl-C, and the tasks of a cluster are canceled.
    """
    match on:
        case Processes() if min(on.jobs, len(items)) < 2:
            for number, item in enumerate(items):
                started(number)
                yield number, work(item)
        case Processes():
            yield from _in_processes(work, items, names, on.jobs, preload, started)
        case Cluster():
            taken = (lambda item: (*carries(item), *reads(item))) if on.ships else carries
            yield from cluster.spread(work, items, names=names, cluster=on, uses=uses, carries=taken, started=started)
        case _:
            assert_never(on)


def gather(
    work: Callable[[T], Outcome[R]],
    items: Sequence[T],
    *,
    names: Sequence[str],
    ended: Callable[[int], None] = lambda _: None,
    **options: Any,
) -> list[R]:
    """The results in the order of the items. ended: called with the number of finished items. options: those of `spread`.

    Raises ConvertorError with the problems of the first item that fails, as soon as those before it have ended.
    """
    outcomes: dict[int, Outcome[R]] = {}
    results: list[R] = []
    ended(0)
    with closing(spread(work, items, names=names, **options)) as arriving:
        for number, outcome in arriving:
            outcomes[number] = outcome
            ended(len(outcomes))
            while len(results) in outcomes:
                results.append(_result(outcomes[len(results)]))
    return results


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


def _in_processes(
    work: Callable[[T], Outcome[R]],
    items: Sequence[T],
    names: Sequence[str],
    jobs: int,
    preload: Sequence[str],
    started: Callable[[int], None],
) -> Iterator[tuple[int, Outcome[R]]]:
    from multiprocessing import connection, get_context, resource_tracker  # here, so that --help stays fast

    resource_tracker.ensure_running()  # its start would end the block of SIGINT under which the first process starts
    context: Any = get_context("forkserver")  # each process begins without our threads and open files
    context.set_forkserver_preload([*preload])
    idle = [_Worker(context, work) for _ in range(min(jobs, len(items)))]
    busy: dict[Any, tuple[_Worker, int]] = {}
    waiting = list(enumerate(items))[::-1]
    try:
        while waiting or busy:
            while waiting and idle:
                worker, (number, item) = idle.pop(), waiting.pop()
                busy[worker.pipe] = worker, number  # first: from here on, the process ends with an interruption
                worker.give(item)
                started(number)
            for pipe in connection.wait([*busy]):
                worker, number = busy.pop(pipe)
                try:
                    outcome = worker.take()
                except EOFError:
                    outcome = _lost(names[number], worker.end(monotonic() + _PATIENCE))
                    worker = _Worker(context, work)
                idle.append(worker)
                yield number, outcome
    finally:
        with uninterrupted():  # a second interruption would end this process, and with it those that clean up
            working = [worker for worker, _ in busy.values()]
            for worker in working:
                worker.interrupt()
            deadline = monotonic() + _PATIENCE
            for worker in (*idle, *working):
                worker.end(deadline)


def _lost(name: str, how: str) -> Outcome[Any]:
    problem = f"the process that worked on {name} ended with {how}"
    return Outcome(problems=(Problem("DV127", problem, hint="if memory was short, use fewer --jobs"),))


class _Worker:
    """A process, and our end of the pipe to it."""

    def __init__(self, context: Any, work: Callable[[Any], Any]) -> None:
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(work, theirs), daemon=True)
        # The processes inherit the mask: an interruption waits until they can handle it, also while the first loads modules.
        ours = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, ours)
        theirs.close()

    def give(self, item: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the process has ended, as the next read finds
            self.pipe.send(item)

    def take(self) -> Any:
        """The result. Raises EOFError when the process has ended."""
        try:
            return self.pipe.recv()
        except ConnectionResetError as error:
            raise EOFError from error

    def interrupt(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGINT)

    def end(self, deadline: float) -> str:
        """Close the pipe, and wait for the end of the process, until the deadline; says how it ended."""
        self.pipe.close()
        self._process.join(max(0, deadline - monotonic()))
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        code: int = self._process.exitcode
        return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"


def _serve(work: Callable[[Any], Any], pipe: Any) -> None:
    """In the process: work until the pipe closes or an interruption comes."""
    os.setpgrp()  # Ctrl-C reaches the parent alone, which interrupts this process once
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt), uninterrupted() as block:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while True:
            item = pipe.recv()
            with block.interruptible():
                outcome = work(item)
            pipe.send(outcome)
