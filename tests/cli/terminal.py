"""A terminal for tests."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress


class Screen:
    """A terminal. text: what was drawn on it."""

    def __init__(self) -> None:
        self.text = ""


@contextmanager
def terminal(columns: int = 80, *, stream: str = "stderr") -> Iterator[Screen]:
    """Put a terminal in the place of a stream: stdout or stderr."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    seen: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while piece := os.read(main, 1 << 16):
                seen.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    screen = Screen()
    try:
        redirect = {"stdout": redirect_stdout, "stderr": redirect_stderr}[stream]
        with os.fdopen(other, "w", encoding="utf-8") as opened, redirect(opened):
            yield screen
    finally:
        reader.join()
        os.close(main)
        screen.text = b"".join(seen).decode()
