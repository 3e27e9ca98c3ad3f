"""Which forms a command contains, and how well each is known to work."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.devices.dv700.commands import run_of
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, read_profile
from cnn_convertor.devices.dv700.fusion.combining import split_runs
from cnn_convertor.devices.dv700.fusion.forms import evidence_of, forms_of
from cnn_convertor.devices.dv700.fusion.levels import ALLOWED, Evidence, Form
from cnn_convertor.devices.dv700.fusion.partition import partition
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Op, Padding, Pair, Shape, Window
from devices.dv700.legal import legalize

DEFAULT = read_profile(DEFAULT_DEVICE, Path())
RELU = ops.Relu()
MAX = ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2)))
MAX_SAME = ops.MaxPool2d(Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))
AVERAGE = ops.AveragePool2d(Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))
SLOPES = ops.PRelu(Constant.of(np.full(8, 0.25)))
ADD = ops.Add(RELU)


def conv(kernel: int = 1, out: int = 8, channels: int = 8, stride: int = 1, function: ops.Function | None = None) -> Op:
    window = Window(Pair(kernel, kernel), Pair(stride, stride), padding=Padding(*[kernel // 2] * 4))
    return ops.Conv2d(Constant.of(np.ones((out, channels, kernel, kernel))), None, window, activation=function)


def depthwise(kernel: int = 1, dilation: int = 1) -> Op:
    window = Window(
        Pair(kernel, kernel), dilation=Pair(dilation, dilation), padding=Padding(*[kernel // 2 * dilation] * 4)
    )
    return ops.Conv2d(Constant.of(np.ones((8, 1, kernel, kernel))), None, window, 8)


DECONV = ops.ConvTranspose2d(Constant.of(np.ones((8, 8, 2, 2))), None, Window(Pair(2, 2), Pair(2, 2)))
DENSE = ops.Dense(Constant.of(np.ones((8, 8, 1, 1))), None)

PROVEN, DOCUMENTED, ACCEPTED = Evidence.PROVEN, Evidence.DOCUMENTED, Evidence.ACCEPTED
SMALL, VECTOR, LARGE = Shape(8, 8, 8), Shape(1, 1, 8), Shape(40, 600, 64)
# The branches of a command, each a list of operators; the forms that matter, and the weakest evidence.
COMMANDS: dict[str, tuple[Shape, list[list[Op]], set[Form], Evidence]] = {
    "a convolution": (SMALL, [[conv(3)]], set(), PROVEN),
    "a convolution in several tiles with a max pool": (LARGE, [[conv(3, 64, 64), MAX]], {Form.TILED_POOL}, ACCEPTED),
    "a strided depthwise convolution with slopes": (SMALL, [[depthwise(3)]], set(), PROVEN),
    "a dilated depthwise convolution": (SMALL, [[depthwise(3, 2)]], {Form.DILATED_DEPTHWISE}, ACCEPTED),
    "a deconvolution": (SMALL, [[DECONV]], set(), PROVEN),
    "an addition": (SMALL, [[ADD]], set(), PROVEN),
    "an addition behind an average pool": (SMALL, [[AVERAGE, ADD]], {Form.ADDITION}, PROVEN),
    "an addition behind a strided copy": (
        SMALL, [[ops.AveragePool2d(Window(Pair(1, 1), Pair(2, 2)), factor=1.0), ADD]], {Form.ADDITION}, PROVEN,
    ),
    "an addition behind a 1x1 depthwise convolution": (SMALL, [[depthwise(), ADD]], {Form.ADDITION}, PROVEN),
    "an addition behind a 3x3 depthwise convolution": (SMALL, [[depthwise(3), ADD]], {Form.CONV_ADDITION}, DOCUMENTED),
    "an addition behind a convolution": (SMALL, [[conv(3), ADD]], {Form.CONV_ADDITION}, DOCUMENTED),
    "an addition behind a convolution, with a max pool": (
        SMALL, [[conv(3), ops.Add(), MAX]], {Form.CONV_ADDITION}, DOCUMENTED,
    ),
    "an addition behind a fully connected layer": (VECTOR, [[DENSE, ADD]], {Form.CONV_ADDITION}, DOCUMENTED),
    "an addition behind a convolution in several tiles": (
        LARGE, [[conv(3, 64, 64), ADD]], {Form.TILED_ADDITION}, ACCEPTED,
    ),
    "an addition behind a deconvolution": (SMALL, [[DECONV, ADD]], {Form.DECONV_RUN}, ACCEPTED),
    "a max pool behind a deconvolution": (SMALL, [[DECONV, MAX]], {Form.DECONV_RUN}, ACCEPTED),
    "branches of one run": (SMALL, [[conv()], [conv(3, stride=2)], [depthwise(3)]], {Form.BRANCHES}, PROVEN),
    "an inception module": (
        SMALL, [[conv()], [conv(), conv(3)], [conv(), conv(5)], [MAX_SAME, conv()]],
        {Form.BRANCHES, Form.INCEPTION_BRANCH}, PROVEN,
    ),
    "an inception module with a max pool": (
        SMALL, [[conv(), MAX], [conv(), conv(3), MAX]], {Form.BRANCHES, Form.INCEPTION_BRANCH}, PROVEN,
    ),
    "one such branch alone": (SMALL, [[conv(), conv(3)]], {Form.CHAIN, Form.INCEPTION_BRANCH}, ACCEPTED),
    "a chain of three": (SMALL, [[conv(), conv(3), conv()]], {Form.CHAIN, Form.INCEPTION_BRANCH, Form.OTHER_BRANCH}, ACCEPTED),
    "a deeper branch": (
        SMALL, [[conv()], [conv(), conv(3), conv(3)]],
        {Form.BRANCHES, Form.DEEP_BRANCH, Form.INCEPTION_BRANCH, Form.OTHER_BRANCH}, ACCEPTED,
    ),
    "another pair": (SMALL, [[conv()], [conv(3), conv()]], {Form.BRANCHES, Form.OTHER_BRANCH}, ACCEPTED),
    "a larger kernel": (SMALL, [[conv()], [conv(), conv(7)]], {Form.BRANCHES, Form.OTHER_BRANCH}, ACCEPTED),
    "a max pool in the middle": (
        SMALL, [[conv()], [conv(), MAX_SAME, conv(3)]], {Form.BRANCHES, Form.OTHER_BRANCH}, ACCEPTED,
    ),
    "slopes in the buffer": (
        SMALL, [[conv()], [conv(function=SLOPES), conv(3)]], {Form.BRANCHES, Form.PRELU_IN_BUFFER}, ACCEPTED,
    ),
    "slopes at the end": (
        SMALL, [[conv()], [conv(), conv(3, function=SLOPES)]], {Form.BRANCHES, Form.INCEPTION_BRANCH}, PROVEN,
    ),
    "channels that fill no chunk": (
        SMALL, [[conv()], [conv(out=12), conv(3, channels=12)]], {Form.BRANCHES, Form.CHANNELS_IN_BUFFER}, ACCEPTED,
    ),
    "a stride in front": (SMALL, [[conv()], [conv(stride=2), conv(3)]], {Form.BRANCHES, Form.STRIDED}, ACCEPTED),
    "a stride behind": (SMALL, [[conv()], [conv(), conv(3, stride=2)]], {Form.BRANCHES, Form.STRIDED}, ACCEPTED),
    "a strided pool in front": (SMALL, [[conv()], [MAX, conv()]], {Form.BRANCHES, Form.STRIDED}, ACCEPTED),
    "depthwise in front": (SMALL, [[conv()], [depthwise(), conv(3)]], {Form.BRANCHES, Form.DEPTHWISE}, ACCEPTED),
    "depthwise behind": (SMALL, [[conv()], [conv(), depthwise(3)]], {Form.BRANCHES, Form.DEPTHWISE}, ACCEPTED),
    "branches of some channels each": (
        SMALL, [[conv(), depthwise(3)], [conv(), depthwise(3)]], {Form.BRANCHES, Form.DEPTHWISE, Form.CHANNEL_SPLIT}, ACCEPTED,
    ),
    "one of two branches mixes channels again": (
        SMALL, [[conv(), depthwise(3)], [conv(), depthwise(3), conv()]],
        {Form.BRANCHES, Form.DEEP_BRANCH, Form.DEPTHWISE}, ACCEPTED,
    ),
    "an average pool": (SMALL, [[conv()], [AVERAGE, conv()]], {Form.BRANCHES, Form.AVERAGE_POOL}, ACCEPTED),
    "fully connected layers": (VECTOR, [[DENSE], [DENSE, DENSE]], {Form.BRANCHES, Form.DENSE}, ACCEPTED),
    "packed factors": (SMALL, [[ops.ScaledBy()]], {Form.PACKED_FACTORS}, ACCEPTED),
    "packed factors with an addition": (SMALL, [[ops.ScaledBy(), ADD]], {Form.PACKED_FACTORS, Form.ADDITION}, ACCEPTED),
    "packed factors before a convolution": (
        SMALL, [[ops.ScaledBy(), conv(3)]], {Form.PACKED_FACTORS, Form.CHAIN, Form.DEPTHWISE}, ACCEPTED,
    ),
    "a packed matrix": (SMALL, [[ops.TimesPacked(8)]], {Form.PACKED_MATRIX}, ACCEPTED),
    "a packed matrix in several tiles": (LARGE, [[ops.TimesPacked(8)]], {Form.PACKED_MATRIX}, ACCEPTED),
    "a packed matrix before a convolution": (
        SMALL, [[ops.TimesPacked(8), conv()]], {Form.PACKED_MATRIX, Form.CHAIN, Form.OTHER_BRANCH}, ACCEPTED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("x", "branches", "expected", "weakest"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_has_these_forms(x: Shape, branches: list[list[Op]], expected: set[Form], weakest: Evidence) -> None:
    nodes = [
        Node("x", ops.Input(x)),
        Node("f", ops.Input(Shape(1, 1, ops.packed_factors(x.channels)))),
        Node("m", ops.Input(Shape(1, 1, ops.packed_matrix(8, x.channels)))),
    ]
    paths: list[tuple[Node, ...]] = []
    for path in branches:
        before, made = "x", list[Node]()
        for op in path:
            reads = {ops.Add: (before, before), ops.ScaledBy: (before, "f"), ops.TimesPacked: (before, "m")}.get(
                type(op), (before,)
            )
            made.append(Node(before := f"n{len(nodes) + len(made)}", op, reads))
        nodes += made
        paths.append(tuple(made))
    graph = Graph(tuple(nodes), tuple(path[-1].name for path in paths))
    adds = any(isinstance(op, ops.Add) for path in branches for op in path)
    runs = [[run_of(graph, n, transposed=True) for n in split_runs(path)] for path in paths]
    found = set(forms_of(runs, adds=adds, limits=Limits()))
    assert found - {Form.RUN} == expected
    assert min(form.evidence for form in found) is weakest
    allowed = {fusion: found <= forms for fusion, forms in ALLOWED.items()}
    assert allowed == {
        Fusion.NONE: not expected,
        Fusion.PROVEN: weakest is PROVEN,
        Fusion.DOCUMENTED: weakest > ACCEPTED,
        Fusion.FULL: Form.TILED_POOL not in expected,  # a matter of driver and hardware: test_profiles.py
    }


def test_every_form_is_in_a_case() -> None:
    seen = {form for _, _, forms, _ in COMMANDS.values() for form in forms}
    assert seen == set(Form) - {Form.RUN}


def test_a_level_allows_what_the_one_before_it_allows() -> None:
    levels = (Fusion.NONE, Fusion.PROVEN, Fusion.DOCUMENTED, Fusion.FULL)
    assert all(ALLOWED[less] < ALLOWED[more] for less, more in pairwise(levels))


def test_commands_of_a_program_have_evidence() -> None:
    rows = [("a", conv(), "x"), ("b", conv(3), "a"), ("c", conv(), "b"), ("sum", ADD, "c x"), ("d", conv(), "sum")]
    nodes = (Node("x", ops.Input(SMALL)), *(Node(name, op, tuple(reads.split())) for name, op, reads in rows))
    graph = legalize(Graph(nodes, ("d",)), DV700, transposed=True)
    evidence = {}
    for fusion in Fusion:
        program = lower(*partition(graph, DV700, transposed=True, fusion=fusion), name="net", transposed=True)
        evidence[fusion] = [evidence_of(layer, DEFAULT) for layer in program.layers if layer.runs]
    assert evidence == {
        Fusion.NONE: [PROVEN] * 5,
        Fusion.PROVEN: [PROVEN] * 5,
        Fusion.DOCUMENTED: [PROVEN, PROVEN, DOCUMENTED, PROVEN],
        Fusion.FULL: [ACCEPTED, DOCUMENTED, PROVEN],
    }
