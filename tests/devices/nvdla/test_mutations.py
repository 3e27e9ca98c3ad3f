"""verify finds changes of registers, addresses, tables and weights of a network on NVDLA, so a pass proves something.

A change is one of the conversion: it is in the sources that round as the device does, and in those that round nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.config import Config
from cnn_convertor.errors import ConvertorError
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.trials.verify import verify
from examples import zoo

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

ROWS = re.compile(r"(const Access kLayer_(\d+)\[\] = \{\n)(.*?)(\n\};)", re.DOTALL)
REGISTERS = [  # layer, register, another value
    (0, "CDMA.D_WEIGHT_ADDR_LOW", 0x100),
    (0, "CDMA.D_DAIN_RAM_TYPE", 3),
    (0, "SDP_RDMA.D_BS_BASE_ADDR_LOW", 0),
    (0, "PDP.D_OPERATION_MODE_CFG", 0x10),
    (1, "PDP.D_DST_BASE_ADDR_LOW", 0x40),
    (1, "PDP.D_POOLING_KERNEL_CFG", 0x110121),
    (1, "CSC.D_DILATION_EXT", 2),
    (1, "SDP.D_DP_BS_CFG", 0x5B),
    (2, "CDMA.D_WEIGHT_ADDR_LOW", 0xCA20),
    (2, "SDP.D_DP_BS_CFG", 0x5B),
    (2, "SDP.D_DST_BASE_ADDR_LOW", 0x780),
    (3, "SDP_RDMA.D_BS_BASE_ADDR_LOW", 0xD2AE0),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return for_nvdla(zoo.build("onnx_lenet", tmp_path_factory.mktemp("lenet")))


def for_nvdla(ini: Path) -> Config:
    ini.write_text(ini.read_text() + "\n[OPTIONAL]\ndevice = nvdla-full\n")
    return replace(Config.read(ini), quantization=False)


def is_found(config: Config, change: Callable[[Path], None]) -> bool:
    def write(folder: Path, files: Mapping[str, Contents]) -> tuple[Path, ...]:
        written = replace_all(folder, files)
        change(folder)
        return written

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cnn_convertor.devices.nvdla.accelerator.replace_all", write)
        try:
            return not verify(config, samples=1, layers=True).passed
        except ConvertorError as error:
            if any(problem.code == "DV702" for problem in error.problems):
                raise  # it does not compile
            return True


def test_the_unchanged_network_passes(config: Config) -> None:
    assert not is_found(config, lambda _: None)


@pytest.mark.rotating
@pytest.mark.parametrize(("layer", "register", "value"), REGISTERS)
def test_another_value_of_a_register_is_found(config: Config, layer: int, register: str, value: int) -> None:
    changed = []

    def change(folder: Path) -> None:
        (source,) = folder.glob("*_gen.cpp")
        text = source.read_text()
        for match in ROWS.finditer(text):
            if int(match[2]) != layer:
                continue
            row = rf"(\| 0x\w+, )0x(\w+)(\}},\s*// {re.escape(register)}\n)"
            found = re.search(row, match[3] + "\n")
            if found is None:
                continue  # of a part of the network
            assert int(found[2], 16) != value
            rows = re.sub(row, rf"\g<1>{value:#x}\g<3>", match[3] + "\n")
            source.write_text(text.replace(match[3] + "\n", rows))
            changed.append(folder)

    assert is_found(config, change)
    assert changed


@pytest.mark.rotating
@pytest.mark.parametrize("share", [0.0, 0.0002, 0.05, 0.5])
def test_another_weight_is_found(config: Config, share: float) -> None:
    """The opposite of a number that is not 0, at the same place of the halves and of the unrounded numbers."""
    sizes: list[int] = []

    def change(folder: Path) -> None:
        (weights,) = folder.glob("*_weights.bin")
        size = weights.stat().st_size
        sizes.append(size)
        if size in {sizes[0], 2 * sizes[0]}:  # not those of a part of the network
            values = np.fromfile(weights, "<f2" if size == sizes[0] else "<f4")
            first = int(share * len(values))
            at = first + int(np.argmax(np.abs(values[first : first + 64])))
            values[at] *= -1
            values.tofile(weights)

    assert is_found(config, change)


@pytest.mark.rotating
def test_another_entry_of_a_table_is_found(tmp_path: Path) -> None:
    """Of the sigmoid at the end: those for 0."""
    config = for_nvdla(zoo.build("onnx_unet", tmp_path, size=32))
    entry = "0x3800},          // SDP.S_LUT_ACCESS_DATA"

    def change(folder: Path) -> None:
        (source,) = folder.glob("*_gen.cpp")
        text = source.read_text()
        if "SDP.S_LUT_ACCESS_DATA" in text:  # not of a part of the network
            assert text.count(entry) == 2
            source.write_text(text.replace(entry, entry.replace("0x3800", "0x3000")))

    assert is_found(config, change)
