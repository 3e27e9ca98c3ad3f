"""Delays an interruption (Ctrl-C) between the creation of something and the start of its cleanup."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import NamedTuple


class uninterrupted:  # noqa: N801 (reads as a statement)
    """A block in which an interruption waits for the end, or for a block of `interruptible` within.

    An interruption at any instruction leaves the handler of SIGINT as it was: each step may be repeated, or left out at the end.
    """

    def __enter__(self) -> uninterrupted:
        earlier = signal.getsignal(signal.SIGINT)
        is_main = threading.current_thread() is threading.main_thread()  # Python runs handlers in no other thread
        self._handler = earlier if is_main and callable(earlier) else None
        self._is_noted = False
        self.hold()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def interruptible(self) -> _Interruptible:
        """A block within this one that an interruption may cut off."""
        return _Interruptible(self)

    def hold(self) -> None:
        """From here on, an interruption waits."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._note)

    def _note(self, _: int, __: FrameType | None) -> None:
        self._is_noted = True

    def release(self) -> None:
        """Raises what the handler raises, KeyboardInterrupt as a rule, when an interruption waited."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self._is_noted:
                self._is_noted = False
                self._handler(signal.SIGINT, None)


class _Interruptible(NamedTuple):
    block: uninterrupted

    def __enter__(self) -> None:
        try:
            self.block.release()
        except BaseException:
            self.block.hold()  # while the block cleans up, a second interruption waits
            raise

    def __exit__(self, *_: object) -> None:
        self.block.hold()
