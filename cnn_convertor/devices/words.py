"""Operators in words, for messages, reports and pages."""

import re
from collections.abc import Mapping

from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import ONE, Op

WORDS: Mapping[type, str] = {
    ops.Input: "input",
    ops.Identity: "identity",
    ops.Conv2d: "convolution",
    ops.ConvTranspose2d: "deconvolution",
    ops.Dense: "fully connected",
    ops.Add: "sum",
    ops.MaxPool2d: "max pool",
    ops.AveragePool2d: "average pool",
    ops.Upsample: "upsampling",
    ops.BatchNorm: "batch norm",
    ops.Scale: "scale",
    ops.Activation: "activation",
    ops.PackedFactors: "packed factors",
    ops.ScaledBy: "scale by packed factors",
    ops.PackedMatrices: "packed matrices",
    ops.TimesPacked: "product with a packed matrix",
    ops.Pad: "pad",
    ops.Concat: "concatenation",
    ops.Reshape: "reshape",
    ops.ChannelSlice: "channel slice",
    ops.Softmax: "softmax",
    ops.ArraySoftmax: "softmax",
    ops.Unary: "function",
    ops.Binary: "element-wise arithmetic",
    ops.MatMul: "matrix product",
    ops.MaxUnpool: "max unpool",
    ops.LocalResponseNorm: "local response norm",
    ops.MeanVarianceNorm: "mean-variance normalization",
    ops.L2Normalize: "L2 normalization",
    ops.Reduce: "reduce",
    ops.ArgMax: "arg max",
    ops.Resize: "resize",
    ops.GridSample: "grid sample",
    ops.Crop: "crop",
    ops.Gather: "gather",
    ops.TransposeReshape: "transpose",
    ops.SpaceToDepth: "space to depth",
    ops.PriorBox: "prior box",
    ops.DetectionOutput: "detection output",
    ops.DetectionInBoxes: "detection output",
    ops.InPieces: "functions in pieces",
    ops.OnCpu: "function",
    ops.Custom: "custom",
}


def describe(op: Op) -> str:
    """What an operator does, with the settings that matter for who can do it."""
    match op:
        case ops.OnCpu(op=inner):
            return describe(inner)
        case ops.InPieces(steps=steps):
            return ", ".join(describe(step.op) for step in steps)
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
    if kind in WORDS:
        return WORDS[kind]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
