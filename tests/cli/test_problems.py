"""Problems are well-formed for other programs, for messages with any characters, and short for a reader."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from cnn_convertor import cli
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.problems import Complaint, as_annotation, as_document, by_cause
from cnn_convertor.errors import Origin, Problem, UnsupportedError
from report.networks import board_verification, report, verification

URI_CHARACTERS = r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*"  # RFC 3986
UNTYPED = {"columnKind"}  # keys of SARIF that the types lack: 3.14.17
FOUND = [
    Complaint(
        "error", Problem("DV302", "not\nsupported: 100%", Origin("a b/ü%.prototxt", "conv,1:", "Conv", 7), "try this")
    ),
    Complaint("warning", Problem("DV501", "::error::\x1b[31m\r\n", Origin("C:\\net.h5"))),
    Complaint("error", Problem("DV100", "nothing", None)),
    Complaint("error", Problem("DV302", "again", Origin("", "fc"))),
]


def check_log(log: Any) -> None:
    """What SARIF 2.1.0 requires of the parts that are used; numbers of sections in its text."""
    check_types(log)
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")  # 3.13
    assert log.keys() == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    assert run.keys() <= {"tool", "results", "columnKind"} and run["columnKind"] in (
        "utf16CodeUnits",
        "unicodeCodePoints",
    )
    driver = run["tool"]["driver"]
    assert driver["name"] and re.fullmatch(r"\d+\.\d+\.\d+.*", driver["semanticVersion"])  # 3.19.8, 3.19.12
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert len(set(identifiers)) == len(identifiers)  # 3.49.3
    texts = {"shortDescription", "fullDescription", "help"}  # 3.49.9, 3.49.10, 3.49.13
    assert all(rule.keys() == {"id", *texts} and all(rule[text]["text"] for text in texts) for rule in driver["rules"])
    for result in run["results"]:
        assert result.keys() <= {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert result["message"]["text"] and result["level"] in ("none", "note", "warning", "error")  # 3.27.10, 3.27.11
        assert identifiers[result["ruleIndex"]] == result["ruleId"]  # 3.27.6
        for location in result.get("locations", []):
            check_location(location)


def check_types(log: Any) -> None:
    """Every value has its name, type and place in SARIF, by a package with its types."""
    pytest.importorskip("sarif_pydantic", reason="sarif-pydantic is not installed")
    from sarif_pydantic import Sarif

    def unknown(value: Any) -> list[str]:
        """The keys that SARIF does not have: they are kept apart."""
        if isinstance(value, list):
            return [name for each in value for name in unknown(each)]
        if not hasattr(value, "model_extra"):
            return []
        fields = (getattr(value, name) for name in type(value).model_fields)
        return [*(value.model_extra or {}), *(name for field in fields for name in unknown(field))]

    assert set(unknown(Sarif.model_validate(log))) <= UNTYPED


def check_location(location: Any) -> None:
    assert location and location.keys() <= {"physicalLocation", "logicalLocations"}  # 3.28
    if "physicalLocation" in location:
        place = location["physicalLocation"]
        assert re.fullmatch(URI_CHARACTERS, place["artifactLocation"]["uri"])  # 3.4.3
        assert urlsplit(place["artifactLocation"]["uri"]).scheme in ("", "file")
        assert place.get("region", {"startLine": 1})["startLine"] >= 1  # 3.30.5
    assert all(each["name"] for each in location.get("logicalLocations", []))  # 3.33.4


def test_a_log_has_the_form_of_sarif() -> None:
    log = json.loads(as_document("sarif", FOUND))
    check_log(log)
    check_log(json.loads(as_document("sarif", [])))
    (run,) = log["runs"]
    assert [result["level"] for result in run["results"]] == [each.kind for each in FOUND]
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == "a b/ü%.prototxt"


def test_json_has_every_part_of_a_problem() -> None:
    first, *_, last = json.loads(as_document("json", FOUND))
    where = {"file": "a b/ü%.prototxt", "line": 7, "layer": "conv,1:", "type": "Conv"}
    expected = {"kind": "error", "code": "DV302", "message": "not\nsupported: 100%", "hint": "try this", **where}
    assert first == expected
    assert last["layer"] == "fc" and last["file"] == "" and last["line"] is None


def test_an_annotation_is_one_line_that_cannot_be_ended_early() -> None:
    shown = [as_annotation(each) for each in FOUND]
    for line in shown:
        assert line.isprintable()
        _, fields, _ = re.fullmatch(r"::(error|warning) ([^:]*)::(.*)", line).groups()  # type: ignore[union-attr]  # or it fails
        assert all(re.fullmatch(r"(title|file|line)=[^,:]+", field) for field in fields.split(","))
    assert shown[0].endswith("::not%0Asupported: 100%25%0Atry: try this") and "line=7" in shown[0]


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_document_is_all_that_is_printed(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "net.ini"
    ini.write_text("[INPUT]\nname = a\ndefinition = missing.h5\ncolour = 1\n[OUTPUT]\noutput_folder = out\n")
    assert cli.main([str(ini), "--format", form]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    if form == "sarif":
        check_log(json.loads(out))
    else:
        assert [each["code"] for each in json.loads(out)] == ["DV112", "DV107"]


def test_without_problems_a_document_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "buffers.csv"
    table.write_text("id,lower,upper,size\na,0,2,16\n")
    assert cli.main(["layouts", "plan", str(table), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_annotations_leave_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "buffers.csv"
    table.write_text("id,lower,upper,size\na,0,2,16\n")
    assert cli.main(["layouts", "plan", str(table), "--capacity", "8", "--format", "github"]) == 1
    out, err = capsys.readouterr()
    assert "a,0,2,16,0" in out and "::error title=DV120,file=" in err


# --- every command -------------------------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
BROKEN = {  # arguments -> exit code and code; NET is an ini file for an unknown layer, TABLE one of buffers
    "convert NET": (1, "DV301"),
    "check NET": (1, "DV301"),
    "run NET --inputs x.npy": (1, "DV301"),
    "verify NET": (1, "DV301"),
    "audit NET": (1, "DV600"),
    "plan TABLE --capacity 8": (1, "DV120"),
    "convert NET --colour": (2, "DV100"),
    "run NET": (2, "DV100"),
    "plan TABLE --capacity many": (2, "DV100"),
    "convert -v -q NET": (2, "DV100"),
}


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
@pytest.mark.parametrize("command", BROKEN)
def test_every_problem_has_the_form_that_is_asked_for(
    command: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.prototxt").write_text(
        'input: "x" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\nlayer { name: "odd" type: "Foo" bottom: "x" top: "y" }\n'
    )
    net, table = tmp_path / "net.ini", tmp_path / "buffers.csv"
    net.write_text("[INPUT]\nname = net\ndefinition = net.prototxt\n[OUTPUT]\noutput_folder = out\n")
    table.write_text("id,lower,upper,size\na,0,2,16\n")
    code, expected = BROKEN[command]
    arguments = command.replace("NET", str(net)).replace("TABLE", str(table)).split()
    assert cli.main([*arguments, "--format", form]) == code
    out, err = capsys.readouterr()
    if form == "github":
        assert re.search(rf"^::error title={expected}", err, re.MULTILINE)
        return
    assert err == ""
    found = json.loads(out)
    if form == "sarif":
        check_log(found)
        found = [{"code": result["ruleId"]} for result in found["runs"][0]["results"]]
    assert expected in [each["code"] for each in found]


VERIFIED = ROOT / "examples/digits_caffe/net.ini"


@pytest.mark.parametrize("form", ["json", "sarif", "github", "text"])
@pytest.mark.parametrize("board", [False, True])
@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_network_that_is_not_verified_is_a_problem(
    quiet: list[str], board: bool, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "cnn_convertor.board.board_comparison.verify_board" if board else "cnn_convertor.trials.verify.verify"
    result = board_verification(report()) if board else verification()
    monkeypatch.setattr(name, lambda *_, **__: result)
    options = ["--board", str(ROOT)] if board else []
    assert cli.main(["verify", str(VERIFIED), *options, *quiet, "--format", form]) == 1
    out, err = capsys.readouterr()
    verdict = (
        "fail: the board leaves the emulation at the layer "
        if board
        else "fail: what runs is not what the conversion gives: net_gen.cpp"
    )
    if form == "text":
        assert verdict in out and "DV728" not in err
    elif form == "github":
        assert verdict in out and re.search(r"^::error title=DV728,file=.*net\.ini::fail: ", err, re.MULTILINE)
    elif form == "sarif":
        check_log(log := json.loads(out))
        assert log["runs"][0]["results"][0]["message"]["text"].startswith(verdict)
    else:
        found = json.loads(out)
        assert [each["code"] for each in found] == ["DV728", *["DV718"] * (not board)]
        assert found[0]["message"].startswith(verdict) and found[0]["file"] == str(VERIFIED)
    assert err == "" or form in ("github", "text")


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_verified_network_is_no_problem(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = verification()
    passed = replace(failed, outputs=failed.outputs[:1], stale_files=())
    monkeypatch.setattr("cnn_convertor.trials.verify.verify", lambda *_, **__: passed)
    assert cli.main(["verify", str(VERIFIED), "--format", form]) == 0
    log = json.loads(capsys.readouterr().out)
    assert (log if form == "json" else log["runs"][0]["results"]) == []


@pytest.mark.parametrize("given", [["--format"], ["--format=sarf"], ["--format", "xml"], []])
def test_without_a_known_format_a_wrong_command_line_is_text(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["convert", "--colour", *given]) == 2
    assert capsys.readouterr().err.startswith("error DV100")


def _refused(layer: str, message: str = "it is random") -> Problem:
    return Problem("DV301", message, Origin("net.onnx", layer, "Bernoulli"), "export it for inference")


def test_a_reader_sees_what_many_layers_share_once() -> None:
    problems = [
        _refused("first", "it is large"),
        *(_refused(f"layer{n}") for n in range(7)),
        _refused("last", "it is large"),
    ]
    alone, grouped, other = by_cause(problems)
    assert (alone, other) == (problems[0], problems[-1]), "two are no crowd"
    assert (grouped.code, grouped.message, grouped.hint) == ("DV301", "it is random", "export it for inference")
    names = ", ".join(f'"layer{n}" (Bernoulli)' for n in range(5))
    assert str(grouped.where) == f"net.onnx: 7 layers: {names} and 2 more"


def test_what_has_no_layer_is_shown_as_it_is() -> None:
    problems = [Problem("DV201", "damaged"), *(Problem("DV112", "unknown", Origin("a.ini", line=n)) for n in range(9))]
    assert by_cause(problems) == problems


@pytest.mark.parametrize(("form", "count"), [("text", 1), ("json", 4)])
def test_other_programs_are_given_the_problem_of_each_layer(
    form: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(0, form=form)
    with console.attempt():
        raise UnsupportedError(_refused(f"layer{n}") for n in range(4))
    console.close()
    output = capsys.readouterr()
    assert (output.out + output.err).count("it is random") == count
    assert console.code == 1
