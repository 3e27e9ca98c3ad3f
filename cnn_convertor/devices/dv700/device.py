"""The device as one value: its limits, rules, forms of commands, and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from inspect import cleandoc
from typing import TYPE_CHECKING, NamedTuple

from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin
from cnn_convertor.ir.graph import Graph, Node

if TYPE_CHECKING:
    from cnn_convertor.devices.dv700.estimate import Estimate
    from cnn_convertor.devices.dv700.profile import Profile
    from cnn_convertor.devices.dv700.runs import Layer


class RunsOn(Enum):
    """What a rule is asked about.

    GRAPH: each node of the legal graph, whose inputs are those of the network. COMMAND: each layer of the program, whose parts of
    a concatenation may lie in an inner one by then.
    """

    GRAPH = "graph"
    COMMAND = "command"


class NodeSubject(NamedTuple):
    """One node of the legal graph."""

    graph: Graph
    node: Node
    limits: Limits


class Subject(NamedTuple):
    """One layer of the program, in the graph that has a node for the map of each."""

    graph: Graph
    step: Command
    limits: Limits


class Breach(NamedTuple):
    """What is wrong, and the layer of the model to name."""

    where: Origin | None
    message: str


class Rule(NamedTuple):
    """on: what `broken` is given, a NodeSubject or a Subject. sizes: it depends on the sizes of maps, not on settings alone."""

    code: str
    on: RunsOn
    broken: Callable[..., Iterator[Breach]]
    hint: str
    sizes: bool

    def describe(self, limits: Limits) -> str:
        """The docstring of the rule, with the limits in place of their names in braces."""
        assert self.broken.__doc__ is not None
        return cleandoc(self.broken.__doc__).format(**limits._asdict())


class Cost(NamedTuple):
    """What to minimize, in this order. map_bytes: bytes of feature maps that commands read and write."""

    map_bytes: int
    commands: int
    runs: int

    def plus(self, *others: Cost) -> Cost:
        return Cost(*map(sum, zip(self, *others, strict=True)))


class Device(NamedTuple):
    """forms: the forms of commands that each level of fusion allows. cost, estimate: of a command with these nodes, in order.

    cost: the third argument says in how many branches, each with a slice of the channels. estimate: with FP16 weights.
    cpu_usec: microseconds of a layer on the CPU; None where nothing is known of it. change_usec: of one change between device
    and CPU, with so many bytes in the I/O buffer, for a map of so many. blocks: what the device has, of profile.BLOCKS. profile: its figures, of which the rest follows.
    """

    name: str
    limits: Limits
    rules: tuple[Rule, ...]
    forms: Mapping[Fusion, frozenset[Form]]
    cost: Callable[[Graph, tuple[Node, ...], int], Cost]
    estimate: Callable[[Graph, tuple[Node, ...]], Estimate]
    cpu_usec: Callable[[Layer], Interval | None]
    change_usec: Callable[[int, int], Interval]
    blocks: frozenset[str]
    profile: Profile
