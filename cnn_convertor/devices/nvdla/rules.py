"""What of a network neither NVDLA nor the CPU can compute."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

from cnn_convertor.devices.cpu_functions import FUNCTIONS
from cnn_convertor.devices.nvdla.chains import Chain
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.convolving import ConvolutionSize, MisfitError, bands_of, misfits
from cnn_convertor.devices.words import describe
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.layouts.nvdla.precision import Precision

_LARGEST: Final = 8192  # rows, columns and channels of a map
_HINT: Final = "change the layer in the model, or end the network before it"


def broken_rules(
    graph: Graph, steps: Sequence[Chain], configuration: Configuration, guessed: Container[Origin | None]
) -> tuple[Problem, ...]:
    """Every broken rule, in network order. guessed: layers whose settings are known, but not the sizes of their maps."""
    problems: list[Problem] = []
    for step in steps:
        for node in step.nodes:
            if node.where not in guessed:
                problems += _problems(graph, node, configuration)
    return tuple(problems)


def _problems(graph: Graph, node: Node, configuration: Configuration) -> Iterator[Problem]:
    for reason in _reasons(graph, node, configuration):
        yield Problem("DV930", f"{configuration.device} cannot compute it: {reason}", node.where, _HINT)


def _reasons(graph: Graph, node: Node, configuration: Configuration) -> Iterator[str]:
    match node.op:
        case ops.OnCpu(op=op):
            if isinstance(op, ops.Conv2d | ops.ConvTranspose2d):
                yield from _why_no_convolution(graph, node, op, configuration)
            elif type(op) not in FUNCTIONS:
                yield f"the CPU has no function for a {describe(op)}"
        case ops.Custom():
            yield "bare-metal sources have no custom layers yet"
        case ops.Conv2d(window=window, weight=weight):
            try:
                bands_of(
                    ConvolutionSize(graph.shape(node.inputs[0]), weight.shape[0], window), configuration, Precision.FP16
                )
            except MisfitError as error:
                yield str(error)
    if not isinstance(node.op, ops.OnCpu | ops.Custom) and max(graph.shape(node.name)) > _LARGEST:
        yield f"a map of {graph.shape(node.name)} has a side of more than {_LARGEST}"


def _why_no_convolution(
    graph: Graph, node: Node, op: ops.Conv2d | ops.ConvTranspose2d, configuration: Configuration
) -> Iterator[str]:
    size = ConvolutionSize(graph.shape(node.inputs[0]), op.weight.shape[0], op.window)
    yield from misfits(size, configuration, Precision.FP16) or ["no rewrite makes it a convolution of the device"]
