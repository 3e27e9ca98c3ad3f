"""The port: what an accelerator is to the rest of the package."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

from cnn_convertor.devices.facts import DeviceFacts, ProgramFacts
from cnn_convertor.devices.figures import Figure, FigureKind
from cnn_convertor.devices.program import LayerType, Program
from cnn_convertor.devices.settings import Fusion
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.passes.contract import Pass


class Hardware(Protocol):
    """An accelerator as data: its figures, each with its source."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def figures(self) -> Mapping[str, Figure[Any]]: ...

    @property
    def kinds(self) -> Mapping[str, FigureKind]:
        """What each figure means."""

    @property
    def of_board(self) -> Mapping[str, int | bool]:
        """The limits that differ between boards."""

    @property
    def passed(self) -> Iterable[Enum] | None:
        """The forms of commands that a probe has seen work; None without a probe."""

    def overridden(self, **sizes: int | None) -> Hardware:
        """The same with sizes from the command line, by name; None leaves one as it is. Raises UsageError."""

    def to_values(self) -> dict[str, Any]:
        """Plain values, for JSON."""


class PlannedLayer(Protocol):
    """One layer of a program before its maps have places: the nodes that it computes, and the maps that it reads and writes."""

    @property
    def type(self) -> LayerType: ...

    @property
    def nodes(self) -> tuple[Node, ...]: ...

    @property
    def reads(self) -> tuple[str, ...]: ...

    @property
    def writes(self) -> str: ...

    @property
    def origins(self) -> tuple[Origin, ...]: ...


class Legalized(NamedTuple):
    """A network as an accelerator would run it; no rule is checked yet.

    legal: the graph before it was partitioned. graph: the one with a node for the map of each step.
    """

    legal: Graph
    graph: Graph
    steps: tuple[Any, ...]  # PlannedLayer; of the accelerator's own type, which it gets back


class PlannedMemory(Protocol):
    """Steps in execution order, and the memory of their maps."""

    @property
    def steps(self) -> tuple[Any, ...]: ...


class Boundary(NamedTuple):
    """Two nodes that do not share a command: `after` reads `before`, or both are neighboring parts of a concatenation.

    reason: a clause without a full stop.
    """

    before: str
    after: str
    reason: str


class MapTraffic(NamedTuple):
    """Bytes of feature maps: what the commands move, and what they would move at least."""

    moved: int
    least: int


class Accelerator(Protocol):
    """An accelerator, set up for one network."""

    @property
    def fusion(self) -> Fusion: ...

    @property
    def transposed(self) -> bool: ...

    @property
    def device(self) -> Any:
        """The accelerator's own value."""

    @property
    def unfused(self) -> Accelerator:
        """The same with a command for each layer, whose maps are then all in memory."""

    @property
    def mirrored(self) -> Accelerator:
        """The same with rows and columns of maps exchanged in memory, which changes the order of sums and nothing else."""

    @property
    def passes(self) -> tuple[Pass, ...]:
        """What makes a network legal for it, after the passes for all accelerators."""

    def partition(self, legal: Graph) -> Legalized:
        """The steps that compute a legal graph."""

    def broken_rules(self, legalized: Legalized, guessed: Container[Origin | None] = ()) -> tuple[Problem, ...]:
        """Every broken rule, in network order. guessed: layers whose settings are known, but not the sizes of their maps."""

    def schedule(self, legalized: Legalized) -> PlannedMemory:
        """The steps in the order that needs the least memory, and the places of their maps."""

    def lower(self, legalized: Legalized, schedule: PlannedMemory, *, name: str, original: Graph) -> Program:
        """The program, with FP16 weights. original: the user's graph, for the names and shapes of the outputs."""

    @property
    def about(self) -> DeviceFacts:
        """The accelerator as a report shows it."""

    def facts(self, program: Program) -> ProgramFacts:
        """What it knows of a program."""

    def boundaries(self, legalized: Legalized) -> tuple[Boundary, ...]:
        """Why commands end, in execution order."""

    def map_traffic(self, legalized: Legalized) -> MapTraffic:
        """The bytes of maps that the commands move."""
