"""Builds programs for the board with an emulated device that can be made faulty."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cnn_convertor.emulation.build import INCLUDE, SOURCES, device_library
from cnn_convertor.workers.compiler import find_compiler

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"]
WRAPPED = [
    *(f"-Wl,--wrap=dmp_dv_cmdlist_{name}" for name in ("create", "add_raw", "wait", "get_last_exec_time")),
    "-Wl,--wrap=dmp_dv_mem_to_cpu",
]
RUNTIME = SOURCES / "network.cpp"
FAULTS = Path(__file__).parent / "faults.cpp"


def build(folder: Path, program: str, sources: Sequence[Path], *, standard: str, with_runtime: bool = False) -> Path:
    """Compile sources without a warning and link them with the device and its faults. with_runtime: they use CDMP_Network."""
    gxx = find_compiler()
    own = [f"-std={standard}", "-O1", *WARNINGS, f"-I{INCLUDE}", f"-I{folder}", "-c"]
    subprocess.run([*gxx.command, *own, *map(str, sources)], cwd=folder, check=True)
    objects = [f"{path.stem}.o" for path in sources]
    # The runtime's calls to the driver are wrapped only if it is an object of its own, in front of the whole device.
    runtime = [str(_device_object(RUNTIME)), "-Wl,--allow-multiple-definition"] if with_runtime else []
    linked = [*objects, *runtime, str(_device_object(FAULTS)), str(device_library(gxx)), "-pthread", *WRAPPED, "-o"]
    subprocess.run([*gxx.command, *linked, program], cwd=folder, check=True)
    return folder / program


@cache
def _device_object(source: Path) -> Path:
    """A part of the device, compiled once for all programs of a process."""
    folder = Path(tempfile.mkdtemp(prefix="device-object-"))
    atexit.register(shutil.rmtree, folder)
    compiled = folder / f"{source.stem}.o"
    options = ["-std=c++17", f"-I{INCLUDE}", f"-I{SOURCES}", "-c", "-o", str(compiled)]
    subprocess.run([*find_compiler().command, *options, str(source)], check=True)
    return compiled
