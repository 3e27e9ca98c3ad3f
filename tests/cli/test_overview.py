"""The whole report of a network: what it adds to a conversion's report, also without a conversion."""

from __future__ import annotations

import doctest
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor import cli, convert
from cnn_convertor.budget import SHARES
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.overview import report_on
from cnn_convertor.config import Config
from cnn_convertor.conversion.inspection import inspect
from cnn_convertor.errors import ConvertorWarning
from cnn_convertor.files.codec import from_values, to_json, to_values
from cnn_convertor.ir.constant import Constant
from cnn_convertor.report.page import html_page
from cnn_convertor.report.values import SCHEMA, Report
from examples.caffemodel import write
from report.networks import verification

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits_keras" / "net.ini"
REFUSED = """
input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "first" type: "Pooling" bottom: "data" top: "first" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "strange" type: "Strange" bottom: "first" top: "strange" }
"""
CONVOLUTION = """
input: "data" input_shape { dim: 1 dim: 8 dim: 8 dim: 8 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 8 kernel_size: 1 } }
"""


@pytest.fixture(scope="module")
def made() -> Report:
    return report_on(Config.read(EXAMPLE))


def test_layers_and_their_steps_are_those_of_an_inspection(made: Report) -> None:
    inspected = inspect(EXAMPLE)
    assert [layer.name for layer in made.layers] == [layer.name for layer in inspected.layers]
    assert made.work == inspected.work
    for layer in made.layers:
        assert all(layer.name in made.steps[number].layers for number in layer.steps), layer


def test_every_boundary_is_the_reason_at_the_end_of_a_command(made: Report) -> None:
    reasons = [reason for step in made.steps for reason in step.ends]
    assert made.boundaries and all(f"{b.after}: {b.reason}" in reasons for b in made.boundaries)


def test_weights_have_their_magnitudes(made: Report) -> None:
    assert all(weights.magnitudes is not None and sum(weights.magnitudes.counts) for weights in made.weights)


def test_passes_show_what_they_changed(made: Report) -> None:
    assert made.passes and all(each.before != each.after for each in made.passes)
    assert made.passes[-1].name == "on-cpu"


def test_a_network_that_cannot_be_converted_has_a_report(tmp_path: Path) -> None:
    model = tmp_path / "net.prototxt"
    model.write_text(REFUSED)
    made = report_on(replace(Config.of(model), data=model))
    assert made.steps == () and made.memory is None
    assert [problem.layer for problem in made.problems] == ["strange"]
    assert {layer.name: layer.runs for layer in made.layers}["strange"] == "refused"
    assert "problems prevent a conversion" in html_page(made)


def test_a_conversion_writes_the_same_report(made: Report, tmp_path: Path) -> None:
    config = replace(Config.read(EXAMPLE), output_folder=tmp_path, report=True)
    written = {path.name: path for path in convert(config).files}
    texts = written["digits_report.json"].read_text(), to_json(made)
    assert from_values(Report, json.loads(texts[0])) == from_values(Report, json.loads(texts[1]))
    assert written["digits.html"].read_text() == html_page(made)
    convert(replace(config, report=False))
    assert not written["digits.html"].exists()


def network(folder: Path, weights: Sequence[float]) -> Config:
    """A convolution with these weights, and others of 1."""
    definition, data = folder / "net.prototxt", folder / "net.caffemodel"
    definition.write_text(CONVOLUTION)
    kernels = np.ones(64)
    kernels[: len(weights)] = weights
    write(data, [("conv", "Convolution", (kernels.reshape(8, 8, 1, 1), np.zeros(8)))])
    return Config(definition=definition, data=data, output_folder=folder / "made", report=True)


@pytest.mark.parametrize(
    ("weights", "codes"), [([1.0], []), ([1e-10], ["DV502"]), ([1e-10, *[1e-7] * 63], ["DV502", "DV504"])]
)
@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
def test_warnings_of_packing_are_part_of_both_reports(weights: list[float], codes: list[str], tmp_path: Path) -> None:
    config = network(tmp_path, weights)
    made, conversion = report_on(config), convert(config)
    assert [warning.code for warning in made.warnings] == codes
    assert conversion.report == made
    written = {path.name: path.read_text() for path in conversion.files if path.name.startswith("net_report")}
    assert written == {"net_report.json": to_json(made)}
    assert (tmp_path / "made" / "net" / "net.html").read_text() == html_page(made)


def test_warnings_reach_the_caller_of_a_conversion(tmp_path: Path) -> None:
    config = network(tmp_path, [1e-10])
    with warnings.catch_warnings(record=True) as caught:
        convert(config)
    assert [str(each.message)[:5] for each in caught] == ["DV502"]


def test_a_warning_that_is_an_error_ends_a_conversion(tmp_path: Path) -> None:
    config = network(tmp_path, [1e-10])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvertorWarning, match="DV502"):
            convert(config)
    assert not (tmp_path / "made" / "net").exists()


def test_a_report_shows_weights_that_prevent_a_conversion(tmp_path: Path) -> None:
    made = report_on(network(tmp_path, [1e6, 2e6]))
    assert [problem.code for problem in made.problems] == ["DV501"]
    (weights,) = made.weights
    assert weights.magnitudes is not None and weights.magnitudes.overflow == 2
    assert "problems prevent a conversion" in html_page(made)


def test_a_report_reads_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    load = Constant.load

    def counted(constant: Constant, *rows: slice) -> object:
        seen.append(constant.size)
        return load(constant, *rows)

    monkeypatch.setattr(Constant, "load", counted)
    convert(replace(network(tmp_path, []), report=False))
    without = len(seen)
    convert(network(tmp_path, []))
    assert len(seen) == 2 * without > 0


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_a_verification_is_a_part_of_the_report(compiler: None) -> None:
    pytest.importorskip("tensorflow")
    verified = report_on(Config.read(EXAMPLE), verified=True).verified
    assert verified is not None and verified.passed and verified.outputs
    assert {"narrow", "tail", "digit"} & {each.comparison.name for each in verified.layers}
    assert all(each.sqnr > verified.min_sqnr for each in verified.outputs)


# --- the page that describes it -------------------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")


def test_the_page_names_every_entry(made: Report) -> None:
    assert [name for name in to_values(made) if f"`{name}`" not in PAGE] == []


def test_the_example_of_the_page_is_a_part_of_its_report(made: Report) -> None:
    example, _ = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)  # the other is a manifest
    values, shown = json.loads(to_json(made)), json.loads(example)
    assert {name: values[name] for name in shown} == shown


def test_the_session_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE.parent)
    found = doctest.testfile(str(EXAMPLE.parents[2] / "docs" / "report.md"), module_relative=False)
    assert (found.failed, found.attempted) == (0, 5)


# --- the commands --------------------------------------------------------------------------------------------------------


def test_report_writes_a_page_and_json_and_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, values = tmp_path / "net.html", tmp_path / "net.json"
    assert cli.main(["report", str(EXAMPLE), "--html", str(page), "--json", str(values)]) == 0
    assert f"  files            {page}\n                   {values}\n" in capsys.readouterr().out
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert json.loads(values.read_text())["network"] == "digits"


def test_report_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = tmp_path / "net.json"
    assert cli.main(["report", "-q", str(EXAMPLE), "--json", str(values)]) == 0
    assert cli.main(["report", str(EXAMPLE), "--compare", str(values)]) == 0
    assert "nothing differs" in capsys.readouterr().out
    assert cli.main(["report", str(EXAMPLE), "--compare", str(values), "--device", "dv740"]) == 0
    assert "- dv700\n    + dv740" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', "\udcff", '{"schema": 1' + "0" * 400 + "}"])
def test_other_files_are_no_reports(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old.json"
    old.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert cli.main(["report", str(EXAMPLE), "--compare", str(old)]) == 2
    assert "DV161" in capsys.readouterr().err


def test_a_report_of_another_form_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old.json"
    assert cli.main(["report", "-q", str(EXAMPLE), "--json", str(old)]) == 0
    old.write_text(old.read_text().replace(f'"schema": {SCHEMA}', '"schema": 999', 1))
    assert cli.main(["report", str(EXAMPLE), "--compare", str(old)]) == 2
    assert f"schema 999, not {SCHEMA}" in capsys.readouterr().err


def test_a_report_of_an_earlier_form_may_lack_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.json").write_text('{"schema": 1, "network": "digits"}')
    assert cli.main(["report", str(EXAMPLE), "--compare", str(tmp_path / "old.json")]) == 2
    assert f"schema 1, not {SCHEMA}" in capsys.readouterr().err


def test_open_needs_a_page() -> None:
    assert cli.main(["report", str(EXAMPLE), "--open"]) == 2


def test_a_report_draws(tmp_path: Path) -> None:
    pytest.importorskip("fast_sugiyama")
    network, memory = tmp_path / "net.svg", tmp_path / "mem.svg"
    assert cli.main(["report", str(EXAMPLE), "--svg", str(network), "--memory-svg", str(memory)]) == 0
    assert "step-0" in network.read_text() and "bytes at" in memory.read_text()


def test_without_the_library_there_is_a_report_and_no_drawing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fast_sugiyama", None)
    page = tmp_path / "net.html"
    assert cli.main(["report", str(EXAMPLE), "--html", str(page)]) == 0
    assert 'id="memory"' in page.read_text() and 'id="network-picture"' not in page.read_text()
    assert re.search(
        r"no picture of the network: [^<]* not installed; [^<]* pip install -e [^<]*\[pictures\]", page.read_text()
    )
    assert cli.main(["report", str(EXAMPLE), "--svg", str(tmp_path / "net.svg")]) == 2
    assert "DV160" in capsys.readouterr().err


def test_a_network_that_is_too_large_to_draw_has_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fast_sugiyama")
    monkeypatch.setitem(SHARES, "picture", 2_000)
    page = tmp_path / "net.html"
    assert cli.main(["report", str(EXAMPLE), "--html", str(page)]) == 0
    assert "no picture of the network: the network is too large to draw" in page.read_text()
    assert cli.main(["report", str(EXAMPLE), "--svg", str(tmp_path / "net.svg")]) == 2
    assert "DV164" in capsys.readouterr().err


def test_init_writes_a_file_that_reports(tmp_path: Path) -> None:
    ini = tmp_path / "net.ini"
    model = EXAMPLE.with_name("digits.keras")
    assert cli.main(["init", str(model), "-o", str(ini)]) == 0
    assert cli.main(["report", str(ini)]) == cli.main(["report", str(model)]) == 0


def test_the_terminal_shows_a_verification_as_verify_does(made: Report, capsys: pytest.CaptureFixture[str]) -> None:
    alone, together = Console(0), Console(0)
    alone.verification(verification())
    expected = capsys.readouterr().out
    together.report(replace(made, verified=verification()), (), (), (), None)
    assert expected in capsys.readouterr().out
    assert alone.code == together.code == 1, "it does not pass"
