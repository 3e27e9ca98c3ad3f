"""The program: python -m cnn_convertor, cnn-convertor and convertor.py."""

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from cnn_convertor import __version__
from cnn_convertor.files.interruption import end, handle_ends

_OBJECTS = 100_000  # made between two searches for garbage: more than in a small conversion


def run() -> int:
    """Run the command line; returns the exit code."""
    if sys.argv[1:] == ["--version"]:
        return _print_version()
    gc.set_threshold(_OBJECTS)  # loading modules makes many objects and no garbage
    handle_ends(_end_at_once)  # while modules load, there is nothing to clean up
    from cnn_convertor.cli import main
    from cnn_convertor.cli.console import ENDED

    code = ENDED + signal.SIGINT
    with suppress(KeyboardInterrupt):  # once more, while the first one is reported
        handle_ends(end)
        code = main()
        handle_ends(signal.SIG_IGN)  # Python's end, which cleans up, takes a moment
    gc.freeze()  # the end of the process frees everything, without a last search for garbage
    return code


def _end_at_once(number: int, _: FrameType | None) -> NoReturn:
    """A handler: one line, and the end."""
    said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    with suppress(OSError):
        os.write(2, f"{said}\n".encode())
    os._exit(128 + number)


def _print_version() -> int:
    """As click does it, without loading the command line: build systems ask often."""
    with suppress(AttributeError, OSError, ValueError):  # there is no standard output, or its reader has gone
        os.write(sys.stdout.fileno(), f"cnn-convertor {__version__}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(run())
