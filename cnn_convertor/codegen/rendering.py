"""Renders a program, in which every value is final, as the texts that firmware is built from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import jinja2
import numpy as np
from numpy.typing import NDArray

from cnn_convertor import __version__, escaping
from cnn_convertor.codegen.cpp import class_name, literal
from cnn_convertor.codegen.custom_structs import custom_types
from cnn_convertor.codegen.description import byte_outputs, description, map_view, output_constants, shape_text
from cnn_convertor.codegen.dot import drawing
from cnn_convertor.codegen.kernels import bundle, kernel_view
from cnn_convertor.codegen.layer_views import layer_view
from cnn_convertor.devices.dv700.byte_input import OWN_TABLE
from cnn_convertor.devices.dv700.encode.registers import legend
from cnn_convertor.devices.dv700.frame_input import LARGEST_FRAME, FrameInput, PixelConversion
from cnn_convertor.devices.dv700.program import ByteInput, Program
from cnn_convertor.devices.dv700.weights.encoding import Observer, encode_all
from cnn_convertor.files.replacing import Contents
from cnn_convertor.files.templates import environment

_FRAME_WORK = {
    PixelConversion.TO_BYTES: "writes bytes, which the network's first command converts",
    PixelConversion.SUBTRACTION: "subtracts {} from them",
    PixelConversion.BY_255: "divides them by 255 (how it rounds, the SDK does not document)",
}
_MOST_EXPECTED_IN_SOURCE = 1024  # values; more go to a file of their own


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Which texts to render. model: the file name to name in them; python_module: empty for none.

    mean, scale, channel_order: what images become, for the application. frame: how the device draws a camera's frame.
    """

    model: str
    source: bool = True
    doxygen: bool = False
    dot: bool = False
    python_module: str = ""
    graphviz_path: str = ""
    mean: tuple[float, ...] = (0.0,)
    scale: float = 1.0
    channel_order: str = "RGB"
    frame: FrameInput | None = None


def render(program: Program, options: RenderOptions) -> dict[str, str]:
    """File name -> contents, for all texts of the options. The same program gives the same texts."""
    functions = [kernel_view(layer).function for layer in program.layers if layer.cpu is not None]
    values = {
        "made_by": _made_by(options.model),
        "name": program.name,
        "class_name": class_name(program),
        "header_name": f"{program.name}_gen.h",
        "description": description(program),
        "transposed": program.transposed,
        "weight_bytes": program.weight_bytes,
        "io_bytes": program.io_bytes,
        "layers": [layer_view(program, index) for index in range(len(program.layers))],
        "outputs": program.outputs,
        "output_constants": output_constants(program),
        "byte_outputs": " || ".join(f"i == {position}" for position in byte_outputs(program)),
        "legend": legend(),
        "inputs": [
            {"offset": tensor.offset, "nbytes": tensor.nbytes, "text": f'"{name}" {shape_text(tensor)}'}
            for name, tensor in program.inputs
        ],
        "byte_input": _byte_input(program),
        "input_maps": [map_view(program, name, tensor) for name, tensor in program.inputs],
        "output_maps": [map_view(program, name, tensor) for name, tensor in program.results],
        "means": ", ".join(literal("float", mean) for mean in options.mean),
        "scale": literal("float", options.scale),
        "channel_order": options.channel_order,
        "frame": _frame(program, options.frame),
        "half": bundle(["Half"]).bodies[0],
        "customs": custom_types(program),
        "module": options.python_module,
        "graphviz_path": options.graphviz_path,
        "has_dot": options.dot,
        "kernels": bundle(functions),
    }
    files: dict[str, str] = {}
    if options.source:
        files[f"{program.name}_gen.h"] = _render("network.h.j2", values)
        files[f"{program.name}_gen.cpp"] = _render("network.cpp.j2", values)
        if functions:
            files[f"{program.name}_cpu.h"] = _render("network_cpu.h.j2", values)
        if options.frame is not None:
            files[f"{program.name}_frame.h"] = _render("network_frame.h.j2", values)
    if options.dot:
        files[f"{program.name}.dot"] = _render("network.dot.j2", {**values, **drawing(program)})
    if options.doxygen:
        files["doc/Doxyfile"] = _render("Doxyfile.j2", values)
        files["doc/pages.dox"] = _render("pages.dox.j2", values)
    if options.python_module:
        files[f"{options.python_module}.cpp"] = _render("python_module.cpp.j2", values)
    return files


def emit(program: Program, options: RenderOptions, observe: Observer | None = None) -> dict[str, Contents]:
    """File name -> contents of everything that runs a program: its texts and its packed weights.

    observe: is given the weights while they are packed.
    Raises ConvertorError while the weights are read when some cannot be packed.
    """
    weights = encode_all(program.weights, transposed=program.transposed, observe=observe)
    return {**render(program, options), f"{program.name}_weights.bin": weights}


def render_selftest(
    program: Program,
    *,
    model: str,
    levels: NDArray[np.uint16],
    generator: tuple[int, int],
    outputs: Sequence[NDArray[np.float32]],
) -> dict[str, str | list[NDArray[np.uint8]]]:
    """The source of a test of the generated network, and the file of its expected outputs where they are many.

    levels: FP16 bits of the values that the input is made of. generator: multiplier and increment of what draws them.
    outputs: what the network must give, each as it lies in memory.
    """
    expected = np.concatenate(outputs).astype("<f4")
    in_source = expected.size <= _MOST_EXPECTED_IN_SOURCE
    values = {
        "made_by": _made_by(model),
        "name": program.name,
        "class_name": class_name(program),
        "header_name": f"{program.name}_gen.h",
        "inputs": [{"offset": tensor.offset, "elements": tensor.shape.size} for _, tensor in program.inputs],
        "levels": [f"0x{level:04X}" for level in levels],
        "multiplier": generator[0],
        "increment": generator[1],
        "takes_bytes": program.byte_input is not None,
        "byte_outputs": " || ".join(f"output == {position}" for position in byte_outputs(program)),
        "output_sizes": [output.size for output in outputs],
        "in_source": in_source,
        "expected": [literal("float", value) for value in expected.tolist()] if in_source else [],
        "min_sqnr": 40,
    }
    files: dict[str, str | list[NDArray[np.uint8]]] = {
        f"{program.name}_selftest.cpp": _render("selftest.cpp.j2", values)
    }
    if not in_source:
        files[f"{program.name}_selftest.bin"] = [expected.view(np.uint8)]
    return files


def render_text(template: str, source: str, values: Mapping[str, object]) -> str:
    """One template with these values. source: what the text is made from."""
    return _render(template, {"made_by": _made_by(source), **values})


def _byte_input(program: Program) -> dict[str, object] | None:
    """The policy of an input of bytes, and the rows of its table where it is not the SDK's."""
    given = program.byte_input
    if given is None:
        return None
    values = byte_values(given)
    return {"policy": given.policy, "rows": [", ".join(values[i : i + 12]) for i in range(0, len(values), 12)]}


def byte_values(given: ByteInput) -> list[str]:
    """The FP16 bits of an application's own table, byte by byte and channel by channel; none of the SDK's tables."""
    return [f"0x{bits:04X}" for entry in given.table for bits in entry] if given.policy == OWN_TABLE else []


def _frame(program: Program, given: FrameInput | None) -> dict[str, object] | None:
    """The command that draws a frame as the input."""
    if given is None:
        return None
    ((_, tensor),) = program.inputs
    format, conversion = given.conversion.value
    return {
        "height": tensor.shape.height,
        "width": tensor.shape.width,
        "largest": LARGEST_FRAME,
        "format": format,
        "conversion": conversion,
        "less": given.less,
        "line_bytes": given.line_bytes,
        "work": _FRAME_WORK[given.conversion].format(", ".join(map(str, given.less))),
    }


def _made_by(model: str) -> str:
    return f"made by cnn-convertor {__version__} from {escaping.comment(model)}, do not edit"


def _render(template: str, values: dict[str, object]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> jinja2.Environment:
    filters = (escaping.comment, escaping.text, escaping.dot, escaping.doxygen)
    return environment(filters={filter.__name__: filter for filter in filters})
