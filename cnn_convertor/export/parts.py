"""The arrays of an optimized network, independent of the target."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.ir.constant import ALL, Array, Constant
from cnn_convertor.ir.graph import Graph, Node, describe
from cnn_convertor.ir.ops import ONE, Activation, Conv2d, ConvTranspose2d, Dense, Pair, PRelu, Scale, Shape, Window


class Role(Enum):
    """The role of an array. The values appear in manifests and file names."""

    WEIGHTS = "weights"
    MASK = "mask"  # of compressed weights: which are non-zero
    GROUP_SIZES = "group_sizes"  # of compressed weights: bytes of each group of kernels
    BIAS = "bias"
    SLOPES = "slopes"  # of a PReLU
    FACTOR = "factor"  # of a scale that was not folded
    SHIFT = "shift"
    AFFINE = "affine"  # such a scale as a pair of addend and factor
    INPUT = "input"
    OUTPUT = "output"

    @property
    def is_map(self) -> bool:
        return self in {Role.INPUT, Role.OUTPUT}


@contextmanager
def gathered(problems: list[Problem]) -> Iterator[None]:
    """Collect the problems of UnsupportedErrors, to report all together."""
    try:
        yield
    except UnsupportedError as error:
        problems += error.problems


@dataclass(frozen=True, slots=True)
class Part:
    """One array of the network.

    node: of the graph; layer, type: of the user's model
    values: weights (O, I / groups, H, W), vectors (C,), maps (H, W, C); None: a map that is only described
    groups: of a convolution, else 1
    window: of a convolution or transposed convolution, else None
    is_transposed: whether it belongs to a transposed convolution
    is_image: an input read only by plain convolutions, or the weights of these
    """

    node: str
    layer: str
    type: str
    operator: str
    role: Role
    shape: tuple[int, ...]
    values: Constant | None
    where: Origin | None
    groups: int = 1
    window: Window | None = None
    is_transposed: bool = False
    is_image: bool = False

    @property
    def stride(self) -> Pair | None:
        """Of a transposed convolution."""
        return self.window.stride if self.window is not None and self.is_transposed else None


def parts_of(graph: Graph, maps: Mapping[str, NDArray[np.float32]]) -> Iterator[Part]:
    """All arrays in execution order, inputs first, outputs last. maps: input or output name -> known (H, W, C).

    Raises UnsupportedError for a layer whose arrays have no known format.
    """
    images = {node.name for node in graph.inputs if _is_image(graph, node)}
    for node in graph.inputs:
        yield _map(graph, node, Role.INPUT, maps.get(node.name), is_image=node.name in images)
    problems: list[Problem] = []
    for node in graph.nodes:
        with gathered(problems):
            yield from _of_node(node, reads_image=not images.isdisjoint(node.inputs))
    if problems:
        raise UnsupportedError(problems)
    for name in dict.fromkeys(graph.outputs):
        yield _map(graph, graph[name], Role.OUTPUT, maps.get(name))


def _is_image(graph: Graph, node: Node) -> bool:
    """Whether only convolutions without groups and dilation read an input."""
    users = [graph[user].op for user in graph.users(node.name)]
    plain = [op for op in users if isinstance(op, Conv2d) and op.groups == 1 and op.window.dilation == ONE]
    return 0 < len(plain) == len(users) and not graph.is_output(node.name)


def _map(graph: Graph, node: Node, role: Role, values: NDArray[np.float32] | None, *, is_image: bool = False) -> Part:
    shape: Shape = graph.shape(node.name)
    constant = None if values is None else Constant.of(values)
    assert constant is None or constant.shape == shape
    part = _part(node, role, tuple(shape), constant, node.origins[-1] if node.origins else None)
    return replace(part, is_image=is_image)


def _part(node: Node, role: Role, shape: tuple[int, ...], values: Constant | None, where: Origin | None) -> Part:
    layer, type_ = (node.name, "") if where is None else (where.layer, where.type)
    return Part(node.name, layer, type_ or type(node.op).__name__, describe(node.op), role, shape, values, where)


def _of_node(node: Node, *, reads_image: bool) -> Iterator[Part]:
    op = node.op
    match op:
        case Conv2d():
            part = _part(node, Role.WEIGHTS, op.weight.shape, op.weight, node.where)
            yield replace(part, groups=op.groups, window=op.window, is_image=reads_image)
            yield from _vector(node, Role.BIAS, op.bias)
        case ConvTranspose2d():
            part = _part(node, Role.WEIGHTS, op.weight.shape, op.weight, node.where)
            yield replace(part, groups=op.groups, window=op.window, is_transposed=True)
            yield from _vector(node, Role.BIAS, op.bias)
        case Dense():
            yield _part(node, Role.WEIGHTS, op.weight.shape, op.weight, node.where)
            yield from _vector(node, Role.BIAS, op.bias)
        case Scale():
            yield from _vector(node, Role.FACTOR, op.factor)
            yield from _vector(node, Role.SHIFT, op.shift)
        case Activation():
            pass
        case _:
            unstored = [name for name in _constants(op) if name != "activation.slopes"]
            if unstored:
                message = f"there is no known format for the layer's arrays ({', '.join(unstored)})"
                raise UnsupportedError.of("DV854", message, node.where, "export the network up to this layer")
    function = op.function if isinstance(op, Activation) else getattr(op, "activation", None)
    if isinstance(function, PRelu):
        yield from _vector(node, Role.SLOPES, function.slopes)


def _constants(value: object, name: str = "") -> Iterator[str]:
    """The names of all arrays in an operator."""
    if isinstance(value, Constant):
        yield name
    elif is_dataclass(value):
        for field in fields(value):
            yield from _constants(getattr(value, field.name), f"{name}.{field.name}".lstrip("."))
    elif isinstance(value, tuple):
        for item in value:
            yield from _constants(item, name)


def _vector(node: Node, role: Role, values: Constant | None) -> Iterator[Part]:
    if values is not None:
        yield _part(node, role, values.shape, values, node.where)


# --- transformations for targets ------------------------------------------------------------------------------------------


def ungrouped(weight: Constant, groups: int) -> Constant:
    """Grouped weights as ungrouped ones (O, I, H, W), zero for the channels of other groups."""
    if groups == 1:
        return weight
    out, per_group, *kernel = weight.shape

    def spread(values: Array, rows: slice) -> Array:
        wide = np.zeros((len(values), groups, per_group, *kernel), np.float32)
        wide[np.arange(len(values)), np.arange(rows.start, rows.stop) // (out // groups)] = values
        return wide.reshape(len(values), groups * per_group, *kernel)

    return weight.map_rows_with(spread, (groups * per_group, *kernel))


def with_channels(weight: Constant, channels: int) -> Constant:
    """Ungrouped weights (O, I, H, W) padded with zeros to more channels."""
    _, own, *kernel = weight.shape
    more = ((0, 0), (0, channels - own), (0, 0), (0, 0))
    return weight if channels <= own else weight.map_rows(lambda v: np.pad(v, more), (channels, *kernel))


def regrouped(weight: Constant, groups: int) -> Constant:
    """Weights (O, I / groups, H, W) as (groups, O / groups, I / groups, H, W)."""
    out, *rest = weight.shape
    per_group = out // groups

    def read(rows: slice) -> Array:
        values = weight.load(slice(rows.start * per_group, rows.stop * per_group))
        return values.reshape(-1, per_group, *rest)

    return Constant((groups, per_group, *rest), read)


def reshaped(values: Constant, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Constant:
    """A small array, transposed and reshaped."""

    def read(rows: slice) -> Array:
        array = values.load(ALL)
        return (array if order is None else array.transpose(order)).reshape(shape)[rows]

    return Constant(shape, read)
