"""How long the CPU takes for an operator, before the program has a layer for it."""

from __future__ import annotations

from collections.abc import Sequence

from cnn_convertor.devices.cpu_functions import arrays_at
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.runs import Layer
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.program import PLAIN, ElementType, LayerType, Tensor
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Op, Shape


def usec_on_cpu(op: Op, inputs: Sequence[Shape], output: Shape, device: Device) -> Interval:
    """Microseconds of an operator that has a generated function, with maps in FP16."""
    maps = [Tensor(shape, ElementType.HALF, 0, PLAIN) for shape in (*inputs, output)]
    constants, _ = arrays_at(ops.OnCpu(op), 0, None)
    layer = Layer("", LayerType.CUSTOM, tuple(maps[:-1]), maps[-1], (), cpu=op, constants=constants)
    usec = device.cpu_usec(layer)
    assert usec is not None, "the operator has a generated function"
    return usec
