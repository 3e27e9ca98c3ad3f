"""How much one command may do."""

from __future__ import annotations

from enum import Enum


class Fusion(Enum):
    """The values are those of the ini file.

    Batch norm, scales and activations go into the layers next to them in any case: that is arithmetic, not fusion.
    """

    FULL = "full"  # all that the device can: additions in a convolution's run, runs in chains and in branches
    CONSERVATIVE = "conservative"  # convolution, max pool, activation; branches of one such run to a concatenation
    NONE = "none"  # convolution, max pool, activation; an addition and its activation are two
