"""Finds the forms that a command contains."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from cnn_convertor.devices.dv700.commands import joins_run, run_of
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.levels import Evidence, Form
from cnn_convertor.devices.dv700.fusion.ub_fit import strips
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.memory_layout import CHUNK
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.runs import ConvolutionKind, Layer, Pooling, PoolingKind, Run, operand_of
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import NO_PADDING, ONE, Add, Pair, PRelu

_BARE_ADDITION = Pooling(PoolingKind.AVERAGE, ONE, ONE, NO_PADDING, 1.0)  # the run that an addition has by itself


def forms_of(branches: Sequence[Sequence[Run]], *, adds: bool, limits: Limits) -> Iterator[Form]:
    """Every form that a command contains.

    branches: runs that read one another's maps from the unified buffer; the last run of each writes to external memory.
    adds: the command has one run, with an element-wise addition.
    """
    if len(branches) > 1:
        yield Form.BRANCHES
        if all(map(_keeps_channels_apart, branches)):
            yield Form.CHANNEL_SPLIT
    for branch in branches:
        if len(branch) > 1 and len(branches) == 1:
            yield Form.CHAIN
        elif len(branch) > 2:
            yield Form.DEEP_BRANCH
        for run in branch:
            yield from _run_forms(run, adds=adds, limits=limits)
        for writer, reader in pairwise(branch):
            yield from _pair_forms(writer, reader)


def _run_forms(run: Run, *, adds: bool, limits: Limits) -> Iterator[Form]:
    yield Form.RUN
    convolution, pooling = run.convolution, run.pooling
    if run.factors is not None:
        yield Form.PACKED_FACTORS if run.factors.kind.is_depthwise else Form.PACKED_MATRIX
    if convolution is None:
        if adds and pooling != _BARE_ADDITION:
            yield Form.ADDITION
        return
    if convolution.kind.is_depthwise and convolution.dilation != ONE:
        yield Form.DILATED_DEPTHWISE
    is_tiled = strips(run, ub_size=limits.ub_size) != 1
    if is_tiled and pooling is not None:
        yield Form.TILED_POOL
    if convolution.kind.is_transposed:
        if adds or pooling is not None:
            yield Form.DECONV_RUN
    elif adds:
        if is_tiled:
            yield Form.TILED_ADDITION
        elif convolution.kind.is_depthwise and convolution.kernel == ONE:
            yield Form.ADDITION
        else:
            yield Form.CONV_ADDITION


def _pair_forms(writer: Run, reader: Run) -> Iterator[Form]:
    """The forms of two runs, the second of which reads what the first writes to the unified buffer."""
    forms = [form for form, applies in _IN_BUFFER if applies(writer, reader)]
    if forms:
        yield from forms
    else:
        yield Form.INCEPTION_BRANCH if _is_inception(writer, reader) else Form.OTHER_BRANCH


def _is_inception(writer: Run, reader: Run) -> bool:
    """Whether published sources run such a pair. A max pool at the end of a branch is tested; none stands in the middle."""
    first, last = writer.convolution, reader.convolution
    ends_plainly = reader.pooling is None or reader.pooling.kind is PoolingKind.MAX
    if last is None or last.kind is not ConvolutionKind.CONVOLUTION or not ends_plainly:
        return False
    if first is None:
        return writer.pooling is not None and writer.pooling.kind is PoolingKind.MAX and last.kernel == ONE
    is_plain = first.kind is ConvolutionKind.CONVOLUTION and first.kernel == ONE and writer.pooling is None
    return is_plain and last.kernel in {Pair(3, 3), Pair(5, 5)}


def _keeps_channels_apart(branch: Sequence[Run]) -> bool:
    """Whether a branch is a convolution and then runs that compute each channel by itself, so that channels can be split."""
    first, *rest = branch
    is_convolution = first.convolution is not None and not first.convolution.kind.is_depthwise
    return is_convolution and bool(rest) and all(run.convolution is None or _is_depthwise(run) for run in rest)


def _is_strided(writer: Run, reader: Run) -> bool:
    windows = (writer.convolution, writer.pooling, reader.convolution or reader.pooling)
    return any(window is not None and window.stride != ONE for window in windows)


def _is_depthwise(run: Run) -> bool:
    return run.kind is not None and run.kind.is_depthwise


def _is_average(run: Run) -> bool:
    return run.pooling is not None and run.pooling.kind is PoolingKind.AVERAGE


_IN_BUFFER: tuple[tuple[Form, Callable[[Run, Run], bool]], ...] = (
    (Form.PRELU_IN_BUFFER, lambda writer, _: isinstance(writer.activation, PRelu)),
    (Form.CHANNELS_IN_BUFFER, lambda writer, _: writer.output.channels % CHUNK != 0),
    (Form.STRIDED, _is_strided),
    (Form.DEPTHWISE, lambda writer, reader: _is_depthwise(writer) or _is_depthwise(reader)),
    (Form.AVERAGE_POOL, lambda writer, reader: _is_average(writer) or _is_average(reader)),
    (Form.DENSE, lambda _, reader: reader.input.is_vector),
)


def shares_run(graph: Graph, before: Node, node: Node, *, fusion: Fusion, device: Device) -> bool:
    """Whether the node runs together with the one before it, and the level of fusion allows that."""
    if not graph.is_private(before.name) or not joins_run((before,), node):
        return False
    run = run_of(graph, (before, node), transposed=False)
    return device.forms[fusion].issuperset(forms_of([[run]], adds=isinstance(node.op, Add), limits=device.limits))


def evidence_of(layer: Layer, profile: Profile) -> Evidence:
    """The weakest evidence for what a command of the program contains."""
    return min(map(profile.evidence, forms_of_layer(layer, profile.limits)))


def forms_of_layer(layer: Layer, limits: Limits) -> frozenset[Form]:
    """Every form that a command of the program contains."""
    branches: list[list[Run]] = [[]]
    for run in layer.runs:
        branches[-1].append(run)
        if run.external:
            branches.append([])
    return frozenset(forms_of(branches[:-1], adds=operand_of(layer) is not None, limits=limits))
