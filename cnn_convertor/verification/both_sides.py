"""A network that has run on the emulated device and in its framework."""

from __future__ import annotations

from typing import NamedTuple

from cnn_convertor.devices.program import Program
from cnn_convertor.emulation.feature_maps import Maps, Outputs, as_maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Shape
from cnn_convertor.verification.framework_maps import Reference


class BothSides(NamedTuple):
    """A network, and what both sides compute of the same samples. device: also of a board, in place of the emulated device."""

    network: EmulatedNetwork
    device: Outputs
    reference: Reference

    @property
    def graph(self) -> Graph:
        return self.network.graph

    @property
    def program(self) -> Program:
        return self.network.program

    def device_maps(self, layer: int, shape: Shape) -> Maps:
        """The maps (N, *shape) of a layer of the program, whose shape has the memory order of this one."""
        return as_maps(self.device.layers[layer], self.program.layers[layer], shape)
