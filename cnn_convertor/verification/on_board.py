"""How a network on a board compares with the emulated device and with its framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cnn_convertor.devices.intervals import Interval
from cnn_convertor.files.codec import to_json
from cnn_convertor.verification.results import Comparison


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one layer, or of the network. usec: microseconds. The rest are bytes by the driver's counters. None: not measured."""

    usec: int | None
    input_bytes: int | None
    output_bytes: int | None
    weights_bytes: int | None

    @property
    def nbytes(self) -> int | None:
        counted = (self.input_bytes, self.output_bytes, self.weights_bytes)
        return None if None in counted else sum(n for n in counted if n is not None)


@dataclass(frozen=True, slots=True)
class Modelled:
    """What is expected. usec, cycles: by the model (docs/devices.md#what-a-network-costs). bytes: as the emulated device counts them."""

    usec: Interval
    cycles: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BoardLayer:
    """One layer of the program.

    emulation: the board against the emulated device, on the inputs that the board had. is_same: they agree but for rounding.
    framework: the board against the framework, and emulated: the emulated device against it, in dB; None where the framework
    has no such map.
    """

    name: str
    type: str
    emulation: Comparison
    is_same: bool
    framework: float | None
    emulated: float | None
    measured: Measured
    modelled: Modelled


@dataclass(frozen=True, slots=True)
class BoardVerification:
    """How a network on the board compares.

    outputs: of the whole network on the board against the framework. emulated: those of the emulated device. whole, cpu_usec,
    between_usec: measured over the whole network; of the device, the CPU and the changes between them. functions: nanoseconds
    for each unit of a CPU function's work. cache_bytes_per_second: of the I/O buffer on its way to the device and back; None
    where nothing changes sides. first_leaving: the first layer where the board leaves the emulation.
    """

    network: str
    framework: str
    inputs: str
    samples: int
    device: str
    min_sqnr: float
    outputs: tuple[Comparison, ...]
    emulated: tuple[Comparison, ...]
    layers: tuple[BoardLayer, ...]
    whole: Measured
    cpu_usec: int
    between_usec: int
    functions: Mapping[str, float]
    cache_bytes_per_second: float | None
    modelled: Modelled
    first_leaving: str | None = field(init=False)
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        first_leaving = next((layer.name for layer in self.layers if not layer.is_same), None)
        object.__setattr__(self, "first_leaving", first_leaving)
        object.__setattr__(self, "passed", not self.failed and first_leaving is None)

    @property
    def failed(self) -> tuple[Comparison, ...]:
        """The outputs below the threshold."""
        return tuple(output for output in self.outputs if not output.sqnr >= self.min_sqnr)

    def to_json(self) -> str:
        """The entry `board` of a report."""
        return to_json(self)
