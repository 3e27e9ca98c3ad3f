"""Live output on a terminal: a progress bar, or a table of the networks being converted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cnn_convertor.escaping import visible
from cnn_convertor.progress import State

_MOST = 16  # rows of the table
_BAR = 16  # columns


class ProgressLine(Live):
    """One line: time, step, share, bytes a second, layer."""

    def __init__(self, state: State) -> None:
        self._state = state
        super().__init__(
            get_renderable=self._drawn, console=Console(stderr=True), transient=True, redirect_stdout=False
        )

    def _drawn(self) -> Table:
        state, now = self._state, time.monotonic()
        known = state.total > 1
        minutes, seconds = divmod(int(now - state.started), 60)
        cells = [f"{minutes}:{seconds:02}", f"{state.title}: {state.step}"]
        if known:
            cells.append(f"{state.done / state.total:.0%}")
        if (rate := state.rate) is not None:
            cells.append(f"{rate / 1e6:,.0f} MB/s")
        bar = ProgressBar(state.total, state.done, width=_BAR, pulse=not known, animation_time=now)
        row = Table.grid(padding=(0, 1))
        row.add_column(no_wrap=True)
        row.add_column(no_wrap=True, overflow="ellipsis")
        row.add_row(bar, Text(visible("  ".join([*cells, state.layer]))))
        return row


class LiveTable:
    """What runs, since when, and how many are done. It is redrawn four times a second, and leaves no trace."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._running: dict[int, float] = {}
        self._done = self._failed = 0
        screen = Console(stderr=True)
        self._live = Live(get_renderable=self._drawn, console=screen, transient=True, redirect_stdout=False)

    def start(self, number: int) -> None:
        self._running[number] = time.monotonic()

    def end(self, number: int, *, failed: bool) -> None:
        del self._running[number]
        self._done += 1
        self._failed += failed

    @contextmanager
    def shown(self) -> Iterator[LiveTable]:
        with self._live:
            yield self

    @contextmanager
    def paused(self, _number: int, _how: str) -> Iterator[None]:
        """Without the table, so that the result of a network can be printed."""
        self._live.stop()
        yield
        self._live.start()

    def _drawn(self) -> Group:
        table = Table(box=None, pad_edge=False, show_header=False)
        now = time.monotonic()
        for number, since in [*self._running.items()][:_MOST]:
            table.add_row(Text(self._names[number]), f"{now - since:.0f} s")
        failed = f", {self._failed} failed" if self._failed else ""
        return Group(table, Text(f"{self._done} of {len(self._names)} networks done{failed}"))
