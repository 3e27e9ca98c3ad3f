"""Renders a program, in which every value is final, as the texts that firmware is built from."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.codegen.cpp import class_name, literal
from cnn_convertor.codegen.custom_structs import custom_types
from cnn_convertor.codegen.description import byte_outputs, description, map_view, output_constants, shape_text
from cnn_convertor.codegen.drawing import drawing
from cnn_convertor.codegen.kernels import bundle, kernel_view
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.codegen.text_templates import made_by, render_template
from cnn_convertor.devices.dv700.byte_input import OWN_TABLE
from cnn_convertor.devices.dv700.cache_lines import AS_DEV_OUTPUT, CPU_WONT_READ
from cnn_convertor.devices.dv700.encode.registers import legend
from cnn_convertor.devices.dv700.frame_input import LARGEST_FRAME, FrameInput, PixelConversion
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources.layer_views import layer_title, layer_views
from cnn_convertor.devices.dv700.timetable import Act, Timetable
from cnn_convertor.devices.dv700.weights.encoding import Observer, encode_buffer
from cnn_convertor.devices.program import ByteInput, LayerType
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.files.replacing import Contents

_FRAME_WORK = {
    PixelConversion.TO_BYTES: "writes bytes, which the network's first command converts",
    PixelConversion.SUBTRACTION: "subtracts {} from them",
    PixelConversion.BY_255: "divides them by 255 (how it rounds, the SDK does not document)",
}
_FLAGS = {CPU_WONT_READ: "the CPU does not read it", AS_DEV_OUTPUT: "the device overwrites it"}
_MOST_EXPECTED_IN_SOURCE = 1024  # values; more go to a file of their own


def render(
    program: Program,
    options: RenderOptions,
    frame: FrameInput | None = None,
    timetable: Timetable | None = None,
) -> dict[str, str]:
    """File name -> contents, for all texts of the options. The same program gives the same texts.

    frame: how the device draws a camera's frame. timetable: of a generated runtime.
    """
    common = _common(program, options.model)
    texts = _texts(program.generated(), options, frame, timetable)
    return {name: render_template(template, {**common, **values}) for name, template, values in texts}


def names_of(program: Program, options: RenderOptions, frame: FrameInput | None = None) -> set[str]:
    """The files that `emit` gives."""
    return {f"{program.name}_weights.bin", *(name for name, *_ in _texts(program, options, frame))}


def _common(program: Program, model: str) -> dict[str, object]:
    """The values of every template."""
    return {
        "made_by": made_by(model),
        "name": program.name,
        "class_name": class_name(program),
        "header_name": f"{program.name}_gen.h",
        "transposed": program.transposed,
    }


def _texts(
    program: Program, options: RenderOptions, frame: FrameInput | None, timetable: Timetable | None = None
) -> Iterator[tuple[str, str, dict[str, object]]]:
    """The name of each file, its template, and the values that it has beside the common ones."""
    if options.source:
        yield from _sources(program, options, frame, timetable)
    if options.dot:
        yield f"{program.name}.dot", "network.dot.j2", drawing(program, layer_title)
    if options.doxygen:
        yield "doc/Doxyfile", "Doxyfile.j2", {"graphviz_path": options.graphviz_path}
        values = {"description": description(program), "has_dot": options.dot, "layers": layer_views(program)}
        yield "doc/pages.dox", "pages.dox.j2", values
    if options.python_module:
        module: dict[str, object] = {
            "module": options.python_module,
            "byte_input": _byte_input(program),
            "byte_outputs": " || ".join(f"i == {position}" for position in byte_outputs(program)),
            "inputs": [
                {"offset": tensor.offset, "nbytes": tensor.nbytes, "text": f'"{name}" {shape_text(tensor)}'}
                for name, tensor in program.inputs
            ],
            "output_constants": output_constants([name for name, _ in program.results]),
        }
        yield f"{options.python_module}.cpp", "python_module.cpp.j2", module


def _sources(
    program: Program, options: RenderOptions, frame: FrameInput | None, timetable: Timetable | None
) -> Iterator[tuple[str, str, dict[str, object]]]:
    """The C++ sources that every network has, or may have: as `_texts`."""
    calls = [kernel_view(program, layer) for layer in program.layers if layer.cpu is not None]
    functions = dict.fromkeys(function for call in calls for function in call.functions)
    types = {layer.type for layer in program.layers}
    shared: dict[str, object] = {
        "layers": layer_views(program),
        "kernels": bundle(functions, threads=program.cpu_threads != 1),
        "threads": program.cpu_threads if functions else 1,
        "customs": custom_types(program),
        "byte_input": _byte_input(program),
        "channel_order": options.channel_order,
        "frame": _frame(program, frame),
        "timetable": None if timetable is None else _timetable(timetable),
        "ranges": program.cache_line > 0,
        "flattens": LayerType.FLATTEN in types,
        "joins": LayerType.COPY_CONCAT in types,
        "bare": False,
    }
    header = {
        "description": description(program),
        "half": bundle(["Half"]).bodies[0],
        "input_maps": [map_view(name, tensor) for name, tensor in program.inputs],
        "output_maps": [map_view(name, tensor) for name, tensor in program.results],
        "output_constants": output_constants([name for name, _ in program.results]),
        "means": ", ".join(literal("float", mean) for mean in options.mean),
        "scale": None if isinstance(options.scale, tuple) else literal("float", options.scale),
        "scales": ", ".join(literal("float", scale) for scale in np.atleast_1d(options.scale)),
    }
    source = {
        "weight_bytes": program.weight_bytes,
        "io_bytes": program.io_bytes,
        "outputs": program.outputs,
        "legend": legend(),
    }
    yield f"{program.name}_gen.h", "network.h.j2", shared | header
    yield f"{program.name}_gen.cpp", "network.cpp.j2", shared | source
    if functions:
        yield f"{program.name}_cpu.h", "network_cpu.h.j2", shared
    if frame is not None:
        yield f"{program.name}_frame.h", "network_frame.h.j2", shared


def emit(
    program: Program,
    options: RenderOptions,
    frame: FrameInput | None = None,
    observe: Observer | None = None,
    timetable: Timetable | None = None,
) -> dict[str, Contents]:
    """File name -> contents of everything that runs a program: its texts and its packed weights.

    observe: is given the weights while they are packed. timetable: as in `render`.
    Raises ConvertorError while the weights are read when some cannot be packed.
    """
    weights = encode_buffer(program, observe=observe)
    return {**render(program, options, frame, timetable), f"{program.name}_weights.bin": weights}


def render_selftest(
    program: Program, *, model: str, levels: NDArray[np.uint16], outputs: Sequence[NDArray[np.float32]]
) -> dict[str, str | list[NDArray[np.uint8]]]:
    """The source of a test of the generated network, and the file of its expected outputs where they are many.

    levels: FP16 bits of the values that the input is made of. outputs: what the network must give, each as it lies in memory.
    """
    expected = np.concatenate(outputs).astype("<f4")
    in_source = expected.size <= _MOST_EXPECTED_IN_SOURCE
    values = {
        **_common(program, model),
        "inputs": [{"offset": tensor.offset, "elements": tensor.shape.size} for _, tensor in program.inputs],
        "levels": [f"0x{level:04X}" for level in levels],
        "takes_bytes": program.byte_input is not None,
        "byte_outputs": " || ".join(f"output == {position}" for position in byte_outputs(program)),
        "output_sizes": [output.size for output in outputs],
        "in_source": in_source,
        "expected": [literal("float", value) for value in expected.tolist()] if in_source else [],
    }
    files: dict[str, str | list[NDArray[np.uint8]]] = {
        f"{program.name}_selftest.cpp": render_template("selftest.cpp.j2", values)
    }
    if not in_source:
        files[f"{program.name}_selftest.bin"] = [expected.view(np.uint8)]
    return files


def _timetable(timetable: Timetable) -> dict[str, object]:
    """The timetable as C++. flags: of an action, in words."""
    actions = []
    for act, layer, offset, nbytes, number in timetable.actions:
        flags = " and ".join(_FLAGS[bit] for bit in _FLAGS if act is Act.TO_DEVICE and number & bit)
        actions.append({"fields": f"{act.value}, {layer}, {offset}, {nbytes}, {number}", "flags": flags})
    return {
        "commands": [layer for commands in timetable.lists for layer in commands],
        "ends": list(accumulate(map(len, timetable.lists))),
        "actions": actions,
    }


def _byte_input(program: Program) -> dict[str, object] | None:
    """The policy of an input of bytes, and the rows of its table where it is not the SDK's."""
    if program.byte_input is None:
        return None
    is_generated = program.runtime is Runtime.GENERATED
    values = byte_values(program.byte_input, always=is_generated)
    return {
        "policy": program.byte_input.policy,
        "rows": [", ".join(values[i : i + 12]) for i in range(0, len(values), 12)],
    }


def byte_values(byte_input: ByteInput, *, always: bool = False) -> list[str]:
    """The FP16 bits of an application's own table, byte by byte and channel by channel; of the SDK's tables only if `always`."""
    if not always and byte_input.policy != OWN_TABLE:
        return []
    return [f"0x{bits:04X}" for entry in byte_input.table for bits in entry]


def _frame(program: Program, frame: FrameInput | None) -> dict[str, object] | None:
    """The command that draws a frame as the input."""
    if frame is None:
        return None
    ((_, tensor),) = program.inputs
    format, conversion = frame.conversion.value
    return {
        "height": tensor.shape.height,
        "width": tensor.shape.width,
        "largest": LARGEST_FRAME,
        "format": format,
        "conversion": conversion,
        "less": frame.less,
        "line_bytes": frame.line_bytes,
        "work": _FRAME_WORK[frame.conversion].format(", ".join(map(str, frame.less))),
    }
