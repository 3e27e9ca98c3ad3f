"""Each rule lets the last legal value pass, and names layer and values of the first that is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices import dv700
from cnn_convertor.devices.dv700.device import Breach, NodeSubject, Rule, RunsOn
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.legalize import legalization
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.rules import RULES, broken_rules, check
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.files.codes import entries
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Array, Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Order, Padding, Pair, Shape, Window
from cnn_convertor.passes import optimize
from cnn_convertor.passes.contract import run_passes
from devices.dv700.legal import legalize

LIMITS = Limits()


def zeros(*shape: int) -> Constant:
    """A constant that takes no memory before it is read, and is not read here."""

    def read(rows: slice) -> Array:
        return np.zeros((rows.stop - rows.start, *shape[1:]), np.float32)

    return Constant(shape, read)


# what rewrites networks so that rules of sizes and settings have nothing to refuse
FITTING = {"drop-taps", "pools-on-cpu", "convolve-deconvolutions", "gather-taps", "tile-maps", "split-padding", "split-channels", "split-channels-of-slopes",
           "refold-pixels", "refold-copies"}  # fmt: skip


def problems(
    graph: Graph,
    limits: Limits = LIMITS,
    *,
    transposed: bool = True,
    rules: tuple[Rule, ...] = RULES,
    uses_sdk_softmax: bool = False,
    fits: bool = False,
) -> tuple[Problem, ...]:
    """What is wrong with the graph, once it is legalized. fits: with the rewrites that fit it to the limits, too."""
    device = DV700._replace(limits=limits, rules=rules)
    passes = legalization(device, Fusion.FULL, transposed, uses_sdk_softmax, NO_PALETTES)
    graph = run_passes([each for each in passes if fits or each.name not in FITTING], graph)
    try:
        check(*partition(graph, device, transposed=transposed), device, legal=graph)
    except UnsupportedError as error:
        return error.problems
    return ()


def chain(*made: Op, shape: Shape = Shape(8, 8, 8)) -> Graph:
    nodes = [Node("x", ops.Input(shape))]
    for op, name in zip(made, "abcdefgh", strict=False):
        nodes.append(Node(name, op, (nodes[-1].name,), (Origin("net", name, type(op).__name__),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def conv(height: int = 1, width: int = 1, *, channels: int = 8, out: int = 8, **window: Any) -> Op:
    return ops.Conv2d(zeros(out, channels, height, width), None, Window(Pair(height, width))._replace(**window))


def deconv(kernel: int, *, channels: int = 8, **window: Any) -> Op:
    made = Window(Pair(kernel, kernel))._replace(**window)
    return ops.ConvTranspose2d(zeros(8, channels, kernel, kernel), None, made)


def cut_off(kernel: int, *, stride: int = 2, dilation: int = 1) -> Op:
    """A deconvolution of which more output is wanted than its kernel reaches, so that it cannot be cut up."""
    made = Window(Pair(kernel, kernel), Pair(stride, stride), Pair(dilation, dilation))
    return ops.ConvTranspose2d(zeros(8, 8, kernel, kernel), None, made, Pair(stride - 1, stride - 1))


def average(kernel: int, stride: int = 1, factor: float | None = None, uncounted: Padding = ops.NO_PADDING) -> Op:
    return ops.AveragePool2d(Window(Pair(kernel, kernel), Pair(stride, stride)), uncounted, factor)


def max_pool(height: int, width: int, stride: int = 1) -> Op:
    return ops.MaxPool2d(Window(Pair(height, width), Pair(stride, stride)))


def pad(**sides: int) -> Padding:
    return ops.NO_PADDING._replace(**sides)


AROUND = conv(3, 3, channels=1, padding=Padding(1, 1, 1, 1))  # for the device alone

LARGE = Shape(300, 300, 1)

# code, the last that passes, the first that does not, what is said of it
CASES: list[tuple[str, Graph, Graph, str]] = [
    ("DV401", chain(cut_off(6)), chain(cut_off(8)), "the kernel 8x8 is larger than 7x7"),
    ("DV402", chain(conv(channels=1, stride=Pair(255, 1)), shape=LARGE), chain(conv(channels=1, stride=Pair(256, 1)), shape=LARGE),
     "the stride 256x1 is larger than 255"),
    ("DV402", chain(max_pool(2, 2, 255), shape=LARGE), chain(max_pool(2, 2, 256), shape=LARGE), "the stride 256x256 is larger than 255"),
    ("DV402", chain(average(2, 255), shape=LARGE), chain(average(2, 256), shape=LARGE), "the stride 256x256 is larger than 255"),
    ("DV402",
     chain(conv(3, 1, channels=1, dilation=Pair(127, 1), padding=pad(top=127, bottom=127)), shape=LARGE),
     chain(conv(3, 1, channels=1, dilation=Pair(256, 1), padding=pad(top=256, bottom=256)), shape=LARGE),
     "the dilation 256x1 is larger than 255"),
    ("DV403", chain(deconv(7, stride=Pair(2, 2))), chain(ops.MaxPool2d(Window(Pair(3, 3), padding=pad(left=128))), shape=Shape(8, 300, 8)),
     "the padding of 128 at the left is larger than 127"),
    ("DV403", chain(deconv(3, padding=Padding(2, 2, 2, 2))), chain(deconv(3, padding=pad(bottom=3))),
     "the deconvolution cuts 1 more at the bottom than its kernel reaches over the border"),
    ("DV404", chain(average(1), shape=Shape(1024, 2047, 1)), chain(average(2, 2), shape=Shape(1025, 2, 1)),
     "the input 1025x2x1 (height x width x channels) is larger than 1024x2047"),
    ("DV404", chain(average(1), shape=Shape(1024, 2047, 1)), chain(ops.Upsample(Pair(2, 2)), shape=Shape(1, 1024, 1)),
     "the output 2x2048x1 (height x width x channels) is larger than 1024x2047"),
    ("DV404", chain(conv(channels=32_768), shape=Shape(1, 1, 32_768)), chain(conv(channels=32_769), shape=Shape(1, 1, 32_769)),
     "the input has 32769 channels, more than 32768"),
    ("DV404", chain(conv(out=32_768), shape=Shape(1, 1, 8)), chain(conv(out=32_769), shape=Shape(1, 1, 8)),
     "the output has 32769 channels, more than 32768"),
    ("DV404", chain(ops.Dense(zeros(8, 8, 64, 64), None), shape=Shape(64, 64, 8)),
     chain(ops.Dense(zeros(8, 9, 64, 64), None), shape=Shape(64, 64, 9)), "the input has 36864 channels, more than 32768"),
    ("DV404", chain(average(1), shape=Shape(1, 1, 65_535)), chain(average(1), shape=Shape(1, 1, 65_536)),
     "the input has 65536 channels, more than 65535"),
    ("DV405", chain(conv(3, 3, channels=1000), shape=Shape(90, 90, 1000)), chain(conv(3, 3, channels=1000), shape=Shape(120, 120, 1000)),
     "an input of 120x120x1000 does not fit the unified buffer of 655360 bytes in any number of tiles"),
    ("DV411", chain(deconv(3, dilation=Pair(4, 4), padding=Padding(4, 4, 4, 4))),
     chain(cut_off(3, stride=3, dilation=4)),
     "a convolution with dilation 4x4 is a deconvolution with stride 3x3"),
    ("DV416", chain(ops.MaxPool2d(Window(Pair(2, 2), padding=pad(top=1)))), chain(ops.MaxPool2d(Window(Pair(2, 2), padding=pad(top=2)))),
     "a window of the max pool covers only padding, which has no maximum"),
    ("DV416", chain(ops.MaxPool2d(Window(Pair(2, 2), padding=pad(right=1)))), chain(ops.MaxPool2d(Window(Pair(1, 9), padding=pad(right=9)))),
     "a window of the max pool covers only padding, which has no maximum"),
    ("DV421", chain(ops.Custom("Mine", (), Shape(2, 2, 8))), chain(ops.Custom("Mine", (), Shape(2, 2, 8)), conv()),
     'it reads the result of "a", a layer of the firmware'),
    ("DV421", chain(ops.Custom("Mine", (), Shape(2, 2, 8)), ops.Unary(ops.Absolute())),
     chain(ops.Custom("Mine", (), Shape(2, 2, 8)), ops.Reshape(Shape(4, 1, 8), Order.HWC), ops.Concat()),
     'it reads the result of "a", a layer of the firmware'),
    ("DV424", chain(ops.ArgMax(ops.Axis.CHANNELS), AROUND, shape=Shape(1, 1, 2049)),
     chain(ops.ArgMax(ops.Axis.CHANNELS), AROUND, shape=Shape(1, 1, 2050)),
     "the next layer reads FP16, which cannot hold the indices of 2050 elements"),
    ("DV424", chain(ops.ArgMax(None), shape=Shape(60, 60, 1)), chain(ops.ArgMax(None, 2, values=True), conv(channels=2), shape=Shape(60, 60, 1)),
     "the next layer reads FP16, which cannot hold the indices of 3600 elements"),
    ("DV503", chain(average(1, factor=65_504.0)), chain(average(1, factor=65_600.0)), "the factor 65600 is not near any FP16 number"),
    ("DV503", chain(average(1, factor=-6e-8)), chain(average(1, factor=1e-8)), "the factor 1e-08 is not near any FP16 number"),
    ("DV503", chain(average(1, factor=0.0)), chain(average(1, factor=float("nan"))), "the factor nan is not near any FP16 number"),
    ("DV503", chain(ops.Activation(ops.Relu(0.01))), chain(ops.Activation(ops.Relu(1e6))), "the slope 1e+06 is not near any FP16 number"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "passing", "broken", "message"), CASES, ids=[f"{c[0]} {c[3][:60]}" for c in CASES])
def test_rule(code: str, passing: Graph, broken: Graph, message: str) -> None:
    assert problems(passing) == ()
    found = [problem for problem in problems(broken) if problem.code == code]
    assert [problem.message for problem in found] == [message]
    assert found[0].where is not None and found[0].where.file == "net"
    assert found[0].hint


# rules that networks break only where a board has a limit that no rewrite can keep
OF_SIZES = {"DV401", "DV402", "DV403", "DV404", "DV405", "DV411", "DV418", "DV419"}


@pytest.mark.parametrize(("code", "broken"), [(c[0], c[2]) for c in CASES if c[0] in OF_SIZES])
@pytest.mark.parametrize("transposed", [False, True])
def test_no_size_is_refused(code: str, broken: Graph, transposed: bool) -> None:
    assert code in {problem.code for problem in problems(broken)}
    left = {problem.code for problem in problems(broken, fits=True, transposed=transposed)}
    assert left <= {"DV416"}  # a maximum of padding alone has no value


def test_a_map_that_is_too_large_is_told_where_it_begins() -> None:
    wide = chain(
        ops.Upsample(Pair(2, 2)), average(1), conv(), max_pool(2, 2, 2), average(2, 2), shape=Shape(8, 2000, 8)
    )
    (found,) = problems(wide)
    assert found.where == Origin("net", "a", "Upsample")
    assert found.message == "the output 16x4000x8 (height x width x channels) is larger than 1024x2047"
    (found,) = problems(chain(average(1), average(1), conv(), shape=Shape(8, 3000, 8)))
    assert found.message.startswith("the input 8x3000x8") and found.where == Origin("net", "a", "AveragePool2d")
    channels = chain(average(1), conv(channels=40_000), shape=Shape(1, 1, 40_000))
    (found,) = problems(channels)  # a pool may have so many
    assert (found.where, found.message) == (
        Origin("net", "b", "Conv2d"),
        "the input has 40000 channels, more than 32768",
    )


def moved(limits: Limits, op: Op, shape: Shape) -> tuple[Pair, Shape]:
    graph = legalize(chain(op, shape=shape), DV700._replace(limits=limits), transposed=True)
    made = graph["a"].op
    assert isinstance(made, ops.Conv2d | ops.ConvTranspose2d | ops.AveragePool2d)
    return made.window.stride, graph.shape("a")


def test_a_stride_that_moves_no_window_may_be_any() -> None:
    assert moved(LIMITS, conv(stride=Pair(300, 300)), Shape(16, 1, 8)) == (Pair(16, 1), Shape(1, 1, 8))
    assert moved(LIMITS, conv(3, 3, stride=Pair(999, 2)), Shape(257, 9, 8)) == (Pair(255, 2), Shape(1, 4, 8))
    assert moved(LIMITS, average(7, 1000), Shape(7, 7, 8)) == (Pair(1, 1), Shape(1, 1, 8))
    padded = average(2, 1000, uncounted=pad(right=1, bottom=1), factor=0.25)
    assert moved(LIMITS, padded, Shape(3, 3, 8)) == (Pair(3, 3), Shape(1, 1, 8))
    assert moved(LIMITS, deconv(3, stride=Pair(300, 2)), Shape(1, 4, 8)) == (Pair(1, 2), Shape(3, 9, 8))
    assert moved(LIMITS, conv(stride=Pair(2, 300)), Shape(16, 16, 8)) == (Pair(2, 16), Shape(8, 1, 8))


SDK_SOFTMAX = chain(ops.Softmax(), shape=Shape(1, 1, 2049))


def test_every_rule_can_fire_by_itself() -> None:
    """With no other rule, for a network of this file."""
    networks = [*((broken, LIMITS) for _, _, broken, _ in CASES), *((graph, limits) for _, limits, graph in LOWERED)]
    fired = {rule.code for rule in RULES if any(problems(*network, rules=(rule,)) for network in networks)}
    (softmax,) = (rule for rule in RULES if rule.code == "DV425")
    assert problems(SDK_SOFTMAX, rules=(softmax,), uses_sdk_softmax=True)
    silent = [rule.code for rule in RULES if rule.code not in fired | {softmax.code}]
    assert silent == [], "add a network that breaks the rule to CASES, or to LOWERED with a lower limit"
    assert len({rule.code for rule in RULES}) == len(RULES)


def inner_concatenation() -> Graph:
    """Two convolutions of one map share a command and, in the program, a concatenation inside that of all three parts."""
    inputs = [Node(name, ops.Input(Shape(8, 8, 8))) for name in "xy"]
    parts = [Node(name, conv(1, 1), (source,), (Origin("net", name),)) for name, source in ("ax", "bx", "cy")]
    return Graph(
        (*inputs, *parts, Node("joined", ops.Concat(), ("a", "b", "c"), (Origin("net", "joined"),))), ("joined",)
    )


def test_a_rule_on_the_graph_sees_the_inputs_that_the_network_has() -> None:
    """A rule on commands does not: there, parts of a concatenation lie in an inner one."""

    def too_many_parts(*nodes: Node) -> Iterator[Breach]:
        return (Breach(n.where, "parts") for n in nodes if isinstance(n.op, ops.Concat) and len(n.inputs) > 2)

    on_graph = Rule("DV499", RunsOn.GRAPH, lambda subject: too_many_parts(subject.node), "", False)
    on_command = Rule("DV499", RunsOn.COMMAND, lambda subject: too_many_parts(*subject.step.nodes), "", False)
    graph = inner_concatenation()
    assert [problem.where for problem in problems(graph, rules=(on_graph,))] == [Origin("net", "joined")]
    assert problems(graph, rules=(on_command,)) == ()


def test_a_rule_on_the_graph_sees_every_node_once() -> None:
    def told(subject: NodeSubject) -> Iterator[Breach]:
        yield Breach(None, subject.node.name)

    graph = chain(conv(), ops.Reshape(Shape(1, 1, 512), Order.MEMORY), average(1))
    found = problems(graph, rules=(Rule("DV499", RunsOn.GRAPH, told, "", False),))
    assert sorted(problem.message for problem in found) == ["a", "b", "c", "x"]


def test_every_limit_is_used() -> None:
    text = "".join(path.read_text("utf-8") for path in Path(dv700.__file__).parent.rglob("*.py"))
    assert [field for field in Limits._fields if not re.search(rf"(limits|self)\.{field}\b", text)] == []


LOWERED: list[tuple[str, Limits, Graph]] = [
    ("DV401", LIMITS._replace(max_kernel_size=3), chain(cut_off(4))),
    ("DV402", LIMITS._replace(max_stride=1), chain(conv(stride=Pair(2, 2)))),
    ("DV402", LIMITS._replace(max_dilation=1), chain(conv(3, 3, dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2)))),
    ("DV403", LIMITS._replace(max_padding_left_top=1), chain(deconv(3))),
    ("DV403", LIMITS._replace(max_padding_right_bottom=1), chain(deconv(3))),
    ("DV404", LIMITS._replace(max_width=7), chain(conv())),
    ("DV404", LIMITS._replace(max_height=7), chain(conv())),
    ("DV404", LIMITS._replace(max_channels=7), chain(conv())),
    ("DV404", LIMITS._replace(max_field=7), chain(average(2))),
    ("DV405", LIMITS._replace(ub_size=100), chain(conv(channels=9), shape=Shape(8, 8, 9))),
    ("DV418", LIMITS._replace(deconvolves=False), chain(deconv(3))),
    (
        "DV419",
        LIMITS._replace(pads_beyond_map=False),
        chain(conv(7, 7, padding=pad(top=3, bottom=3)), shape=Shape(2, 8, 8)),
    ),
    (
        "DV424",
        LIMITS._replace(max_exact_integer=6),
        chain(ops.ArgMax(ops.Axis.CHANNELS), AROUND, shape=Shape(1, 1, 8)),
    ),
]


@pytest.mark.parametrize(("code", "limits", "graph"), LOWERED)
def test_every_limit_has_an_effect(code: str, limits: Limits, graph: Graph) -> None:
    assert problems(graph) == ()
    assert code in {problem.code for problem in problems(graph, limits)}


# limits whose excess the CPU takes
POOLED: list[tuple[Limits, Graph]] = [
    (LIMITS._replace(max_pool_widths=(3,)), chain(max_pool(2, 2))),
    (LIMITS._replace(max_pool_heights=(3,)), chain(max_pool(2, 2))),
    (LIMITS._replace(max_average_pool=2), chain(average(3))),
    (LIMITS._replace(pools_unevenly=False), chain(max_pool(1, 2))),
    (LIMITS._replace(pools_unevenly=False), chain(ops.AveragePool2d(Window(Pair(2, 3))))),
]


@pytest.mark.parametrize(("limits", "graph"), POOLED)
def test_pools_beyond_the_limits_run_on_the_cpu(limits: Limits, graph: Graph) -> None:
    assert "OnCpu" not in str(legalize(graph, DV700, transposed=True))
    assert "OnCpu" in str(legalize(graph, DV700._replace(limits=limits), transposed=True))
    assert problems(graph, limits, fits=True) == ()


def test_every_limit_was_lowered() -> None:
    lowered: Iterable[str] = [
        field
        for limits in (*(limits for _, limits, _ in LOWERED), *(limits for limits, _ in POOLED))
        for field in Limits._fields
        if getattr(limits, field) != getattr(LIMITS, field)
    ]
    elsewhere = {"max_runs", "pools_tiles"}  # test_partition.py, test_profiles.py
    advice = "add a row with the lower limit to LOWERED, or to POOLED if the CPU takes what exceeds it"
    assert {*lowered, *elsewhere} == set(Limits._fields), advice


def test_a_dilation_needs_the_size_of_its_input_with_stride_1_too() -> None:
    """legalize pads such a convolution, so the rule sees one only if that fails."""
    graphs = [
        chain(conv(3, 3, dilation=Pair(2, 2), stride=Pair(2, 2), padding=padding), shape=Shape(16, 16, 8))
        for padding in (Padding(1, 2, 1, 2), Padding(1, 3, 1, 3))
    ]
    padded, same = (
        [p.message for p in broken_rules(*partition(g, DV700, transposed=True), DV700, legal=g)] for g in graphs
    )
    assert [text.partition(" from ")[0] for text in padded] == [
        "a convolution with dilation 2x2 and stride 2x2 would give 15x15"
    ]
    assert same == []
    assert problems(graphs[0]) == ()


def test_all_broken_rules_are_told_together_in_network_order() -> None:
    found = problems(
        chain(
            ops.MaxPool2d(Window(Pair(2, 2), padding=pad(top=2))),
            cut_off(8),
            cut_off(10),
            average(2, 300),
            shape=Shape(30, 303, 8),
        )
    )
    assert [(problem.code, problem.where.layer if problem.where else "") for problem in found] == [
        ("DV416", "a"),
        ("DV401", "b"),
        ("DV401", "c"),
        ("DV402", "d"),
    ]


def test_the_layer_at_fault_is_named_and_not_its_neighbors_in_the_command() -> None:
    batch_norm = ops.BatchNorm(zeros(8), Constant.of(np.ones(8)), None, None, 0.0)
    relu, leaky = ops.Activation(ops.Relu()), ops.Activation(ops.Relu(1e9))
    graph = chain(
        ops.Pad(Padding(1, 1, 1, 1)), cut_off(8), batch_norm, leaky, max_pool(3, 3, 300), average(2, 2, 1e9), relu,
        shape=Shape(700, 700, 8),
    )  # fmt: skip
    found = problems(optimize(graph))
    assert [(problem.code, problem.where.layer if problem.where else "") for problem in found] == [
        ("DV401", "b"),
        ("DV503", "d"),
        ("DV402", "e"),
        ("DV503", "f"),
    ]


def test_the_same_is_not_told_twice() -> None:
    found = problems(chain(conv(stride=Pair(300, 300)), average(1, 300), shape=Shape(700, 700, 8)))
    assert len(found) == len(set(found))


def test_nothing_is_refused_for_the_order_of_maps_alone() -> None:
    graph = chain(conv(3, 3), max_pool(2, 2), ops.Dense(zeros(10, 8, 5, 5), None))
    assert problems(graph, transposed=False) == problems(graph, transposed=True) == ()


def test_the_manual_has_every_rule() -> None:
    for rule in RULES:
        entry = entries()[rule.code]
        assert entry.cause == " ".join(rule.describe(Limits()).split())
        assert entry.remedy[1:] == f"{rule.hint[1:]}."


@pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])
def test_rules_take_their_numbers_from_the_limits(rule: Rule) -> None:
    without_numbers = Limits._make("n" for _ in Limits._fields)
    assert not re.findall(r"\b\d{2,}\b", rule.describe(without_numbers))
