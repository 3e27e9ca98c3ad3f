"""The convertor from a checkout, without installing it: python convertor.py NET.ini"""

import _signal  # type: ignore[import-not-found]  # typeshed lacks it; `signal` takes a moment to load

if __name__ == "__main__":
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # the end without a traceback, until the program handles Ctrl-C

    import sys

    from cnn_convertor.__main__ import run

    sys.exit(run())
