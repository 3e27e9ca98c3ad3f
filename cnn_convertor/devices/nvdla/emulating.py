"""Networks on NVDLA's twin: their generated sources, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cnn_convertor import escaping
from cnn_convertor.codegen.cpp import c_string
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.playing import INCLUDE, SOURCES, bases_of, figures_of
from cnn_convertor.devices.nvdla.register_table import header
from cnn_convertor.devices.program import LayerType, Program
from cnn_convertor.emulation import build as building
from cnn_convertor.emulation.build import Host, build, library_of
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.graph import Graph
from cnn_convertor.workers.compiler import Compiler

_HOST: Final = Path(__file__).parent / "host"
_PLAYER: Final = {"player.cpp", "job.cpp"}  # which play accesses of a file
_SHARED: Final = ("header_maps.cpp", "running.cpp")  # with the runners of other devices


class NvdlaTwin(NamedTuple):
    """The twin of a configuration: an `EmulatedDevice`. exact: it runs unrounded programs, without FP16."""

    configuration: Configuration
    exact: bool = False

    @property
    def environment(self) -> Mapping[str, str]:
        return {}

    def build(self, network: EmulatedNetwork) -> Path:
        include = (_HOST, building.SOURCES, *INCLUDE)
        host = Host(_library, _HOST / "runner.cpp", include, ("-DNVDLA_REGISTER_ACCESS",))
        wanted = _wanted(network.program, network.graph, self)
        return build(network.folder, network.program.name, wanted=wanted, sources=network.sources, host=host)


def _library(_: Compiler) -> Path:
    """The twin and what the runners of all networks have in common, compiled once for a computer."""
    twin = [path for path in SOURCES if path.name not in _PLAYER]
    runner = [_HOST / "network_runner.cpp", *(building.SOURCES / name for name in _SHARED)]
    include = (*INCLUDE, building.SOURCES, _HOST)
    return library_of("twin of NVDLA for networks", [*twin, *runner], include, {"register_table.h": header()})


def _wanted(program: Program, graph: Graph, twin: NvdlaTwin) -> str:
    """Definitions for the runner: what the device is, what an application looks for in the header, and where maps lie."""
    inputs = [_named(name, 0, *tensor.shape) for name, tensor in program.inputs]
    outputs = []
    for position, (name, (_, tensor)) in enumerate(zip(graph.output_names, program.results, strict=True)):
        outputs.append(_named(name, position, *tensor.shape))
    generated = program.generated()
    layers = []
    for index, layer in enumerate(generated.layers):
        tensor = layer.output
        place = (tensor.offset, tensor.elements, tensor.type.value, _completed(generated, index))
        layers.append(_named(layer.name, *tensor.shape, *place))
    numbers = [str(number) for number in figures_of(twin.configuration)]
    bases = [str(base) for base in bases_of(twin.configuration)]
    definitions = {
        "CONFIGURATION": [
            f"{{{escaping.text(twin.configuration.name)}, {', '.join(numbers)}, {{{', '.join(bases)}}}}}"
        ],
        "IS_EXACT": [str(int(twin.exact))],
        "INPUTS": inputs,
        "OUTPUTS": outputs,
        "INPUT_RANGES": [f"{{{tensor.offset}, {tensor.nbytes}}}" for _, tensor in program.inputs],
        "LAYERS": layers,
        "OUTPUT_LAYERS": [str(index) for index in generated.outputs],
    }
    lines = [f"#define NETWORK_{name} {', '.join(values)}\n" for name, values in definitions.items()]
    return "".join([*lines, '#include "register_access.h"\n'])


def _named(name: str, *numbers: int) -> str:
    return f"{{{escaping.text(c_string(name))}, {', '.join(map(str, numbers))}}}"


def _completed(program: Program, index: int) -> int:
    """The layer after which the output of a layer is whole: of one that is joined in place, the last of its parts."""
    layer = program.layers[index]
    if layer.type is not LayerType.CONCAT:
        return index
    return max((_completed(program, source) for source in layer.sources if source is not None), default=0)
