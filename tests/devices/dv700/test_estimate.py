"""What commands cost by the model, counted by hand."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.estimate import Estimate, estimates, model_error, palette_command_bytes, provenance
from cnn_convertor.devices.dv700.profile import Measurement
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.weights.palettes import choose
from cnn_convertor.devices.facts import LEFT_OUT
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.intervals import Interval, smaller, total
from cnn_convertor.devices.settings import Fusion, Quantization, QuantizationOptions, Runtime
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import plan
from cnn_convertor.report.collecting import report_of
from cnn_convertor.report.summary import summary
from verification.trials import config

PROFILE = read_profile("dv700", Path()).with_figures(
    {
        "conv_freq": Figure(Interval.of(100), "test"),
        "bandwidth": Figure(Interval.of(1000), "test"),
        "multipliers": Figure(576, "test"),
        "command_usec": Figure(Interval.of(3), "test"),
        "list_usec": Figure(Interval.of(7), "test"),
        "cache_rate": Figure(Interval.of(100), "test"),
        "cpu": Figure("cortex-a53", "test"),
        "cpu_freq": Figure(Interval.of(1000), "test"),
        "cpu_cores": Figure(Interval.of(1), "test"),
    }
)


def program_of(x: Shape, *made: ops.Op, fusion: Fusion = Fusion.FULL) -> Program:
    nodes = [Node("x", ops.Input(x))]
    for op in made:
        reads = (nodes[-1].name, "x") if isinstance(op, ops.Add) else (nodes[-1].name,)
        nodes.append(Node(f"n{len(nodes)}", op, reads))
    graph = Graph(tuple(nodes), (nodes[-1].name,))
    return plan(graph, "net", Dv700(device_of(PROFILE), fusion, transposed=True))


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
    assert cost.compute_usec == Interval.of(expected[0] / 100)
    assert cost.memory_usec == Interval.of(sum(expected[1:]) / 1000)
    assert cost.usec == Interval.of(max(expected[0] / 100, sum(expected[1:]) / 1000) + 3)


def test_the_slower_side_bounds_a_command() -> None:
    program = program_of(Shape(64, 64, 8), conv(8, 8), MAX)
    (cost,) = estimates(program, PROFILE)
    assert cost.bound == "memory" and cost.usec == cost.memory_usec + Interval.of(3)
    (slow,) = estimates(program, PROFILE.with_figures({"conv_freq": Figure(Interval.of(1), "test")}))
    assert slow.bound == "compute" and slow.usec == slow.compute_usec + Interval.of(3)
    assert slow.compute_usec == cost.compute_usec * 100


def test_an_interval_of_a_figure_gives_both_ends_of_a_time_and_the_shorter_end_decides_what_bounds() -> None:
    program = program_of(Shape(64, 64, 8), conv(8, 8), MAX)
    (cost,) = estimates(program, PROFILE)
    wide = {"conv_freq": Interval(1, 100), "bandwidth": Interval(500, 2000), "command_usec": Interval(1, 20)}
    (both,) = estimates(program, PROFILE.with_figures({name: Figure(ends, "test") for name, ends in wide.items()}))
    compute, memory = cost.compute_usec.low, cost.memory_usec.low
    assert both.compute_usec == Interval(compute, 100 * compute)
    assert both.memory_usec == Interval(memory / 2, 2 * memory)
    assert both.usec == Interval(max(compute, memory / 2) + 1, max(100 * compute, 2 * memory) + 20)
    assert both.bound == ("compute" if compute > memory / 2 else "memory")
    (quick,) = estimates(program, PROFILE.with_figures({"conv_freq": Figure(Interval(1, 10_000), "test")}))
    assert quick.bound == "memory" and quick.compute_usec.high > quick.memory_usec.high


def test_as_much_work_in_more_commands_takes_longer() -> None:
    work = conv(8, 8), conv(8, 8)
    (one,) = estimates(program_of(Shape(4, 4, 8), *work), PROFILE)
    first, second = estimates(program_of(Shape(4, 4, 8), *work, fusion=Fusion.PROVEN), PROFILE)
    assert first.cycles + second.cycles == one.cycles
    assert total(cost.usec for cost in [first, second]).low >= one.usec.low + 3


def test_twice_the_multipliers_halve_the_cycles() -> None:
    program = program_of(Shape(4, 4, 8), conv(8, 8))
    (cost,) = estimates(program, PROFILE)
    (twice,) = estimates(program, PROFILE.with_figures({"multipliers": Figure(1152, "test")}))
    assert 2 * twice.cycles == cost.cycles


def test_times_add_up() -> None:
    zero = Interval.of(0)
    costs = [Estimate(1, 2, 3, 4, 5, usec, Interval.of(1), zero) for usec in (Interval(0.5, 0.75), Interval(2, 3))]
    assert total(cost.usec for cost in costs) == Interval(3, 4)


def test_the_error_of_the_model_is_shown_once_a_board_has_measured() -> None:
    assert model_error(PROFILE) is None
    measured = tuple(Measurement("", usec, 1000, 0) for usec in (13.0, 16.25, 26.0))
    profile = replace(PROFILE, measured=measured)
    error = model_error(profile)
    assert error is not None and error.commands == 3
    assert [error.median, error.largest] == pytest.approx([0.2, 0.5])
    twice = profile.with_figures({"multipliers": Figure(1152, "test"), "conv_freq": Figure(Interval.of(50), "test")})
    assert model_error(twice) == error
    ending = "on 3 commands of the probe its median error is 20%, its largest 50%"
    assert provenance(profile) == f"model; {LEFT_OUT}; {ending}"


def test_the_nearer_end_of_an_estimate_counts_as_its_error() -> None:
    wide = PROFILE.with_figures({"conv_freq": Figure(Interval(50, 200), "test")})  # 8 to 23 us for 1000 cycles
    for usec, error in ((4.0, 1.0), (8.0, 0.0), (15.0, 0.0), (23.0, 0.0), (46.0, 0.5)):
        assert model_error(replace(wide, measured=(Measurement("", usec, 1000, 0),))) == (1, error, error)


def test_the_commands_of_a_list_take_their_time_each() -> None:
    four = replace(PROFILE, measured=(Measurement("", 22.0, 1000, 0, commands=4),))
    assert model_error(four) == (1, 0.0, 0.0)


def test_estimates_say_what_they_leave_out_and_assume() -> None:
    assert provenance(PROFILE) == f"model; {LEFT_OUT}"
    c2, c3 = (provenance(read_profile(name, Path())) for name in ("zia-c2", "zia-c3"))
    assert c2 == c3 == f"model; {LEFT_OUT}; 7 of 9 board figures are assumptions (see `devices`)"


def test_what_runs_at_the_same_time_counts_once() -> None:
    """A branch on the CPU beside commands, with the generated runtime: the SDK's is not in its summary, but for its price."""
    nodes = (
        Node("image", ops.Input(Shape(32, 32, 16))),
        Node("stem", conv(16, 16), ("image",)),
        Node("swish", ops.Unary(ops.Swish()), ("stem",)),
        Node("beside", conv(16, 16), ("stem",)),
        Node("more", conv(16, 16), ("beside",)),
        Node("sum", ops.Add(), ("swish", "more")),
    )
    target = Dv700(device_of(PROFILE, Runtime.GENERATED), runtime=Runtime.GENERATED)
    program = plan(Graph(nodes, ("sum",)), "net", target)
    report = report_of(program, Request.of(config(Path("graph.keras"), device=PROFILE, runtime=Runtime.GENERATED)))
    swish, beside = report.on_cpu[0].cpu_cost, report.commands[1].cost
    assert swish is not None and beside is not None
    assert report.overlap_usec == smaller(swish.usec, beside.usec)
    assert report.usec == total(report.usec_by_part.values()).less(report.overlap_usec)
    whole, parts, other, *others = [text for label, text in summary(report) if label == "estimate"]
    assert whole.endswith("% of it at the same time") and " ms of it at the same time" in parts
    assert other.startswith("with runtime = sdk, ") and other.endswith(" ms between them")
    assert "SDK" not in "; ".join(others)


def test_the_dv740_needs_memory_for_expanded_palettes() -> None:
    options = QuantizationOptions(Quantization.PALETTE, 40.0)
    program = choose(program_of(Shape(8, 8, 8), conv(20, 8), conv(8, 20)), options)
    assert palette_command_bytes(program, PROFILE) == 0
    assert palette_command_bytes(program, read_profile("dv740", Path())) == 2 * 224 + 32 * (1 * 3 + 3 * 1)


def test_the_summary_has_the_sum_and_the_memory_for_palettes() -> None:
    options = QuantizationOptions(Quantization.PALETTE, 40.0)
    program = choose(program_of(Shape(8, 8, 8), conv(20, 8)), options)
    chosen = config(Path("graph.keras"), device=read_profile("dv740", Path()))
    report = report_of(program, Request.of(chosen))
    rows = [text for label, text in summary(report) if label == "estimate"]
    whole, time, other, traffic, explained, assumed = rows
    assert re.fullmatch(r"[\d.]+ to [\d.]+ ms in all: \d+% on the device, 0% on the CPU, \d+% between them", whole)
    assert time.endswith(
        " ms on the device, 0 ms on the CPU, 0.0208 to 0.103 ms between them; 1 of the CPU layers left out"
    )
    assert other.startswith("with runtime = generated, ")
    assert traffic.startswith("the commands on dv740 move ") and traffic.endswith(
        "; 0.001 to 0.02 ms to start and end them"
    )
    assert (explained, assumed) == (f"model; {LEFT_OUT}", "all 9 board figures are assumptions (see `devices`)")
    assert report.device_usec == total(cost.usec for cost in estimates(program, read_profile("dv740", Path())))
    assert dict(summary(report))["command buffer"] == "about 320 bytes more for palettes, which the driver expands"
    assert "command buffer" not in dict(summary(report_of(program, Request.of(replace(chosen, device=PROFILE)))))
