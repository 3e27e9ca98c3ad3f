"""The device, built once with address and undefined-behavior sanitizers for all tests of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from host.device import SANITIZERS, Device, archive, build

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def library(session_folder: Path) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    return archive(session_folder / "libdmpdv", *SANITIZERS)


@pytest.fixture(scope="session")
def driver(library: Path) -> Path:
    return build(library.with_name("driver"), *SANITIZERS, str(HERE / "driver.cpp"), str(library), with_device=False)


@pytest.fixture(scope="session")
def _device(driver: Path) -> Iterator[Device]:
    running = Device(driver, {"DMP_DV_THREADS": "2"})
    yield running
    assert running.close() == 0, "the sanitizers found something"


@pytest.fixture
def device(_device: Device) -> Device:
    """A device without memories and lists."""
    _device.reset()
    return _device
