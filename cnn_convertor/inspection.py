"""Inspects a network without converting it: where each layer runs, and what prevents a conversion."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from cnn_convertor.config import Config, is_model
from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.estimate import Estimate, estimate, provenance, total_usec
from cnn_convertor.devices.dv700.fusion.boundaries import Boundary, boundaries
from cnn_convertor.devices.dv700.fusion.levels import Fusion
from cnn_convertor.devices.dv700.fusion.partition import Selection
from cnn_convertor.devices.dv700.memory.placement import MemorySchedule, nbytes, schedule_and_allocate
from cnn_convertor.devices.dv700.operators import describe
from cnn_convertor.devices.dv700.program import LayerType
from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.frontends.builder import PartialGraph, in_network_order
from cnn_convertor.frontends.unsupported_formats import explain
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Concat, Conv2d, ConvTranspose2d, Dense, Identity, Input, Op, Reshape, Shape
from cnn_convertor.normalization import Normalization, input_normalizations
from cnn_convertor.pipeline import DeviceOptions, Legalized, find_violations, legalize_graph, read

SCHEMA = 1  # of the JSON form; increases when the meaning of an entry changes


class Runs(Enum):
    """Where a layer runs."""

    DEVICE = "device"
    REWRITTEN = "rewritten"  # on the device, as other operators
    CPU = "cpu"
    BOTH = "device+cpu"
    NOWHERE = "none"  # nothing is to be computed
    REFUSED = "refused"
    UNKNOWN = "unknown"  # it depends on a layer that cannot be read

    @property
    def is_on_device(self) -> bool:
        return self in {Runs.DEVICE, Runs.REWRITTEN, Runs.BOTH}


@dataclass(frozen=True, slots=True)
class Row:
    """One layer of the user's network.

    outputs: their shapes. guessed: whether these follow from a guess, because a layer before it cannot be read.
    parameters: trained numbers; macs: multiplications with one of them, for one image. None: not known.
    how: in words; the reason, for a refused layer. steps: numbers of the program's layers that compute it; empty if any
    layer of the network cannot be read, because there is no program.
    """

    origin: Origin
    outputs: tuple[Shape, ...]
    guessed: bool
    parameters: int | None
    macs: int | None
    runs: Runs
    how: str
    steps: tuple[int, ...]
    problems: tuple[Problem, ...]


class Change(NamedTuple):
    """A change that helps, and the layers concerned."""

    code: str
    hint: str
    layers: tuple[str, ...]


class CommandCost(NamedTuple):
    """What a command costs by the model. step: its number in the program. layers: of the network, that it computes."""

    step: int
    layers: tuple[str, ...]
    runs: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Inspection:
    """The properties of a network that are known without converting it. rows: in network order.

    framework: its name in the ini file. commands: of the device; cpu_layers: of the program. boundaries: neighboring layers
    of the device in different commands, and the reasons. problems: everything that prevents a conversion, in network order.
    costs: of each command with FP16 weights; empty when there are problems. provenance: where these come from.
    normalizations: of inputs, by the first layers.
    """

    network: str
    file: str
    framework: str
    has_weights: bool
    rows: tuple[Row, ...]
    commands: int
    cpu_layers: int
    boundaries: tuple[Boundary, ...]
    problems: tuple[Problem, ...]
    device: str
    fusion: str
    costs: tuple[CommandCost, ...]
    provenance: str
    normalizations: tuple[Normalization, ...]

    @property
    def usec(self) -> float:
        """Microseconds of all commands, by the model."""
        return total_usec(cost.estimate for cost in self.costs)

    @property
    def traffic(self) -> int:
        """Bytes of external memory that all commands move, by the model."""
        return sum(cost.estimate.nbytes for cost in self.costs)

    @property
    def parameters(self) -> int:
        return sum(row.parameters or 0 for row in self.rows)

    @property
    def macs(self) -> int:
        """Of all layers where they are known."""
        return sum(row.macs or 0 for row in self.rows)

    @property
    def macs_on_device(self) -> int:
        return sum(row.macs or 0 for row in self.rows if row.runs.is_on_device)

    @property
    def share_on_device(self) -> float | None:
        """Of the multiplications; None where there are none."""
        return self.macs_on_device / self.macs if self.macs else None

    @property
    def changes(self) -> tuple[Change, ...]:
        """What to change, in network order."""
        layers: dict[tuple[str, str], dict[str, None]] = {}
        for problem in self.problems:
            names = layers.setdefault((problem.code, problem.hint or problem.message), {})
            if problem.where is not None:
                names[problem.where.layer or problem.where.file] = None
        return tuple(Change(code, hint, tuple(names)) for (code, hint), names in layers.items())

    def to_json(self) -> str:
        """The inspection as docs/inspect.md describes it."""
        return json.dumps(self.to_values(), indent=2) + "\n"

    def to_values(self) -> dict[str, Any]:
        """The inspection as plain values."""
        share = self.share_on_device
        return {
            "schema": SCHEMA,
            "network": self.network,
            "device": self.device,
            "fusion": self.fusion,
            "file": self.file,
            "framework": self.framework,
            "has_weights": self.has_weights,
            "layers": [_row_values(row) for row in self.rows],
            "totals": {
                "layers": len(self.rows),
                "refused": sum(row.runs is Runs.REFUSED for row in self.rows),
                "parameters": self.parameters,
                "macs": self.macs,
                "macs_on_device": self.macs_on_device,
                "share_on_device": None if share is None else round(share, 6),
                "commands": self.commands,
                "cpu_layers": self.cpu_layers,
                "traffic_bytes": None if self.problems else self.traffic,
                "usec": None if self.problems else round(self.usec, 3),
            },
            "boundaries": [boundary._asdict() for boundary in self.boundaries],
            "normalizations": [normalization._asdict() for normalization in self.normalizations],
            "problems": [{**_problem_values(problem), **_place_values(problem.where)} for problem in self.problems],
            "costs": {
                "provenance": self.provenance,
                "commands": [
                    {"step": cost.step, "layers": list(cost.layers), "runs": cost.runs, **cost.estimate.to_values()}
                    for cost in self.costs
                ],
            },
        }


def _row_values(row: Row) -> dict[str, Any]:
    return {
        "name": row.origin.layer,
        "type": row.origin.type,
        "outputs": [list(shape) for shape in row.outputs],
        "guessed": row.guessed,
        "parameters": row.parameters,
        "macs": row.macs,
        "runs": row.runs.value,
        "how": row.how,
        "steps": list(row.steps),
        "problems": [_problem_values(problem) for problem in row.problems],
    }


def _problem_values(problem: Problem) -> dict[str, Any]:
    return {"code": problem.code, "message": problem.message, "hint": problem.hint}


def _place_values(where: Origin | None) -> dict[str, Any]:
    if where is None:
        return {"file": "", "line": None, "layer": "", "type": ""}
    return {"file": Path(where.file).name, "line": where.line, "layer": where.layer, "type": where.type}


def inspect(source: Config | str | Path, **device: Any) -> Inspection:
    """Inspect the network of a configuration, an ini file or a model file (.h5, .hdf5, .keras, .prototxt).

    A .prototxt needs no weights. device: options of Config, such as device, fusion and ub_size, where `source` is a file.
    Raises ConvertorError when a file cannot be read at all; what is wrong with single layers is in the inspection.
    """
    if not isinstance(source, Config):
        path = Path(source)
        if problem := explain(path):
            raise ModelError(problem)
        if is_model(path) and path.exists():
            return _inspect(Config.of_model(path, **device), path.stem, with_weights=False)
        source = Config.read(path, **device)
    return _inspect(source, source.name, with_weights=True)


def compare(
    source: str | Path, *, devices: Sequence[str | None], levels: Sequence[str | None], **sizes: Any
) -> tuple[Inspection, ...]:
    """Inspect a network for each device at each level of fusion, both as the ini file names them; None: the ini file's."""
    return tuple(inspect(source, device=device, fusion=level, **sizes) for device in devices for level in levels)


def _inspect(config: Config, network: str, *, with_weights: bool) -> Inspection:
    return look(config, with_weights=with_weights).inspection(network)


class Look(NamedTuple):
    """A network on its way to a program, as far as it comes. schedule: None when there are problems."""

    config: Config
    has_weights: bool
    partial: PartialGraph
    legalized: Legalized
    problems: tuple[Problem, ...]
    schedule: MemorySchedule | None

    def inspection(self, network: str) -> Inspection:
        """What it shows. network: its name."""
        config, partial, problems = self.config, self.partial, self.problems
        steps = self.legalized.steps if self.schedule is None else self.schedule.steps
        work = {number: step for number, step in enumerate(steps) if not _is_for_placeholders(partial, step)}
        return Inspection(
            network=network,
            file=config.definition.name,
            framework=config.origin.name,
            has_weights=self.has_weights or not config.model.may_lack_weights,
            rows=tuple(_rows(partial, work, problems)),
            commands=sum(step.type is LayerType.CONV for step in work.values()),
            cpu_layers=sum(_place(step) is Runs.CPU for step in work.values()),
            boundaries=() if problems else _boundaries(self.legalized, DeviceOptions.of(config).fusion),
            problems=problems,
            device=config.device.name,
            fusion=config.fusion,
            costs=() if problems else tuple(_costs(self.legalized.graph, work, config)),
            provenance=provenance(config.profile),
            normalizations=() if partial.problems else input_normalizations(partial.graph),
        )


def look(config: Config, *, with_weights: bool = True) -> Look:
    """Read a network, legalize it, and schedule it if nothing prevents a conversion."""
    partial = read(config, with_weights=with_weights)
    legalized = legalize_graph(partial.graph, DeviceOptions.of(config))
    problems = in_network_order(partial.graph, (*partial.problems, *find_violations(partial, legalized)))
    schedule = None if problems else schedule_and_allocate(legalized.graph, legalized.steps)
    return Look(config, with_weights, partial, legalized, tuple(problems), schedule)


def _costs(graph: Graph, work: Mapping[int, Command], config: Config) -> Iterator[CommandCost]:
    for number, step in work.items():
        if step.assignments:
            operand = sum(nbytes(graph, name) for name in step.reads[1:])
            layers = tuple(dict.fromkeys(origin.layer for origin in step.origins))
            element = 1 if config.input == "u8" and number == min(work) else 2  # bytes of the command's input
            costs = estimate(step.runs, operand_bytes=operand, profile=config.profile, element_bytes=element)
            yield CommandCost(number, layers, len(step.runs), costs)


def inspections_as_json(results: Sequence[Inspection]) -> str:
    """Inspections of one network for several devices or levels of fusion."""
    return json.dumps({"schema": SCHEMA, "inspections": [result.to_values() for result in results]}, indent=2) + "\n"


def _boundaries(legalized: Legalized, fusion: Fusion) -> tuple[Boundary, ...]:
    """The boundaries of commands and their reasons, with the names of the framework's layers."""

    def layer(name: str) -> str:
        where = legalized.graph[name].where
        return name if where is None else where.layer

    found = boundaries(Selection(legalized.graph, legalized.steps), fusion, legalized.device)
    named = (Boundary(layer(b.before), layer(b.after), b.reason) for b in found)
    return tuple(dict.fromkeys(b for b in named if b.before != b.after))


def _is_for_placeholders(partial_graph: PartialGraph, step: Command) -> bool:
    """Whether a step exists only because a layer that cannot be read was cut out."""
    unread = {origin for name in partial_graph.placeholders for origin in partial_graph.graph[name].origins}
    is_given_away = step.type is LayerType.FLATTEN and partial_graph.cut.issuperset(step.reads)
    return is_given_away or (bool(unread) and unread.issuperset(step.origins))


# --- rows ----------------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A node that a step runs, and the step's number."""

    number: int
    step: Command
    node: Node


def _rows(partial_graph: PartialGraph, work: Mapping[int, Command], problems: Sequence[Problem]) -> Iterator[Row]:
    """One row for each layer of the network, in its order."""
    graph = partial_graph.graph
    layers: dict[Origin, list[Node]] = {}
    for node in graph.nodes:
        for origin in node.origins:
            layers.setdefault(origin, []).append(node)
    parts: dict[Origin, list[_Part]] = {}
    for number, step in work.items():
        for node in step.nodes:
            for origin in dict.fromkeys(node.origins):
                parts.setdefault(origin, []).append(_Part(number, step, node))
    for origin, nodes in layers.items():
        its_problems = tuple(p for p in problems if p.where is not None and p.where.layer == origin.layer)
        its_parts = parts.get(origin, [])
        unread = any(node.name in partial_graph.placeholders for node in nodes)
        if its_problems:
            runs, how = Runs.REFUSED, "; ".join(f"{p.code} {p.message}" for p in its_problems)
        elif unread:
            runs, how = Runs.UNKNOWN, "its inputs are guesses, since a layer before it cannot be read"
        else:
            runs, how = _place_and_how(origin, nodes, its_parts)
        yield Row(
            origin=origin,
            outputs=_outputs(graph, nodes),
            guessed=any(node.name in partial_graph.guessed for node in nodes),
            parameters=None if unread else partial_graph.parameters.get(origin, 0),
            macs=None if unread else sum(_macs(graph, node) for node in nodes),
            runs=runs,
            how=how,
            steps=() if partial_graph.placeholders else tuple(dict.fromkeys(part.number for part in its_parts)),
            problems=its_problems,
        )


def _outputs(graph: Graph, nodes: Sequence[Node]) -> tuple[Shape, ...]:
    """Shapes of a layer's outputs: of its nodes that other layers read, or that none reads."""
    inner = {node.name for node in nodes}
    given = [
        node
        for node in nodes
        if node.name in graph.outputs or not graph.users(node.name) or not inner.issuperset(graph.users(node.name))
    ]
    return tuple(graph.shape(node.name) for node in given)


def _macs(graph: Graph, node: Node) -> int:
    """Multiplications with a weight, for one image."""
    match node.op:
        case Conv2d(weight=weight):
            y = graph.shape(node.name)
            return y.height * y.width * weight.size
        case ConvTranspose2d(weight=weight):
            x = graph.shape(node.inputs[0])
            return x.height * x.width * weight.size
        case Dense(weight=weight):
            return weight.size
        case _:
            return 0


def _place(step: Command) -> Runs:
    match step.type:
        case LayerType.CONV:
            return Runs.DEVICE
        case LayerType.INPUT | LayerType.CONCAT:
            return Runs.NOWHERE
        case _:
            return Runs.CPU


def _place_and_how(origin: Origin, nodes: Sequence[Node], parts: Sequence[_Part]) -> tuple[Runs, str]:
    """Where a layer without problems runs, and how. nodes: of the framework; parts: of the program."""
    own = [part for part in parts if part.node.where == origin]
    flattened: list[_Part] = []  # the map is an output; the flattening is not the layer's own
    if not any(isinstance(node.op, Reshape) for node in nodes):
        flattened = [part for part in own if part.step.type is LayerType.FLATTEN]
        own = [part for part in own if part not in flattened]
    hosts = [part for part in parts if part.node.where != origin and part.step.type is not LayerType.FLATTEN]
    places = {_place(part.step) for part in (own or hosts)} - {Runs.NOWHERE} | {_place(part.step) for part in flattened}
    if not places:
        return Runs.NOWHERE, _idle(nodes[-1].op)
    how = ", ".join(_counted(describe(part.node.op) for part in own))
    heads = (part.step.nodes[0].where if own else part.node.where for part in own or hosts)
    if others := dict.fromkeys(head.layer for head in heads if head is not None and head != origin):
        named = ", ".join(f'"{name}"' for name in others)
        how += f", in the command of {named}" if own else f"within {named}"
    if flattened:
        how += "; flattened for the output"
    before = [describe(node.op) for node in nodes if not isinstance(node.op, Identity)]
    if len(places) > 1:
        return Runs.BOTH, how
    (place,) = places
    is_other = bool(own) and before != [describe(part.node.op) for part in own]
    return Runs.REWRITTEN if place is Runs.DEVICE and is_other else place, how


# --- words ---------------------------------------------------------------------------------------------------------------


def _idle(op: Op) -> str:
    """Why nothing is to be computed."""
    match op:
        case Input():
            return "the application writes it"
        case Concat():
            return "its parts are written into place"
        case Identity():
            return "nothing to do"
        case _:
            return "nothing to compute"


def _counted(words: Iterable[str]) -> list[str]:
    """Each run of the same words once, with their number."""
    counts = [(word, len(list(same))) for word, same in groupby(words)]
    return [word if count == 1 else f"{count} times {word}" for word, count in counts]
