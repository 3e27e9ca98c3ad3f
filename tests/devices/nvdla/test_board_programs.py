"""There are no programs for boards with NVDLA, which the commands say."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnn_convertor.devices import registry
from cnn_convertor.devices.settings import DeviceSettings, Fusion, Quantization
from cnn_convertor.errors import UsageError


def test_there_is_no_probe_and_no_kit(tmp_path: Path) -> None:
    hardware = registry.read_hardware("nvdla-full", tmp_path)
    with pytest.raises(UsageError, match="DV934: there is no probe for nvdla-full"):
        registry.write_probe(tmp_path / "probe", hardware)
    assert not (tmp_path / "probe").exists()
    settings = DeviceSettings(Fusion.DOCUMENTED, False, "", Quantization.FP16, (), 1)
    target = registry.target_of(hardware, settings)
    with pytest.raises(UsageError, match="DV934: there is no kit for a board with nvdla-full"):
        _ = target.kit_files
