"""The operators: who does the work of each, in which layer of the SDK or by which function, and what it is called."""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from cnn_convertor.devices.dv700 import kernel_calls as kernels
from cnn_convertor.devices.dv700.kernel_calls import CpuKernelCall
from cnn_convertor.devices.dv700.program import LayerType
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import ONE, Op


class Executor(Enum):
    """Who does the work of an operator, as docs/layers.md has it."""

    DEVICE = "device"
    WITHIN = "within"
    EITHER = "device/CPU"
    CPU = "CPU"
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
    Executor.IN_PLACE: "nothing to compute if the sizes allow it; otherwise on the CPU",
    Executor.NOTHING: "nothing to compute",
    Executor.APPLICATION: "the application writes it",
    Executor.FIRMWARE: "the author of the firmware writes it",
}


class Operator(NamedTuple):
    """layer: the type of the operator's layer in a legal graph; None if it is rewritten, or left to the CPU, before.

    kernel: the call that does it on the CPU; None if a rewrite makes other operators of it.
    """

    executor: Executor
    words: str
    layer: LayerType | None = None
    kernel: Callable[[Any], CpuKernelCall] | None = None


OPERATORS: Mapping[type, Operator] = {
    ops.Input: Operator(Executor.APPLICATION, "input", LayerType.INPUT),
    ops.Identity: Operator(Executor.NOTHING, "identity"),
    ops.Conv2d: Operator(Executor.DEVICE, "convolution", LayerType.CONV),
    ops.ConvTranspose2d: Operator(Executor.DEVICE, "deconvolution", LayerType.CONV),
    ops.Dense: Operator(Executor.DEVICE, "fully connected", LayerType.CONV),
    ops.Add: Operator(Executor.DEVICE, "sum", LayerType.CONV),
    ops.MaxPool2d: Operator(Executor.EITHER, "max pool", LayerType.CONV, kernels.max_pool),
    ops.AveragePool2d: Operator(Executor.EITHER, "average pool", LayerType.CONV, kernels.average_pool),
    ops.Upsample: Operator(Executor.EITHER, "upsampling", LayerType.CONV),
    ops.BatchNorm: Operator(Executor.WITHIN, "batch norm"),
    ops.Scale: Operator(Executor.WITHIN, "scale"),
    ops.Activation: Operator(Executor.WITHIN, "activation"),
    ops.Pad: Operator(Executor.WITHIN, "pad"),
    ops.Concat: Operator(Executor.IN_PLACE, "concatenation", LayerType.CONCAT, kernels.concat),
    ops.Reshape: Operator(Executor.IN_PLACE, "reshape", LayerType.FLATTEN),
    ops.ChannelSlice: Operator(Executor.IN_PLACE, "channel slice"),
    ops.Softmax: Operator(Executor.CPU, "softmax", kernel=kernels.softmax),
    ops.ArraySoftmax: Operator(Executor.CPU, "softmax", LayerType.SOFTMAX),
    ops.Unary: Operator(Executor.CPU, "function", kernel=kernels.unary),
    ops.Binary: Operator(Executor.CPU, "element-wise arithmetic", kernel=kernels.binary),
    ops.MaxUnpool: Operator(Executor.CPU, "max unpool", kernel=kernels.max_unpool),
    ops.LocalResponseNorm: Operator(Executor.CPU, "local response norm", kernel=kernels.local_response_norm),
    ops.MeanVarianceNorm: Operator(Executor.CPU, "mean-variance normalization", kernel=kernels.mean_variance_norm),
    ops.L2Normalize: Operator(Executor.CPU, "L2 normalization", kernel=kernels.l2_normalize),
    ops.Reduce: Operator(Executor.CPU, "reduce", kernel=kernels.reduce),
    ops.ArgMax: Operator(Executor.CPU, "arg max", kernel=kernels.arg_max),
    ops.Resize: Operator(Executor.CPU, "resize", kernel=kernels.resize),
    ops.Crop: Operator(Executor.CPU, "crop", kernel=kernels.crop),
    ops.TransposeReshape: Operator(Executor.CPU, "transpose", kernel=kernels.transpose_reshape),
    ops.SpaceToDepth: Operator(Executor.CPU, "space to depth", kernel=kernels.space_to_depth),
    ops.PriorBox: Operator(Executor.CPU, "prior box", kernel=kernels.prior_box),
    ops.DetectionOutput: Operator(Executor.CPU, "detection output", kernel=kernels.detection_output),
    ops.OnCpu: Operator(Executor.CPU, "function", LayerType.CUSTOM),
    ops.Custom: Operator(Executor.FIRMWARE, "custom", LayerType.CUSTOM),
}


def kernel_call(op: Op) -> CpuKernelCall:
    """The call that does the operator's work on the CPU."""
    kernel = OPERATORS[type(op)].kernel
    assert kernel is not None, f"{type(op).__name__} has no function for the CPU"
    return kernel(op)


def describe(op: Op) -> str:
    """What an operator does, with the settings that matter for who can do it."""
    match op:
        case ops.OnCpu(op=inner):
            return describe(inner)
        case ops.Unary(function=function) | ops.Activation(function=function):
            return words_of(type(function))
        case ops.Binary(operation=operation):
            return operation.value
        case ops.Conv2d() | ops.ConvTranspose2d():
            depthwise = "depthwise " * op.is_depthwise
            groups = f" in {op.groups} groups" * (op.groups > 1 and not op.is_depthwise)
            dilation = f" dilated by {op.window.dilation}" * (op.window.dilation != ONE)
            return f"{depthwise}{words_of(type(op))} {op.window.kernel}{groups}{dilation}"
        case ops.MaxPool2d() | ops.AveragePool2d():
            return f"{words_of(type(op))} {op.window.kernel}"
        case ops.Upsample(factor=factor):
            return f"{words_of(type(op))} by {factor}"
        case _:
            return words_of(type(op))


def words_of(kind: type) -> str:
    """An operator's words; those of a function come from its name: HardSwish is "hard swish"."""
    if kind in OPERATORS:
        return OPERATORS[kind].words
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
