"""Calls of the C++ functions that run layers on the CPU, and the headers that they need."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.codegen.cpp import literal
from cnn_convertor.devices.dv700.operators import Argument, CpuKernelCall
from cnn_convertor.devices.dv700.program import ElementType, Layer, Tensor

_FOLDER = Path(__file__).parent
_NAMESPACE = "dv700_cpu"  # of the headers; NAME_cpu.h puts them into its own, since each network has its own version
_ORDER = "order.h"  # NAME_cpu.h says the order of its maps itself
_TAKES_A_LIST = {"Concat"}  # functions of any number of maps


def kernel_view(layer: Layer, call: CpuKernelCall) -> dict[str, object]:
    """The maps that a function on the CPU works on, and its call."""
    if layer.output.type is ElementType.BYTE:
        return _maximizer_view(layer)
    names = ["x"] if len(layer.inputs) == 1 else [f"x{position}" for position in range(len(layer.inputs))]
    maps = [f"{{{', '.join(names)}}}"] if call.function in _TAKES_A_LIST else names
    arguments = map(_argument, call.arguments)
    return {
        "parameter": "*",
        "tensors": [
            f"Tensor {name}(io, {tensor.offset}, {', '.join(map(str, tensor.shape))}, {format_name(tensor)})"
            for name, tensor in zip((*names, "y"), (*layer.inputs, layer.output), strict=True)
        ],
        "call": f"{call.function}({', '.join((*maps, 'y', *arguments))})",
    }


def function_of(layer: Layer, call: CpuKernelCall) -> str:
    """The function that does the work of a layer on the CPU."""
    return "Maximize" if layer.output.type is ElementType.BYTE else call.function


def _maximizer_view(layer: Layer) -> dict[str, object]:
    """The function that lets the device's maximizer find classes."""
    (x,), y = layer.inputs, layer.output
    return {
        "parameter": "*block",
        "tensors": [
            f"Tensor x(io, {x.offset}, {', '.join(map(str, x.shape))}, {format_name(x)})",
            f"Bytes y(io, {y.offset}, {', '.join(map(str, y.shape))}, kBytes)",
        ],
        "call": f"Maximize(*static_cast<Maximizer *>(block), x, y, {x.offset}, {y.offset})",
    }


def format_name(tensor: Tensor) -> str:
    """The C++ name of how a map lies in memory."""
    if tensor.type is ElementType.HALF:
        return "kHalf"
    return "kFloatPlain" if tensor.is_plain else "kFloat"


def _argument(value: Argument) -> str:
    match value:
        case CpuKernelCall(function=function, arguments=arguments):
            return f"{function}{{{', '.join(map(_argument, arguments))}}}"
        case tuple():
            return f"{{{', '.join([_argument(item) for item in value])}}}"
        case bool():
            return literal("bool", value)
        case int():
            return literal("int", value)
        case float():
            return literal("float", value)
        case str():
            return value


class KernelHeader(NamedTuple):
    """A header of this folder. system, own: what it includes. body: what its namespace holds."""

    system: tuple[str, ...]
    own: tuple[str, ...]
    body: str


class Bundle(NamedTuple):
    """What NAME_cpu.h holds of the headers: the system's headers that they include, and their bodies in order."""

    system: tuple[str, ...]
    bodies: tuple[str, ...]


def bundle(functions: Iterable[str]) -> Bundle:
    """The headers of the functions, each after those that it includes."""
    names = dict.fromkeys(name for function in functions for name in _needed(_file_of(function)))
    headers = [_read(name) for name in names]
    system = sorted({include for header in headers for include in header.system})
    return Bundle(tuple(system), tuple(header.body for header in headers))


def _file_of(function: str) -> str:
    """ArgMax -> arg_max.h"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", function).lower() + ".h"


def _needed(name: str) -> Iterator[str]:
    for include in _read(name).own:
        if include != _ORDER:
            yield from _needed(include)
    yield name


@cache
def _read(name: str) -> KernelHeader:
    text = (_FOLDER / name).read_text(encoding="utf-8")
    body = text.partition(f"namespace {_NAMESPACE} {{\n\n")[2].partition(f"\n\n}}  // namespace {_NAMESPACE}")[0]
    assert body, f"{name} has no namespace {_NAMESPACE}"
    system, own = (
        tuple(re.findall(pattern, text, re.MULTILINE)) for pattern in (r"^#include <(.+)>$", r'^#include "(.+)"$')
    )
    return KernelHeader(system, own, body)
