"""The emulated runtime leaves the same bytes in memory as the SDK's runtime."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from host.device import SANITIZERS, build

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).resolve().parent
TYPES = {"INPUT": 0, "FLATTEN": 3, "COPY": 5, "SOFTMAX": 6, "CUSTOM": 7}


@pytest.fixture(scope="session")
def replay(library: Path) -> Path:
    return build(library.with_name("replay"), *SANITIZERS, str(HERE / "replay.cpp"), str(library), with_device=False)


@dataclass(frozen=True)
class Result:
    after: bytes
    callback: bytes
    outputs: tuple[bytes, ...]
    message: str
    reports: list[str]


def text_of(case: Mapping[str, Any]) -> str:
    spec = case["spec"]
    need_transpose = int("cb=5" in case.get("options", ()))
    lines = [f"case {case['name']} {spec['io']} {spec['transposed']} {need_transpose}"]
    for layer in spec["layers"]:
        words = [TYPES[layer["type"]], *layer["in"], 0, *layer["out"], 0]
        words += [layer[key] for key in ("ioffs", "ooffs", "osize")]
        words += [*(layer.get(key, 0) for key in ("hw", "f32", "axis")), *layer.get("inputs", ()), -1]
        lines.append("layer " + " ".join(map(str, words)))
    lines.append("output " + " ".join(map(str, [*spec["outputs"], -1])))
    return "\n".join([*lines, "run", ""])


def run(
    program: Path, folder: Path, cases: Sequence[tuple[Mapping[str, Any], bytes]], *, strict: bool = True
) -> list[Result]:
    """Replays cases, each on its I/O memory."""
    for case, before in cases:
        (folder / f"{case['name']}.before").write_bytes(before)
    text = "".join(text_of(case) for case, _ in cases)
    environment = {**os.environ, "DMP_DV_STRICT": str(int(strict))}
    done = subprocess.run([program, folder], input=text, text=True, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return [result_of(folder / case["name"], len(case["spec"]["outputs"])) for case, _ in cases]


def result_of(path: Path, outputs: int) -> Result:
    def saved(suffix: str) -> bytes:
        return path.with_name(f"{path.name}.{suffix}").read_bytes()

    return Result(
        saved("after"),
        saved("callback"),
        tuple(saved(f"out{i}") for i in range(outputs)),
        saved("message").decode(),
        saved("reports").decode().splitlines(),
    )


def test_every_recorded_case_gives_the_same_bytes(replay: Path, shared: Path, tmp_path: Path) -> None:
    folder = shared / "vectors" / "runtime"
    cases = json.loads((folder / "index.json").read_text())["cases"]
    recorded = np.load(folder / "cases.npz")
    results = run(replay, tmp_path, [(case, recorded[case["name"] + "/before"].tobytes()) for case in cases])
    wrong = []
    for case, result in zip(cases, results, strict=True):
        name = case["name"]
        expected = {"after": result.after, "out0": result.outputs[0], "get_layer_input": result.callback}
        wrong += [
            f"{name}: {key}"
            for key, found in expected.items()
            if f"{name}/{key}" in recorded and recorded[f"{name}/{key}"].tobytes() != found
        ]
        if case["stderr"] and result.message != case["stderr"].strip():
            wrong.append(f"{name}: {result.message}")
    assert len(cases) == 64
    assert not wrong, "\n".join(wrong)
