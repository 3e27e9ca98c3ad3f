"""What an input of one, two and four counts costs: lines of Python that ran, bytes, and processor time."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

MOST: Final = 2.8  # N log N grows by 2.4 from 12 on, a square by 4
COMPILER: Final = "cc"
# What Python calls for each line. A trace function of Python takes four times as long as the lines themselves.
_COUNTER: Final = """
static long lines;
int trace(void *self, void *frame, int event, void *argument) {
  lines += event == 2; /* PyTrace_LINE */
  return 0;
}
long taken(void) {
  long before = lines;
  lines = 0;
  return before;
}
"""


class Cost(NamedTuple):
    """lines: of Python code, the same on every machine. peak: bytes of Python's objects and arrays. seconds: of the processor."""

    lines: int
    peak: int
    seconds: float


class Growth(NamedTuple):
    """The costs of one count, twice and four times as much."""

    once: Cost
    twice: Cost
    four_times: Cost

    @property
    def of_lines(self) -> float:
        """How much more the second doubling added than the first: 2 where costs grow as the count, 4 as its square."""
        return _growth(self.once.lines, self.twice.lines, self.four_times.lines, 1_000)

    @property
    def of_peak(self) -> float:
        """As above, of memory; 1 where the peak is less than a megabyte above that of one count."""
        return _growth(self.once.peak, self.twice.peak, self.four_times.peak, 1 << 20)

    @property
    def of_seconds(self) -> float:
        """As above, of time: as exact as the clock is."""
        return _growth(self.once.seconds, self.twice.seconds, self.four_times.seconds, 0.2)


def _growth(once: float, twice: float, four_times: float, least: float) -> float:
    """least: what counts as no growth at all."""
    first, second = twice - once, four_times - twice
    return second / max(first, least / 8) if four_times - once > least else 1.0


def growth_of(run: Callable[[int], object], count: int, *, with_memory: bool = False) -> Growth:
    """run: does the work for a count. It runs once with a small count first, which fills caches and imports modules.

    with_memory: measure memory and time, too, without which they are 0.
    """
    run(max(2, count // 8))
    gc.collect()
    has_frozen = gc.get_freeze_count() > 0  # as the tests have
    gc.freeze()  # what is there already, so that it is not looked through each time
    try:
        return Growth(*(_cost(run, count * times, with_memory) for times in (1, 2, 4)))
    finally:
        if not has_frozen:
            gc.unfreeze()


def _cost(run: Callable[[int], object], count: int, with_memory: bool) -> Cost:
    return Cost(_lines(run, count), *(_peak_and_seconds(run, count) if with_memory else (0, 0.0)))


def _lines(run: Callable[[int], object], count: int) -> int:
    counter, before = _counter(), sys.gettrace()
    begin = ctypes.pythonapi.PyEval_SetTrace
    begin.argtypes, begin.restype = [ctypes.c_void_p, ctypes.py_object], None
    counter.taken()
    begin(ctypes.cast(counter.trace, ctypes.c_void_p), None)
    try:
        run(count)
    finally:
        sys.settrace(before)
    return int(counter.taken())


@cache
def _counter() -> ctypes.PyDLL:
    """The library of _COUNTER. Raises OSError and CalledProcessError if it cannot be compiled."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "counter.so"
        command = [COMPILER, "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=_COUNTER, text=True, check=True)
        counter = ctypes.PyDLL(str(library))
    counter.taken.restype = ctypes.c_long
    return counter


def _peak_and_seconds(run: Callable[[int], object], count: int) -> tuple[int, float]:
    begin = time.process_time()
    run(count)
    seconds = time.process_time() - begin
    gc.collect()
    tracemalloc.start()
    try:
        run(count)
        return tracemalloc.get_traced_memory()[1], seconds
    finally:
        tracemalloc.stop()
