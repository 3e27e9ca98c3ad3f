"""The DV700 behind the port."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from cnn_convertor.devices.dv700.describing import device_facts, program_facts
from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.boundaries import boundaries
from cnn_convertor.devices.dv700.fusion.least_traffic import map_traffic
from cnn_convertor.devices.dv700.fusion.partition import Partition, partition
from cnn_convertor.devices.dv700.legalize import legalization
from cnn_convertor.devices.dv700.legalize.split_slopes import NO_PALETTES, PaletteTargets
from cnn_convertor.devices.dv700.lower import lower
from cnn_convertor.devices.dv700.memory.placement import MemorySchedule, schedule_and_allocate
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.profiles import DV700, device_of
from cnn_convertor.devices.dv700.rules import broken_rules
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.facts import DeviceFacts, ProgramFacts
from cnn_convertor.devices.settings import DeviceSettings, Fusion, Quantization
from cnn_convertor.devices.target import Boundary, Hardware, Legalized, MapTraffic, PlannedMemory
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes.contract import Pass


class Dv700(NamedTuple):
    """The device, and how a network is to run on it. cpu_threads: 0: as many as there are cores."""

    device: Device = DV700
    fusion: Fusion = Fusion.DOCUMENTED
    transposed: bool = True
    uses_sdk_softmax: bool = False
    palettes: PaletteTargets = NO_PALETTES
    cpu_threads: int = 1

    @staticmethod
    def of(hardware: Hardware, settings: DeviceSettings) -> Dv700:
        assert isinstance(hardware, Profile)
        everywhere = settings.quantization in (Quantization.PALETTE, Quantization.AUTO)
        exceptions = frozenset(override.layer for override in settings.overrides if override.palette != everywhere)
        return Dv700(
            device_of(hardware),
            settings.fusion,
            settings.transposed,
            settings.softmax == "sdk",
            PaletteTargets(everywhere, exceptions),
            settings.cpu_threads,
        )

    @property
    def unfused(self) -> Dv700:
        return self._replace(fusion=Fusion.NONE)

    @property
    def mirrored(self) -> Dv700:
        return self._replace(transposed=not self.transposed)

    @property
    def passes(self) -> tuple[Pass, ...]:
        return legalization(self.device, self.fusion, self.transposed, self.uses_sdk_softmax, self.palettes)

    def partition(self, legal: Graph) -> Legalized:
        return Legalized(legal, *partition(legal, self.device, transposed=self.transposed, fusion=self.fusion))

    def broken_rules(self, legalized: Legalized, guessed: Container[Origin | None] = ()) -> tuple[Problem, ...]:
        legal, graph, steps = legalized
        return broken_rules(graph, steps, self.device, legal=legal, guessed=guessed)

    def schedule(self, legalized: Legalized) -> MemorySchedule:
        return schedule_and_allocate(legalized.graph, legalized.steps)

    def lower(self, legalized: Legalized, schedule: PlannedMemory, *, name: str, original: Graph) -> Program:
        assert isinstance(schedule, MemorySchedule)
        return lower(
            legalized.graph,
            schedule.steps,
            name=name,
            transposed=self.transposed,
            cpu_threads=self.cpu_threads,
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
