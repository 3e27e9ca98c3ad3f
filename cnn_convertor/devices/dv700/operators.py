"""Which executor runs each operator: the device, the SDK or a C++ function."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from cnn_convertor.devices.program import LayerType
from cnn_convertor.ir import ops


class Executor(Enum):
    """Who does the work of an operator, as docs/layers.md has it."""

    DEVICE = "device"
    WITHIN = "within"
    EITHER = "device/CPU"
    CPU = "CPU"
    CHEAPER = "CPU/device"
    IN_PLACE = "in place"
    NOTHING = "nothing"
    APPLICATION = "application"
    FIRMWARE = "firmware"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Executor.DEVICE: "on the device, rewritten if the device has no such form",
    Executor.WITHIN: "on the device, in the command of a neighbor; in a separate command if no neighbor can take it",
    Executor.EITHER: "on the device, rewritten if necessary; on the CPU if no rewrite is exact",
    Executor.CPU: "on the CPU: in the runtime, or in generated C++",
    Executor.CHEAPER: "on the CPU in generated C++, or on the device if it has a form for this layer that takes less time",
    Executor.IN_PLACE: "nothing to compute if the sizes allow it; otherwise on the CPU, or on the device in less time",
    Executor.NOTHING: "nothing to compute",
    Executor.APPLICATION: "the application writes it",
    Executor.FIRMWARE: "the author of the firmware writes it",
}


class Operator(NamedTuple):
    """layer: the type of the operator's layer in a legal graph; None if it is rewritten, or left to the CPU, before."""

    executor: Executor
    layer: LayerType | None = None


OPERATORS: Mapping[type, Operator] = {
    ops.Input: Operator(Executor.APPLICATION, LayerType.INPUT),
    ops.Identity: Operator(Executor.NOTHING),
    ops.Conv2d: Operator(Executor.DEVICE, LayerType.CONV),
    ops.ConvTranspose2d: Operator(Executor.DEVICE, LayerType.CONV),
    ops.Dense: Operator(Executor.DEVICE, LayerType.CONV),
    ops.Add: Operator(Executor.DEVICE, LayerType.CONV),
    ops.MaxPool2d: Operator(Executor.EITHER, LayerType.CONV),
    ops.AveragePool2d: Operator(Executor.EITHER, LayerType.CONV),
    ops.Upsample: Operator(Executor.EITHER, LayerType.CONV),
    ops.BatchNorm: Operator(Executor.WITHIN),
    ops.Scale: Operator(Executor.WITHIN),
    ops.Activation: Operator(Executor.WITHIN),
    ops.PackedFactors: Operator(Executor.CPU),
    ops.ScaledBy: Operator(Executor.DEVICE, LayerType.CONV),
    ops.PackedMatrices: Operator(Executor.CPU),
    ops.TimesPacked: Operator(Executor.DEVICE, LayerType.CONV),
    ops.Pad: Operator(Executor.WITHIN),
    ops.Concat: Operator(Executor.IN_PLACE, LayerType.CONCAT),
    ops.Reshape: Operator(Executor.IN_PLACE, LayerType.FLATTEN),
    ops.ChannelSlice: Operator(Executor.IN_PLACE),
    ops.Softmax: Operator(Executor.CPU),
    ops.ArraySoftmax: Operator(Executor.CPU, LayerType.SOFTMAX),
    ops.Unary: Operator(Executor.CHEAPER),
    ops.Binary: Operator(Executor.CHEAPER),
    ops.MatMul: Operator(Executor.CPU),
    ops.MaxUnpool: Operator(Executor.CPU),
    ops.LocalResponseNorm: Operator(Executor.CPU),
    ops.MeanVarianceNorm: Operator(Executor.CPU),
    ops.L2Normalize: Operator(Executor.CPU),
    ops.Reduce: Operator(Executor.CHEAPER),
    ops.ArgMax: Operator(Executor.CPU),
    ops.Resize: Operator(Executor.CPU),
    ops.GridSample: Operator(Executor.CPU),
    ops.Crop: Operator(Executor.CHEAPER),
    ops.Gather: Operator(Executor.CHEAPER),
    ops.TransposeReshape: Operator(Executor.CHEAPER),
    ops.SpaceToDepth: Operator(Executor.CHEAPER),
    ops.PriorBox: Operator(Executor.CPU),
    ops.DetectionOutput: Operator(Executor.CPU),
    ops.DetectionInBoxes: Operator(Executor.CPU),
    ops.InPieces: Operator(Executor.CPU),
    ops.OnCpu: Operator(Executor.CPU, LayerType.CUSTOM),
    ops.Custom: Operator(Executor.FIRMWARE, LayerType.CUSTOM),
}
