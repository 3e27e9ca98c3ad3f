"""Shows progress on standard error: a bar on a terminal, a line now and then elsewhere, or the time of each step with -v."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cnn_convertor.progress import State

if TYPE_CHECKING:
    from cnn_convertor.cli.live import ProgressLine

MOMENT: Final = 0.5  # seconds without a bar: what takes less needs none
RARELY: Final = 30.0  # seconds between lines where there is no terminal


class TimedSteps:
    """Prints the time of each step when it ends."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._step = ""
        self._start = 0.0

    def __call__(self, step: str, _done: int, _total: int, _layer: str = "", /) -> None:
        if step != self._step:
            self.end()
            self._step, self._start = step, time.perf_counter()

    def end(self) -> None:
        if self._step:
            self._say(f"{self._step} took {time.perf_counter() - self._start:.2f} s")


class RareLines:
    """Prints where the work is, each time that some seconds have passed."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._last = clock()

    def __call__(self, step: str, done: int, total: int, _layer: str = "", /) -> None:
        if (now := self._clock()) - self._last >= RARELY:
            self._last = now
            self._say(f"{step}, {done / total:.0%}" if total > 1 else step)


@contextmanager
def bar(title: str, *, moment: float) -> Iterator[State]:
    """Show a bar while a block runs, once it has run for a moment (seconds). It leaves no trace."""
    state = State(title)
    shown: list[ProgressLine] = []

    def show() -> None:
        from cnn_convertor.cli.live import ProgressLine  # here, as it takes long to import

        shown.append(ProgressLine(state))
        shown[0].start()

    timer = threading.Timer(moment, show)
    timer.daemon = True
    timer.start()
    try:
        yield state
    finally:
        timer.cancel()
        timer.join()
        for each in shown:
            each.stop()
