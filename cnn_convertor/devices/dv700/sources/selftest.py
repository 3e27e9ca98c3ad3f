"""Records the outputs of a network for a generated input, for a test that also runs on the board."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.program import Program
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.generator import draw_bytes
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph

LEVELS = 256


@dataclass(frozen=True, slots=True, eq=False)
class SelfTest:
    """levels: FP16 bits of the input's possible values, where it is not bytes. outputs: of the network, each in memory order."""

    levels: NDArray[np.uint16]
    outputs: tuple[Maps, ...]


def record(graph: Graph, program: Program, *, low: float, high: float, device: Device) -> SelfTest:
    """Run a network on values from low to high.

    Raises UsageError for networks with custom layers: only the firmware has their code.
    """
    custom = next((layer for layer in program.layers if layer.custom is not None), None)
    if custom is not None:
        where = custom.origins[-1] if custom.origins else Origin(program.name)
        problem = "a self-test runs every layer, but the code of custom layers is in the firmware"
        raise UsageError.of("DV708", problem, where, "set selftest = 0")
    levels = np.linspace(low, high, LEVELS).astype("<f2").view(np.uint16)
    drawn = draw_bytes(sum(tensor.shape.size for _, tensor in program.inputs), seed=0)
    inputs = drawn if program.byte_input else levels[drawn]
    with temporary_folder() as folder:
        flat = install_data(graph, program, folder, device=device).execute(inputs.tobytes(), samples=1)
    sizes = [program.layers[index].output.shape.size for index in program.outputs]
    return SelfTest(levels, tuple(np.split(flat.outputs[0], np.cumsum(sizes)[:-1])))
