"""The benchmark of exports: its list, its results as files and rows, and how it goes on. Nothing here needs PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnn_convertor.config import Config
from cnn_convertor.conversion.inspection import inspect
from development.benchmarks.exports import __main__ as benchmark
from development.benchmarks.exports import measuring, times
from development.benchmarks.exports.architectures import ARCHITECTURES, LIBRARIES
from development.benchmarks.exports.outcome import (
    Cause,
    Figures,
    Outcome,
    State,
    cause_rows,
    causes_of,
    known,
    network_rows,
    path_of,
)
from development.benchmarks.networks_page import times_summary
from examples import zoo

ROOT = Path(__file__).resolve().parents[2]
REFUSED = Cause("DV302", "MatMul", "the matrix B depends on the network's input", 2)


def outcome(
    network: str = "a", exporter: str = "torchscript", state: State = State.VERIFIED, **more: object
) -> Outcome:
    figures = Figures(commands=1200, cpu_layers=3, sqnr=51.25) if state is State.VERIFIED else None
    values = {"commit": "1", "versions": {"torch": "2"}, "figures": figures, "rounding": 60.0, **more}
    return Outcome(network, exporter, "224x224x3", state, **values)  # type: ignore[arg-type] # values of any field


def test_the_list_has_150_networks_at_their_real_sizes() -> None:
    assert len(ARCHITECTURES) >= 150
    assert len(ARCHITECTURES) == sum(len(n.split()) for each in LIBRARIES for n in each.networks.values())
    for architecture in ARCHITECTURES.values():
        is_recognizer = architecture.library == "doctr" and architecture.height == 32
        assert is_recognizer or 192 <= min(architecture[2:4]) <= max(architecture[2:4]) <= 640
        assert architecture.channels == 3
    assert ARCHITECTURES["doctr_parseq"].size == "32x128x3"


def test_each_library_is_named_with_its_license_and_is_no_dependency() -> None:
    text = (ROOT / "development/benchmarks/exports/requirements.txt").read_text(encoding="utf-8")
    required = {line.split()[0]: line for line in text.splitlines() if line and not line.startswith("#")}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    dependencies = project.partition("[project.scripts]")[0]
    for library in LIBRARIES:
        assert f"# {library.license}" in required[library.package]
        assert f'"{library.package}' not in dependencies


# --- results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [outcome(), outcome(state=State.REFUSED, causes=(REFUSED,)), outcome(state=State.NOT_EXPORTED, detail="no")],
    ids=lambda result: result.state.name,
)
def test_a_file_keeps_an_outcome(result: Outcome, tmp_path: Path) -> None:
    result.write(tmp_path)
    assert known(tmp_path, "a", "torchscript", None) == result
    assert known(tmp_path, "a", "torchscript", "1") == result
    assert known(tmp_path, "a", "torchscript", "2") is None
    assert known(tmp_path, "a", "dynamo", None) is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"state": "NO"}', "[]"])
def test_a_damaged_file_is_no_outcome(text: str, tmp_path: Path) -> None:
    path_of(tmp_path, "a", "torchscript").write_text(text, encoding="utf-8")
    assert known(tmp_path, "a", "torchscript", None) is None


def test_causes_leave_out_names_and_numbers() -> None:
    problems = [
        ("DV404", "Add", "the input 8400x1x2 (height x width x channels) is larger than 1024x2047"),
        ("DV302", "Conv", 'the input "a" has 33,600 channels'),
        ("DV404", "Add", "the input 2000x1x4 (height x width x channels) is larger than 1024x2047\nmore"),
    ]
    assert causes_of(problems) == (
        Cause("DV404", "Add", "the input N (height x width x channels) is larger than N", 2),
        Cause("DV302", "Conv", 'the input "X" has N channels', 1),
    )


def test_a_row_has_both_exporters_where_they_differ() -> None:
    refused = outcome("b", "dynamo", State.REFUSED, causes=(REFUSED, Cause("DV404", "Add", "x")))
    rows = network_rows([outcome("b"), refused, outcome(), outcome(exporter="dynamo")])
    assert rows == {
        "a": "| a | 224x224x3 | verified | 1,200 | 3 | 51.2 dB | 60.0 dB |",
        "b": "| b | 224x224x3 | verified / DV302 MatMul, DV404 Add | 1,200 / - | 3 / - | 51.2 dB / - | 60.0 dB |",
    }


def test_causes_are_counted_once_for_each_export() -> None:
    refused = [outcome(name, state=State.REFUSED, causes=(REFUSED,)) for name in "abcd"]
    rows = cause_rows([*refused, outcome("e")], networks=3)
    assert rows["verified"] == "| verified | 1 |  |" and rows["refused"] == "| refused | 4 |  |"
    assert rows["DV302 MatMul: the matrix B depends on the network's input"].endswith(
        "| 4 | a (TorchScript), b (TorchScript), c (TorchScript) |"
    )
    states = {state.value for state in State}
    assert set(rows) == {*states, "not measured yet", "DV302 MatMul: the matrix B depends on the network's input"}
    assert rows["not measured yet"] == "| not measured yet | 1 |  |"
    assert states == set(cause_rows([outcome(), outcome(exporter="dynamo")], networks=1))


# --- runs ----------------------------------------------------------------------------------------------------------------


class Commands:
    """Stands for the processes that export and measure. fails_at: the model at which the user interrupts."""

    def __init__(self, fails_at: str = "") -> None:
        self.exported: list[str] = []
        self.measured: list[str] = []
        self.fails_at = fails_at

    def __call__(self, command: Sequence[str], lines: list[str] | None = None) -> str:
        module, *arguments = command[2:]
        if module.endswith("building"):
            network, folder, *exporters = arguments
            for exporter in exporters:
                self.exported.append(f"{network}.{exporter}")
                notes = {"versions": {}, "life": {"rounding": 60.0}}
                Path(folder, f"{network}.{exporter}.txt").write_text(json.dumps(notes), encoding="utf-8")
            return ""
        name = Path(arguments[0]).stem
        if name == self.fails_at:
            raise KeyboardInterrupt
        self.measured.append(name)
        assert lines is not None
        figures = {"commands": 7, "cpu_layers": 0, "sqnr": 50.0}
        lines.append(json.dumps({"state": "VERIFIED", "figures": figures, "detail": ""}))
        return ""


NAMES = ("torchvision_resnet18", "torchvision_alexnet")
FORMS = [f"{name}.{exporter}" for name in NAMES for exporter in ("torchscript", "dynamo")]


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Commands, *options: str) -> int:
    monkeypatch.setattr(benchmark, "_finished", commands)
    arguments = [*NAMES, "--results", str(tmp_path / "results"), "--models", str(tmp_path / "models"), *options]
    return CliRunner().invoke(benchmark.main, arguments).exit_code


def test_a_run_goes_on_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Commands(fails_at=FORMS[3])
    assert run(tmp_path, monkeypatch, first) == 1
    assert first.exported == FORMS and first.measured == FORMS[:3]
    second = Commands()
    assert run(tmp_path, monkeypatch, second) == 0
    assert second.exported == [] and second.measured == FORMS[3:]
    third = Commands()
    assert run(tmp_path, monkeypatch, third, "--renew") == 0
    assert third.measured == []
    monkeypatch.setattr(benchmark, "current_commit", lambda: "2")
    assert run(tmp_path, monkeypatch, third) == 0
    assert third.measured == []
    assert run(tmp_path, monkeypatch, third, "--renew", "--jobs", "2") == 0
    assert third.exported == [] and sorted(third.measured) == sorted(FORMS)


def test_a_network_below_the_limit_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results"
    results.mkdir()
    for name in NAMES:
        for exporter in ("torchscript", "dynamo"):
            outcome(name, exporter).write(results)
    assert run(tmp_path, monkeypatch, Commands()) == 0
    outcome(NAMES[0], state=State.INACCURATE).write(results)
    assert run(tmp_path, monkeypatch, Commands()) == 1


def test_a_network_that_cannot_be_exported_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "_finished", lambda *_: "out of memory")
    assert CliRunner().invoke(benchmark.main, [NAMES[0], "--results", str(tmp_path)]).exit_code == 0
    result = known(tmp_path, NAMES[0], "dynamo", None)
    assert result is not None and (result.state, result.detail) == (State.NOT_EXPORTED, "out of memory")


# --- measuring -----------------------------------------------------------------------------------------------------------


def model(tmp_path: Path) -> Path:
    return Config.read(zoo.build("onnx_lenet", tmp_path, size=28)).definition


def test_a_network_is_converted_and_compared(tmp_path: Path) -> None:
    values = measuring.measure(model(tmp_path))
    assert values["state"] == "VERIFIED"
    assert values["figures"]["commands"] == 4 and 50 < values["figures"]["sqnr"] < 100


def test_an_output_below_the_limit_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "LEAST", 150.0)
    values = measuring.measure(model(tmp_path))
    assert values["state"] == "INACCURATE" and "dB" in values["detail"]


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"no model")
    values = measuring.measure(path)
    assert values["state"] == "REFUSED" and values["causes"][0].code.startswith("DV")


def test_a_row_has_the_time_with_each_runtime(tmp_path: Path) -> None:
    line = times.row("torchvision_alexnet", model(tmp_path), ("2 to 3", "40%"))
    name, size, *cells = line.strip("| ").split(" | ")
    assert (name, size) == ("torchvision_alexnet", "224x224x3")
    assert [cell[-1] for cell in cells[1::2]] == ["%", "%", "%"]
    report = inspect(model(tmp_path))
    assert cells[2] == f"{report.usec.low / 1000:.3g} to {report.usec.high / 1000:.3g}"
    assert times.with_version(ROOT, model(tmp_path)) == tuple(cells[2:4])  # as the default is


def test_the_page_says_what_the_rows_say_together() -> None:
    rows = [
        "| a | 1x1x1 | 1,000 to 2,000 | 20% | 500 to 1,000 | 40% | 400 to 500 | 60% |",
        "| b | 1x1x1 | 3,000 to 4,000 | 30% | 3,000 to 4,001 | 50% | 2,000 | 80% |",
        "| c | 1x1x1 |  |  | 200 to 300 | 90% | 100 to 200 | 100% |",
        "| d | 1x1x1 |  |  | DV302 |  | DV302 |  |",
    ]
    text = " ".join(times_summary(rows).split())
    assert text.startswith("Version 0.2.0 takes 4.0 to 6.0 s (25 %) for 2 of these 4 networks together; ")
    assert "Now they take 3.5 to 5.0 s (45 %) with `sdk`, and 2.4 to 2.5 s (70 %) with `generated`." in text
    assert text.endswith("With `sdk`, 1 takes longer than before; with `generated`, none takes longer than with `sdk`.")
    assert times_summary(rows[2:]) == ""


def test_a_refused_network_has_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"no model")
    assert times.row("torchvision_alexnet", path) == "| torchvision_alexnet | 224x224x3 |  |  | DV201 |  | DV201 |  |"
