"""python -m cnn_convertor"""

import sys

from cnn_convertor.cli import main

sys.exit(main())
