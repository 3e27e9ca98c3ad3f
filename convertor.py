"""The convertor from a checkout, without installing it: python convertor.py NET.ini"""

import sys

from cnn_convertor.cli import main

if __name__ == "__main__":
    sys.exit(main())
