"""Interrupts (Ctrl-C) a piece of work at each of its lines in turn."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from cnn_convertor.files import interruption


def at_each_line(work: Callable[[], object], *modules: ModuleType, every: int = 1) -> Iterator[int]:
    """Interrupt the work at its first line, at the line after `every` lines, and so on; yields the number of the line each time.

    In the last turn the work reaches its end. The lines of context managers count, too.
    """
    watched = {module.__file__ for module in (*modules, interruption, contextlib)}
    for line in count(0, every):
        is_cut = _interrupted(work, watched, line)
        yield line
        if not is_cut:
            return


def _interrupted(work: Callable[[], object], watched: set[str | None], at: int) -> bool:
    """Whether the work has more than `at` lines. Raises AssertionError when it goes on after the interruption."""
    lines, here = 0, os.getpid()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in watched:
            return None
        if event == "line":
            lines += 1
            if lines == at + 1 and os.getpid() == here:  # not in a child, which counts lines of its own
                signal.raise_signal(signal.SIGINT)
        return trace

    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = sys.gettrace()
    try:
        with suppress(KeyboardInterrupt):
            sys.settrace(trace)
            work()
            sys.settrace(before)
            assert lines <= at, "the interruption was lost"
    finally:
        sys.settrace(before)
        signal.signal(signal.SIGINT, earlier)
    return lines > at


def children() -> set[str]:
    """The numbers of the processes that this one has started and that have not been waited for."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}
