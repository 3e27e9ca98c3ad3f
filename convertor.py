"""The convertor from a checkout, without installing it: python convertor.py NET.ini"""

import sys

from cnn_convertor.__main__ import run

if __name__ == "__main__":
    sys.exit(run())
