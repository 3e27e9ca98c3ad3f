"""What boards and their drivers refuse decides what is converted for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.device_file import NAMES, read_profile
from cnn_convertor.devices.dv700.fusion.levels import ALLOWED, Evidence, Form
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.profiles import DV700, device_of
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import plan
from devices.dv700.legal import legalize

PROFILES = {name: read_profile(name, Path()) for name in NAMES}


def of_dates(driver: str, hardware: date | str, name: str = "dv700") -> Profile:
    """The device with another user driver and other hardware."""
    return PROFILES[name].with_figures({"driver": Figure(driver, "test"), "hardware": Figure(hardware, "test")})


LATE = of_dates("7.2.20201106", date(2019, 7, 29))


def commands(graph: Graph, profile: Profile, fusion: Fusion = Fusion.DOCUMENTED) -> int:
    program = plan(graph, "net", Dv700(device_of(profile), fusion, transposed=True))
    return sum(layer.runs != () for layer in program.layers)


def chain(shape: Shape, *made: ops.Op) -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op in made:
        nodes.append(Node(f"n{len(nodes)}", op, (nodes[-1].name,)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def conv(kernel: int, channels: int, padding: Padding = ops.NO_PADDING) -> ops.Conv2d:
    return ops.Conv2d(
        Constant.of(np.ones((channels, channels, kernel, kernel))), None, Window(Pair(kernel, kernel), padding=padding)
    )


MAX = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))
LARGE, SMALL = Shape(200, 200, 64), Shape(8, 8, 64)


TILED_POOLS: dict[str, tuple[Profile, bool]] = {
    **{f"{name}, by default": (profile, False) for name, profile in PROFILES.items()},
    "the first driver and hardware": (LATE, True),
    "driver and hardware of 2020": (of_dates("7.2.20201106", date(2020, 1, 1), "zia-c3"), True),
    "a later driver": (of_dates("8.0.20210101", date(2020, 1, 1)), True),
    "the SDK's driver on late hardware": (of_dates("7.2.20190716", date(2020, 1, 1)), False),
    "a late driver of another branch": (of_dates("7.1.20210101", date(2020, 1, 1)), False),
    "a late driver on older hardware": (of_dates("7.2.20201106", date(2019, 7, 28)), False),
    "a late driver on unknown hardware": (of_dates("7.2.20201106", "unknown"), False),
    "a probe that saw it fail": (replace(LATE, passed=frozenset({Form.RUN})), False),
    "a probe that saw it work": (replace(PROFILES["dv700"], passed=frozenset({Form.RUN, Form.TILED_POOL})), True),
}


@pytest.mark.parametrize(("profile", "pools"), TILED_POOLS.values(), ids=TILED_POOLS)
def test_a_max_pool_in_several_tiles_needs_both_driver_and_hardware(profile: Profile, pools: bool) -> None:
    assert profile.limits.pools_tiles is pools
    assert {Form.TILED_POOL in forms for forms in device_of(profile).forms.values()} == {pools}


@pytest.mark.parametrize("fusion", Fusion)
@pytest.mark.parametrize("shape", [LARGE, SMALL])
def test_a_max_pool_behind_a_convolution_in_several_tiles_has_a_command_of_its_own(
    shape: Shape, fusion: Fusion
) -> None:
    graph = chain(shape, conv(3, 64), MAX)
    assert commands(graph, PROFILES["dv700"], fusion) == (2 if shape == LARGE else 1)
    assert commands(graph, LATE, fusion) == 1
    assert commands(graph, PROFILES["dv740"], fusion) == 1  # it has no tiles


@pytest.mark.parametrize("fusion", Fusion)
def test_slopes_behind_a_pool_stay_with_their_kernels_on_old_drivers(fusion: Fusion) -> None:
    slopes = ops.PRelu(Constant.of(np.full(64, 0.25)))
    pool = replace(MAX, activation=slopes)
    assert commands(chain(LARGE, conv(3, 64), pool), PROFILES["dv700"], fusion) == 3


def test_a_device_without_deconvolutions_repeats_pixels_on_the_cpu() -> None:
    graph = chain(SMALL, ops.Upsample(Pair(3, 3)), conv(1, 64))
    assert commands(graph, PROFILES["dv700"]) == 2
    assert commands(graph, PROFILES["zia-c2"]) == 1


def test_a_device_without_deconvolutions_convolves_instead() -> None:
    deconvolution = ops.ConvTranspose2d(Constant.of(np.ones((64, 64, 2, 2))), None, Window(Pair(2, 2), Pair(2, 2)))
    graph = chain(SMALL, deconvolution)
    assert commands(graph, PROFILES["zia-c3"]) == 1
    assert commands(graph, PROFILES["zia-c2"]) == 1
    layers = legalize(graph, device_of(PROFILES["zia-c2"]), transposed=True)
    assert "ConvTranspose2d" not in str(layers)


def test_the_revision_decides_about_padding_of_small_maps() -> None:
    graph = chain(Shape(2, 2, 64), ops.Pad(Padding(3, 3, 3, 3)))
    c2 = PROFILES["zia-c2"]
    assert commands(graph, c2.with_figures({"revision": Figure(82, "sysfs")})) == 0  # the CPU pads
    assert commands(graph, c2) == 1
    assert commands(graph, PROFILES["zia-c3"].with_figures({"revision": Figure(83, "sysfs")})) == 0


def test_no_device_of_the_package_has_a_block_for_vectors() -> None:
    """The kernel driver dropped it on 2019-03-28."""
    assert not any("fc" in profile.blocks.value for profile in PROFILES.values())


def test_a_larger_buffer_needs_no_more_commands() -> None:
    graph = chain(Shape(48, 48, 64), conv(3, 64), conv(3, 64), conv(3, 64), conv(3, 64))
    counts = [commands(graph, PROFILES[name], Fusion.FULL) for name in ("zia-c2", "dv700", "zia-c3", "dv740")]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 1


def test_a_probe_has_the_last_word_about_forms() -> None:
    seen = frozenset({Form.RUN, Form.CHAIN, Form.OTHER_BRANCH})
    profile = replace(PROFILES["dv700"], passed=seen)
    forms = device_of(profile).forms
    assert forms == {**dict.fromkeys(Fusion, seen), Fusion.NONE: frozenset({Form.RUN})}
    assert [profile.evidence(form) for form in (Form.CHAIN, Form.DENSE)] == [Evidence.PROVEN, Evidence.ACCEPTED]
    graph = chain(SMALL, conv(3, 64), conv(3, 64))
    assert commands(graph, PROFILES["dv700"]) == 2
    assert commands(graph, profile) == 1


def test_without_a_probe_the_table_decides() -> None:
    assert DV700.forms == ALLOWED
