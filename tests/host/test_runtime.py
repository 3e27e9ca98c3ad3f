"""The emulated runtime does what the SDK's runtime does, and reports in strict mode what goes wrong in silence."""

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


WRAPPED = (
    "context_create", "context_get_info", "context_release", "mem_alloc", "mem_map", "mem_unmap", "mem_release",
    "mem_sync_start", "mem_sync_end", "cmdlist_create", "cmdlist_add_raw", "cmdlist_commit", "cmdlist_exec",
    "cmdlist_wait", "cmdlist_get_last_exec_time", "cmdlist_release",
)  # fmt: skip


@pytest.fixture(scope="session")
def test_class(library: Path) -> Path:
    wraps = [f"-Wl,--wrap=dmp_dv_{name}" for name in WRAPPED]
    sources = [str(HERE / "test_class.cpp"), str(library)]
    return build(library.with_name("test_class"), *SANITIZERS, *sources, *wraps, with_device=False)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_class_has_the_layout_calls_and_results_of_the_sdk(test_class: Path, tmp_path: Path) -> None:
    """Outside of strict mode, since some of the calls are misuse."""
    environment = {**os.environ, "DMP_DV_STRICT": "0"}
    result = subprocess.run([test_class], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr


def test_strict_mode_reports_misuse_and_fails_at_exit(test_class: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "DMP_DV_STRICT": "1"}
    result = subprocess.run([test_class], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 1
    for report in (
        "ReserveMemory: memory is already reserved",
        "set_num_layers: a second call has no effect",
        "GenerateCommandLists: the command lists exist already (double call)",
        "get_layer(1): the network has no such layer",
        "SetConvertPolicy: policy 7 is unknown, the table is not initialized",
        'layer "": 8-bit input overwrites a first layer that is no LT_CONV with a command of version 1',
    ):
        assert f"error: {report}\n" in result.stderr


def test_every_policy_gives_the_recorded_table(test_class: Path, shared: Path, tmp_path: Path) -> None:
    folder = shared / "vectors" / "runtime"
    tables = np.load(folder / "u8_tables.npz")
    policies = json.loads((folder / "index.json").read_text())["u8_tables"]
    for policy in policies:
        command = [str(test_class), str(policy["value"])]
        lines = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split("\n")
        assert lines[: len(policy["calls"])] == policy["calls"]
        values = [int(line, 16) for line in lines[len(policy["calls"]) :] if line]
        assert values == tables[policy["policy"]].ravel().tolist(), policy["policy"]
    assert len(policies) == 6


# --- strict mode ---

IO = 4096


def layer(kind: str, source: Sequence[int], target: Sequence[int], offsets: tuple[int, int], **fields: Any) -> Any:
    size = int(np.prod(target)) * (4 if fields.get("f32") else 2)
    return {
        "type": kind,
        "in": source,
        "out": target,
        "ioffs": offsets[0],
        "ooffs": offsets[1],
        "osize": size,
        **fields,
    }


def softmax(dims: Sequence[int], axis: int, *, hw: int = 1, **fields: Any) -> Any:
    return layer("SOFTMAX", dims, dims, (512, 1024), axis=axis, hw=hw, **fields)


def copy(target: Sequence[int], *inputs: Any, **fields: Any) -> list[Any]:
    return [*inputs, layer("COPY", target, target, (0, 2048), inputs=list(range(len(inputs))), **fields)]


def map_of(dims: Sequence[int], offset: int = 512) -> Any:
    return layer("INPUT", dims, dims, (offset, offset))


FLATTENED = layer("FLATTEN", [2, 3, 9], [54], (512, 1024), hw=1)
LOGITS_FP32 = layer("CUSTOM", [6], [6], (256, 512), f32=1)

SILENT_FAULTS = {
    "axis -1": ([softmax([5], -1)], "LT_SOFTMAX writes nothing: softmax_axis is -1, not 0, 1 or 2"),
    "axis 3": ([softmax([2, 3, 5], 3)], "LT_SOFTMAX writes nothing: softmax_axis is 3, not 0, 1 or 2"),
    "axis 1 of a vector": ([softmax([5], 1)], "LT_SOFTMAX writes nothing: input_dim has no size along softmax_axis"),
    "axis 2 of a vector": ([softmax([5], 2)], "LT_SOFTMAX writes nothing: input_dim has no size"),
    "softmax as FP32": ([softmax([5], 0, f32=1)], "LT_SOFTMAX writes FP16, but is_f32_output is set"),
    "softmax of chunks": ([softmax([2, 3, 9], 2)], "LT_SOFTMAX mixes the pixels of a map with more than 8 channels"),
    "softmax of chunks, as rows": ([softmax([6, 9], 1)], "LT_SOFTMAX mixes the pixels of a map"),
    "faulty places": ([softmax([2, 3, 8], 2, hw=0)], "LT_SOFTMAX reads the wrong elements of this map"),
    "softmax of FP32": ([LOGITS_FP32, softmax([6], 0)], "reads bytes 512 to 524 as FP16, but they hold FP32"),
    "spoiled logits": (
        [map_of([2, 3, 5]), softmax([2, 3, 5], 2), layer("FLATTEN", [2, 3, 5], [30], (512, 2048), hw=1)],
        "LT_FLATTEN reads bytes 512 to 572, which a softmax of the runtime has overwritten",
    ),
    "custom layer of spoiled logits": (
        [map_of([5]), softmax([5], 0), layer("CUSTOM", [5], [5], (512, 2048), f32=1)],
        "LT_CUSTOM reads a map that a softmax of the runtime has overwritten",
    ),
    "flatten without flag": ([layer("FLATTEN", [2, 3, 9], [54], (512, 1024))], "LT_FLATTEN does nothing without"),
    "flatten in place without flag": ([layer("FLATTEN", [2, 3, 9], [54], (512, 512))], "LT_FLATTEN leaves a map in"),
    "flatten of a vector": ([layer("FLATTEN", [54], [54], (512, 1024), hw=1)], "LT_FLATTEN writes nothing"),
    "flatten over its input": ([layer("FLATTEN", [2, 3, 9], [54], (512, 520), hw=1)], "overwrites its own input"),
    "flatten to fewer": (
        [layer("FLATTEN", [2, 3, 9], [50], (512, 1024), hw=1)],
        "writes 108 bytes, output_size is 100",
    ),
    "flatten of FP32": (
        [layer("CUSTOM", [6], [6], (256, 512), f32=1), layer("FLATTEN", [1, 1, 6], [6], (512, 1024), hw=1)],
        "LT_FLATTEN reads bytes 512 to 524 as FP16, but they hold FP32",
    ),
    "flatten to places outside": (
        [layer("FLATTEN", [2, 3, 9], [54], (512, IO - 16), hw=1), map_of([9])],
        "bytes 4080 to 4188 are written, but the memory has 4096",
    ),
    "softmax of places outside": (
        [layer("SOFTMAX", [9], [9], (IO - 16, 0), axis=0)],
        "bytes 4080 to 4098 are read, but the memory has 4096",
    ),
    "copy in two dimensions": (copy([2, 7], map_of([2, 3]), map_of([2, 4], 1024)), "output_dim_size 2 copies nothing"),
    "copy of fewer channels": (copy([1, 1, 9], map_of([1, 1, 8])), "joins 8 channels, the output has 9"),
    "copy of fewer bytes": (copy([9], map_of([8])), "LT_COPY_CONCAT joins 16 bytes, output_size is 18"),
    "copy over an input that is not at its place": (
        copy([2, 3, 16], map_of([2, 3, 8]), map_of([2, 3, 8], 2048)),
        'LT_COPY_CONCAT overwrites its input "layer1", which does not lie at its place',
    ),
    "copy over a part of an input": (
        copy([2, 3, 16], map_of([2, 3, 8], 2040), map_of([2, 3, 8])),
        'its input "layer0"',
    ),
    "copy into wider chunks at the same place": (
        copy([2, 3, 8], map_of([2, 3, 5], 2048), map_of([2, 3, 3])),
        'overwrites its input "layer0"',
    ),
    "copy over an input that was copied before": (
        copy([2, 3, 16], map_of([2, 3, 8], 2144), map_of([2, 3, 8], 512)),
        'overwrites its input "layer0"',
    ),
    "copy of bytes over the next input": (
        copy([16], map_of([8]), map_of([8], 2056)),
        'overwrites its input "layer1"',
    ),
    "copy of FP32 among FP16": (copy([12], LOGITS_FP32), "reads bytes 512 to 536 as FP16, but they hold FP32"),
    "copy of FP16 among FP32": (copy([3], map_of([6]), f32=1), "reads bytes 512 to 524 as FP32, but they hold FP16"),
    "custom layer of FP32": (
        [LOGITS_FP32, layer("CUSTOM", [6], [6], (512, 1024), f32=1)],
        "get_layer_input reads bytes 512 to 524 as FP16, but they hold FP32",
    ),
    "custom layer in the other order": (
        [layer("CUSTOM", [2, 3, 4], [24], (512, 1024), hw=1, f32=1)],
        "get_layer_input turns the map: need_transpose must be !is_weight_transposed",
    ),
    "custom layer as FP16": ([layer("CUSTOM", [6], [6], (512, 1024))], "writes FP32, but is_f32_output is not set"),
    "custom layer with a short output": (
        [layer("CUSTOM", [6], [7], (512, 1024), f32=1)],
        "put_layer_output copies 28 bytes of a vector of 24",
    ),
}
SOUND = {
    "softmax behind a flatten": [FLATTENED, layer("SOFTMAX", [6, 9], [6, 9], (1024, 2048), axis=1, hw=1)],
    "softmax of one chunk": [softmax([2, 3, 8], 2)],
    "softmax of a vector": [softmax([100], 0, hw=0)],
    "softmax in place": [
        layer("SOFTMAX", [9], [9], (512, 512), axis=0),
        layer("FLATTEN", [1, 1, 9], [9], (512, 0), hw=1),
    ],
    "flatten in place of a vector": [layer("FLATTEN", [9], [9], (512, 512))],
    "copy of maps": copy([2, 3, 21], map_of([2, 3, 16]), map_of([2, 3, 5], 1024)),
    "copy of FP32": copy([6], LOGITS_FP32, f32=1),
    "copy of whole chunks that are at their place": copy([2, 3, 21], map_of([2, 3, 16], 2048), map_of([2, 3, 5])),
    "copy of a last map that is at its place": copy([2, 3, 21], map_of([2, 3, 16]), map_of([2, 3, 5], 2048 + 192)),
    "copy of one pixel that is at its place": copy([1, 1, 9], map_of([1, 1, 5], 2048), map_of([1, 1, 4])),
    "copy of a vector that is at its place": copy([9], map_of([5]), map_of([4], 2058)),
    "copy of a map that is at its place, twice": [
        map_of([2, 3, 8], 2048),
        layer("COPY", [2, 3, 16], [2, 3, 16], (0, 2048), inputs=[0, 0]),
    ],
    "copy beside its inputs": copy([2, 3, 16], map_of([2, 3, 8], 1952), map_of([2, 3, 8], 2240)),
}


def case(name: str, layers: list[Any]) -> tuple[dict[str, Any], bytes]:
    before = np.random.default_rng(1).normal(size=IO // 2).astype("<f2").tobytes()
    spec = {"io": IO, "transposed": 0, "layers": layers, "outputs": [len(layers) - 1]}
    return {"name": name.replace(" ", "_"), "spec": spec}, before


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "as on a board"])
def test_what_goes_wrong_in_silence_is_reported(replay: Path, tmp_path: Path, strict: bool) -> None:
    cases = [case(name, layers) for name, (layers, _) in SILENT_FAULTS.items()]
    for (name, (_, report)), result in zip(
        SILENT_FAULTS.items(), run(replay, tmp_path, cases, strict=strict), strict=True
    ):
        if strict:
            assert any(report in line for line in result.reports), (name, result.reports)
        else:
            assert not result.reports, name


def test_reports_change_no_bytes(replay: Path, tmp_path: Path) -> None:
    cases = [case(name, layers) for name, (layers, _) in SILENT_FAULTS.items()]
    strict, plain = (run(replay, tmp_path, cases, strict=strict) for strict in (True, False))
    assert [result.after for result in strict] == [result.after for result in plain]


def test_what_is_right_is_not_reported(replay: Path, tmp_path: Path) -> None:
    cases = [case(name, layers) for name, layers in SOUND.items()]
    for name, result in zip(SOUND, run(replay, tmp_path, cases), strict=True):
        assert not result.reports, (name, result.reports)
