"""The port: what an accelerator is to the rest of the package."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.facts import CalibrationEffect, DeviceFacts, KeptPrecision, ProgramFacts
from cnn_convertor.devices.figures import Figure, FigureKind
from cnn_convertor.devices.program import LayerType, Program
from cnn_convertor.devices.settings import Fusion, QuantizationOptions
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.replacing import Contents
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.layouts.packing import Bytes
from cnn_convertor.passes.contract import Pass
from cnn_convertor.progress import Progress

if TYPE_CHECKING:
    from cnn_convertor.emulation.network import EmulatedNetwork
    from cnn_convertor.emulation.variants import Variants
    from cnn_convertor.samples import Samples
    from cnn_convertor.workers.processes import Workers

Observer: TypeAlias = Callable[
    [Any, NDArray[np.float32]], None
]  # weights of a program, and a piece of them as it is packed


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


class Storage(NamedTuple):
    """How a program stores its weights and takes its input.

    output_sqnr: dB that every output is to keep, or None. calibrates: whether samples decide. samples: gives them.
    byte_values: what each byte of the input means in each channel, (256, channels), where the application writes bytes;
    swaps_bytes: the application writes their channels in the opposite order.
    """

    weights: QuantizationOptions
    output_sqnr: float | None
    calibrates: bool
    samples: Callable[[], Samples]
    byte_values: NDArray[np.float32] | None
    swaps_bytes: bool


class Quantized(NamedTuple):
    """A program with its weights stored as configured.

    target: for which the program was planned, see `Accelerator.quantize`.
    calibration: the effect of sample inputs on the palettes; budget: what the outputs keep, where they decided.
    """

    program: Program
    target: Accelerator
    calibration: CalibrationEffect | None = None
    budget: KeptPrecision | None = None


class PackedStream(NamedTuple):
    """Packed weights that stand for several arrays. layer, type: the user's. layout: its name. offset: bytes in the weight buffer.

    arrays: name -> shape, of weights, bias and slopes. form: the parameters of the packing, for a manifest.
    """

    layer: str
    type: str
    layout: str
    offset: int
    nbytes: int
    arrays: Mapping[str, tuple[int, ...]]
    form: Mapping[str, Any]


class Load(Protocol):
    """Loads a program of a network as data. residuals: what rounding takes from its weights, for one that rounds nothing."""

    def __call__(self, program: Program, residuals: Program | None = None) -> EmulatedNetwork: ...


Plan: TypeAlias = Callable[["Accelerator"], Program]  # the program of a network with FP16 weights, for any target


class Accelerator(Protocol):
    """An accelerator, set up for one network."""

    @property
    def fusion(self) -> Fusion: ...

    @property
    def transposed(self) -> bool: ...

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

    # --- weights ---

    def quantize(self, graph: Graph, storage: Storage, *, plan: Plan, progress: Progress, on: Workers) -> Quantized:
        """The program of a graph with its weights stored as configured. It may be planned for another target in the end.

        on: where calibration runs. Raises ConvertorError for storage that the accelerator does not have.
        """

    def with_byte_input(self, program: Program, values: NDArray[np.float32]) -> Program:
        """The program for an input of bytes. values: what each byte means in each channel, (256, channels).

        Raises UnsupportedError with every reason against it.
        """

    def pack(self, program: Program, observe: Observer | None = None) -> Iterator[NDArray[np.uint8]]:
        """The weight buffer, in pieces. Raises UnsupportedError while it is read for weights that cannot be packed."""

    def streams(self, program: Program) -> Iterator[tuple[PackedStream, Iterator[Bytes]]]:
        """Each stream and its bytes, which are read in order.

        Errors and warnings for any of them are raised with the last.
        """

    def is_narrow(self, program: Program) -> bool:
        """Whether weights are stored with less than 16 bits."""

    def widened(self, program: Program) -> Program:
        """The same commands with FP16 weights."""

    def with_weights_of(self, program: Program, other: Program) -> Program:
        """The program with its weights stored as those of another one of the same network, whose commands differ."""

    def rounded_by_numpy(self, program: Program) -> Program:
        """The program with FP16 weights of the values that it stores, rounded apart from the code that packs them."""

    def unrounded(self, load: Load, program: Program) -> EmulatedNetwork:
        """The network with FP16 weights that rounds nothing: neither its inputs and weights, nor its maps."""

    def variants(self, network: EmulatedNetwork, program: Program) -> Variants:
        """The program's network with narrow weights in any of its layers. network: the same commands with FP16 weights."""

    # --- files ---

    def emit(self, program: Program, options: RenderOptions, observe: Observer | None = None) -> dict[str, Contents]:
        """File name -> contents of all that runs a program: texts and packed weights."""

    def names_of(self, program: Program, options: RenderOptions) -> set[str]:
        """The files that `emit` gives."""

    def selftest(
        self, graph: Graph, program: Program, *, model: str, low: float, high: float
    ) -> Mapping[str, Contents]:
        """A test of the network for the board, with inputs from low to high and the outputs of the emulated device.

        Raises UsageError for networks that this computer cannot run.
        """

    @property
    def kit_files(self) -> Mapping[str, str]:
        """File name -> contents of what runs a kit on the board, beside the network."""

    # --- the emulated device ---

    def install(
        self,
        graph: Graph,
        program: Program,
        files: Mapping[str, Contents],
        folder: Path,
        *,
        sources: Sequence[Path] = (),
    ) -> EmulatedNetwork:
        """Write the files that a program was emitted as to a folder, and compile them.

        sources: C++ files with the callbacks of custom layers. Raises ConvertorError as a compiler does.
        """

    def installed(
        self, graph: Graph, program: Program, folder: Path, *, sources: Sequence[Path] = ()
    ) -> EmulatedNetwork:
        """Compile the files that a folder has. They are not changed."""

    def install_data(
        self,
        graph: Graph,
        program: Program,
        folder: Path,
        *,
        sources: Sequence[Path] = (),
        residuals: Program | None = None,
    ) -> EmulatedNetwork:
        """Write a program as data to a folder: it gives the same bits as what `install` compiles. residuals: as in `Load`."""
