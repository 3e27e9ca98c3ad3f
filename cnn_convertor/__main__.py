"""The program: python -m cnn_convertor, cnn-convertor and convertor.py."""

import _signal  # type: ignore[import-not-found]  # typeshed lacks it; `signal` takes a moment to load
import gc
import os
import sys

from cnn_convertor import __version__

TYPE_CHECKING = False  # so does `typing`

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

_OBJECTS = 100_000  # made between two searches for garbage: more than in a small conversion
_SAID = {
    _signal.SIGINT: b"interrupted\n",
    _signal.SIGTERM: b"ended by SIGTERM\n",
    getattr(_signal, "SIGHUP", None): b"ended by SIGHUP\n",  # Windows has none
}


def run() -> int:
    """Run the command line; returns the exit code."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end_at_once)  # SIG_DFL would lose a signal that comes while it is set
    if sys.argv[1:] == ["--version"]:
        return _print_version()
    from contextlib import suppress

    from cnn_convertor.files.interruption import end, handle_ends, ignore_ends, say_what_is_lost

    gc.set_threshold(_OBJECTS)  # loading modules makes many objects and no garbage
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy's threads, which it starts when it loads, wait more than they work
    handle_ends(_end_at_once)  # while modules load, there is nothing to clean up
    from cnn_convertor.cli import main
    from cnn_convertor.cli.console import ENDED

    code = ENDED + int(_signal.SIGINT)
    with suppress(KeyboardInterrupt):  # once more, while the first one is reported
        sys.unraisablehook = say_what_is_lost
        handle_ends(end)
        code = main()
        ignore_ends()  # Python's end, which cleans up, takes a moment
    gc.freeze()  # the end of the process frees everything, without a last search for garbage
    return code


def _end_at_once(number: int, _: "FrameType | None") -> "NoReturn":
    """A handler: one line, and the end. It imports nothing, since it may run within an import."""
    try:
        os.write(2, _SAID[number])
    finally:
        os._exit(128 + number)


def _print_version() -> int:
    """As click does it, without loading the command line: build systems ask often."""
    from contextlib import suppress

    with suppress(AttributeError, OSError, ValueError):  # there is no standard output, or its reader has gone
        os.write(sys.stdout.fileno(), f"cnn-convertor {__version__}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(run())
