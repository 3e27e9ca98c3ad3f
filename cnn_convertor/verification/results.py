"""The results of a verification, as values and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from cnn_convertor.files.codec import to_json

LEAST_FP16: Final = 40.0  # dB


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one map of the device differs from the framework's, over all samples.

    name: of the framework's layer. sqnr: dB; infinite when all values are equal, minus infinite when some are not finite.
    agreement: share of the samples whose largest element is the same one (vectors only). largest: the largest magnitude on
    either side, to be compared with FP16's 65504. doubt: why the map proves nothing at any SQNR; empty if it does.
    evidence_for: the doubtful output in whose place this map, which leads to it, is compared. allowed: dB that are enough, where
    rounding alone takes more than the usual threshold; None elsewhere.
    """

    name: str
    elements: int
    max_error: float
    mean_error: float
    sqnr: float
    cosine: float
    agreement: float | None
    largest: float
    doubt: str = ""
    evidence_for: str = ""
    allowed: float | None = None

    def reaches(self, threshold: float) -> bool:
        """Whether it has that many dB, or what rounding leaves of them."""
        return self.sqnr >= (threshold if self.allowed is None else min(threshold, self.allowed))


class Cause(Enum):
    """A cause of an error, switched on alone. The value is its name in tables."""

    PALETTE = "outputs without its palette"
    MAPS = "maps in FP16 so far"
    INPUTS_AND_WEIGHTS = "inputs and weights in FP16 so far"
    ARITHMETIC = "order of arithmetic so far"


@dataclass(frozen=True, slots=True)
class Attribution:
    """The SQNR of one layer with one cause alone, in dB; the layers before it have that cause, too.

    For a palette, the SQNR of the worst output when this layer alone has none.
    """

    cause: Cause
    sqnr: float


@dataclass(frozen=True, slots=True)
class LayerResult:
    """One map inside the network.

    unfused: whether it is compared with a command for each layer, since fusion keeps it out of memory.
    causes: empty unless requested. alone: SQNR in dB when the layer reads the framework's maps; None unless requested.
    """

    comparison: Comparison
    type: str
    unfused: bool = False
    causes: tuple[Attribution, ...] = ()
    alone: float | None = None


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A layer for which the framework has no result.

    reason: why. is_verified: False for an output of the network, unless the maps that it is computed from are compared.
    """

    layer: str
    reason: str
    is_verified: bool


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What the outputs gain when the weights of one layer alone are FP16.

    more_bytes: that takes. sqnr: dB of the worst output then. outputs: dB of each, by its name.
    """

    layer: str
    more_bytes: int
    sqnr: float
    outputs: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class IfCalibrated:
    """What the outputs keep if the palettes are calibrated with random images, other than those that are compared.

    samples: the number of these images. outputs: dB of each, by its name.
    """

    samples: int
    outputs: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Share of the samples whose largest element is the labeled class, on both sides."""

    output: str
    device: float
    framework: float


@dataclass(frozen=True, slots=True)
class Beside:
    """One output with FP16 weights and with palettes, each against the framework.

    same_class: share of the samples whose largest element is the same one with both; None for maps.
    """

    fp16: Comparison
    palette: Comparison
    same_class: float | None


@dataclass(frozen=True, slots=True)
class Excess:
    """A map that is wrong before any rounding, when its layer reads the framework's maps.

    part: the row, column or channel that is; empty: the whole map. sqnr: dB, without rounding. allowed: dB of a right one, at least.
    """

    layer: str
    part: str
    sqnr: float
    allowed: float


@dataclass(frozen=True, slots=True)
class StaleFile:
    """A file of the output folder that is not what was verified, and how it differs, as `check` says it."""

    file: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """How the generated network compares with its framework.

    inputs: where they come from. min_sqnr: dB that every output must reach. first_jump: the first layer that is much worse
    than its inputs; None when there is none, or when layers were not compared. beside: for a network with palettes, each
    output with FP16 weights, too. sensitivity: of the layers with palettes, if it or the causes were asked for. if_calibrated:
    with it, where calibration can be tried.
    accuracies: one for each vector, if labels were given. unjudged: layers that are not compared, since the framework has
    no results of them. stale_files: files in the output folder that are not what was verified. judged_maps:
    how many maps were judged with FP16 weights by what rounding allows; wrong_maps: those that lose more. by_sqnr_alone: outputs
    that cannot be judged so -> the reason. different_layers: those whose maps on the device are not, bit for bit, what the
    program in memory computes, with FP16 weights of the values of its palettes.
    """

    network: str
    framework: str
    inputs: str
    samples: int
    palette: bool
    transposed: bool
    min_sqnr: float
    outputs: tuple[Comparison, ...]
    layers: tuple[LayerResult, ...] = ()
    first_jump: str | None = None
    beside: tuple[Beside, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    if_calibrated: IfCalibrated | None = None
    accuracies: tuple[Accuracy, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    stale_files: tuple[StaleFile, ...] = ()
    judged_maps: int = 0
    wrong_maps: tuple[Excess, ...] = ()
    by_sqnr_alone: Mapping[str, str] = field(default_factory=dict)
    different_layers: tuple[str, ...] = ()
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        is_complete = all(layer.is_verified for layer in self.unjudged)
        object.__setattr__(self, "passed", not self._refuted and is_complete)

    @property
    def _refuted(self) -> bool:
        lists = (
            self.failed,
            self.failed_fp16,
            self.unverified,
            self.stale_files,
            self.wrong_maps,
            self.different_layers,
        )
        return any(lists)

    @property
    def failed_fp16(self) -> tuple[Comparison, ...]:
        """With palettes: the outputs that are wrong with FP16 weights, too."""
        fp16 = (each.fp16 for each in self.beside)
        return tuple(output for output in fp16 if not output.reaches(LEAST_FP16))

    @property
    def failed(self) -> tuple[Comparison, ...]:
        """The outputs below the threshold."""
        return tuple(output for output in self.outputs if not output.reaches(self.min_sqnr))

    @property
    def unverified(self) -> tuple[Comparison, ...]:
        """The outputs whose values prove nothing, and for which no other map does."""
        shown = {output.evidence_for for output in self.outputs if not output.doubt}
        doubtful = (output for output in self.outputs if output.doubt and not output.evidence_for)
        return tuple(output for output in doubtful if output.name not in shown)

    @property
    def least_sqnr(self) -> float:
        """dB of the worst output."""
        return least_sqnr(self.outputs)

    def to_json(self) -> str:
        """The same results give the same text: the entry `verified` of a report."""
        return to_json(self)


def least_sqnr(outputs: Sequence[Comparison]) -> float:
    """dB of the worst of the outputs whose values prove something, if any do."""
    return min((output.sqnr for output in [o for o in outputs if not o.doubt] or outputs), default=math.inf)
