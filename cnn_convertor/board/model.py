"""What a command costs by the model, to be held against measurements."""

from __future__ import annotations

from cnn_convertor.devices.dv700.program import Run

OUTPUTS_A_CYCLE = 8  # for each, one tile of 72 products


def cycles(run: Run) -> int:
    """Cycles of arithmetic. An assumption: a tile for eight outputs in each cycle, which takes 576 multipliers."""
    if run.convolution is None:
        return 0
    packed, output = run.convolution.weights.packed, run.convolution.output
    blocks = -(-packed.kernels // OUTPUTS_A_CYCLE)
    taps = packed.kernel.height * packed.kernel.width if packed.dilated else 1
    return output.height * output.width * blocks * packed.tiles * taps
