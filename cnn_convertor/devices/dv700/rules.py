"""The rules of the device.

The docstring of a rule is its entry in docs/messages.md, with the limits in braces. What it yields is the user's error.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, overload

from cnn_convertor.devices.dv700.commands import WITH_PACKED, Command, buffer_owner, buffer_users, is_view, layer_type
from cnn_convertor.devices.dv700.device import Breach, Device, NodeSubject, Rule, RunsOn, Subject
from cnn_convertor.devices.dv700.encode.registers import half_bits
from cnn_convertor.devices.dv700.fusion.ub_fit import strips
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.memory.placement import element_type
from cnn_convertor.devices.dv700.runs import Convolution, Pooling
from cnn_convertor.devices.half import LARGEST_HALF
from cnn_convertor.devices.program import ElementType, LayerType
from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import (
    ONE,
    ArgMax,
    ArraySoftmax,
    AveragePool2d,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Custom,
    Dense,
    Input,
    MaxPool2d,
    OnCpu,
    Padding,
    Pair,
    PRelu,
    Relu,
    Shape,
    Upsample,
    Window,
)

NodeCheck: TypeAlias = Callable[[NodeSubject], Iterator[Breach]]
CommandCheck: TypeAlias = Callable[[Subject], Iterator[Breach]]

_RULES: list[Rule] = []


@overload
def rule(
    code: str, hint: str, *, on: Literal[RunsOn.GRAPH], sizes: bool = True
) -> Callable[[NodeCheck], NodeCheck]: ...


@overload
def rule(
    code: str, hint: str, *, on: Literal[RunsOn.COMMAND], sizes: bool = True
) -> Callable[[CommandCheck], CommandCheck]: ...


def rule(code: str, hint: str, *, on: RunsOn, sizes: bool = True) -> Callable[..., Any]:
    """Register a rule: a function that yields each way in which a node of the graph, or a layer of the program, breaks it."""

    def enter(function: Callable[..., Iterator[Breach]]) -> Callable[..., Iterator[Breach]]:
        _RULES.append(Rule(code, on, function, hint, sizes))
        return function

    return enter


def check(graph: Graph, steps: Sequence[Command], device: Device, *, legal: Graph) -> None:
    """Raise UnsupportedError with every broken rule, in network order. graph, steps: the partition of the legal graph."""
    if problems := broken_rules(graph, steps, device, legal=legal):
        raise UnsupportedError(problems)


def broken_rules(
    graph: Graph,
    steps: Sequence[Command],
    device: Device,
    *,
    legal: Graph,
    guessed: Container[Origin | None] = (),
) -> tuple[Problem, ...]:
    """Every broken rule, in network order. guessed: layers whose settings are known, but not the sizes of their maps."""
    problems = []
    for step in steps:
        nodes = [legal[node.name] for node in step.nodes if node.name in legal]  # others are inner concatenations
        problems += _problems(device, nodes, legal, Subject(graph, step, device.limits), guessed)
    inside = {node.name for step in steps for node in step.nodes}
    apart = [node for node in legal.nodes if node.name not in inside]  # views and inputs
    return tuple(dict.fromkeys([*problems, *_problems(device, apart, legal, None, guessed)]))


def _problems(
    device: Device, nodes: Sequence[Node], legal: Graph, subject: Subject | None, guessed: Container[Origin | None]
) -> list[Problem]:
    """What is wrong with nodes of the legal graph, and with the layer of the program that has them, node by node."""
    order = {origin: index for index, node in reversed([*enumerate(nodes)]) for origin in node.origins}
    problems = []
    for each in device.rules:
        match each.on:
            case RunsOn.GRAPH:
                breaches = [breach for node in nodes for breach in each.broken(NodeSubject(legal, node, device.limits))]
            case RunsOn.COMMAND:
                breaches = [] if subject is None else [*each.broken(subject)]
        problems += [
            Problem(each.code, message, where, each.hint)
            for where, message in breaches
            if not (each.sizes and where in guessed)
        ]
    return sorted(problems, key=lambda problem: order.get(problem.where, 0) if problem.where else 0)


# --- sizes ---------------------------------------------------------------------------------------------------------------


@rule(
    "DV401",
    "use kernels of at most the maximal size, or several smaller ones after each other",
    on=RunsOn.COMMAND,
    sizes=False,
)
def kernel_size(subject: Subject) -> Iterator[Breach]:
    """A convolution kernel is at most {max_kernel_size} in each direction by default (--max-kernel-size).

    Larger kernels are split; deconvolutions with such a kernel become convolutions.
    """
    most = subject.limits.max_kernel_size
    for where, convolution in _convolutions(subject):
        if max(convolution.kernel) > most:
            yield Breach(where, f"the kernel {_by(convolution.kernel)} is larger than {most}x{most}")


@rule("DV402", "use a smaller stride or dilation", on=RunsOn.COMMAND)
def strides_and_dilations(subject: Subject) -> Iterator[Breach]:
    """A stride is at most {max_stride} in each direction, a dilation {max_dilation}.

    A stride that moves no window may be larger. Otherwise the CPU gathers the inputs of each window of a convolution, and it pools.
    """
    limits = subject.limits
    for where, window in _windows(subject):
        if max(window.stride) > limits.max_stride:
            yield Breach(where, f"the stride {_by(window.stride)} is larger than {limits.max_stride}")
    for where, convolution in _convolutions(subject):
        if max(convolution.dilation) > limits.max_dilation:
            yield Breach(where, f"the dilation {_by(convolution.dilation)} is larger than {limits.max_dilation}")


@rule("DV403", "use less padding", on=RunsOn.COMMAND)
def padding(subject: Subject) -> Iterator[Breach]:
    """Padding is at most {max_padding_left_top} on the left and top, {max_padding_right_bottom} on the right and bottom.

    It is never negative. More padding has commands of its own; deconvolutions become convolutions.
    """
    limits = subject.limits
    for where, window in _windows(subject):
        for side, value, maximum in zip(Padding._fields, window.padding, limits.largest_padding, strict=True):
            if value > maximum:
                yield Breach(where, f"the padding of {value} at the {side} is larger than {maximum}")
            if value < 0:
                yield Breach(
                    where, f"the deconvolution cuts {-value} more at the {side} than its kernel reaches over the border"
                )


@rule("DV404", "convert for a smaller input (width_override and height_override in the ini file)", on=RunsOn.COMMAND)
def map_sizes(subject: Subject) -> Iterator[Breach]:
    """A map is at most {max_height} high and {max_width} wide.

    A convolution reads and writes at most {max_channels} channels. Any other map has at most {max_field}.
    Larger maps get another height and width without moving data, or the CPU divides them. More channels are divided over
    the inputs of a concatenation, or over the terms of a sum, which are rounded to FP16.
    """
    limits = subject.limits
    for nodes, run in subject.step.assignments:
        reported = {flaw for name in nodes[0].inputs for flaw in _flaws_of_writer(subject, name)}
        most = limits.max_field if run.weights is None else limits.max_channels
        before = _too_large(run.input, most, limits)
        after = _too_large(run.output, most, limits)
        for flaw, text in before.items():
            if flaw not in reported:
                yield Breach(nodes[0].where, f"the input {text}")
        for flaw, text in after.items():
            if flaw not in before:  # reported for the layer that introduces it
                yield Breach(nodes[-1].where, f"the output {text}")


def _flaws_of_writer(subject: Subject, name: str) -> Iterable[str]:
    """What is too large of the named map, as reported for the command that writes it."""
    graph = subject.graph
    limits = subject.limits
    writer = buffer_owner(subject.graph, name)
    if layer_type(graph, writer) is not LayerType.CONV:
        return ()
    has_kernels = isinstance(writer.op, (Conv2d, ConvTranspose2d, Dense, *WITH_PACKED))
    return _too_large(graph.shape(writer.name), limits.max_channels if has_kernels else limits.max_field, limits)


def _too_large(shape: Shape, most_channels: int, limits: Limits) -> dict[str, str]:
    """What is too large of a map, and the words for it."""
    flaws = {}
    if not limits.holds(shape):
        size = f"{limits.max_height}x{limits.max_width}"
        flaws["size"] = f"{shape} (height x width x channels) is larger than {size}"
    if shape.channels > most_channels:
        flaws["channels"] = f"has {shape.channels} channels, more than {most_channels}"
    return flaws


@rule(
    "DV405", "convert for a smaller input, or give the true size of the unified buffer (--ub-size)", on=RunsOn.COMMAND
)
def unified_buffer(subject: Subject) -> Iterator[Breach]:
    """The input of a convolution must fit the unified buffer, in at most as many tiles as it has columns.

    The buffer has {ub_size} bytes by default (--ub-size). Convolutions that need more are divided as for DV404.
    """
    size = subject.limits.ub_size
    for nodes, run in subject.step.assignments:
        if strips(run, ub_size=size) is None:
            yield Breach(
                nodes[0].where,
                f"an input of {run.input} does not fit the unified buffer of {size} bytes in any number of tiles",
            )


# --- what the convolution block cannot do --------------------------------------------------------------------------------


@rule("DV411", "train with an odd kernel, stride 1 and 'same' padding, or without dilation", on=RunsOn.COMMAND)
def dilation(subject: Subject) -> Iterator[Breach]:
    """A dilated convolution has an odd kernel, no PReLU, and an output of the input's size divided by the stride.

    With stride 1 in place of its own, its output would have the input's size: older user drivers check this (docs/devices.md).
    Others are rewritten. Padding at the bottom and right that no window reaches is added where that helps.
    """
    for nodes, run in subject.step.assignments:
        convolution = run.convolution
        if convolution is None or convolution.dilation == ONE:
            continue
        where = nodes[0].where
        text = f"a convolution with dilation {_by(convolution.dilation)}"
        if any(k % 2 == 0 for k in convolution.kernel):
            yield Breach(where, f"{text} has the even kernel {_by(convolution.kernel)}")
        out, stride = convolution.output, convolution.stride
        if convolution.kind.is_transposed and stride != ONE:
            yield Breach(where, f"{text} is a deconvolution with stride {_by(stride)}")
        elif (out.height * stride.height, out.width * stride.width) != run.input[:2]:
            yield Breach(
                where,
                f"{text} gives {_by(out)} from {_by(run.input)}: times the stride {_by(stride)} that is another size, and the "
                "kernel with the zeros filled in is too large",
            )
        elif (same := _with_stride_1(convolution, run.input)) != run.input[:2]:
            yield Breach(
                where,
                f"{text} and stride {_by(stride)} would give {_by(same)} from {_by(run.input)} with stride 1: user drivers before "
                "2019-12-23 refuse that",
            )
        assert run.pooling is None and not isinstance(run.activation, PRelu), "legalize keeps these apart"


@rule("DV416", "use less padding", on=RunsOn.GRAPH)
def windows_of_padding_alone(subject: NodeSubject) -> Iterator[Breach]:
    """Each window of a max pool covers an element of the map, since padding alone has no maximum."""
    graph, node, _ = subject
    op = node.op.op if isinstance(node.op, OnCpu) else node.op
    if not isinstance(op, MaxPool2d):
        return
    x, y = graph.shape(node.inputs[0]), graph.shape(node.name)
    extent = op.window.extent
    stride = op.window.stride
    pad = op.window.padding
    last = Pair((y.height - 1) * stride.height - pad.top, (y.width - 1) * stride.width - pad.left)
    if pad.top >= extent.height or pad.left >= extent.width or last.height >= x.height or last.width >= x.width:
        yield Breach(node.where, "a window of the max pool covers only padding, which has no maximum")


@rule(
    "DV418", "train with an upsampling and a convolution, or convert for another device", on=RunsOn.COMMAND, sizes=False
)
def deconvolution(subject: Subject) -> Iterator[Breach]:
    """Devices of old revisions have no deconvolution (docs/devices.md): there it becomes a convolution."""
    for where, convolution in _convolutions(subject):
        if convolution.kind.is_transposed and not subject.limits.deconvolves:
            yield Breach(where, "the device has no deconvolution: its revision is too old, or a probe saw it fail")


@rule("DV419", "use less padding", on=RunsOn.COMMAND)
def padding_of_small_maps(subject: Subject) -> Iterator[Breach]:
    """Devices of old revisions refuse padding larger than the map (docs/devices.md): there the CPU pads."""
    if subject.limits.pads_beyond_map:
        return
    for nodes, run in subject.step.assignments:
        convolved = run.input if run.convolution is None else run.convolution.output
        for size, window in ((run.input, run.convolution), (convolved, run.pooling)):
            pad = Padding(0, 0, 0, 0) if window is None else window.padding
            if max(pad.top, pad.bottom) > size.height or max(pad.left, pad.right) > size.width:
                message = f"a padding of {max(pad)} around a map of {_by(size)} is larger than the map"
                yield Breach(nodes[0].where, message)


@rule("DV503", "scale the layer's input or weights instead", on=RunsOn.COMMAND, sizes=False)
def constants(subject: Subject) -> Iterator[Breach]:
    """The factor of an average pool or a scale and the slope of a leaky ReLU must be FP16 numbers, and not round to 0."""
    numbers = [(where, "factor", pooling.factor) for where, pooling in _poolings(subject)]
    for node in subject.step.nodes:
        function = getattr(node.op, "activation", None)
        if isinstance(function, Relu):
            numbers.append((next(reversed(node.origins), None), "slope", function.slope))
    for where, what, value in numbers:
        if not abs(value) <= LARGEST_HALF or (value != 0 and half_bits(abs(value)) == 0):
            yield Breach(where, f"the {what} {value:g} is not near any FP16 number")


# --- what lies between device and CPU ------------------------------------------------------------------------------------


@rule("DV421", "let the network end there, and do the rest in the application", on=RunsOn.GRAPH)
def readers_of_custom_layers(subject: NodeSubject) -> Iterator[Breach]:
    """Custom layers write FP32, which generated CPU functions read, but neither commands nor the runtime do."""
    graph, node, _ = subject
    if isinstance(node.op, OnCpu) or is_view(node):
        return
    for name in node.inputs:
        before = buffer_owner(graph, name)
        if isinstance(before.op, Custom):
            yield Breach(node.where, f'it reads the result of "{before.name}", a layer of the firmware')


@rule("DV424", "let the network end there, or search fewer elements", on=RunsOn.GRAPH)
def indices_in_fp16(subject: NodeSubject) -> Iterator[Breach]:
    """FP16 holds indices up to {max_exact_integer}: only the application and CPU layers read an ArgMax among more elements."""
    graph, node, limits = subject
    match node.op:
        case OnCpu(op=ArgMax(axis=axis, values=values)) if axis is None or not values:
            x = graph.shape(node.inputs[0])
            count = x.size if axis is None else x[axis]
            if count - 1 > limits.max_exact_integer and element_type(graph, node.name) is ElementType.HALF:
                yield Breach(
                    node.where, f"the next layer reads FP16, which cannot hold the indices of {count} elements"
                )


@rule(
    "DV425",
    "set softmax = cpu in [OPTIONAL]: a generated function leaves its input alone and sums in FP32",
    on=RunsOn.GRAPH,
)
def sdk_softmax(subject: NodeSubject) -> Iterator[Breach]:
    """The SDK's softmax (softmax = sdk) overwrites its input and adds at most {max_exact_integer} numbers.

    Nothing else may read its input.
    """
    graph, node, limits = subject
    if not isinstance(node.op, ArraySoftmax):
        return
    length, most = node.op.dims[node.op.axis], limits.max_exact_integer
    if length > most:
        yield Breach(node.where, f"a sum of {length} numbers in FP16 stops growing at {most}")
    for what in _other_uses(graph, node.inputs[0], node.name):
        yield Breach(node.where, f"LT_SOFTMAX overwrites what it reads, which is {what}")


def _other_uses(graph: Graph, name: str, reader: str) -> Iterator[str]:
    """What else the memory of a map is for. A concatenation in place shares the memory of its parts."""
    owner = buffer_owner(graph, name)
    if isinstance(owner.op, Input):
        yield f'the input "{_layer(owner)}"'
    if any(buffer_owner(graph, output) is owner for output in graph.outputs):
        yield f'the output "{_layer(owner)}"'
    for user in buffer_users(graph, owner.name):
        if user.name != reader:
            yield f'read by "{_layer(user)}", too'
    if isinstance(owner.op, Concat):
        for part in owner.inputs:
            yield from _other_uses(graph, part, owner.name)


RULES = tuple(_RULES)


# --- helpers of the rules ------------------------------------------------------------------------------------------------


def _layer(node: Node) -> str:
    """The framework's name of the layer that the node comes from."""
    return node.name if node.where is None else node.where.layer


def _convolutions(subject: Subject) -> list[tuple[Origin | None, Convolution]]:
    assignments = subject.step.assignments
    return [(nodes[0].where, run.convolution) for nodes, run in assignments if run.convolution is not None]


def _poolings(subject: Subject) -> list[tuple[Origin | None, Pooling]]:
    assignments = subject.step.assignments
    return [(_pooling_node(nodes).where, run.pooling) for nodes, run in assignments if run.pooling is not None]


def _pooling_node(nodes: Sequence[Node]) -> Node:
    """The node that pools; the last one if the pool is the carrier of an addition."""
    return next((n for n in nodes if isinstance(n.op, MaxPool2d | AveragePool2d | Upsample)), nodes[-1])


def _with_stride_1(convolution: Convolution, x: Shape) -> tuple[int, int]:
    """Height and width of the output that a dilated convolution would have with stride 1."""
    window = Window(convolution.kernel, ONE, convolution.dilation, convolution.padding)
    return window.slide(x, channels=1)[:2]


def _windows(subject: Subject) -> list[tuple[Origin | None, Convolution | Pooling]]:
    return [*_convolutions(subject), *_poolings(subject)]


def _by(pair: Pair | tuple[int, ...]) -> str:
    return f"{pair[0]}x{pair[1]}"
