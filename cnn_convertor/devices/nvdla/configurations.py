"""The public configurations of NVDLA as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from cnn_convertor.layouts.nvdla import memory_forms
from cnn_convertor.layouts.nvdla.memory_forms import MemoryForm

# Block of registers -> its address in bytes in the older map, and in the newer one.
_BASES: Final = {
    "GLB": (0x00000, 0x01000),
    "MCIF": (0x02000, 0x02000),
    "CVIF": (0x03000, 0x0F000),
    "BDMA": (0x04000, 0x10000),
    "CDMA": (0x05000, 0x03000),
    "CSC": (0x06000, 0x04000),
    "CMAC_A": (0x07000, 0x05000),
    "CMAC_B": (0x08000, 0x06000),
    "CACC": (0x09000, 0x07000),
    "SDP_RDMA": (0x0A000, 0x08000),
    "SDP": (0x0B000, 0x09000),
    "PDP_RDMA": (0x0C000, 0x0A000),
    "PDP": (0x0D000, 0x0B000),
    "CDP_RDMA": (0x0E000, 0x0C000),
    "CDP": (0x0F000, 0x0D000),
    "RBK": (0x10000, 0x11000),
}
_OPTIONAL: Final = {"CVIF": "CVIF", "BDMA": "BDMA", "RBK": "RUBIK"}  # block -> what a configuration has that has it


class ShownBy(Enum):
    """What shows that a configuration's figures hold."""

    RUN = "the public C model of this configuration computes with them"
    RECORDED = "recorded layers of this configuration agree with them"
    READ = "they stand in public sources, and nothing public was run with them"


class Throughput(NamedTuple):
    """Results per cycle of the SDP's units and of the engines behind it; 0 without the unit."""

    x1: int
    x2: int
    y: int
    pdp: int
    cdp: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration of the hardware.

    name: as the public sources spell it. form: what decides its formats in memory
    cbuf_banks, cbuf_entries: of the convolution buffer: its banks, and the entries of a bank
    engines: what it has of BDMA, RUBIK, EW (the SDP's third unit, Y), LUT (that unit's tables), CVIF (a memory port beside DRAM),
    WINOGRAD, COMPRESSION (of weights), BATCH (several inputs at once), POST_EXTENSION (rows of an image combined)
    address_bits: of memory. bus_bits, sram_bus_bits: width of both memory ports
    initial: whether its registers have the older map, with narrower fields
    source, shown_by: of all its figures. exceptions: field -> what is different about one of them
    """

    name: str
    form: MemoryForm = field(hash=False)
    cbuf_banks: int
    cbuf_entries: int
    engines: frozenset[str]
    throughput: Throughput
    address_bits: int
    bus_bits: int
    sram_bus_bits: int
    source: str
    shown_by: ShownBy
    exceptions: Mapping[str, str] = field(default_factory=dict, hash=False)
    initial: bool = False

    @property
    def device(self) -> str:
        """Its name on the command line."""
        return f"nvdla-{self.form.name}"

    @property
    def atom_bytes(self) -> int:
        return self.form.atom

    @property
    def atomic_c(self) -> int:
        """Channels of one step of the multipliers."""
        return self.form.channels

    @property
    def atomic_k(self) -> Mapping[str, int]:
        """Precision (int8, int16, fp16) -> kernels of a group."""
        return {precision.name.lower(): kernels for precision, kernels in self.form.kernels.items()}

    @property
    def macs(self) -> Mapping[str, int]:
        """Precision -> multiplications per cycle."""
        return {precision: self.atomic_c * kernels for precision, kernels in self.atomic_k.items()}

    @property
    def cbuf_entry_bytes(self) -> int:
        return self.form.entry

    @property
    def precisions(self) -> tuple[str, ...]:
        return tuple(self.atomic_k)

    @property
    def bases(self) -> Mapping[str, int]:
        """Block of registers -> its address in bytes, of the blocks that the configuration has."""
        bases = {}
        for block, (older, newer) in _BASES.items():
            if _OPTIONAL.get(block, block) in self.engines or block not in _OPTIONAL:
                bases[block] = older if self.initial else newer
        return bases


_HW: Final = "nvdla/hw, branch master, spec/defs"
_FEATURES: Final = frozenset({"BDMA", "RUBIK", "EW", "LUT", "CVIF"})
_IN_BYTES: Final = {"bus_bits": "the file says 16 or 32 where others say 64 or more, so it may count bytes"}

NV_FULL: Final = Configuration(
    name="nv_full",
    form=memory_forms.FULL,
    cbuf_banks=16,
    cbuf_entries=256,
    engines=_FEATURES | {"WINOGRAD", "COMPRESSION", "BATCH", "POST_EXTENSION"},
    throughput=Throughput(16, 16, 4, 8, 8),
    address_bits=64,
    bus_bits=512,
    sram_bus_bits=512,
    initial=True,
    source="nvdla/hw, branch nvdlav1; nvdla/sw, TargetConfig of nv_full",
    shown_by=ShownBy.RUN,
    exceptions={
        "cbuf_entries": "the hardware's file has 512 of 64 bytes; sequencer, compiler and recorded layers count 256 of 128"
    },
)
NV_LARGE: Final = Configuration(
    name="nv_large",
    form=memory_forms.LARGE,
    cbuf_banks=16,
    cbuf_entries=512,
    engines=frozenset({"EW", "LUT", "CVIF", "POST_EXTENSION"}),
    throughput=Throughput(16, 16, 4, 8, 8),
    address_bits=64,
    bus_bits=256,
    sram_bus_bits=256,
    source=f"{_HW}/nv_large.spec; nvdla/sw, TargetConfig of nv_large",
    shown_by=ShownBy.RECORDED,
    exceptions={"engines": "POST_EXTENSION: the vendor's compiler uses it; no model of nv_large was run"},
)
NV_SMALL: Final = Configuration(
    name="nv_small",
    form=memory_forms.SMALL,
    cbuf_banks=32,
    cbuf_entries=512,
    engines=frozenset(),
    throughput=Throughput(1, 1, 0, 1, 1),
    address_bits=32,
    bus_bits=64,
    sram_bus_bits=0,
    source=f"{_HW}/nv_small.spec; nvdla/sw, TargetConfig of nv_small",
    shown_by=ShownBy.RUN,
    exceptions={"engines": "no POST_EXTENSION: its C model computes it otherwise than documented"},
)
NV_SMALL_256: Final = Configuration(
    name="nv_small_256",
    form=memory_forms.SMALL_256,
    cbuf_banks=32,
    cbuf_entries=128,
    engines=frozenset({"EW", "CVIF"}),
    throughput=Throughput(1, 1, 1, 1, 1),
    address_bits=32,
    bus_bits=64,
    sram_bus_bits=64,
    source=f"{_HW}/nv_small_256.spec (0ff5857)",
    shown_by=ShownBy.READ,
)
NV_SMALL_256_FULL: Final = Configuration(
    name="nv_small_256_full",
    form=memory_forms.SMALL_256_FULL,
    cbuf_banks=16,
    cbuf_entries=512,
    engines=_FEATURES | {"COMPRESSION", "BATCH"},
    throughput=Throughput(1, 1, 1, 1, 1),
    address_bits=32,
    bus_bits=16,
    sram_bus_bits=16,
    source=f"{_HW}/nv_small_256_full.spec (1ffb775)",
    shown_by=ShownBy.READ,
    exceptions=_IN_BYTES,
)
NV_MEDIUM_512: Final = Configuration(
    name="nv_medium_512",
    form=memory_forms.MEDIUM_512,
    cbuf_banks=32,
    cbuf_entries=512,
    engines=frozenset(),
    throughput=Throughput(2, 2, 0, 2, 2),
    address_bits=32,
    bus_bits=32,
    sram_bus_bits=0,
    source=f"{_HW}/nv_medium_512.spec (1ffb775)",
    shown_by=ShownBy.READ,
    exceptions=_IN_BYTES,
)
NV_MEDIUM_1024_FULL: Final = Configuration(
    name="nv_medium_1024_full",
    form=memory_forms.MEDIUM_1024_FULL,
    cbuf_banks=32,
    cbuf_entries=512,
    engines=_FEATURES | {"COMPRESSION", "BATCH"},
    throughput=Throughput(4, 4, 4, 4, 4),
    address_bits=64,
    bus_bits=32,
    sram_bus_bits=64,
    source=f"{_HW}/nv_medium_1024_full.spec (1ffb775)",
    shown_by=ShownBy.READ,
    exceptions=_IN_BYTES,
)
_ALL: Final = (NV_FULL, NV_LARGE, NV_SMALL, NV_SMALL_256, NV_SMALL_256_FULL, NV_MEDIUM_512, NV_MEDIUM_1024_FULL)
CONFIGURATIONS: Final = {configuration.name: configuration for configuration in _ALL}
