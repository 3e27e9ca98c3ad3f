"""The graph of a network: nodes in execution order, validated on construction, immutable."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Protocol, TypeAlias

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.ir.ops import (
    Conv2d,
    ConvTranspose2d,
    Dense,
    Input,
    MatMul,
    OnCpu,
    Op,
    PieceStep,
    Shape,
    ShapeError,
    TimesPacked,
    Window,
)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator. Its single output has the node's name.

    origins: the framework layers it implements; the last one is the layer whose output it computes.
    main: the layer that contributed the operator (the convolution of a convolution and an activation); None: the last one.
    own_name: what the framework calls the output, of a layer with several; empty: as the layer.
    reason: why it has this form, or runs where it does; empty: there is no other.
    """

    name: str
    op: Op
    inputs: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    main: Origin | None = None
    own_name: str = ""
    reason: str = field(default="", compare=False)

    @property
    def where(self) -> Origin | None:
        """The layer to name in a message."""
        return self.main or (self.origins[-1] if self.origins else None)


def origins_of(nodes: Iterable[Node]) -> tuple[Origin, ...]:
    """Each layer once, at its last position: the last layer is the one whose output is written."""
    every = [origin for node in nodes for origin in node.origins]
    return tuple(dict.fromkeys(reversed(every)))[::-1]


class Lookup(Protocol):
    """What a rule may query: a graph, possibly under construction."""

    def __getitem__(self, name: str) -> Node: ...

    def shape(self, name: str) -> Shape: ...


FuseRule: TypeAlias = Callable[[Lookup, Node, Node], Op | None]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A graph under construction. A fused node keeps the shape of the node whose name it has."""

    nodes: Mapping[str, Node]
    shapes: Mapping[str, Shape]

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def shape(self, name: str) -> Shape:
        return self.shapes[name]


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in execution order. outputs: names, in the order of the user's definition.

    Raises ModelError for a layer whose inputs do not fit.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    _shapes: dict[str, Shape] = field(init=False, repr=False, compare=False)
    _users: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _index: dict[str, Node] = field(init=False, repr=False, compare=False)
    _outputs: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shapes: dict[str, Shape] = {}
        users: dict[str, list[str]] = {}
        for node in self.nodes:
            assert node.name not in shapes, f"duplicate node {node.name!r}"
            for name in node.inputs:
                assert name in shapes, f"{node.name!r} reads {name!r}, which is not before it"
                users[name].append(node.name)
            shapes[node.name] = shape_of(node, shapes)
            users[node.name] = []
        assert self.outputs, "a graph without outputs"
        for name in self.outputs:
            assert name in shapes, f"output {name!r} is not a node"
        object.__setattr__(self, "_shapes", shapes)
        object.__setattr__(self, "_users", {name: tuple(by) for name, by in users.items()})
        object.__setattr__(self, "_index", {node.name: node for node in self.nodes})
        object.__setattr__(self, "_outputs", frozenset(self.outputs))

    def __getitem__(self, name: str) -> Node:
        return self._index[name]

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def shape(self, name: str) -> Shape:
        return self._shapes[name]

    def users(self, name: str) -> tuple[str, ...]:
        """Names of the nodes that read the named one, once per use."""
        return self._users[name]

    def is_output(self, name: str) -> bool:
        return name in self._outputs

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if isinstance(node.op, Input))

    @property
    def output_names(self) -> tuple[str, ...]:
        """What users call the outputs: as the framework does, or else as the layers that give them. Equal names are numbered: x, x#2."""
        names: dict[str, None] = {}
        numbers: dict[str, int] = {}  # the last one of equal names
        for output in self.outputs:
            node = self._index[output]
            name = wanted = node.own_name or (output if node.where is None else node.where.layer)
            while name in names:
                numbers[wanted] = numbers.get(wanted, 1) + 1
                name = f"{wanted}#{numbers[wanted]}"
            names[name] = None
        return tuple(names)

    def fresh(self, name: str) -> str:
        """The name, made unique within the graph."""
        while name in self._index:
            name += "'"
        return name

    def is_private(self, name: str) -> bool:
        """Whether exactly one node, and no output, uses the named node."""
        return len(self._users[name]) == 1 and not self.is_output(name)

    def fuse(self, rule: FuseRule, *, shared: bool = False) -> Graph:
        """Fuse neighbors: rule(lookup, first, second) -> an operator that computes both, or None.

        `second` reads only `first`. The fused node has the name of `second`, the inputs of `first` and the origins of both;
        messages about it name the node whose kind of operator it has.
        shared: also offer a `first` that has other users; it remains for users that do not fuse with it.
        """
        draft = dict(self._index)
        readers = {name: len(users) + self.is_output(name) for name, users in self._users.items()}
        lookup = _Draft(draft, self._shapes)
        for name in self._index:
            while len((second := draft[name]).inputs) == 1:
                first = draft[second.inputs[0]]
                if readers[first.name] > 1 and not shared:
                    break
                op = rule(lookup, first, second)
                if op is None:
                    break
                main = (second if isinstance(op, type(second.op)) else first).where
                draft[name] = Node(name, op, first.inputs, first.origins + second.origins, main)
                readers[first.name] -= 1
                if readers[first.name] == 0:
                    del draft[first.name]
                else:
                    for source in first.inputs:
                        readers[source] += 1
        return self._with(draft.values())

    def expand(self, rule: Callable[[Graph, Node], Iterable[Node] | None]) -> Graph:
        """Replace nodes: rule(graph, node) -> equivalent nodes, the last with its name, or None to keep it."""
        nodes: list[Node] = []
        for node in self.nodes:
            nodes_of = rule(self, node)
            nodes.extend((node,) if nodes_of is None else nodes_of)
            assert nodes[-1].name == node.name
        return self._with(nodes)

    def bypass(self, names: Iterable[str]) -> Graph:
        """Remove nodes with one input; users and outputs read that input instead."""
        source: dict[str, str] = {}
        gone = set(names)
        if not gone:
            return self
        nodes = []
        for node in self.nodes:
            inputs = tuple(source.get(name, name) for name in node.inputs)
            if node.name in gone:
                (source[node.name],) = inputs
            else:
                nodes.append(node if inputs == node.inputs else replace(node, inputs=inputs))
        return Graph(tuple(nodes), tuple(source.get(name, name) for name in self.outputs))

    def multiplications(self, node: Node) -> int:
        """MACs for one image: multiplications with a weight, and those of matrix products of two maps."""
        match node.op:
            case OnCpu(op=op):
                return self.multiplications(replace(node, op=op))
            case Conv2d(weight=weight):
                y = self.shape(node.name)
                return y.height * y.width * weight.size
            case ConvTranspose2d(weight=weight):
                x = self.shape(node.inputs[0])
                return x.height * x.width * weight.size
            case Dense(weight=weight):
                return weight.size
            case MatMul() as product:
                first, second = node.inputs
                return product.multiplications(self.shape(first), self.shape(second))
            case TimesPacked(kernels=kernels):
                return self.shape(node.inputs[0]).size * kernels
            case _:
                return 0

    def without_dead(self) -> Graph:
        """Remove nodes that no output needs; keep inputs, since the application fills them."""
        needed = set(self.outputs)
        for node in reversed(self.nodes):
            if node.name in needed:
                needed.update(node.inputs)
        return self._with(n for n in self.nodes if n.name in needed or isinstance(n.op, Input))

    def _with(self, nodes: Iterable[Node]) -> Graph:
        """The graph of other nodes; this one if they are its own, as most passes leave them: shapes take time."""
        nodes = tuple(nodes)
        is_same = len(nodes) == len(self.nodes) and all(map(operator.is_, nodes, self.nodes))
        return self if is_same else Graph(nodes, self.outputs)

    def line(self, node: Node) -> str:
        """A node of the graph as text: its name, operator, inputs and shape."""
        return f"{node.name} = {describe(node.op)}({', '.join(node.inputs)}) -> {self.shape(node.name)}"

    def __str__(self) -> str:
        return "\n".join([*map(self.line, self.nodes), self.outputs_line])

    @property
    def outputs_line(self) -> str:
        return f"outputs: {', '.join(self.outputs)}"


def shape_of(node: Node, shapes: Mapping[str, Shape]) -> Shape:
    """The node's output shape from its inputs' shapes. Raises ModelError when these do not fit."""
    arguments = [shapes[name] for name in node.inputs]
    expected = number_of_inputs(type(node.op))  # type: ignore[arg-type]  # mypy: a union of classes is not Hashable
    if expected is not None and len(arguments) != expected:
        problem = f"the layer takes {expected} inputs, not {len(arguments)}"
        raise ModelError.of("DV203", problem, node.where, "check what the layer is connected to")
    try:
        shape = node.op.output_shape(*arguments)
        if min(shape) < 1:
            raise ShapeError(f"a map of {shape} has no elements")
    except ShapeError as error:
        of_input = "give a smaller input (width_override and height_override change it)"
        hint = "check the sizes of the layer's inputs" if node.inputs else of_input
        raise ModelError.of("DV202", str(error), node.where, hint) from None
    return shape


@cache
def number_of_inputs(operator: type[Op]) -> int | None:
    """The number of inputs an operator takes; None: any number."""
    _self, *parameters = inspect.signature(operator.output_shape).parameters.values()
    return None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)


def describe(op: Op) -> str:
    """An operator on one line: its name and the fields that differ from their defaults."""
    parts = []
    for f in fields(op):
        value = getattr(op, f.name)
        if f.repr and value != f.default and value is not None:
            parts.append(f"{f.name}={_short(value)}")
    return f"{type(op).__name__}[{' '.join(parts)}]" if parts else type(op).__name__


def _short(value: object) -> str:
    match value:
        case Window(kernel=kernel):
            shown = [f"{n}={_short(v)}" for n, v, d in zip(value._fields, value, Window(kernel), strict=True) if v != d]
            return " ".join([f"kernel={_short(kernel)}", *shown])
        case PieceStep(op=op, reads=reads):
            return f"{describe(op)}({', '.join(map(str, reads))})"
        case (PieceStep(), *_):
            return " ".join(map(_short, value))
        case tuple() if hasattr(value, "_fields"):
            return "x".join(map(str, value))
        case _ if hasattr(value, "__dataclass_fields__") and not hasattr(value, "read"):
            return describe(value)  # type: ignore[arg-type]  # functions print like operators
        case _:
            return str(value)
