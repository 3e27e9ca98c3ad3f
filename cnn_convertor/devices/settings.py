"""What users choose for an accelerator, in the words of the ini file."""

from enum import Enum, IntEnum
from typing import NamedTuple

from cnn_convertor.errors import Origin


class Fusion(Enum):
    """How much one command may do. The values are those of the ini file.

    Batch norm, scales and activations are folded into the layers next to them at every level: that is arithmetic, not fusion.
    """

    NONE = "none"
    PROVEN = "proven"
    DOCUMENTED = "documented"
    FULL = "full"


class Runtime(Enum):
    """What runs a network on a board: the SDK's library, or generated code that calls the driver alone."""

    SDK = "sdk"
    GENERATED = "generated"


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


class QuantizationOptions(NamedTuple):
    """How to store the weights.

    threshold: dB of SQNR that AUTO requires of the weights of a layer; None where the outputs decide afterwards, so that every
    layer has a palette that gets smaller.
    """

    quantization: Quantization
    threshold: float | None
    overrides: tuple[Override, ...] = ()


class DeviceSettings(NamedTuple):
    """What the user chooses for one network. transposed: transpose_weight. cpu_threads: 0: as many as there are cores."""

    fusion: Fusion
    transposed: bool
    softmax: str
    quantization: Quantization
    overrides: tuple[Override, ...]
    cpu_threads: int
    runtime: Runtime = Runtime.SDK
