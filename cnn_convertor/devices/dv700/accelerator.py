"""The DV700 behind the port. What runs networks is imported where it is used: most conversions do without."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.dv700.byte_input import with_byte_input
from cnn_convertor.devices.dv700.describing import device_facts, program_facts
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.estimate import timetable_for
from cnn_convertor.devices.dv700.frame_input import FrameInput, frame_input
from cnn_convertor.devices.dv700.fusion.boundaries import boundaries
from cnn_convertor.devices.dv700.fusion.least_traffic import map_traffic
from cnn_convertor.devices.dv700.fusion.partition import Partition, partition
from cnn_convertor.devices.dv700.legalize import legalization
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES, PaletteTargets
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.memory.placement import ALIGNMENT, MemorySchedule, schedule_and_allocate
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.profiles import DV700, device_of
from cnn_convertor.devices.dv700.rules import broken_rules
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources import rendering
from cnn_convertor.devices.dv700.storing import Storing, quantize
from cnn_convertor.devices.dv700.weights import palettes
from cnn_convertor.devices.dv700.weights.encoding import encode_buffer
from cnn_convertor.devices.facts import DeviceFacts, ProgramFacts
from cnn_convertor.devices.settings import DeviceSettings, Fusion, Quantization, Runtime
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
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.replacing import Contents
from cnn_convertor.ir.graph import Graph
from cnn_convertor.layouts.packing import Bytes
from cnn_convertor.passes.contract import Pass
from cnn_convertor.progress import Progress

if TYPE_CHECKING:
    from cnn_convertor.emulation.network import EmulatedNetwork
    from cnn_convertor.emulation.variants import Variants
    from cnn_convertor.workers.processes import Workers


class Dv700(NamedTuple):
    """The device, and how a network is to run on it. cpu_threads: 0: as many as there are cores."""

    device: Device = DV700
    fusion: Fusion = Fusion.DOCUMENTED
    transposed: bool = True
    uses_sdk_softmax: bool = False
    palettes: PaletteTargets = NO_PALETTES
    cpu_threads: int = 1
    runtime: Runtime = Runtime.SDK

    @staticmethod
    def of(hardware: Hardware, settings: DeviceSettings) -> Dv700:
        assert isinstance(hardware, Profile)
        everywhere = settings.quantization in (Quantization.PALETTE, Quantization.AUTO)
        exceptions = frozenset(override.layer for override in settings.overrides if override.palette != everywhere)
        return Dv700(
            device_of(hardware, settings.runtime),
            settings.fusion,
            settings.transposed,
            settings.softmax == "sdk",
            PaletteTargets(everywhere, exceptions),
            settings.cpu_threads,
            settings.runtime,
        )

    @property
    def unfused(self) -> Dv700:
        return self._replace(fusion=Fusion.NONE)

    @property
    def mirrored(self) -> Dv700:
        return self._replace(transposed=not self.transposed)

    @property
    def cache_line(self) -> int:
        """Bytes of a line for which the network's runtime maintains the cache; 0: it does so for the whole I/O buffer."""
        return self.device.profile.cache_line.value if self.runtime is Runtime.GENERATED else 0

    @property
    def passes(self) -> tuple[Pass, ...]:
        return legalization(self.device, self.fusion, self.transposed, self.uses_sdk_softmax, self.palettes)

    def partition(self, legal: Graph) -> Legalized:
        return Legalized(legal, *partition(legal, self.device, transposed=self.transposed, fusion=self.fusion))

    def broken_rules(self, legalized: Legalized, guessed: Container[Origin | None] = ()) -> tuple[Problem, ...]:
        legal, graph, steps = legalized
        return broken_rules(graph, steps, self.device, legal=legal, guessed=guessed)

    def schedule(self, legalized: Legalized) -> MemorySchedule:
        return schedule_and_allocate(legalized.graph, legalized.steps, line=max(ALIGNMENT, self.cache_line))

    def lower(self, legalized: Legalized, schedule: PlannedMemory, *, name: str, original: Graph) -> Program:
        assert isinstance(schedule, MemorySchedule)
        return lower(
            legalized.graph,
            schedule.steps,
            name=name,
            transposed=self.transposed,
            cpu_threads=self.cpu_threads,
            runtime=self.runtime,
            cache_line=self.cache_line,
            placement=schedule.placement,
            original=original,
        )

    @property
    def about(self) -> DeviceFacts:
        return device_facts(self.device.profile, fusion=self.fusion.value, transposed=self.transposed)

    def facts(self, program: Program) -> ProgramFacts:
        return program_facts(program, self.device.profile)

    def boundaries(self, legalized: Legalized) -> tuple[Boundary, ...]:
        return boundaries(Partition(legalized.graph, legalized.steps), self.fusion, self.device)

    def map_traffic(self, legalized: Legalized) -> MapTraffic:
        return map_traffic(*legalized, fusion=self.fusion, device=self.device)

    def quantize(self, graph: Graph, storage: Storage, *, plan: Plan, progress: Progress, on: Workers) -> Quantized:
        storing = Storing(graph, storage, self.device, plan, progress, on)
        return quantize(storing, self, lambda palettes: self._replace(palettes=palettes))

    def with_byte_input(self, program: Program, values: NDArray[np.float32]) -> Program:
        return with_byte_input(program, values)

    def pack(self, program: Program, observe: Observer | None = None) -> Iterator[NDArray[np.uint8]]:
        return encode_buffer(program, observe=observe)

    def streams(self, program: Program) -> Iterator[tuple[PackedStream, Iterator[Bytes]]]:
        from cnn_convertor.devices.dv700.weights.packed_arrays import streams_of

        return streams_of(program)

    def is_narrow(self, program: Program) -> bool:
        return palettes.has_palettes(program)

    def widened(self, program: Program) -> Program:
        return palettes.without_palettes(program)

    def with_weights_of(self, program: Program, other: Program) -> Program:
        return palettes.with_weights_of(program, other)

    def rounded_by_numpy(self, program: Program) -> Program:
        from cnn_convertor.devices.dv700.unrounded import rounded_by_numpy

        return rounded_by_numpy(palettes.decoded(program))

    def unrounded(self, load: Load, program: Program) -> EmulatedNetwork:
        from cnn_convertor.devices.dv700.unrounded import unrounded

        return unrounded(load, program)

    def variants(self, network: EmulatedNetwork, program: Program) -> Variants:
        from cnn_convertor.devices.dv700.variant_files import variants_of

        return variants_of(network, program)

    def emit(self, program: Program, options: RenderOptions, observe: Observer | None = None) -> dict[str, Contents]:
        return rendering.emit(
            program,
            options,
            self._frame(program, options),
            observe,
            timetable_for(program.generated(), self.device.profile),
        )

    def names_of(self, program: Program, options: RenderOptions) -> set[str]:
        return rendering.names_of(program, options, self._frame(program, options))

    def _frame(self, program: Program, options: RenderOptions) -> FrameInput | None:
        return None if options.every_byte is None else frame_input(program, self.device, options.every_byte)

    def selftest(
        self, graph: Graph, program: Program, *, model: str, low: float, high: float
    ) -> Mapping[str, Contents]:
        from cnn_convertor.devices.dv700.sources.selftest import record

        test = record(graph, program, low=low, high=high, device=self.device)
        return rendering.render_selftest(program, model=model, levels=test.levels, outputs=test.outputs)

    @property
    def kit_files(self) -> Mapping[str, str]:
        from cnn_convertor.devices.dv700.probe.probe_files import SOURCES

        return {name: (SOURCES / name).read_text(encoding="utf-8") for name in ("board.h", "runner.cpp")}

    def install(
        self,
        graph: Graph,
        program: Program,
        files: Mapping[str, Contents],
        folder: Path,
        *,
        sources: Sequence[Path] = (),
    ) -> EmulatedNetwork:
        from cnn_convertor.devices.dv700 import emulating

        return emulating.install(graph, program, files, folder, sources=sources, device=self.device)

    def installed(
        self, graph: Graph, program: Program, folder: Path, *, sources: Sequence[Path] = ()
    ) -> EmulatedNetwork:
        from cnn_convertor.devices.dv700 import emulating

        return emulating.installed(graph, program, folder, sources=sources, device=self.device)

    def install_data(
        self,
        graph: Graph,
        program: Program,
        folder: Path,
        *,
        sources: Sequence[Path] = (),
        residuals: Program | None = None,
    ) -> EmulatedNetwork:
        from cnn_convertor.devices.dv700 import emulating

        return emulating.install_data(graph, program, folder, sources=sources, device=self.device, residuals=residuals)
