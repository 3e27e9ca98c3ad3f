"""The program: python -m cnn_convertor, cnn-convertor and convertor.py."""

import signal
import sys


def run() -> int:
    """Run the command line; returns the exit code. While its modules load, Ctrl-C ends the program at once and in silence."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cnn_convertor.cli import main

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return main()


if __name__ == "__main__":
    sys.exit(run())
