"""Signals that end a program, and their delay between the creation of something and the start of its cleanup."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple

# Ctrl-C; `kill`, or a service that stops; a closed terminal, of which Windows does not tell.
ENDS: Final = tuple(each for each in signal.Signals if each.name in {"SIGINT", "SIGTERM", "SIGHUP"})


class Ended(KeyboardInterrupt):  # an order, not an error
    """The program ends like by Ctrl-C. signal: what ended it."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


_received: Final[list[int]] = []  # the signals that `end` handled


def end(number: int, _: FrameType | None) -> None:
    """A handler: ends the program like Ctrl-C does."""
    _received.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)


def require_no_end() -> None:
    """Raise again what `end` raised: Python's imports and destructors can lose it, or make another error of it."""
    if _received:
        end(_received[-1], None)


def say_what_is_lost(lost: sys.UnraisableHookArgs) -> None:
    """Python's hook for errors in destructors: silent about what `end` raised, since `require_no_end` raises it again."""
    if not (_received and isinstance(lost.exc_value, KeyboardInterrupt)):
        sys.__unraisablehook__(lost)


def handle_ends(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> None:
    """Let a handler have the signals that end this program. Those that it was started without, as by `nohup`, stay ignored."""
    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def ignore_ends() -> None:
    """From here on, let no signal end this program. Where a system can, by a mask: SIG_IGN prints a traceback in a race."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    else:
        handle_ends(signal.SIG_IGN)


class uninterrupted:  # noqa: N801 (reads as a statement)
    """A block in which an interruption waits for the end, or for a block of `interruptible` within.

    An interruption at any instruction leaves the handlers as they were, or as good: each step may be repeated, or left out at
    the end.
    """

    def __enter__(self) -> uninterrupted:
        is_main = threading.current_thread() is threading.main_thread()  # Python runs handlers in no other thread
        handlers = {number: signal.getsignal(number) for number in ENDS} if is_main else {}
        self._handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
        self._noted: int | None = None
        self._holds = False
        self.hold()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def interruptible(self) -> _Interruptible:
        """A block within this one that an interruption may cut off."""
        return _Interruptible(self)

    def hold(self) -> None:
        """From here on, an interruption waits."""
        self._holds = True
        for number in self._handlers:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._holds:
            self._noted = number
        else:  # it came before the release got to this signal
            self._handlers[signal.Signals(number)](number, frame)

    def release(self) -> None:
        """Raises what the handler raises, KeyboardInterrupt as a rule, when an interruption waited."""
        self._holds = False
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._noted is not None:
            number = signal.Signals(self._noted)
            self._noted = None
            self._handlers[number](number, None)


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
