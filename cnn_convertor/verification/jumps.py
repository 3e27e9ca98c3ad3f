"""Finds the values that rounding moves across a jump of a function, such as Floor, and so changes by any amount."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.emulation.feature_maps import Maps, Outputs
from cnn_convertor.ir.ops import (
    Activation,
    Add,
    Binary,
    BoundedRelu,
    ElementFunction,
    Floor,
    Identity,
    Reshape,
    Round,
    Scale,
    Threshold,
    TransposeReshape,
    Unary,
)
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.output_parts import before, moved

_BY_ELEMENTS = Activation | Add | Binary | Identity | Scale | Unary
_FARTHEST: Final = 2.0  # times the largest difference between two right runs: so near a jump, either side is right


def step_of(function: ElementFunction, values: Maps) -> NDArray[Any] | None:
    """On which step of a function values are; None for a function without jumps."""
    match function:
        case Floor():
            return np.floor(values)
        case Round():
            return np.rint(values)
        case Threshold(threshold=threshold):
            return values > threshold
        case BoundedRelu(threshold=threshold) if threshold:
            return values > threshold
        case _:
            return None


def has_jumps(function: ElementFunction) -> bool:
    return step_of(function, np.zeros(1, np.float32)) is not None


def at_jumps(sides: BothSides, other: Outputs, position: int) -> NDArray[np.bool_]:
    """Which values of an output, (N, H, W, C), come from numbers that are nearer to a jump than rounding takes them.

    other: another right run. Only jumps count from which the output is computed element by element.
    """
    graph, program = sides.graph, sides.program
    end, passed = before(graph, graph.outputs[position], Identity | Reshape | TransposeReshape)
    shape = graph.shape(end)
    marked = np.zeros((len(other.outputs[position]), *shape), bool)
    waiting = [end]
    visited = set[str]()
    layers = {layer.name: index for index, layer in enumerate(program.layers)}

    while waiting:
        node = graph[waiting.pop()]
        if node.name in visited or not isinstance(node.op, _BY_ELEMENTS) or graph.shape(node.name) != shape:
            continue
        visited.add(node.name)
        waiting += node.inputs
        read = layers.get(node.inputs[0])
        if isinstance(node.op, Unary) and has_jumps(node.op.function) and read is not None:
            mine, values = (run.device_maps(read, shape) for run in (sides, sides._replace(device=other)))
            margin = _FARTHEST * float(np.abs(mine - values[: len(mine)]).max(initial=0))
            below, above = (step_of(node.op.function, values + sign * margin) for sign in (-1, 1))
            marked |= below != above
    return np.stack([moved(each, passed) for each in marked])
