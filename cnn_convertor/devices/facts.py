"""What an accelerator tells a report: its figures, what each layer of a program does there, and what that costs.

Named tuples, as every command imports them: Python makes such a class in a quarter of the time.
"""

import math
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.program import ElementType, Tensor
from cnn_convertor.ir.ops import Shape

LEFT_OUT = "leaves out cache misses, custom layers and what the runtime computes itself"  # of estimated times
_MOST = 1000.0  # dB that an output gains or loses, so that exact ones can be compared


class DeviceFigure(NamedTuple):
    """A figure of the device. source: where it comes from. assumed: no public material has it for this device."""

    name: str
    value: str
    unit: str
    source: str
    assumed: bool


class DeviceFacts(NamedTuple):
    """What the network is converted for. provenance: where estimated times come from, in words.

    driver, hardware: of figures, the version of the user driver and the date of the hardware. limits: those that
    differ between boards.
    """

    name: str
    title: str
    fusion: str
    transposed: bool
    provenance: str
    driver: DeviceFigure
    hardware: DeviceFigure
    limits: Mapping[str, int | bool]
    figures: tuple[DeviceFigure, ...]


class StoredMap(NamedTuple):
    """A feature map in the I/O buffer. shape: height, width, channels. layout: a name of `cnn-convertor layouts`. offset: bytes."""

    shape: tuple[int, int, int]
    layout: str
    dtype: str
    offset: int
    bytes: int


class Register(NamedTuple):
    """A register of a run, with the SDK's name."""

    name: str
    value: int


class CommandRun(NamedTuple):
    """One run of a command.

    layers: of the framework. does: in words. tiles: vertical strips of its input. external: whether it writes to external
    memory; it goes on to the next run otherwise. registers: those that are not 0.
    """

    layers: tuple[str, ...]
    does: str
    input: tuple[int, int, int]
    output: tuple[int, int, int]
    tiles: int
    external: bool
    registers: tuple[Register, ...]


class StepCost(NamedTuple):
    """What a command costs by the model.

    bound: compute or memory, whichever takes longer; the shorter ends decide. command_usec: to start and end it. usec: the
    longer of the times for compute and memory, with command_usec.
    """

    cycles: int
    input_bytes: int
    operand_bytes: int
    output_bytes: int
    weights_bytes: int
    bytes: int
    compute_usec: Interval
    memory_usec: Interval
    command_usec: Interval
    usec: Interval
    bound: str


class CpuCost(NamedTuple):
    """What a layer on the CPU costs by the model: units of work of a function, which docs/devices.md lists, and bytes of its maps."""

    function: str
    units: int
    bytes: int
    usec: Interval

    @property
    def functions(self) -> list[str]:
        """The functions that share the layer."""
        return self.function.split(", ")


class Between(NamedTuple):
    """What it costs to change between device and CPU with a runtime, "sdk" or "generated".

    lists: of commands, each of which starts and is waited for. changes: from the CPU to the device and back, each pair once.
    bytes: for which the cache is maintained; the SDK's runtime does so for the whole I/O buffer both ways. overlap: how long
    device and CPU work at the same time; the time of the whole network counts it once.
    """

    runtime: str
    lists: int
    changes: int
    bytes: int
    usec: Interval
    overlap: Interval


class StepInput(NamedTuple):
    """A map that a step reads. step: the step that writes it; null for an input of the network, which `input` numbers."""

    step: int | None
    input: int | None
    shape: tuple[int, int, int]


class WeightBlob(NamedTuple):
    """Packed weights in the weight buffer. offset: bytes."""

    offset: int
    bytes: int
    palette: bool


class Step(NamedTuple):
    """A layer of the generated network, in execution order.

    name, type: in the generated sources. does: in words. place: device, cpu or none. layers: of the framework. topo, evidence,
    cost: of a command. cpu_cost: of a layer on the CPU; null where nothing is known of it. reason: why the CPU does it, or why the
    device does it in this way. ends: why neighbors that read its map have commands of their own, as far as a report looks for that.
    """

    name: str
    type: str
    does: str
    place: str
    layers: tuple[str, ...]
    reads: tuple[StepInput, ...]
    output: StoredMap
    is_output: bool
    runs: tuple[CommandRun, ...]
    weights: tuple[WeightBlob, ...]
    topo: int | None
    evidence: str | None
    cost: StepCost | None
    cpu_cost: CpuCost | None = None
    reason: str = ""
    ends: tuple[str, ...] = ()


class Magnitudes(NamedTuple):
    """How large the weights of a layer are, by powers of two.

    counts[i]: weights w with 2**(first + i) <= |w| < 2**(first + i + 1). zeros: exact ones. overflow: weights beyond FP16's
    largest number; underflow: weights other than 0 that are 0 in FP16.
    """

    first: int
    counts: tuple[int, ...]
    zeros: int
    overflow: int
    underflow: int


class Reason(Enum):
    """Why weights have a palette or none. The value is its text in reports."""

    ASKED = "all layers"
    OVERRIDE = "the ini file says so"
    PRELU = "PReLU"
    SLOPES = "slopes of PReLU"
    DEPTHWISE = "depthwise"
    LARGER = "a palette is not smaller"
    LOSSLESS = "nothing is lost"
    CLOSE = "little is lost"
    LOSSY = "too much would be lost"
    KEPT = "the outputs keep their SQNR"
    MISSED = "the outputs would lose too much"


class StoredWeights(NamedTuple):
    """How the weights of a layer are stored, and why.

    step, run: that read them. sqnr: dB that a palette keeps of the weights; null where none was fitted. zeros: share of the
    weights that are 0 in FP16; distinct: how many values they have then. magnitudes: null unless a report was asked for.
    """

    layer: str
    step: int
    run: int
    palette: bool
    reason: str
    distinct: int | None
    zeros: float | None
    sqnr: float | None
    fp16_bytes: int
    bytes: int
    magnitudes: Magnitudes | None = None


class Gain(NamedTuple):
    """SQNR of one map in dB, against the same network with FP16 weights: before and after calibration."""

    name: str
    before: float
    after: float

    @property
    def gain(self) -> float:
        """In dB, at most 1,000 either way. What is not a number afterwards counts as lost."""
        gain = 0.0 if self.after == self.before else self.after - self.before
        return -_MOST if math.isnan(gain) else min(max(gain, -_MOST), _MOST)


class LayerGain(NamedTuple):
    """SQNR of the outputs in dB if only this layer has a palette, as their gradients predict it, without mean errors.

    limit: an estimate of what the best rounding would keep, if weights lay evenly between the palette's values.
    """

    name: str
    before: float
    after: float
    limit: float


class CalibrationEffect(NamedTuple):
    """What sample inputs did to the palettes. samples: that palettes were fitted to. source: of the samples.

    judges: the number of the others, on which all figures are measured; 0: one sample did both.
    """

    samples: int
    judges: int
    source: str
    outputs: tuple[Gain, ...]
    layers: tuple[LayerGain, ...]

    @property
    def worst_layer(self) -> str | None:
        """The layer whose palette costs the outputs most; None if no palette costs anything."""
        costs = [each for each in self.layers if each.after < math.inf]
        return min(costs, key=lambda each: each.after).name if costs else None


class KeptPrecision(NamedTuple):
    """What the worst output keeps, in dB: wanted, and measured as stored and with palettes everywhere.

    samples: that chose the palettes. judges: the number of others, on which the figures are measured; 0: one sample did both.
    """

    wanted: float
    sqnr: float
    with_all: float
    samples: int
    judges: int
    source: str


class ProgramFacts(NamedTuple):
    """What an accelerator knows of a program.

    between: with the network's runtime; other_between: with the other one, if there is one. command_buffer: bytes that the driver needs in addition,
    for palettes.
    """

    steps: tuple[Step, ...]
    between: Between
    other_between: Between | None
    weights: tuple[StoredWeights, ...]
    command_buffer: int


def plain(shape: Shape) -> tuple[int, int, int]:
    """A shape as a report has it."""
    return shape.height, shape.width, shape.channels


def map_of(tensor: Tensor) -> StoredMap:
    """A map of a program as a report has it."""
    dtype = "uint8" if tensor.type is ElementType.BYTE else f"float{8 * tensor.type.value}"
    return StoredMap(plain(tensor.shape), tensor.layout.name, dtype, tensor.offset, tensor.nbytes)
