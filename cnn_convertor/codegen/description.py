"""Describes a network for the application: inputs, outputs, memory."""

from collections.abc import Sequence

from cnn_convertor.codegen.cpp import c_string
from cnn_convertor.devices.program import PLAIN, ElementType, LayerType, Program, Tensor
from cnn_convertor.escaping import identifier
from cnn_convertor.layouts.layout import top_term


def description(program: Program) -> list[str]:
    """One line for the memory, one for each input, one for each output."""
    lines = [f"{program.name}: {program.weight_bytes} bytes of weights, {program.io_bytes} bytes of I/O memory."]
    for name, tensor in program.inputs:
        type = "FP16" if tensor.type is ElementType.HALF else "one byte each"
        lines.append(f'Input "{name}": {_map_text(tensor)}, {type} at offset {tensor.offset}.')
    for position, (index, (name, tensor)) in enumerate(zip(program.outputs, program.results, strict=True)):
        layer = program.layers[index]
        if layer.type is LayerType.FLATTEN:  # the map that was flattened tells more than the length of the vector
            tensor = layer.inputs[0]._replace(layout=PLAIN)
        bytes_at = f", one byte each at offset {tensor.offset}" if tensor.type is ElementType.BYTE else ""
        lines.append(f'Output {position} "{name}": {_map_text(tensor)}{bytes_at}.')
    return lines


def _map_text(tensor: Tensor) -> str:
    """The size of a map, and the order of its elements in memory."""
    if tensor.shape.is_vector:
        return f"{tensor.shape.channels} values"
    top = top_term(tensor.layout, "c")
    order = ", ".join(term.axis.upper() for term in tensor.layout.terms if term.div == 1)
    chunks = ""
    if top.pads:
        chunks = f", in atoms of {top.div} channels"
    elif 1 < top.div < tensor.shape.channels:
        chunks = f", in chunks of {top.div} channels"
    return f"{tensor.shape} (height x width x channels) in the order {order}{chunks}"


def map_view(name: str, tensor: Tensor) -> dict[str, str]:
    """An input or output as numbers: offset, bytes, height, width, channels, bytes of an element."""
    numbers = (tensor.offset, tensor.nbytes, *tensor.shape, tensor.type.value)
    layout = tensor.layout.name
    return {"name": c_string(name), "numbers": ", ".join(map(str, numbers)), "layout": layout}


def shape_text(tensor: Tensor) -> str:
    """Height x width x channels; a vector is its length."""
    return str(tensor.shape.channels) if tensor.shape.is_vector else str(tensor.shape)


def byte_outputs(program: Program) -> list[int]:
    """The positions of outputs with one byte an element, which get_final_output cannot read."""
    types = [program.layers[index].output.type for index in program.outputs]
    return [position for position, type in enumerate(types) if type is ElementType.BYTE]


def output_constants(names: Sequence[str]) -> list[tuple[str, int, str]]:
    """The C++ constant, index and name of each output."""
    taken: dict[str, None] = {}
    for name in names:
        constant = f"kOutput_{identifier(name)}"
        while constant in taken:
            constant += "_"
        taken[constant] = None
    return [(constant, i, name) for i, (constant, name) in enumerate(zip(taken, names, strict=True))]
