"""Rewrites graphs for the device, as a conversion does."""

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.legalize import legalization
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES, PaletteTargets
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.contract import run_passes


def legalize(
    graph: Graph,
    device: Device,
    *,
    transposed: bool,
    fusion: Fusion = Fusion.FULL,
    uses_sdk_softmax: bool = False,
    palettes: PaletteTargets = NO_PALETTES,
) -> Graph:
    """The graph after all rewrites for the device."""
    return run_passes(legalization(device, fusion, transposed, uses_sdk_softmax, palettes), graph)
