"""The configurations of NVDLA agree with themselves and with recorded layers."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from cnn_convertor.devices.nvdla.configurations import CONFIGURATIONS, NV_FULL, NV_LARGE, NV_SMALL, Configuration
from cnn_convertor.layouts.nvdla.memory_forms import FORMS

every = pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=lambda each: each.name)


def test_every_form_of_memory_has_its_configuration() -> None:
    assert [each.form for each in CONFIGURATIONS.values()] == list(FORMS.values())
    assert CONFIGURATIONS["nv_small_256_full"].device == "nvdla-small-256-full"


@every
def test_figures_fit_together(configuration: Configuration) -> None:
    assert configuration.cbuf_entry_bytes % configuration.atom_bytes == 0
    assert configuration.atomic_c % configuration.atom_bytes == 0
    assert (configuration.throughput.y > 0) == ("EW" in configuration.engines)
    assert (configuration.sram_bus_bits > 0) == ("CVIF" in configuration.engines) == ("CVIF" in configuration.bases)
    assert ("BDMA" in configuration.engines) == ("BDMA" in configuration.bases)
    assert ("RUBIK" in configuration.engines) == ("RBK" in configuration.bases)
    assert "EW" in configuration.engines or "LUT" not in configuration.engines
    assert set(configuration.exceptions) <= set(Configuration.__dataclass_fields__)


@every
def test_blocks_of_registers_do_not_overlap(configuration: Configuration) -> None:
    bases = sorted(configuration.bases.values())
    assert all(after - before >= 0x1000 for before, after in pairwise(bases))


def test_macs_and_buffers_are_those_of_the_public_table() -> None:
    assert NV_FULL.macs == {"int8": 2048, "int16": 1024, "fp16": 1024}
    assert (NV_LARGE.macs, NV_SMALL.macs) == ({"int8": 2048}, {"int8": 64})
    sizes = {}
    for name, each in CONFIGURATIONS.items():
        sizes[name] = each.cbuf_banks * each.cbuf_entries * each.cbuf_entry_bytes >> 10
    assert sizes["nv_full"] == sizes["nv_large"] == 512
    assert sizes["nv_small"] == sizes["nv_small_256"] == 128
    assert sizes["nv_medium_1024_full"] == 1024


def test_recorded_cases_have_the_atoms_and_engines_of_their_configuration(shared: Path) -> None:
    folder = shared / "vectors" / "nvdla_ops" / "cases"
    cases = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    assert {case["configuration"] for case in cases} == {"nv_full", "nv_small"}
    for case in cases:
        configuration = CONFIGURATIONS[case["configuration"]]
        assert case["atom_bytes"] == configuration.atom_bytes
        optional = {each["op_type"] for each in case["operations"]} & {"BDMA", "RUBIK"}
        assert optional <= configuration.engines
