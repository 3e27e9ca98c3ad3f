"""Programs as data that a generated runtime runs: one runner for all, compiled with any options."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np

from cnn_convertor.codegen.text_templates import render_text
from cnn_convertor.devices.dv700.emulating import Twin
from cnn_convertor.devices.dv700.estimate import timetable_for
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.sources.runner_data import program_data, runner_kernels
from cnn_convertor.devices.dv700.timetable import Timetable
from cnn_convertor.devices.dv700.weights.encoding import encode_buffer
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.emulation.build import INCLUDE, SOURCES
from cnn_convertor.workers.compiler import find_compiler

_HEADER = """
#include <chrono>
#include <cstdio>
#include <string>
#include "dmp_network.h"
namespace Program_io {{
inline float FromHalf(uint16_t half) {{ return cpu_functions::FromHalf(half); }}
}}
{run}
"""


def build_runner(folder: Path, *options: str) -> Path:
    """The runner of programs that are data, with a generated runtime in place of the SDK's. options: of the compiler."""
    features = {"class_name": "Program", "ranges": True, "flattens": True, "joins": True, "byte_input": True}
    run = render_text("network_run.h.j2", "the tests", features)
    (folder / "run.h").write_text(_HEADER.format(run=run), encoding="utf-8")
    (folder / "kernels.h").write_text(runner_kernels(), encoding="utf-8")
    sources = sorted(str(path) for path in SOURCES.glob("*.cpp"))
    defines = ('-DNETWORK_HEADER="program_network.h"', "-DNETWORK_CLASS=ProgramNetwork", '-DPROGRAM_RUN="run.h"')
    flags = ("-std=c++17", "-ffp-contract=off", "-pthread", *options, *defines)
    joined = folder / "all.cpp"
    joined.write_text("".join(f'#include "{source}"\n' for source in sources), encoding="utf-8")
    command = [*find_compiler().command, *flags, f"-I{INCLUDE}", f"-I{SOURCES}", f"-I{folder}"]
    subprocess.run([*command, str(joined), "-o", str(folder / "runner")], check=True)
    return folder / "runner"


def generated(program: Program) -> Program:
    """The program for a generated runtime that maintains the cache by lines."""
    return replace(program, runtime=Runtime.GENERATED, cache_line=64)


def execute(
    runner: Path, folder: Path, program: Program, inputs: bytes, timetable: Timetable | None = None
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float32]], str]:
    """The outputs of a program, and what was reported. timetable: in place of its own."""
    timetable = timetable or timetable_for(program.generated(), DV700.profile)
    (folder / "net.program").write_bytes(program_data(program, timetable=timetable))
    with (folder / "weights.bin").open("wb") as file:
        for piece in encode_buffer(program):
            file.write(piece.tobytes())
    (folder / "input.bin").write_bytes(inputs)
    environment = dict(os.environ) | {"DMP_DV_PROGRAM": str(folder / "net.program")} | dict(Twin(DV700).environment)
    command = [runner, folder / "weights.bin", folder / "input.bin", folder]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = "\n".join(line for line in result.stderr.splitlines() if not line.startswith("convolution "))
    outputs = np.fromfile(folder / "outputs.bin", "<f4") if result.returncode == 0 else np.empty(0, np.float32)
    return outputs, said or ("" if result.returncode == 0 else f"status {result.returncode}")
