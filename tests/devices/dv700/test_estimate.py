"""What commands cost by the model, counted by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.estimate import (
    Estimate,
    estimates,
    model_error,
    palette_command_bytes,
    provenance,
    total_usec,
)
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.profile import Figure, Measurement
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.weights.options import Quantization
from cnn_convertor.devices.dv700.weights.palettes import QuantizationOptions, choose
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import DeviceOptions, plan
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.summary import summary
from verification.trials import config

PROFILE = read_profile("dv700", Path()).with_figures(
    {"conv_freq": Figure(100, "test"), "bandwidth": Figure(1000, "test"), "multipliers": Figure(576, "test")}
)


def program_of(x: Shape, *made: ops.Op) -> Program:
    nodes = [Node("x", ops.Input(x))]
    for op in made:
        reads = (nodes[-1].name, "x") if isinstance(op, ops.Add) else (nodes[-1].name,)
        nodes.append(Node(f"n{len(nodes)}", op, reads))
    graph = Graph(tuple(nodes), (nodes[-1].name,))
    return plan(graph, "net", DeviceOptions(device_of(PROFILE), Fusion.FULL, transposed=True))


def conv(out: int, channels: int, kernel: int = 3, *, groups: int = 1, dilation: int = 1) -> ops.Conv2d:
    margin = dilation * (kernel // 2)
    window = Window(Pair(kernel, kernel), dilation=Pair(dilation, dilation), padding=Padding(*[margin] * 4))
    weight = np.random.default_rng(0).normal(size=(out, channels // groups, kernel, kernel))
    return ops.Conv2d(Constant.of(weight), None, window, groups)


MAX = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))
# name -> input, operators, and what the command costs: cycles, then bytes of input, operand, output, weights
CASES: dict[str, tuple[Shape, list[ops.Op], tuple[int, int, int, int, int]]] = {
    "3x3": (Shape(4, 4, 8), [conv(16, 8)], (4 * 4 * 2, 256, 0, 512, 16 * 144 + 32)),
    "5x5, 3 channels": (Shape(4, 4, 3), [conv(8, 3, 5)], (4 * 4 * 2, 96, 0, 256, 2 * 8 * 144 + 16)),
    "1x1": (Shape(4, 4, 72), [conv(8, 72, 1)], (4 * 4 * 2, 2304, 0, 256, 2 * 8 * 144 + 16)),
    "depthwise": (Shape(4, 4, 16), [conv(16, 16, groups=16)], (4 * 4 * 2, 512, 0, 512, 16 * 144 + 32)),
    "dilated": (Shape(8, 8, 8), [conv(8, 8, dilation=2)], (64 * 9, 1024, 0, 1024, 9 * (8 * 144 + 16))),
    "before its pool": (Shape(4, 4, 8), [conv(8, 8), MAX], (16, 256, 0, 64, 8 * 144 + 16)),
    "a pool": (Shape(4, 4, 8), [MAX], (0, 256, 0, 64, 0)),
    "a sum": (Shape(4, 4, 8), [conv(8, 8), ops.Add()], (16, 256, 256, 256, 8 * 144 + 16)),
    "a chain": (Shape(4, 4, 8), [conv(8, 8), conv(8, 8)], (32, 256, 0, 256, 2 * (8 * 144 + 16))),
    # 5 tiles of 40 columns share 2 columns at each of 4 borders
    "tiles": (
        Shape(100, 200, 64),
        [conv(64, 64)],
        (100 * 200 * 8 * 8, 100 * 208 * 128, 0, 100 * 200 * 128, 64 * 8 * 144 + 128),
    ),
}


@pytest.mark.parametrize(("x", "made", "expected"), CASES.values(), ids=CASES)
def test_a_command_costs(x: Shape, made: list[ops.Op], expected: tuple[int, int, int, int, int]) -> None:
    (cost,) = estimates(program_of(x, *made), PROFILE)
    assert cost[:5] == expected
    assert cost.compute_usec == expected[0] / 100
    assert cost.memory_usec == sum(expected[1:]) / 1000
    assert cost.usec == max(cost.compute_usec, cost.memory_usec)


def test_the_slower_side_bounds_a_command() -> None:
    program = program_of(Shape(64, 64, 8), conv(8, 8), MAX)
    (cost,) = estimates(program, PROFILE)
    assert cost.bound == "memory" and cost.usec == cost.memory_usec
    (slow,) = estimates(program, PROFILE.with_figures({"conv_freq": Figure(1, "test")}))
    assert slow.bound == "compute" and slow.usec == slow.compute_usec == 100 * cost.compute_usec


def test_twice_the_multipliers_halve_the_cycles() -> None:
    program = program_of(Shape(4, 4, 8), conv(8, 8))
    (cost,) = estimates(program, PROFILE)
    (twice,) = estimates(program, PROFILE.with_figures({"multipliers": Figure(1152, "test")}))
    assert 2 * twice.cycles == cost.cycles


def test_times_add_up() -> None:
    costs = [Estimate(1, 2, 3, 4, 5, usec, 1.0) for usec in (0.5, 2.0)]
    assert total_usec(costs) == 3.0


def test_the_error_of_the_model_is_shown_once_a_board_has_measured() -> None:
    assert model_error(PROFILE) is None
    measured = tuple(Measurement("", usec, 1000, 0) for usec in (10.0, 12.5, 20.0))
    profile = replace(PROFILE, measured=measured)
    error = model_error(profile)
    assert error is not None and error.commands == 3
    assert [error.median, error.largest] == pytest.approx([0.2, 0.5])
    twice = profile.with_figures({"multipliers": Figure(1152, "test"), "conv_freq": Figure(50, "test")})
    assert model_error(twice) == error
    assert provenance(profile) == "model; on 3 commands of the probe its median error is 20%, its largest 50%"
    assert provenance(PROFILE) == "model"
    assert provenance(read_profile("zia-c2", Path())) == "model; assumes clock, bandwidth"


def test_the_dv740_needs_memory_for_expanded_palettes() -> None:
    options = QuantizationOptions(Quantization.PALETTE, 40.0)
    program = choose(program_of(Shape(8, 8, 8), conv(20, 8), conv(8, 20)), options)
    assert palette_command_bytes(program, PROFILE) == 0
    assert palette_command_bytes(program, read_profile("dv740", Path())) == 2 * 224 + 32 * (1 * 3 + 3 * 1)


def test_the_summary_has_the_sum_and_the_memory_for_palettes() -> None:
    options = QuantizationOptions(Quantization.PALETTE, 40.0)
    program = choose(program_of(Shape(8, 8, 8), conv(20, 8)), options)
    chosen = config(Path("graph.keras"), device=read_profile("dv740", Path()))
    rows = dict(summary(report_of(program, chosen)))
    assert rows["estimate"].endswith(" MB for the commands on dv740 (model; assumes clock, bandwidth, multipliers)")
    assert rows["command buffer"] == "about 320 bytes more for palettes, which the driver expands"
    assert "command buffer" not in dict(summary(report_of(program, replace(chosen, device=PROFILE))))
