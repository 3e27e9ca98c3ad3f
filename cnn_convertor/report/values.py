"""The report of a network: frozen numbers and names, from which terminal, manifest, JSON and pages are made.

Its parts are named tuples, as every command imports them: Python makes such a class in a quarter of the time.
"""

from dataclasses import dataclass
from typing import NamedTuple

from cnn_convertor.devices.facts import (
    Between,
    CalibrationEffect,
    DeviceFacts,
    KeptPrecision,
    Step,
    StoredMap,
    StoredWeights,
)
from cnn_convertor.devices.intervals import Interval, total
from cnn_convertor.passes.normalization import Normalization
from cnn_convertor.verification.on_board import BoardVerification
from cnn_convertor.verification.results import Verification


class Preprocessing(NamedTuple):
    """An input image is (pixel - mean) * scale, its channels in this order."""

    channel_order: str
    mean: tuple[float, ...]
    scale: float | tuple[float, ...]


class NetworkInput(NamedTuple):
    """An input that the application fills."""

    name: str
    map: StoredMap


class NetworkOutput(NamedTuple):
    """An output. step: the number of the step that writes it."""

    name: str
    step: int
    map: StoredMap


class Message(NamedTuple):
    """An error or a warning. file, line, layer and type say where; empty and null where that is not known."""

    code: str
    message: str
    hint: str
    file: str
    line: int | None
    layer: str
    type: str


class ModelLayer(NamedTuple):
    """A layer of the framework.

    outputs: shapes; output_names: what the framework calls them; empty: as the layer. guessed: the shapes follow from a
    guess, because a layer before it cannot be read. parameters: trained numbers; macs: multiplications with one of them and
    of matrix products of two maps, for one image; null: not known. runs: where: device, rewritten, cpu, device+cpu, none, refused or unknown. how: in words; the
    reason, for a refused layer. steps: that compute it; none if any layer of the network cannot be read.
    """

    name: str
    type: str
    outputs: tuple[tuple[int, int, int], ...]
    parameters: int | None
    macs: int | None
    runs: str
    how: str
    steps: tuple[int, ...]
    guessed: bool = False
    output_names: tuple[str, ...] = ()


class LiveMap(NamedTuple):
    """A map's place in the I/O buffer: bytes at an offset, in use from step `first` to step `last`, inclusive.

    kind: input, output, map or concatenation (in place: its parts lie inside).
    """

    name: str
    kind: str
    offset: int
    bytes: int
    first: int
    last: int


class MemoryUse(NamedTuple):
    """The I/O buffer.

    lower_bound: no plan is smaller. peak_step: the first step with the most live bytes, peak_bytes. of_lines: bytes more then since
    maps take whole lines of the cache.
    """

    bytes: int
    lower_bound: int
    proven: bool
    peak_step: int
    peak_bytes: int
    peak_maps: tuple[str, ...]
    buffers: tuple[LiveMap, ...]
    of_lines: int = 0


class PassChange(NamedTuple):
    """A pass that changed the graph. before: lines of nodes that it removed or changed; after: that it added or changed."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Work(NamedTuple):
    """How much work the network is, or those of its layers that can be read.

    layers, refused: of the framework. parameters, macs: of all layers where they are known. traffic_bytes: of all commands.
    map_bytes: of feature maps that they move, without what tiles read twice; least_map_bytes: no choice of commands moves less.
    usec: of all, by the model; device_usec, cpu_usec, between_usec: its parts, which together have twice what runs at the same time;
    null where there are problems.
    """

    commands: int
    cpu_layers: int
    layers: int = 0
    refused: int = 0
    parameters: int = 0
    macs: int = 0
    macs_on_device: int = 0
    traffic_bytes: int | None = None
    map_bytes: int | None = None
    least_map_bytes: int | None = None
    usec: Interval | None = None
    device_usec: Interval | None = None
    cpu_usec: Interval | None = None
    between_usec: Interval | None = None


class Change(NamedTuple):
    """A change that helps, and the layers concerned."""

    code: str
    hint: str
    layers: tuple[str, ...]


class CommandBoundary(NamedTuple):
    """Two layers that do not share a command though one reads the other's map, or both are parts of a concatenation."""

    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """A network as it was converted, or as far as it could be.

    Each command fills what it finds; the other parts are empty or null:
    layers, work, boundaries, normalizations: an inspection and a report. passes, magnitudes of weights: a report.
    weights, calibration, kept: a conversion and a report. verified: a verification. board: a report with a kit's results.
    between, other_between: changes of sides with the runtime of the network, and with the other one.
    steps and what follows from them are empty when problems of layers prevent a conversion.

    has_weights: whether the model was read with its weights; without them, numbers depend on none. palette_command_bytes: about
    how much of its command buffer the driver needs to expand palettes. notes: the memory, inputs and outputs in sentences.
    normalizations: of inputs, by the first layers. convertible_part: where the network can end if problems prevent a conversion.
    """

    schema: int
    convertor: str
    network: str
    file: str
    framework: str
    device: DeviceFacts
    preprocessing: Preprocessing
    has_weights: bool = True
    problems: tuple[Message, ...] = ()
    convertible_part: tuple[Message, ...] = ()
    warnings: tuple[Message, ...] = ()
    inputs: tuple[NetworkInput, ...] = ()
    outputs: tuple[NetworkOutput, ...] = ()
    layers: tuple[ModelLayer, ...] = ()
    work: Work | None = None
    normalizations: tuple[Normalization, ...] = ()
    steps: tuple[Step, ...] = ()
    between: Between | None = None
    other_between: Between | None = None
    memory: MemoryUse | None = None
    weight_bytes: int = 0
    weights: tuple[StoredWeights, ...] = ()
    palette_command_bytes: int = 0
    calibration: CalibrationEffect | None = None
    kept: KeptPrecision | None = None
    boundaries: tuple[CommandBoundary, ...] = ()
    passes: tuple[PassChange, ...] = ()
    verified: Verification | None = None
    board: BoardVerification | None = None
    notes: tuple[str, ...] = ()

    @property
    def commands(self) -> tuple[Step, ...]:
        """The steps that run on the device."""
        return tuple(step for step in self.steps if step.runs)

    @property
    def on_cpu(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.place == "cpu")

    @property
    def usec(self) -> Interval:
        """Microseconds of the whole network, by the model: its parts, without what runs at the same time as others."""
        return total(self.usec_by_part.values()).less(self.overlap_usec)

    @property
    def overlap_usec(self) -> Interval:
        """Microseconds in which both device and CPU work."""
        return Interval.of(0.0) if self.between is None else self.between.overlap

    @property
    def usec_by_part(self) -> dict[str, Interval]:
        """Microseconds of each part of the time, in words."""
        return {
            "on the device": self.device_usec,
            "on the CPU": total(step.cpu_cost.usec for step in self.steps if step.cpu_cost is not None),
            "between them": Interval.of(0.0) if self.between is None else self.between.usec,
        }

    @property
    def device_usec(self) -> Interval:
        """Microseconds of all commands, by the model."""
        return total(step.cost.usec for step in self.steps if step.cost is not None)

    @property
    def uncounted(self) -> int:
        """How many layers on the CPU the time leaves out."""
        return sum(step.cpu_cost is None for step in self.on_cpu)

    @property
    def command_usec(self) -> Interval:
        """How much of it the commands take to start and end."""
        return total(step.cost.command_usec for step in self.steps if step.cost is not None)

    @property
    def traffic(self) -> int:
        """Bytes of external memory that all commands move, by the model."""
        return sum(step.cost.bytes for step in self.steps if step.cost is not None)

    @property
    def accepted(self) -> int:
        """How many commands rest on the driver's check alone."""
        return sum(step.evidence == "accepted" for step in self.steps)

    @property
    def parameters(self) -> int:
        return sum(layer.parameters or 0 for layer in self.layers)

    @property
    def macs(self) -> int:
        """Of all layers where they are known."""
        return sum(layer.macs or 0 for layer in self.layers)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What to change, in network order."""
        layers: dict[tuple[str, str], dict[str, None]] = {}
        for problem in self.problems:
            names = layers.setdefault((problem.code, problem.hint or problem.message), {})
            if name := problem.layer or problem.file:
                names[name] = None
        return tuple(Change(code, hint, tuple(names)) for (code, hint), names in layers.items())


SCHEMA = 4  # of the JSON form; increases when an entry changes its meaning or goes away
