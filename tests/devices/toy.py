"""A toy accelerator behind the port: it computes convolutions of 1x1 on maps in the order C, H, W, in FP32."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor import memory as planning
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.facts import Between, DeviceFacts, DeviceFigure, ProgramFacts, Step, map_of
from cnn_convertor.devices.figures import Figure, FigureKind
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.program import ElementType, Layer, LayerOf, LayerType, Program, ProgramOf, Tensor
from cnn_convertor.devices.registry import Family
from cnn_convertor.devices.settings import DeviceSettings, Fusion
from cnn_convertor.devices.target import (
    Boundary,
    Legalized,
    Load,
    MapTraffic,
    Observer,
    PackedStream,
    Plan,
    PlannedMemory,
    Quantized,
    Storage,
)
from cnn_convertor.emulation.build import cache_folder
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.variants import Variants
from cnn_convertor.errors import Origin, Problem, UnsupportedError
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import ONE, Conv2d, Input, Shape
from cnn_convertor.layouts.layout import Layout, Term
from cnn_convertor.layouts.packing import Bytes
from cnn_convertor.memory import Buffer
from cnn_convertor.passes.contract import Pass
from cnn_convertor.progress import Progress
from cnn_convertor.workers.processes import Workers

CHW = Layout("hwc", tuple(map(Term, "chw")), name="CHW")
SOURCE = (Path(__file__).parent / "toy.cpp").read_text(encoding="utf-8")


class ToyHardware(NamedTuple):
    """The figures of the only board. passed: there is no probe."""

    name: str = "toy"
    title: str = "a toy"
    figures: Mapping[str, Figure[Any]] = {}
    kinds: Mapping[str, FigureKind] = {}
    of_board: Mapping[str, int | bool] = {}
    passed: None = None

    def overridden(self, **_sizes: int | None) -> ToyHardware:
        return self

    def to_values(self) -> dict[str, Any]:
        return {"name": self.name}


class ToyWeights(NamedTuple):
    """kernels: (M, C, 1, 1). The bias follows them in the weight buffer."""

    offset: int
    kernels: Constant
    bias: Constant | None
    where: Origin | None

    @property
    def nbytes(self) -> int:
        return 4 * (self.kernels.size + self.kernels.shape[0])

    @property
    def layer(self) -> str:
        return self.where.layer if self.where else ""


class ToyRun(NamedTuple):
    input: Shape
    output: Shape
    origins: tuple[Origin, ...]
    stored: ToyWeights


class ToyStep(NamedTuple):
    node: Node
    type: LayerType = LayerType.CONV

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.node,)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.node.inputs

    @property
    def writes(self) -> str:
        return self.node.name

    @property
    def origins(self) -> tuple[Origin, ...]:
        return self.node.origins


class ToyMemory(NamedTuple):
    steps: tuple[ToyStep, ...]


class ToyTwin(NamedTuple):
    """Compiles the generated source, which is a whole program."""

    environment: Mapping[str, str] = {}

    def build(self, network: EmulatedNetwork) -> Path:
        name = network.program.name
        parts = [(network.folder / f"{name}_gen.{end}").read_bytes() for end in ("h", "cpp")]
        program = cache_folder() / f"toy-{hashlib.sha256(b''.join(parts)).hexdigest()}"
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["g++", "-O1", network.folder / f"{name}_gen.cpp", "-o", program], check=True)
        return program


class Toy(NamedTuple):
    fusion: Fusion = Fusion.NONE
    transposed: bool = False
    passes: tuple[Pass, ...] = ()
    kit_files: Mapping[str, str] = {}

    @property
    def unfused(self) -> Toy:
        return self

    @property
    def mirrored(self) -> Toy:
        return self

    def partition(self, legal: Graph) -> Legalized:
        steps = tuple(ToyStep(node) for node in legal.nodes if not isinstance(node.op, Input))
        return Legalized(legal, legal, steps)

    def broken_rules(self, legalized: Legalized, guessed: Container[Origin | None] = ()) -> tuple[Problem, ...]:
        wrong = [step.node for step in legalized.steps if not _is_computed(step.node)]
        return tuple(Problem("DV401", "the toy computes convolutions of 1x1 alone", node.where) for node in wrong)

    def schedule(self, legalized: Legalized) -> ToyMemory:
        return ToyMemory(legalized.steps)

    def lower(self, legalized: Legalized, schedule: PlannedMemory, *, name: str, original: Graph) -> Program:
        graph = legalized.graph
        end = len(schedule.steps)
        last = dict.fromkeys(graph.outputs, end)
        for index, step in reversed([*enumerate(schedule.steps)]):
            for read in step.reads:
                last.setdefault(read, index)
        first = {step.writes: index for index, step in enumerate(schedule.steps)}
        buffers = [
            Buffer(node.name, 4 * graph.shape(node.name).size, first.get(node.name, 0), last.get(node.name, end))
            for node in graph.nodes
        ]
        memory = planning.plan(buffers, alignment=16)
        tensors = {
            node.name: Tensor(graph.shape(node.name), ElementType.FLOAT, memory.offsets[node.name], CHW)
            for node in graph.nodes
        }
        layers, offset = list[LayerOf[ToyRun]](), 0
        for step in schedule.steps:
            op = step.node.op
            weights = ToyWeights(offset, op.weight, op.bias, step.node.where)
            offset += weights.nbytes
            read, written = tensors[step.reads[0]], tensors[step.writes]
            run = ToyRun(read.shape, written.shape, step.origins, weights)
            layers.append(
                LayerOf(
                    name=step.writes,
                    type=LayerType.CONV,
                    inputs=(read,),
                    output=written,
                    origins=step.origins,
                    runs=(run,),
                    sources=(first.get(step.reads[0]),),
                    is_output=step.writes in graph.outputs,
                )
            )
        outputs = tuple(first[output] for output in graph.outputs)
        results = tuple(
            (name, tensors[output]) for name, output in zip(original.output_names, graph.outputs, strict=True)
        )
        inputs = tuple((node.name, tensors[node.name]) for node in graph.inputs)
        return ProgramOf[ToyRun, ToyWeights](name, tuple(layers), inputs, outputs, results, memory, False)

    # --- what reports show ---

    @property
    def about(self) -> DeviceFacts:
        none = DeviceFigure("", "", "", "", False)
        return DeviceFacts("toy", "a toy", "none", False, "no model", none, none, {}, ())

    def facts(self, program: Program) -> ProgramFacts:
        return ProgramFacts(
            tuple(map(_step, program.layers)), Between("sdk", 1, 1, 0, Interval.of(0.0), Interval.of(0.0)), None, (), 0
        )

    def boundaries(self, legalized: Legalized) -> tuple[Boundary, ...]:
        return ()

    def map_traffic(self, legalized: Legalized) -> MapTraffic:
        return MapTraffic(0, 0)

    # --- weights: nothing is narrow, and nothing is rounded ---

    def quantize(self, graph: Graph, storage: Storage, *, plan: Plan, progress: Progress, on: Workers) -> Quantized:
        return Quantized(plan(self), self)

    def with_byte_input(self, program: Program, values: NDArray[np.float32]) -> Program:
        raise UnsupportedError.of("DV431", "the toy takes no bytes", Origin(program.name))

    def pack(self, program: Program, observe: Observer | None = None) -> Iterator[NDArray[np.uint8]]:
        for weights in program.weights:
            kernels = weights.kernels.load()
            if observe is not None:
                observe(weights, kernels)
            bias = np.zeros(len(kernels)) if weights.bias is None else weights.bias.load()
            yield np.concatenate([kernels.reshape(-1), bias]).astype("<f4").view(np.uint8)

    def streams(self, program: Program) -> Iterator[tuple[PackedStream, Iterator[Bytes]]]:
        return iter(())

    def is_narrow(self, program: Program) -> bool:
        return False

    def widened(self, program: Program) -> Program:
        return program

    def with_weights_of(self, program: Program, other: Program) -> Program:
        return program

    def rounded_by_numpy(self, program: Program) -> Program:
        return program

    def unrounded(self, load: Load, program: Program) -> EmulatedNetwork:
        return load(program)

    def variants(self, network: EmulatedNetwork, program: Program) -> Variants:
        return Variants(network, network.weights, {}, {})

    # --- files, and what runs them ---

    def emit(self, program: Program, options: RenderOptions, observe: Observer | None = None) -> dict[str, Contents]:
        rows = [_row(layer) for layer in program.layers]
        outputs = ", ".join(map(str, program.outputs))
        ((_, image),) = program.inputs
        lines = [f"const Conv kConvs[] = {{{', '.join(rows)}}};", f"const int kOutputs[] = {{{outputs}}};"]
        lines.append(
            f"const long kInput = {image.offset // 4}, kInputSize = {image.shape.size}, kMemory = {program.io_bytes // 4};"
        )
        lines.append(f'const char *const kOrder = "{options.channel_order}";')
        lines.append(f"const double kMean = {options.mean[0]}, kScale = {options.scale};")
        source = SOURCE.replace("NAME_gen.h", f"{program.name}_gen.h")
        files: dict[str, Contents] = {
            f"{program.name}_gen.h": "\n".join(lines) + "\n",
            f"{program.name}_gen.cpp": source,
        }
        return {**files, f"{program.name}_weights.bin": self.pack(program, observe)}

    def names_of(self, program: Program, options: RenderOptions) -> set[str]:
        return {f"{program.name}_{end}" for end in ("gen.h", "gen.cpp", "weights.bin")}

    def selftest(
        self, graph: Graph, program: Program, *, model: str, low: float, high: float
    ) -> Mapping[str, Contents]:
        return {}

    def install(
        self,
        graph: Graph,
        program: Program,
        files: Mapping[str, Contents],
        folder: Path,
        *,
        sources: Sequence[Path] = (),
    ) -> EmulatedNetwork:
        replace_all(folder, files)
        return self.installed(graph, program, folder)

    def installed(
        self, graph: Graph, program: Program, folder: Path, *, sources: Sequence[Path] = ()
    ) -> EmulatedNetwork:
        return EmulatedNetwork.of(graph, program, folder, ToyTwin())

    def install_data(
        self,
        graph: Graph,
        program: Program,
        folder: Path,
        *,
        sources: Sequence[Path] = (),
        residuals: Program | None = None,
    ) -> EmulatedNetwork:
        return self.install(graph, program, self.emit(program, RenderOptions(program.name)), folder)


def _is_computed(node: Node) -> bool:
    return (
        isinstance(node.op, Conv2d)
        and node.op == replace(node.op, groups=1, activation=None)
        and node.op.window.kernel == ONE
    )


def _row(layer: Layer) -> str:
    (read,), written, (run,) = layer.inputs, layer.output, layer.runs
    counts = read.shape.channels, written.shape.channels, read.shape.height * read.shape.width
    offsets = run.stored.offset // 4, read.offset // 4, written.offset // 4
    return f"{{{', '.join(map(str, (*counts, *offsets)))}}}"


def _step(layer: Layer) -> Step:
    names = tuple(origin.layer for origin in layer.origins)
    shape = map_of(layer.output)
    return Step(
        layer.name, "LT_CONV", "convolution 1x1", "device", names, (), shape, layer.is_output, (), (), None, None, None
    )


def _target(_hardware: object, _settings: DeviceSettings) -> Toy:
    return Toy()


FAMILY = Family(("toy",), ToyHardware, lambda _name, _folder: ToyHardware(), _target)
