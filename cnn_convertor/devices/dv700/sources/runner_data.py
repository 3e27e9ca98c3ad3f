"""A program as data for the prebuilt runner, which does what the generated sources of the program do."""

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from cnn_convertor.codegen.cpp import bool_literal, c_string, literal
from cnn_convertor.codegen.kernels import all_kernels, kernel_view
from cnn_convertor.codegen.text_templates import render_text
from cnn_convertor.devices.dv700.byte_input import OWN_TABLE, POLICIES
from cnn_convertor.devices.dv700.runs import Layer, Program
from cnn_convertor.devices.dv700.sources.layer_views import Assignment, command_rows, layer_rows, run_rows
from cnn_convertor.devices.dv700.sources.rendering import byte_values
from cnn_convertor.devices.dv700.timetable import Act, Timetable
from cnn_convertor.devices.program import LayerType
from cnn_convertor.ir.ops import Relu


def program_data(program: Program, *, unrounded: bool = False, timetable: Timetable | None = None) -> bytes:
    """The program, but for its weights. host/src/program_network.h reads it. The program has no custom layers.

    timetable: for a runner with a generated runtime.
    unrounded: with the factors and slopes in registers as they are before they are rounded to FP16, for exact mode.
    """
    return "\n".join(_statements(program.generated(), unrounded, timetable)).encode(errors="surrogatepass") + b"\n"


def runner_kernels() -> str:
    """All functions that run layers on the CPU, and the tables by which the runner finds them."""
    kernels = all_kernels()
    words = (*(kind.value for kind in LayerType), *POLICIES, OWN_TABLE, *kernels.words)
    return render_text("kernels.h.j2", "the functions of CPU layers", {"kernels": kernels, "words": words})


def _statements(program: Program, unrounded: bool, timetable: Timetable | None) -> Iterator[str]:
    yield "program 1"
    yield f"transposed {bool_literal(program.transposed)}"
    yield f"reserve {program.weight_bytes} {program.io_bytes}"
    yield f"layers {len(program.layers)} {len(program.outputs)}"
    for index, layer in enumerate(program.layers):
        yield from _layer(program, index, layer, unrounded)
    if program.byte_input is not None:
        yield f"convert {program.byte_input.policy} {{{', '.join(byte_values(program.byte_input, always=timetable is not None))}}}"
    if timetable is not None:
        acts = list(Act)
        rows = [f"{acts.index(act)}, {', '.join(map(str, rest))}" for act, *rest in timetable.actions]
        commands = ", ".join(str(layer) for commands in timetable.lists for layer in commands)
        ends = ", ".join(map(str, accumulate(map(len, timetable.lists))))
        yield f"timetable {{{commands}}} {{{ends}}} {{{', '.join(rows)}}}"
    yield "end"


def _layer(program: Program, index: int, layer: Layer, unrounded: bool) -> Iterator[str]:
    assert layer.custom is None, "the code of custom layers is C++"
    name = c_string(layer.name)
    yield f"layer {index} {layer.type.value} {len(name.encode(errors='surrogatepass'))} {name}"
    if layer.runs:
        yield "command"
        yield from _fields("cmd", command_rows(program, layer))
        for number, run in enumerate(layer.runs):
            yield f"run {number}"
            yield from _fields("run", run_rows(run))
            factor = 0.0 if run.pooling is None else run.pooling.factor
            slope = run.activation.slope if isinstance(run.activation, Relu) else 0.0
            if not unrounded:  # by numpy: `verify` compares what the registers of the sources hold
                factor, slope = float(np.float16(factor)), float(np.float16(slope))
            yield f"parameters {literal('float', factor)} {literal('float', slope)}"
    yield from _fields("layer", layer_rows(layer))
    if layer.lists_sources:
        yield f"sources {{{', '.join(map(str, layer.sources))}}}"
    if layer.cpu is not None:
        call = kernel_view(program, layer)
        yield from (f"{declared};" for declared in call.maps)
        yield from (f"step {step};" for step in call.steps)
        yield f"call {call.function}({call.arguments});"
    for position, output in enumerate(program.outputs):
        if output == index:
            yield f"output {position}"


def _fields(owner: str, rows: list[Assignment]) -> Iterator[str]:
    return (f"{owner}.{field} {value}" for field, value, _ in rows)
