"""What an application takes from the generated header: each wrong constant is found when the network runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.codegen.description import map_view, output_constants
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.emulating import installed
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.program import Tensor
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorError
from cnn_convertor.trials.run import require_preparation
from emulation.small_networks import needs_compiler, random, small_graph
from verification.trials import config, network, samples

pytestmark = [pytest.mark.slow, needs_compiler]
PREPARATION: dict[str, Any] = {"mean": (104.0, 117.25, 123.68), "scale": 0.017, "channel_order": "BGR"}


def inputs() -> dict[str, Maps]:
    graph = small_graph()
    return samples({node.name: random(*graph.shape(node.name), seed=3) for node in graph.inputs})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, compiler: object) -> EmulatedNetwork:
    return network(small_graph(), tmp_path_factory.mktemp("whole"), compiled=True, fusion="none", **PREPARATION)


def run(network: EmulatedNetwork) -> None:
    """Run it, as `verify` does."""
    require_preparation(network, Request.of(config(Path("graph.keras"), **PREPARATION)).preparation)
    network.run(inputs())


def changed(whole: EmulatedNetwork, folder: Path, old: str, new: str) -> EmulatedNetwork:
    """The network with another header."""
    for path in whole.folder.iterdir():
        text = path.read_bytes()
        if path.name == "net_gen.h":
            assert text.count(old.encode()) == 1, old
            text = text.replace(old.encode(), new.encode())
        (folder / path.name).write_bytes(text)
    return installed(whole.graph, whole.program, folder, device=DV700)


IMAGE, MORE = '    {"image", 1600, 120, 5, 4, 3, 2, "hwc8"},\n', '    {"more", 0, 800, 5, 4, 20, 2, "hwc8"},\n'
SUM, NARROW = '    {"sum", 0, 800, 5, 4, 20, 2, "HWC"},\n', '    {"narrow", 800, 150, 5, 3, 5, 2, "hwc8"},\n'
UNREAD = "kInputs: what an application writes by it is not what the network reads"
FAULTS = {
    "an input is missing": (MORE, "", "kInputs has 1 maps, the network 2"),
    "other name of an input": ('{"more"', '{"mask"', 'kInputs has no "more"'),
    "exchanged names of inputs": (IMAGE + MORE, IMAGE.replace("image", "more") + MORE.replace("more", "image"), "kInputs has other sizes of"),
    "sizes of an input": ("5, 4, 3, 2", "4, 5, 3, 2", 'kInputs has other sizes of "image"'),
    "bytes of an input": ("1600, 120", "1600, 240", 'kInputs has a wrong number of bytes of "image"'),
    "offset of an input": ("1600, 120", "1602, 120", UNREAD),
    "an input outside": ("1600, 120", "16000, 120", 'kInputs has "image" outside of the memory'),
    "layout of an input": (MORE, MORE.replace("hwc8", "whc8"), UNREAD),
    "unknown layout": (MORE, MORE.replace("hwc8", "chw8"), 'kInputs has an unknown layout of "more"'),
    "reversed outputs": (SUM + NARROW, NARROW + SUM, 'kOutputs has "narrow" at the position of "sum"'),
    "exchanged constants": ("kOutput_sum = 0,  // sum\n    kOutput_narrow = 1", "kOutput_narrow = 0,\n    kOutput_sum = 1", 'kOutputs has "narrow" at'),
    "an output is missing": (NARROW, "", "kOutputs has 2 maps, the network 3"),
    "sizes of an output": ("5, 3, 5, 2", "3, 5, 5, 2", 'kOutputs has other sizes of "narrow"'),
    "bytes of an element": ("800, 150, 5, 3, 5, 2", "800, 300, 5, 3, 5, 4", "kOutputs reads bytes 800 to 1100 as FP32"),
    "offset of an output": ("800, 150", "802, 150", 'kOutputs: what an application reads by it is not the output "narrow"'),
    "layout of an output": (NARROW, NARROW.replace("hwc8", "whc8"), 'is not the output "narrow"'),
        "mean": ("104.0f, 117.25f, 123.68f", "123.68f, 117.25f, 104.0f", "kMean and kScale: they make -2.10256 of the pixel 0 in channel 0, not -1.768"),
    "one mean": ("104.0f, 117.25f, 123.68f", "104.0f", "kMean and kScale: they have other counts"),
    "scale": ("0.017f", "0.01700001f", "kMean and kScale: they make"),
    "order of channels": ('"BGR"', '"RGB"', "kChannelOrder is RGB, and the application's pixels are BGR"),
}  # fmt: skip


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_constant_is_named(fault: str, whole: EmulatedNetwork, tmp_path: Path) -> None:
    old, new, message = FAULTS[fault]
    with pytest.raises(ConvertorError, match=re.escape(message)):
        run(changed(whole, tmp_path, old, new))


def reversed_positions(names: Sequence[str]) -> list[tuple[str, int, str]]:
    constants = output_constants(names)
    return [
        (constant, position, name)
        for (constant, _, name), (_, position, _) in zip(constants, reversed(constants), strict=True)
    ]


def other_layout(name: str, tensor: Tensor) -> dict[str, str]:
    return map_view(name, tensor) | {"layout": "whc8"}


@pytest.mark.parametrize(
    ("function", "faulty", "message"),
    [
        ("output_constants", reversed_positions, 'kOutputs has "map" at the position of "sum"'),
        ("map_view", other_layout, "kInputs: what an application writes"),
    ],
)
def test_a_fault_of_the_convertor_is_found(
    function: str, faulty: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"cnn_convertor.devices.dv700.sources.rendering.{function}", faulty)
    with pytest.raises(ConvertorError, match=f"DV709: the header.*{message}"):
        run(network(small_graph(), tmp_path, compiled=True, fusion="none", **PREPARATION))
