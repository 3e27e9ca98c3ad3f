"""Sources of version 0.1.0, which do harm on a board, fail in strict mode (tests/audit finds the same in their text)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from host.device import RUNNER, SANITIZERS, build

SOURCES = Path(__file__).resolve().parents[1] / "audit" / "sources" / "v0_1_0"


def run(library: Path, folder: Path, source: Path, *, weights: int, inputs: int) -> subprocess.CompletedProcess[str]:
    """Runs a source on weights and inputs of zeros. weights, inputs: their bytes."""
    name = source.name.removesuffix("_gen.cpp")
    definitions = [f'-DNETWORK_HEADER="{name}_gen.h"', f"-DNETWORK_CLASS=C{name}"]
    options = [*SANITIZERS, *definitions, f"-I{SOURCES}", str(RUNNER), str(source), str(library)]
    program = build(folder / "program", *options, with_device=False)
    (folder / "weights.bin").write_bytes(bytes(weights))
    (folder / "input.bin").write_bytes(bytes(inputs))
    return subprocess.run(
        [program, folder / "weights.bin", folder / "input.bin", folder],
        capture_output=True, text=True, check=False, env={**os.environ, "DMP_DV_STRICT": "1"},
    )  # fmt: skip


@pytest.mark.slow
def test_the_softmax_that_writes_nothing_is_reported(library: Path, tmp_path: Path) -> None:
    result = run(library, tmp_path, SOURCES / "digits_gen.cpp", weights=21264, inputs=128)
    assert result.returncode == 1
    assert 'error: layer "digit": LT_SOFTMAX writes nothing: softmax_axis is -1, not 0, 1 or 2\n' in result.stderr
    assert 'error: layer "digit": get_final_output reads bytes 0 to 40 as FP32, but they hold FP16\n' in result.stderr


@pytest.mark.slow
def test_the_callback_that_a_list_of_inputs_overwrites_is_reported(library: Path, tmp_path: Path) -> None:
    text = (SOURCES / "two_inputs_gen.cpp").read_text()
    source = tmp_path / "two_inputs_gen.cpp"
    source.write_text(text.replace("ReserveMemory(0, ", "ReserveMemory(16, "))  # 0 bytes fail before that
    result = run(library, tmp_path, source, weights=16, inputs=768)
    assert result.returncode == 1
    assert 'layer "product": custom_proc_ptr is no function' in result.stderr


@pytest.mark.slow
def test_memory_of_no_bytes_for_weights_is_refused(library: Path, tmp_path: Path) -> None:
    result = run(library, tmp_path, SOURCES / "two_inputs_gen.cpp", weights=0, inputs=768)
    assert result.returncode == 1
    assert "cannot allocate memory for weights: size = 0" in result.stderr
