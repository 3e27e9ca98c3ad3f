"""What layers on the CPU, and the changes between device and CPU, cost by the model, counted by hand."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cnn_convertor.codegen.kernels import all_kernels
from cnn_convertor.devices.dv700.cpu_costs import CpuWork, cycles, estimate_on_cpu, works_of
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.estimate import changes, cpu_estimates
from cnn_convertor.devices.dv700.probe.function_calls import cases
from cnn_convertor.devices.dv700.profile import PROCESSORS
from cnn_convertor.devices.dv700.runs import Layer
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.program import PLAIN, ElementType, LayerType, Tensor
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Pair, Shape, Window
from devices.dv700.test_estimate import PROFILE, conv, program_of
from reference.ir_reference import EXAMPLES

SWISH = ops.Unary(ops.Swish(1.0))


def on_cpu(op: ops.Op, y: Shape, *xs: Shape) -> Layer:
    maps = [Tensor(shape, ElementType.HALF, 0, PLAIN) for shape in (*xs, y)]
    return Layer("layer", LayerType.CUSTOM, tuple(maps[:-1]), maps[-1], (Origin("net"),), cpu=op)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_each_function_has_its_cycles(processor: str) -> None:
    table = cycles(processor)
    names = {struct or function for function, struct in all_kernels().calls} | {"GlobalAverage", "Nearest"}
    assert set(table) == names == set(cases())
    assert all(0 < row.known <= row.new < 10_000 for row in table.values())


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if isinstance(example.op, ops.OnCpu)])
def test_each_operator_on_the_cpu_has_an_estimate(name: str) -> None:
    op, shapes = EXAMPLES[name].op, [Shape(*x) for x in EXAMPLES[name].inputs if isinstance(x, tuple)]
    assert isinstance(op, ops.OnCpu)
    if len(shapes) == len(EXAMPLES[name].inputs):
        (work,) = works_of(on_cpu(op.op, op.op.output_shape(*shapes), *shapes))
        assert work.function in cycles("cortex-a53") and work.units > 0


MAP = Shape(6, 5, 16)
POOL = Window(Pair(3, 2))


@pytest.mark.parametrize(
    ("op", "inputs", "work"),
    [
        (SWISH, [MAP], CpuWork("Swish", 480)),
        (ops.Binary(ops.BinaryOp.MULTIPLY), [MAP, Shape(1, 1, 16)], CpuWork("Multiply", 480)),
        (ops.AveragePool2d(Window(Pair(6, 5))), [MAP], CpuWork("GlobalAverage", 480)),
        (ops.AveragePool2d(POOL), [MAP], CpuWork("AveragePool", 4 * 4 * 16 * 6)),
        (ops.MaxPool2d(POOL), [MAP], CpuWork("MaxPool", 4 * 4 * 16 * 6)),
        (ops.Reduce(ops.Reduction.MEAN, (Axis.HEIGHT, Axis.WIDTH)), [MAP], CpuWork("Reduce", 480)),
        (ops.Resize(Pair(12, 10), ops.Interpolation.NEAREST, ops.Sampling.ASYMMETRIC), [MAP], CpuWork("Nearest", 1920)),
        (ops.Softmax(Axis.CHANNELS), [MAP], CpuWork("Softmax", 480)),
    ],
)
def test_work_is_counted_in_units_of_the_function(op: ops.Op, inputs: list[Shape], work: CpuWork) -> None:
    assert works_of(on_cpu(op, op.output_shape(*inputs), *inputs)) == (work,)


def test_a_layer_takes_its_cycles_and_waits_for_memory() -> None:
    profile = PROFILE.with_figures({"cpu_freq": Figure(Interval(500, 1000), "test")})
    size = 100 * 100 * 16
    known, new = cycles("cortex-a53")["Swish"]
    cost = estimate_on_cpu(on_cpu(SWISH, Shape(100, 100, 16), Shape(100, 100, 16)), profile)
    assert cost is not None and (cost.function, cost.units, cost.bytes) == ("Swish", size, 4 * size)
    most = (known * size + (new - known) * 65536) / 500 + 4 * size / 1000
    assert (cost.usec.low, cost.usec.high) == pytest.approx((max(known * size / 1000, 4 * size / 1000), most))


def test_a_board_has_measured_its_functions() -> None:
    profile = replace(PROFILE, functions={"Swish": 2.5})
    cost = estimate_on_cpu(on_cpu(SWISH, MAP, MAP), profile)
    assert cost is not None and cost.usec == Interval.of(480 * 2.5 / 1e3)


@pytest.mark.parametrize(
    ("threads", "shares"),
    [(1, (1, 1)), (2, (2, 2)), (3, (3, 2)), (4, (4, 2)), (8, (4, 2)), (0, (4, 2))],
)
def test_threads_share_the_work_on_the_cores_of_the_board(threads: int, shares: tuple[int, int]) -> None:
    """The shorter time on all 4 cores, the longer on 2."""
    profile = PROFILE.with_figures({"cpu_cores": Figure(Interval(2, 4), "test")})
    shape = Shape(100, 100, 16)
    layer, size = on_cpu(SWISH, shape, shape), shape.size
    known, new = cycles("cortex-a53")["Swish"]
    cost = estimate_on_cpu(layer, profile, threads)
    assert cost is not None and known == new
    assert cost.usec.low == pytest.approx(max(known * size / 1000 / shares[0], 4 * size / 1000))
    assert cost.usec.high == pytest.approx(known * size / 1000 / shares[1] + 4 * size / 1000)
    measured = estimate_on_cpu(layer, replace(profile, functions={"Swish": 2.5}), threads)
    assert measured is not None and measured.usec == Interval(size / 400 / shares[0], size / 400 / shares[1])


def test_no_thread_wakes_for_a_small_map() -> None:
    """threads.h gives each at least 16,384 elements."""
    profile = PROFILE.with_figures({"cpu_cores": Figure(Interval.of(4), "test")})
    small = on_cpu(SWISH, Shape(63, 65, 8), Shape(63, 65, 8))
    assert small.output.shape.size == 2 * 16384 - 8
    assert estimate_on_cpu(small, profile, 4) == estimate_on_cpu(small, profile, 1)


def test_the_estimate_of_a_program_knows_its_threads() -> None:
    profile = PROFILE.with_figures({"cpu_cores": Figure(Interval.of(2), "test")})
    program = program_of(Shape(100, 100, 16), SWISH)
    ((alone,), (shared,)) = (
        [cost for cost in cpu_estimates(replace(program, cpu_threads=n), profile) if cost is not None] for n in (1, 2)
    )
    assert shared.usec.high < alone.usec.high


def test_nothing_is_known_of_layers_that_have_no_function() -> None:
    assert estimate_on_cpu(replace(on_cpu(SWISH, MAP, MAP), cpu=None), PROFILE) is None


def test_each_list_starts_and_each_change_goes_through_the_caches() -> None:
    program = program_of(MAP, conv(16, 16), conv(16, 16), SWISH, conv(16, 16), SWISH)
    assert [layer.type.executor for layer in program.layers if layer.type.executor != "none"][-1] == "cpu"
    of_sdk = changes(program, PROFILE, Runtime.SDK)
    assert (of_sdk.lists, of_sdk.changes, of_sdk.bytes) == (2, 2, 2 * 2 * program.io_bytes)
    assert of_sdk.usec == Interval.of(2 * 7 + of_sdk.bytes / 100)
    assert [cost is not None for cost in cpu_estimates(program, PROFILE)].count(True) == 2


def test_a_generated_runtime_maintains_what_changes_sides() -> None:
    """The map before and the map behind each layer on the CPU, the input and the output; the whole buffer without lines."""
    program = program_of(MAP, conv(16, 16), conv(16, 16), SWISH, conv(16, 16), SWISH)
    nbytes = program.layers[0].output.nbytes
    figures = {"cache_line": Figure(64, "test")}
    between = changes(program, PROFILE.with_figures(figures), Runtime.GENERATED)
    assert between.lists == 2 and 4 * nbytes <= between.bytes <= 7 * nbytes
    assert between.usec == Interval.of(2 * 7 + between.bytes / 100)
    whole = changes(program, PROFILE.with_figures({"cache_line": Figure(0, "test")}), Runtime.GENERATED)
    of_sdk = changes(program, PROFILE, Runtime.SDK)
    assert whole == of_sdk._replace(runtime="generated")


def test_the_boards_say_where_their_processor_comes_from() -> None:
    for name, processor in (("zia-c2", "cortex-a9"), ("zia-c3", "cortex-a53")):
        figure = read_profile(name, Path()).cpu
        assert (figure.value, figure.is_assumed) == (processor, False) and re.search("temperature", figure.source)
