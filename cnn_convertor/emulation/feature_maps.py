"""Maps of N samples in (N, H, W, C), and as they lie in the memory of the emulated device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.half import to_half
from cnn_convertor.devices.program import PLAIN, ByteInput, ElementType, Layer, LayerType, Program
from cnn_convertor.errors import ConvertorError, Origin, UsageError
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.layout import Layout, Term
from cnn_convertor.layouts.packing import pack, unpack

Maps: TypeAlias = NDArray[np.float32]
Values = TypeVar("Values", NDArray[np.float32], NDArray[np.float64])
T = TypeVar("T")
_AGAIN: Final = "convert the network again"


def count_of(inputs: Mapping[str, Maps]) -> int:
    """The number of samples N. inputs: input name -> (N, H, W, C)."""
    return len(next(iter(inputs.values())))


class Traffic(NamedTuple):
    """What the convolution block counts: commands, and bytes of maps, element-wise operands and weights."""

    commands: int
    input: int
    operand: int
    output: int
    weights: int


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """The results of N samples.

    outputs: for each output of the program, (N, H, W, C). layers: for each layer of the program, (N, size) in memory order.
    traffic: of one sample, for each layer. Both are empty unless requested.
    """

    outputs: tuple[Maps, ...]
    layers: tuple[Maps, ...] = ()
    traffic: tuple[Traffic, ...] = ()


# --- memory ------------------------------------------------------------------------------------------------------------


def to_memory(values: Values, layout: Layout) -> Values:
    """Maps (N, H, W, C) as they lie in memory: (N, size)."""
    memory: Values = pack(values, _of_samples(layout, values.dtype)).view(values.dtype).reshape(len(values), -1)
    return memory


def from_memory(memory: Values, shape: Shape, layout: Layout) -> Values:
    """Maps (N, *shape) of what lies in memory, (N, size)."""
    values: Values = unpack(np.ascontiguousarray(memory), _of_samples(layout, memory.dtype), (len(memory), *shape))
    return values


@cache
def _of_samples(layout: Layout, element: np.dtype[Any]) -> Layout:
    """The layout of several maps, one after the other."""
    return Layout("n" + layout.axes, (Term("n"), *layout.terms), element)


def layout_of(layer: Layer) -> Layout:
    """How a layer writes its map. What is flattened lies in the order H, W, C."""
    return PLAIN if layer.type is LayerType.FLATTEN else layer.output.layout


def as_maps(memory: Values, layer: Layer, shape: Shape) -> Values:
    """A layer's memory, (N, size), as maps (N, *shape), where that shape has the memory order of the layer's own."""
    return from_memory(memory, shape, layout_of(layer))


def input_bytes(program: Program, inputs: Mapping[str, Maps], *, unrounded: bool = False) -> bytes:
    """All samples, each with all inputs one after the other, in the type that the program has for them.

    unrounded: in FP32 in place of FP16.

    Raises UsageError for inputs that do not fit.
    """
    return packed_inputs(program, written_inputs(program, inputs), unrounded=unrounded)


def packed_inputs(program: Program, written: Sequence[Maps], *, unrounded: bool = False) -> bytes:
    """As `input_bytes`. written: the inputs, from `written_inputs`."""
    tensors = [tensor for _, tensor in program.inputs]
    parts = [to_memory(values, tensor.layout) for values, tensor in zip(written, tensors, strict=True)]
    return _stored(np.concatenate(parts, axis=1), tensors[0].type, unrounded=unrounded).tobytes()


def written_inputs(program: Program, inputs: Mapping[str, Maps]) -> list[Maps]:
    """The inputs (N, H, W, C) as the application writes them: as bytes where the device makes numbers of these.

    Raises UsageError for inputs that do not fit.
    """
    names = [name for name, _ in program.inputs]
    if set(inputs) != set(names):
        problem = f"the network's inputs are {_listed(names)}, but {_listed(inputs) or 'none'} were given"
        raise UsageError.of("DV705", problem)
    parts = []
    for name, tensor in program.inputs:
        values = inputs[name]
        if values.shape[1:] != tuple(tensor.shape):
            shape = "x".join(map(str, values.shape[1:]))
            problem = f'the input "{name}" is {tensor.shape} (height x width x channels), but {shape} was given'
            raise UsageError.of("DV705", problem)
        if program.byte_input is not None:
            written = values[..., ::-1] if program.byte_input.swapped else values
            values = _bytes_of(written, program.byte_input, name)
        parts.append(values)
    if len({len(part) for part in parts}) != 1:
        raise UsageError.of("DV705", f"the inputs have {_listed(str(len(part)) for part in parts)} samples")
    return parts


def _bytes_of(values: Maps, byte_input: ByteInput, name: str) -> Maps:
    """The bytes that the device's table turns into the values, (N, H, W, C). Raises UsageError when there are none."""
    halves = to_half(values).view(np.uint16)
    levels = np.empty(values.shape, np.float32)
    for channel, table in enumerate(np.array(byte_input.table, np.uint16).T):
        order = np.argsort(table, kind="stable")
        places = order[np.searchsorted(table[order], halves[..., channel]).clip(0, 255)]
        if not np.array_equal(table[places], halves[..., channel]):
            hint = "give images, or arrays of (pixel - mean) * scale with whole pixels"
            raise UsageError.of("DV725", f'the input "{name}" holds values that no byte becomes', hint=hint)
        levels[..., channel] = places
    return levels


def given_layers(program: Program, maps: Mapping[int, Maps], *, unrounded: bool = False) -> bytes:
    """Outputs of some layers, which take the place of their own: index -> (N, size), in memory order.

    unrounded: in FP32 in place of FP16.
    """
    known = bytes(index in maps for index in program.order)
    layers = ((index, program.layers[index].output.type) for index in program.order if index in maps)
    rows = [_stored(maps[index], kind, unrounded=unrounded) for index, kind in layers]
    return known + (np.concatenate(rows, axis=1).tobytes() if rows else b"")


def given_memory(program: Program, memory: bytes) -> bytes:
    """The outputs of all layers in the generated order, as they lie in memory, sample after sample."""
    return bytes([1]) * len(program.layers) + memory


def _stored(values: Maps, kind: ElementType, *, unrounded: bool) -> NDArray[np.uint8]:
    match kind:
        case ElementType.BYTE:
            return values.astype(np.uint8)
        case ElementType.HALF if not unrounded:
            return np.ascontiguousarray(to_half(values), "<f2").view(np.uint8)
        case ElementType.HALF | ElementType.FLOAT:
            return np.ascontiguousarray(values, "<f4").view(np.uint8)


def require_outputs(program: Program, names: Sequence[str], outputs: Sequence[Maps], described: Maps) -> None:
    """Raises ConvertorError unless an application reads the outputs by the header. described: what it reads, (N, size of all of them)."""
    parts = _apart(described, [values[0].size for values in outputs])
    for name, values, read in zip(names, outputs, parts, strict=True):
        if not np.array_equal(values.reshape(read.shape), read, equal_nan=True):
            raise wrong_header(program, f'kOutputs: what an application reads by it is not the output "{name}"')


def wrong_header(program: Program, problem: str) -> ConvertorError:
    """The header does not describe the network. problem: with its constant."""
    said = f"the header does not describe the network: {problem}"
    return ConvertorError.of("DV709", said, Origin(f"{program.name}_gen.h"), _AGAIN)


def outputs_of(program: Program, flat: Maps, shapes: Sequence[Shape] | None) -> tuple[Maps, ...]:
    """Outputs as they lie in memory, (N, size of all of them), as maps.

    shapes: those of the outputs as the framework has them, where they differ from the program's (a reshape that moves nothing);
    None: the program's own.
    """
    layers = [program.layers[index] for index in program.outputs]
    sizes = [layer.output.elements for layer in layers]
    if flat.shape[1] != sum(sizes):
        raise _strange(program)
    return tuple(
        as_maps(memory, layer, shape)
        for memory, layer, shape in zip(
            _apart(flat, sizes),
            layers,
            [layer.output.shape for layer in layers] if shapes is None else shapes,
            strict=True,
        )
    )


def layers_of(program: Program, flat: Maps, sizes: Sequence[int]) -> tuple[Maps, ...]:
    """The maps of all layers as they lie in memory, (N, size of all of them), apart. sizes: those that the runner gives."""
    if list(sizes) != [program.layers[index].output.elements for index in program.order]:
        raise _strange(program)
    return in_program_order(program, _apart(flat, sizes))


def in_program_order(program: Program, values: Sequence[T]) -> tuple[T, ...]:
    """A value for each layer of the generated network, in the order of the program's layers."""
    of_layers = dict(zip(program.order, values, strict=True))
    return tuple(of_layers[index] for index in range(len(of_layers)))


def _apart(flat: Maps, sizes: Sequence[int]) -> tuple[Maps, ...]:
    return tuple(np.split(flat, np.cumsum(sizes)[:-1], axis=1))


def _strange(program: Program) -> ConvertorError:
    problem = "the compiled network has other layers or outputs than the program: its sources were changed"
    return ConvertorError.of("DV709", problem, Origin(program.name), _AGAIN)


def _listed(names: object) -> str:
    assert hasattr(names, "__iter__")
    return ", ".join(f'"{name}"' for name in names)
