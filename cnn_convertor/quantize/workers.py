"""Clusters the values of many layers in parallel processes.

Each process is a fresh interpreter that reads lines from standard input and writes centers to standard output. Unlike with
multiprocessing, it shares no threads with its parent and does not run the main module again. If a process cannot be started
or ends early, its lines are clustered in this process, with the same result.
"""

import os
import signal
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from queue import SimpleQueue
from typing import IO, NamedTuple

import numpy as np

from cnn_convertor.files.interruption import uninterrupted
from cnn_convertor.quantize.clustering import Real, divide

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from cnn_convertor.quantize.workers import serve; serve()"
_LEAST_POINTS = 100_000  # per process: about a second of work
_LARGEST_FREED = 16 << 20  # bytes; glibc adapts up to 32 MiB
_WAITING = 2  # lines per process that are queued, or finished and not yet fetched


class Line(NamedTuple):
    """Non-zero values, ascending, and their weights."""

    values: Real
    weights: Real


def divide_all(lines: Iterable[Line], clusters: int, *, processes: int) -> Iterator[Real]:
    """The centers of each line, in order; keeps only a few lines at a time. processes: with 1, uses this process."""
    if processes < 2:
        _keep_freed_memory()
        yield from (divide(*line, clusters) for line in lines)
        return
    with ExitStack() as stack:
        free: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(processes):
            free.put(stack.enter_context(closing(_Worker())))

        def divide_elsewhere(line: Line) -> Real:
            worker = free.get()
            try:
                return worker.divide(line, clusters)
            finally:
                free.put(worker)

        threads = ThreadPoolExecutor(processes)  # they only wait for processes
        stack.callback(threads.shutdown, cancel_futures=True)
        pending: deque[Future[Real]] = deque()
        for line in lines:
            pending.append(threads.submit(divide_elsewhere, line))
            if len(pending) > _WAITING * processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def processes_for(points: int) -> int:
    """The number of processes worth starting for that many values."""
    return max(1, min(_cores(), points // _LEAST_POINTS))


def _cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Worker:
    """A process, or none if it could not be started or has ended. It ends with this object at the latest."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError, ValueError), uninterrupted():
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._end = weakref.finalize(self, _end, self._process)

    def divide(self, line: Line, clusters: int) -> Real:
        process = self._process
        if process is not None and process.stdin is not None and process.stdout is not None:
            try:
                _send(process.stdin, np.array([clusters], np.float64), *line)
                (centers,) = _receive(process.stdout, 1)
            except (OSError, EOFError):
                self.close()
            else:
                return centers
        return divide(*line, clusters)

    def close(self) -> None:
        with uninterrupted():
            if self._process is not None:
                self._process = None
                self._end()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(OSError, ValueError):  # a pipe is broken, or closed already
        process.communicate()


def serve() -> None:
    """The main function of a process: cluster lines until input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends it
    _keep_freed_memory()
    with suppress(EOFError, OSError):
        while True:
            clusters, values, weights = _receive(sys.stdin.buffer, 3)
            _send(sys.stdout.buffer, divide(values, weights, int(clusters[0])))


def _keep_freed_memory() -> None:
    """Keep glibc from returning freed arrays to the system, which halves the time: it raises its threshold on a large free."""
    np.empty(_LARGEST_FREED, np.uint8)


def _send(stream: IO[bytes], *arrays: Real) -> None:
    """Write each array as its length and its numbers."""
    for array in arrays:
        stream.write(array.size.to_bytes(8, "little"))
        stream.write(array.tobytes())
    stream.flush()


def _receive(stream: IO[bytes], count: int) -> list[Real]:
    """Read `count` arrays. Raises EOFError if the stream ends."""
    arrays = []
    for _ in range(count):
        size = int.from_bytes(_read(stream, 8), "little")
        arrays.append(np.frombuffer(_read(stream, 8 * size), np.float64))
    return arrays


def _read(stream: IO[bytes], nbytes: int) -> bytes:
    data = stream.read(nbytes)
    if len(data) != nbytes:
        raise EOFError
    return data
