"""Calls of the C++ functions that run layers on the CPU, and the headers that they need."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.codegen.cpp import bool_literal, literal
from cnn_convertor.devices.cpu_functions import Argument, CpuKernelCall, kernel_call
from cnn_convertor.devices.program import ElementType, Layer, Program, StoredArray, Tensor
from cnn_convertor.ir.ops import AveragePool2d, InPieces, Op

_FOLDER = Path(__file__).parent
_NAMESPACE = "cpu_functions"  # of the headers; NAME_cpu.h puts them into one of its own: each network has its version
_ORDER = "order.h"  # NAME_cpu.h says the order of its maps itself
_THREADS, _ONE_THREAD = "threads.h", "one_thread.h"  # the second in place of the first needs no <thread>
MAXIMIZER = "Maximize"  # works on a block of the device
AVERAGE = "piece.Average"  # of a map that is taken in pieces
_TAKES_A_LIST = {"Concat"}  # functions of any number of maps
_IN_CHUNKS = {ElementType.HALF: "kHalf", ElementType.FLOAT: "kFloat"}
_FORMATS = {  # layout of a map -> how the functions call it
    "hwc: c/8! h w c%8": _IN_CHUNKS,
    "hwc: c/8! w h c%8": _IN_CHUNKS,
    "hwc: c/16 h w c%16": {ElementType.HALF: "kAtoms", ElementType.FLOAT: "kFloatAtoms"},
    "hwc: h w c": {ElementType.FLOAT: "kFloatPlain"},
}


class KernelView(NamedTuple):
    """A call, as C++. maps: the declarations of what it works on. arguments: all of them, separated by commas.

    reads_weights: whether it reads the weight buffer, too. steps: the calls for each piece, if it takes a map in pieces.
    functions: all that it needs.
    """

    function: str
    maps: tuple[str, ...]
    arguments: str
    reads_weights: bool = False
    steps: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


def kernel_view(program: Program, layer: Layer) -> KernelView:
    """The call that does the work of a layer on the CPU, or lets the device's maximizer do it."""
    assert layer.cpu is not None
    names = ["x"] if len(layer.inputs) == 1 else [f"x{position}" for position in range(len(layer.inputs))]
    maps = tuple(map(_declared, (*names, "y"), (*layer.inputs, layer.output)))
    if maximizes(layer):
        arguments = f"x, y, {layer.inputs[0].offset}, {layer.output.offset}"
        return KernelView(MAXIMIZER, maps, arguments, functions=(MAXIMIZER,))
    call = kernel_call(layer.cpu)
    if isinstance(layer.cpu, InPieces):
        of_elements = (step.op for step in layer.cpu.steps if not isinstance(step.op, AveragePool2d))
        functions = (call.function, *(kernel_call(op).function for op in of_elements))
        arguments, steps = _in_pieces(layer.cpu, names, "y")
        return KernelView(call.function, maps, arguments, False, steps, functions)
    arrays = [f"w{position}" for position in range(len(layer.constants))]
    offsets = [program.arrays_offset + array.offset for array in layer.constants]
    maps = (*map(_declared_array, arrays, offsets, layer.constants), *maps)
    arguments = _arguments(call, names, arrays, "y")
    return KernelView(call.function, maps, arguments, bool(arrays), functions=(call.function,))


class _Pieces(NamedTuple):
    """arguments: of InPieces before what it does for a piece. steps: that, a call for each."""

    arguments: str
    steps: tuple[str, ...]


def _in_pieces(op: InPieces, inputs: Sequence[str], output: str) -> _Pieces:
    """A result between two steps has the room of one that no later step reads, or another one; the last is the output."""
    places = [f"piece.Of({name})" for name in inputs]
    steps = list[str]()
    rooms = 0
    for number, (inner, reads) in enumerate(op.steps, 1):
        read = [places[place] for place in reads]
        later = {place for _, others in op.steps[number:] for place in others}
        replaced = [places[place] for place in reads if place >= len(inputs) and place not in later]
        if number > len(op.steps) - (2 if op.keeps_map else 1):
            part = "Of" if not op.keeps_map else "First" if number < len(op.steps) else "Rest"
            places.append(f"piece.{part}({output})")
        else:
            places.append([*replaced, f"piece.Room({rooms})"][0])
            rooms += not replaced
        of_all = CpuKernelCall(AVERAGE, (inner.factor or 0.0,)) if isinstance(inner, AveragePool2d) else None
        call = of_all or kernel_call(inner)
        steps.append(f"{call.function}({_arguments(call, read, (), places[-1])})")
    has_sums = bool_literal(isinstance(op.steps[-1].op, AveragePool2d))
    return _Pieces(f"{inputs[0]}, {rooms}, {has_sums}", tuple(steps))


def call_text(op: Op, inputs: Sequence[str], arrays: Sequence[str], output: str) -> str:
    """The call that does an operator's work, as C++. inputs, arrays, output: the names of maps and of constants."""
    call = kernel_call(op)
    if isinstance(op, InPieces):
        pieces = _in_pieces(op, inputs, output)
        return f"{call.function}({pieces.arguments}, [&](Piece &piece) {{ {'; '.join(pieces.steps)}; }})"
    return f"{call.function}({_arguments(call, inputs, arrays, output)})"


def _arguments(call: CpuKernelCall, inputs: Sequence[str], arrays: Sequence[str], output: str) -> str:
    maps = [f"{{{', '.join(inputs)}}}"] if call.function in _TAKES_A_LIST else inputs
    return ", ".join((*maps, *arrays, output, *map(_argument, call.arguments)))


def maximizes(layer: Layer) -> bool:
    """Whether the layer finds classes, which the device's maximizer can do."""
    return layer.cpu is not None and layer.output.type is ElementType.BYTE


def _declared(name: str, tensor: Tensor) -> str:
    kind = "Bytes" if tensor.type is ElementType.BYTE else "Tensor"
    return f"{kind} {name}(io, {tensor.offset}, {', '.join(map(str, tensor.shape))}, {format_name(tensor)})"


def _declared_array(name: str, offset: int, array: StoredArray) -> str:
    kind = "kHalf" if array.type is ElementType.HALF else "kFloatPlain"
    return f"Tensor {name}(weights, {offset}, {', '.join(map(str, array.shape))}, {kind})"


def format_name(tensor: Tensor) -> str:
    """The C++ name of how a map lies in memory."""
    if tensor.type is ElementType.BYTE:
        return "kBytes"
    if tensor.type is ElementType.HALF and tensor.is_plain and tensor.shape.is_vector:
        return "kHalf"  # a single pixel has the same place for each channel
    name = _FORMATS.get(str(tensor.layout), {}).get(tensor.type)
    assert name is not None, f"the functions know no maps in the order {tensor.layout}"
    return name


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
    """A header of this folder. system: the lines that include the system's headers, with their conditions. own: what else it
    includes. body: what its namespace holds."""

    system: tuple[str, ...]
    own: tuple[str, ...]
    body: str


class Bundle(NamedTuple):
    """What NAME_cpu.h holds of the headers: the lines that include the system's headers, and their bodies in order."""

    system: tuple[str, ...]
    bodies: tuple[str, ...]


def bundle(functions: Iterable[str], *, threads: bool = False) -> Bundle:
    """The headers of the functions, each after those that it includes. threads: whether several can share the work."""
    needed = dict.fromkeys(name for function in functions for name in _needed(_file_of(function)))
    names = (_ONE_THREAD if name == _THREADS and not threads else name for name in needed)
    headers = [_read(name) for name in names]
    system = sorted(
        {include for header in headers for include in header.system}, key=lambda include: include.split("<")[-1]
    )
    return Bundle(tuple(system), tuple(header.body for header in headers))


class Kernels(NamedTuple):
    """All functions that run layers on the CPU.

    calls: each with the struct that its template takes, or "". words: the names of constants among their arguments.
    """

    bundle: Bundle
    calls: tuple[tuple[str, str], ...]
    words: tuple[str, ...]


def all_kernels() -> Kernels:
    """What the headers define: a header has the name of its function."""
    calls: list[tuple[str, str]] = []
    for path in sorted(_FOLDER.glob("*.h")):
        body = _read(path.name).body
        for prefix, function in re.findall(r"^(inline|template <class F>\n)\s?void (\w+)\(", body, re.MULTILINE):
            if _file_of(function) == path.name:
                structs = re.findall(r"^struct (\w+) {(?:\n  .*)*operator\(\)", body, re.MULTILINE)
                calls += [(function, struct) for struct in ([""] if prefix == "inline" else structs)]
    whole = bundle((*dict(calls), MAXIMIZER), threads=True)
    enums = (values for body in whole.bodies for values in re.findall(r"^enum \w+ {([^}]*)}", body, re.MULTILINE))
    return Kernels(whole, tuple(calls), tuple(word for values in enums for word in re.findall(r"\bk[A-Z]\w*", values)))


def heads() -> Iterator[str]:
    """What each header says before its code."""
    for path in sorted(_FOLDER.glob("*.h")):
        yield path.read_text(encoding="utf-8").partition("#ifndef")[0]


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
    system = re.findall(r"^(?:#if .+\n)?#include <.+>(?:\n#endif)?$", text, re.MULTILINE)
    own = re.findall(r'^#include "(.+)"$', text, re.MULTILINE)
    return KernelHeader(tuple(system), tuple(own), body)
