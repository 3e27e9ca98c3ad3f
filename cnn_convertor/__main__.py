"""The program: python -m cnn_convertor, cnn-convertor and convertor.py."""

import gc
import os
import signal
import sys
from contextlib import suppress

from cnn_convertor import __version__

_OBJECTS = 100_000  # made between two searches for garbage: more than in a small conversion


def run() -> int:
    """Run the command line; returns the exit code. While its modules load, Ctrl-C ends the program at once and in silence."""
    if sys.argv[1:] == ["--version"]:
        return _print_version()
    gc.set_threshold(_OBJECTS)  # loading modules makes many objects and no garbage
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cnn_convertor.cli import main
    from cnn_convertor.cli.console import INTERRUPTED

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = INTERRUPTED
    with suppress(KeyboardInterrupt):  # once more, while the first one is reported
        code = main()
        if interruptible:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python's end, which cleans up, takes a moment
    gc.freeze()  # the end of the process frees everything, without a last search for garbage
    return code


def _print_version() -> int:
    """As click does it, without loading the command line: build systems ask often."""
    with suppress(AttributeError, OSError, ValueError):  # there is no standard output, or its reader has gone
        os.write(sys.stdout.fileno(), f"cnn-convertor {__version__}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(run())
