"""Options for the storage of weights."""

from enum import IntEnum
from typing import NamedTuple

from cnn_convertor.errors import Origin


class Quantization(IntEnum):
    """FP16 weights everywhere, a palette for every layer that can have one, or for each layer what its weights allow."""

    FP16 = 0
    PALETTE = 1
    AUTO = 2


class Override(NamedTuple):
    """How the weights of one layer are stored, against the rule for the others. where: the line of the ini file."""

    layer: str
    palette: bool
    where: Origin
