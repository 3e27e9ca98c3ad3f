"""Inspects a network without converting it: where each layer runs, and what prevents a conversion."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cnn_convertor.config import Config, is_model
from cnn_convertor.devices.dv700.commands import Command
from cnn_convertor.devices.dv700.estimate import Estimate, estimate, provenance, total_usec
from cnn_convertor.devices.dv700.fusion.boundaries import Boundary
from cnn_convertor.devices.dv700.memory.placement import nbytes
from cnn_convertor.devices.dv700.program import LayerType
from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.frontends.unsupported_formats import explain
from cnn_convertor.ir.graph import Graph
from cnn_convertor.normalization import Normalization, input_normalizations
from cnn_convertor.pipeline import DeviceOptions, look
from cnn_convertor.report.rows import Row, Runs, boundaries_of, place_of, rows, work_of

SCHEMA = 1  # of the JSON form; increases when the meaning of an entry changes


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
            return _inspect(Config.of(path, **device), path.stem, with_weights=False)
        source = Config.read(path, **device)
    return _inspect(source, source.name, with_weights=True)


def compare(
    source: str | Path, *, devices: Sequence[str | None], levels: Sequence[str | None], **options: Any
) -> tuple[Inspection, ...]:
    """Inspect a network for each device at each level of fusion, both as the ini file names them; None: the ini file's."""
    return tuple(inspect(source, device=device, fusion=level, **options) for device in devices for level in levels)


def _inspect(config: Config, network: str, *, with_weights: bool) -> Inspection:
    seen = look(config, with_weights=with_weights)
    work = work_of(seen.partial, seen.steps)
    legalized, problems = seen.legalized, seen.problems
    fusion = DeviceOptions.of(config).fusion
    return Inspection(
        network=network,
        file=config.definition.name,
        framework=config.origin.name,
        has_weights=with_weights or not config.model.may_lack_weights,
        rows=tuple(rows(seen.partial, work, problems)),
        commands=sum(step.type is LayerType.CONV for step in work.values()),
        cpu_layers=sum(place_of(step) is Runs.CPU for step in work.values()),
        boundaries=() if problems else boundaries_of(*legalized, fusion),
        problems=problems,
        device=config.device.name,
        fusion=config.fusion,
        costs=() if problems else tuple(_costs(legalized.graph, work, config)),
        provenance=provenance(config.profile),
        normalizations=() if seen.partial.problems else input_normalizations(seen.partial.graph),
    )


def _costs(graph: Graph, work: Mapping[int, Command], config: Config) -> Iterator[CommandCost]:
    for number, step in work.items():
        if step.assignments:
            operand = sum(nbytes(graph, name) for name in step.reads[1:])
            layers = tuple(dict.fromkeys(origin.layer for origin in step.origins))
            element = 1 if config.input != "fp16" and number == min(work) else 2  # bytes of the command's input
            costs = estimate(step.runs, operand_bytes=operand, profile=config.profile, element_bytes=element)
            yield CommandCost(number, layers, len(step.runs), costs)


def inspections_as_json(results: Sequence[Inspection]) -> str:
    """Inspections of one network for several devices or levels of fusion."""
    return json.dumps({"schema": SCHEMA, "inspections": [result.to_values() for result in results]}, indent=2) + "\n"
