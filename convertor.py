"""The convertor from a checkout, without installing it: python convertor.py NET.ini"""

import _signal  # type: ignore[import-not-found]  # typeshed lacks it; `signal` takes a moment to load
import os

TYPE_CHECKING = False  # as is `typing`

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def end_at_once(number: int, _: "FrameType | None") -> "NoReturn":
    """A handler of Ctrl-C, until the program's own is loaded: SIG_DFL would lose a signal that comes while it is set."""
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, end_at_once)

    import sys

    from cnn_convertor.__main__ import run

    sys.exit(run())
