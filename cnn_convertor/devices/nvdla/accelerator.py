"""NVDLA behind the port: networks in FP16."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.codegen.options import NONE, RenderOptions
from cnn_convertor.devices.facts import DeviceFacts, ProgramFacts
from cnn_convertor.devices.nvdla import SUFFIXES
from cnn_convertor.devices.nvdla.chains import chains_of
from cnn_convertor.devices.nvdla.describing import device_facts, program_facts
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.devices.nvdla.legalize import legalization
from cnn_convertor.devices.nvdla.loadable.network_loadable import network_loadable, why_no_loadable
from cnn_convertor.devices.nvdla.lowering import lower
from cnn_convertor.devices.nvdla.network_program import NvdlaProgram, unrounded_program
from cnn_convertor.devices.nvdla.placement import ChainSchedule, schedule_chains
from cnn_convertor.devices.nvdla.rules import broken_rules
from cnn_convertor.devices.nvdla.sampled_ranges import SampledRange, has_tables, sampled_ranges, tables_apart
from cnn_convertor.devices.nvdla.sources import rendering
from cnn_convertor.devices.nvdla.storing import packed, rounded_by_numpy, streams_of
from cnn_convertor.devices.nvdla.traffic import boundaries, map_traffic
from cnn_convertor.devices.program import Program
from cnn_convertor.devices.settings import DeviceSettings, Fusion, Quantization
from cnn_convertor.devices.target import (
    Boundary,
    Hardware,
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
from cnn_convertor.errors import Origin, Problem, UnsupportedError, UsageError, warn
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph
from cnn_convertor.layouts.packing import Bytes
from cnn_convertor.passes.contract import Pass, each_node
from cnn_convertor.progress import Progress
from cnn_convertor.samples import Samples

if TYPE_CHECKING:
    from cnn_convertor.emulation.network import EmulatedNetwork
    from cnn_convertor.emulation.variants import Variants
    from cnn_convertor.workers.processes import Workers


class NvdlaAccelerator(NamedTuple):
    """A configuration, and how much a chain of engines may do without memory between them.

    ranges: of what functions read on samples, as far as they are known: for these their tables are chosen.
    """

    hardware: NvdlaHardware
    fusion: Fusion = Fusion.DOCUMENTED
    ranges: tuple[SampledRange, ...] = ()

    @staticmethod
    def of(hardware: Hardware, settings: DeviceSettings) -> NvdlaAccelerator:
        assert isinstance(hardware, NvdlaHardware)
        return NvdlaAccelerator(hardware, settings.fusion)

    @property
    def transposed(self) -> bool:
        return False

    @property
    def unfused(self) -> NvdlaAccelerator:
        return self._replace(fusion=Fusion.NONE)

    @property
    def mirrored(self) -> NvdlaAccelerator:
        return self

    @property
    def passes(self) -> tuple[Pass, ...]:
        return legalization(self.hardware.configuration)

    def partition(self, legal: Graph) -> Legalized:
        fuses = self.fusion is not Fusion.NONE
        if not fuses:
            legal = each_node(tables_apart)(legal)
        steps = chains_of(legal, self.hardware.configuration, fuses=fuses)
        return Legalized(legal, legal, steps)

    def broken_rules(self, legalized: Legalized, guessed: Container[Origin | None] = ()) -> tuple[Problem, ...]:
        return broken_rules(legalized.graph, legalized.steps, self.hardware.configuration, guessed)

    def schedule(self, legalized: Legalized) -> ChainSchedule:
        return schedule_chains(legalized.graph, legalized.steps)

    def lower(self, legalized: Legalized, schedule: PlannedMemory, *, name: str, original: Graph) -> Program:
        assert isinstance(schedule, ChainSchedule)
        ranges = {each.node: each for each in self.ranges}
        configuration = self.hardware.configuration
        return lower(
            legalized.graph, schedule, name=name, original=original, configuration=configuration, ranges=ranges
        )

    @property
    def about(self) -> DeviceFacts:
        return device_facts(self.hardware, self.fusion.value)

    def facts(self, program: Program) -> ProgramFacts:
        return program_facts(_own(program), self.hardware)

    def boundaries(self, legalized: Legalized) -> tuple[Boundary, ...]:
        return boundaries(legalized.graph, legalized.steps)

    def map_traffic(self, legalized: Legalized) -> MapTraffic:
        return map_traffic(legalized.graph, legalized.steps)

    # --- weights: FP16 ---

    def quantize(self, graph: Graph, storage: Storage, *, plan: Plan, progress: Progress, on: Workers) -> Quantized:
        if storage.weights.quantization is not Quantization.FP16 or storage.weights.overrides:
            problem = f"{self.hardware.name} has no palettes: all weights are FP16"
            warn(Problem("DV931", problem, hint="quantization = 0"))
        if storage.byte_values is not None:
            return Quantized(self.with_byte_input(plan(self), storage.byte_values), self)
        if not storage.calibrates:
            return Quantized(plan(self), self)
        progress("calibrate", 0, 1)
        target = self._replace(ranges=self._sampled(graph, plan(self.unfused), storage.samples()))
        return Quantized(plan(target), target)

    def _sampled(self, graph: Graph, program: Program, samples: Samples) -> tuple[SampledRange, ...]:
        """What functions of a program without chains read on samples, without rounding."""
        if not has_tables(_own(program)):
            problem = "there is nothing to calibrate: no function of the network has a table"
            warn(Problem("DV716", problem, Origin(program.name), "convert without --calibrate"))
            return ()
        with temporary_folder() as folder:
            network = self.install_data(graph, unrounded_program(_own(program)), folder)
            return sampled_ranges(network, samples.inputs)

    def with_byte_input(self, program: Program, values: NDArray[np.float32]) -> Program:
        where = Origin(program.name)
        problem = f"{self.hardware.name} converts no input of bytes: the application writes FP16"
        raise UnsupportedError.of("DV431", problem, where, "set input = fp16 in [OUTPUT]")

    def pack(self, program: Program, observe: Observer | None = None) -> Iterator[NDArray[np.uint8]]:
        return packed(_own(program), self.hardware.configuration, observe)

    def streams(self, program: Program) -> Iterator[tuple[PackedStream, Iterator[Bytes]]]:
        return streams_of(_own(program), self.hardware.configuration)

    def is_narrow(self, program: Program) -> bool:
        return False

    def widened(self, program: Program) -> Program:
        return program

    def with_weights_of(self, program: Program, other: Program) -> Program:
        return program

    def rounded_by_numpy(self, program: Program) -> Program:
        return rounded_by_numpy(_own(program))

    def unrounded(self, load: Load, program: Program) -> EmulatedNetwork:
        return load(unrounded_program(_own(program)))

    def variants(self, network: EmulatedNetwork, program: Program) -> Variants:
        raise AssertionError("no weights are narrow")

    # --- files ---

    def emit(self, program: Program, options: RenderOptions, observe: Observer | None = None) -> dict[str, Contents]:
        if options.python_module:
            raise self._lacks("Python module", "python_module", program)
        if options.doxygen:
            raise self._lacks("pages for Doxygen", "generate_doxy", program)
        files = rendering.emit(_own(program), options, self.hardware.configuration, observe)
        if options.loadable == NONE:
            return files
        obstacle = why_no_loadable(_own(program), self.hardware.configuration)
        if obstacle is not None:
            problem = f"no loadable is written: {obstacle.reason}"
            warn(Problem("DV932", problem, obstacle.where, obstacle.hint))
            return files
        loadable = network_loadable(_own(program), self.hardware.configuration, options.loadable)
        return {**files, f"{program.name}{SUFFIXES[0]}": loadable}

    def names_of(self, program: Program, options: RenderOptions) -> set[str]:
        names = rendering.names_of(_own(program), options, self.hardware.configuration)
        if options.loadable != NONE and why_no_loadable(_own(program), self.hardware.configuration) is None:
            names.add(f"{program.name}{SUFFIXES[0]}")
        return names

    def selftest(
        self, graph: Graph, program: Program, *, model: str, low: float, high: float
    ) -> Mapping[str, Contents]:
        raise self._lacks("self-test", "selftest", program)

    def _lacks(self, what: str, key: str, program: Program) -> UsageError:
        problem = f"[OUTPUT] {key}: a conversion for {self.hardware.name} writes no {what}"
        return UsageError.of("DV934", problem, Origin(program.name), f"remove the line {key} = ... in the ini file")

    @property
    def kit_files(self) -> Mapping[str, str]:
        problem = f"there is no kit for a board with {self.hardware.name}"
        hint = "build an application of the generated sources, as examples/nvdla does"
        raise UsageError.of("DV934", problem, hint=hint)

    # --- the twin ---

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
        from cnn_convertor.devices.nvdla.emulating import NvdlaTwin
        from cnn_convertor.emulation.network import EmulatedNetwork

        twin = NvdlaTwin(self.hardware.configuration, _own(program).unrounded)
        return EmulatedNetwork.of(graph, program, folder, twin)

    def install_data(
        self,
        graph: Graph,
        program: Program,
        folder: Path,
        *,
        sources: Sequence[Path] = (),
        residuals: Program | None = None,
    ) -> EmulatedNetwork:
        assert residuals is None, "an unrounded program has all its digits"
        files = self.emit(program, RenderOptions(program.name))
        return self.install(graph, program, files, folder, sources=sources)


def _own(program: Program) -> NvdlaProgram:
    assert isinstance(program, NvdlaProgram)
    return program
