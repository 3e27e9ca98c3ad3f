from __future__ import annotations

import importlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from click.shell_completion import ShellComplete

from audit.vendor import branches
from cnn_convertor import cli
from cnn_convertor.cli.console import Console
from cnn_convertor.cli.grids import Grid
from cnn_convertor.devices.dv700.device_file import NAMES
from cnn_convertor.devices.dv700.limits import BoardLimits
from cnn_convertor.devices.dv700.weights.palette_report import Reason
from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError, UsageError, warn
from cnn_convertor.report.values import DeviceFacts, DeviceFigure, MemoryUse, Preprocessing, Report, StoredWeights
from cnn_convertor.workers.outcomes import DEBUG

ROOT = Path(__file__).resolve().parents[2]
INI = "[INPUT]\nname = {name}\ndefinition = net.h5\n[OUTPUT]\noutput_folder = out\n"
Conversion: TypeAlias = Callable[[Any, Callable[[str, int, int], None]], Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a.ini, b.ini and c.ini for networks of these names."""
    (tmp_path / "net.h5").touch()
    for name in "abc":
        (tmp_path / f"{name}.ini").write_text(INI.format(name=name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def converts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Conversion], None]:
    """Puts a function in the place of the conversion."""

    def put(conversion: Conversion) -> None:
        module = importlib.import_module("cnn_convertor.conversion.convert")
        monkeypatch.setattr(module, "convert", lambda config, progress, _: conversion(config, progress))

    return put


def works(config: Any, progress: Callable[[str, int, int], None]) -> Any:
    progress("read", 0, 1)
    for done in range(3):
        progress("weights", done, 2)
    memory = MemoryUse(32, 16, False, 3, 16, ("x",), ())
    return made(config.output_folder / config.name, notes=("zero", "one", "two"), memory=memory)


LIMITS = BoardLimits(7, 655_360, True, True, True, False)


def made(*files: Path, **fields: Any) -> Any:
    """What a conversion returns. fields: of its report."""
    driver, hardware = (DeviceFigure(name, "unknown", "", "a page", True) for name in ("driver", "hardware"))
    device = DeviceFacts("dv700", "DV700", "documented", True, "model", driver, hardware, LIMITS, ())
    report = Report(1, "0", "a", "net.h5", "Keras", device, Preprocessing("RGB", (0.0,), 1.0), **fields)
    return SimpleNamespace(files=files, report=report)


SUMMARY = """\
  device commands  0
  CPU layers       0
  weights          0 bytes
  I/O buffer       32 bytes, not proven smallest: the lower bound is 16
"""


def raises(error: BaseException) -> Conversion:
    def conversion(config: Any, progress: Any) -> Any:
        progress("read", 0, 1)
        raise error

    return conversion


def by_name(**conversions: Conversion) -> Conversion:
    return lambda config, progress: conversions[config.name](config, progress)


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "convertor.py"), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        stdin=subprocess.DEVNULL,
    )


REFUSED = UnsupportedError(
    [
        Problem("DV301", "the layer is not known", Origin("net.h5", "x", "Foo"), "another one"),
        Problem("DV301", "the layer is not known", Origin("net.h5", "y", "Bar")),
    ]
)
DAMAGED = ModelError(Problem("DV201", "the file is damaged", Origin("net.h5")))


def test_a_conversion_says_what_it_made(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    converts(works)
    assert cli.main(["a.ini"]) == 0
    out, err = capsys.readouterr()
    assert out == f"a (a.ini)\n{SUMMARY}  network          one\n{' ' * 19}two\n  files            out/a\n"
    assert err == ""


def test_what_takes_long_is_announced(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def conversion(config: Any, progress: Any) -> Any:
        logging.getLogger("cnn_convertor.emulation.build").info("compiling\x1b net")
        return works(config, progress)

    converts(conversion)
    assert cli.main(["a.ini"]) == 0
    assert capsys.readouterr().err.startswith("compiling\\x1b net\n")
    assert cli.main(["a.ini", "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert logging.getLogger("cnn_convertor").handlers == []


STORED = (
    StoredWeights("conv1", 0, 0, True, Reason.LOSSLESS.value, 144, 0.25, float("inf"), 2336, 1696),
    StoredWeights("prelu", 1, 0, False, Reason.PRELU.value, None, None, None, 4672, 4672),
    StoredWeights("fc", 2, 0, True, Reason.CLOSE.value, 23073, 0.0, 43.04, 2361344, 1182208),
)
TABLE = """\
a: weights
  layer  stored as  values  zeros  palette dB  FP16 bytes      bytes           reason
  conv1    palette     144  25.0%       exact       2,336      1,696  nothing is lost
  prelu       FP16                                  4,672      4,672            PReLU
  fc       palette  23,073   0.0%        43.0   2,361,344  1,182,208   little is lost
  all                                           2,368,352  1,188,576
"""


def test_how_weights_are_stored_is_told_to_those_who_want_to_know(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def conversion(config: Any, progress: Any) -> Any:
        return made(weights=STORED)

    converts(conversion)
    for options, expected in (([], False), (["-v"], True), (["-q"], False)):
        assert cli.main(["a.ini", *options]) == 0
        out = capsys.readouterr().out
        assert out.startswith(TABLE + "a (a.ini)\n") == expected
        assert ("a: weights" in out) == expected
    converts(lambda config, progress: made(weights=STORED[1:2]))
    assert cli.main(["a.ini", "-v"]) == 0
    assert "a: weights" not in capsys.readouterr().out, "without palettes there is nothing to show"


@pytest.mark.parametrize("arguments", [["a.ini", "b.ini"], ["convert", "a.ini", "b.ini"], ["a.ini", "--", "b.ini"]])
def test_convert_is_what_is_done_without_a_command(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    converts(works)
    assert cli.main(arguments) == 0
    assert re.findall(r"^\S+ \(.*\)$", capsys.readouterr().out, re.MULTILINE) == ["a (a.ini)", "b (b.ini)"]


@pytest.mark.parametrize("place", ["before", "after"])
def test_options_reach_the_conversion(folder: Path, converts: Any, place: str) -> None:
    seen = []

    def conversion(config: Any, progress: Any) -> Any:
        seen.append(config)
        return works(config, progress)

    converts(conversion)
    for options in (["--max-kernel-size", "5", "--ub-size=131072"], ["--max_kernel_size=5", "--ub_size", "131072"]):
        seen.clear()
        assert cli.main([*options, "a.ini"] if place == "before" else ["a.ini", *options]) == 0
        assert [(c.name, c.max_kernel_size, c.ub_size) for c in seen] == [("a", 5, 131072)]


@pytest.mark.parametrize(
    ("conversions", "code"),
    [
        ({"a": works, "b": raises(REFUSED), "c": works}, 1),
        ({"a": raises(REFUSED), "b": raises(KeyError("x")), "c": works}, 1),
        ({"a": raises(DAMAGED), "b": raises(UsageError(DAMAGED.problems)), "c": works}, 2),
    ],
)
def test_one_failing_network_does_not_keep_the_others_back(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], conversions: Any, code: int
) -> None:
    converts(by_name(**conversions))
    assert cli.main(["a.ini", "b.ini", "c.ini"]) == code
    out, err = capsys.readouterr()
    good = sum(conversion is works for conversion in conversions.values())
    assert "c (c.ini)" in out and out.count(".ini)") == good
    assert err.splitlines()[-1] == f"{good} of 3 networks converted"


def test_a_wrong_ini_file_is_told_before_the_others_are_converted(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    converts(works)
    (folder / "b.ini").write_text(INI.format(name="b") + "quantization = 3\nquantisation = 3\n")
    assert cli.main(["a.ini", "b.ini", "c.ini"]) == 2
    out, err = capsys.readouterr()
    assert out.count(".ini)") == 2
    assert err.startswith(
        'warning DV112: [OUTPUT] has no key "quantisation"; did you mean "quantization"?\n  --> b.ini:7\n'
        'error DV106: [OUTPUT] quantization: expected 0, 1 or auto, not "3"\n  --> b.ini:6\n'
    )


def test_every_problem_is_told(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    converts(raises(REFUSED))
    assert cli.main(["a.ini"]) == 1
    assert capsys.readouterr().err == (
        'error DV301: the layer is not known\n  --> net.h5: layer "x" (Foo)\n  try: another one\n'
        'error DV301: the layer is not known\n  --> net.h5: layer "y" (Bar)\n'
    )


def test_networks_do_not_overwrite_each_other(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    converts(works)
    shutil.copy("a.ini", "copy.ini")
    assert cli.main(["a.ini", "copy.ini"]) == 2
    out, err = capsys.readouterr()
    assert out.count(".ini)") == 1
    assert "error DV114" in err and "would replace those of a.ini" in err


def test_warnings_come_once_with_their_code(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def conversion(config: Any, progress: Any) -> Any:
        for layer in "xyx":
            warn(Problem("DV501", "a weight is lost", Origin("net.h5", layer)))
        return works(config, progress)

    converts(conversion)
    assert cli.main(["-q", "a.ini"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "".join(f'warning DV501: a weight is lost\n  --> net.h5: layer "{layer}"\n' for layer in "xy")


def test_an_unforeseen_error_is_no_traceback(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DEBUG, raising=False)
    converts(raises(IndexError("list index out of range")))
    assert cli.main(["a.ini"]) == 1
    err = capsys.readouterr().err
    assert re.search(
        r"^error DV000: internal error, IndexError: list index out of range \(cnn_convertor/conversion/cache.py:\d+\)$",
        err,
        re.MULTILINE,
    )
    assert "Traceback" not in err


@pytest.mark.parametrize("how", ["-vv", "variable"])
def test_developers_get_the_traceback(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv(DEBUG, "1" if how == "variable" else "0")
    converts(raises(IndexError("x")))
    assert cli.main(["a.ini", *([how] if how == "-vv" else [])]) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err and "error DV000" in err


def test_what_the_system_says_is_no_internal_error(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    converts(raises(PermissionError(13, "Permission denied", "net.h5")))
    assert cli.main(["a.ini"]) == 1
    assert "error DV113: the system says: Permission denied\n  --> net.h5\n" in capsys.readouterr().err


def test_too_little_memory_is_no_internal_error(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    converts(raises(MemoryError("Unable to allocate 313 GiB")))
    assert cli.main(["a.ini"]) == 1
    assert "error DV113: there is not enough memory\n  try: use a smaller input" in capsys.readouterr().err


def test_names_cannot_steer_the_terminal(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    converts(raises(ModelError(Problem("DV201", "damaged", Origin("net.h5", "\x1b[2J\x9b\r\udc80é数")))))
    assert cli.main(["a.ini"]) == 1
    assert 'layer "\\x1b[2J\\x9b\\r\\udc80é数"' in capsys.readouterr().err


def test_names_cannot_change_the_direction_of_text(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUG, "1")
    converts(raises(ModelError(Problem("DV201", "no \u202e\x1b", Origin("a.h5", "\u2066"), "rename \u2028\u200f"))))
    assert cli.main(["a.ini"]) == 1
    err = capsys.readouterr().err
    assert 'error DV201: no \\u202e\\x1b\n  --> a.h5: layer "\\u2066"\n  try: rename \\u2028\\u200f\n' in err
    assert all(line.isprintable() for line in err.split("\n"))


COMMANDS = (
    "::add-mask::a",
    " \u2003::stop-commands::b",
    "a ##[error]b",
    "###vso[task.prependpath]/tmp",
    "##teamcity[c]",
)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_a_ci_takes_no_name_as_a_command(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], name: str, form: str
) -> None:
    """GitHub Actions ignores blanks before ::, and finds ##[ anywhere, like Azure Pipelines ##vso[."""
    converts(raises(ModelError(Problem("DV201", f"damaged:\n{name}", Origin("net.h5", name)))))
    assert cli.main(["a.ini", "--format", form]) == 1
    out, err = capsys.readouterr()
    assert not re.search(r"^\s*::|##\w*\[", out + err, re.MULTILINE)
    if form == "json":
        assert json.loads(out)[0]["layer"] == name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_ci_takes_no_result_as_a_command(capsys: pytest.CaptureFixture[str], name: str) -> None:
    console = Console(0)
    console.result(name, [(name, name)])
    console.lines([Grid.of("layer", ("n",), [(name, "1")])])
    console.note(name)
    out, err = capsys.readouterr()
    assert out and err and not re.search(r"^\s*::|##\w*\[", out + err, re.MULTILINE)


def test_a_line_break_in_a_name_begins_no_line_of_the_output(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A CI takes lines that begin with :: as commands."""
    name = "a\n::error::b"
    converts(raises(ModelError(Problem("DV201", f'"{name}" is damaged', Origin("net.h5", name), f'rename "{name}"'))))
    assert cli.main(["a.ini"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        'error DV201: "a',
        '  | ::error::b" is damaged',
        '  --> net.h5: layer "a',
        '  | ::error::b"',
        '  try: rename "a',
        '  | ::error::b"',
    ]


def test_an_interruption_ends_cleanly(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    converts(raises(KeyboardInterrupt()))
    assert cli.main(["a.ini", "b.ini"]) == 130
    assert capsys.readouterr().err.split() == ["interrupted"]


@pytest.mark.parametrize("source", ["option", "ini"])
def test_verbose_tells_the_time_of_each_step_and_more_of_the_result(
    folder: Path, converts: Any, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    converts(works)
    if source == "ini":
        (folder / "a.ini").write_text(INI.format(name="a") + "[OPTIONAL]\nverbose = 1\n")
    assert cli.main(["a.ini", *(["-v"] if source == "option" else [])]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"a: read took \d+\.\d\d s\na: weights took \d+\.\d\d s\n", err)
    rows = SUMMARY + f'{" " * 19}most at step 3: "x"\n  network          one\n'
    assert rows in out and out.endswith("\n  files            out/a\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a NET.ini, a model or a command"),
        (["convert"], "Missing argument 'MODEL_OR_INI...'"),
        (["--max_kernel_sise", "3", "a.ini"], "--max-kernel-size"),
        (["--ub-size", "many", "a.ini"], '"many" is not a whole number of at least 1'),
        (["--ub-size"], "--ub-size"),
        (["run", "a.ini", "--inputs", "x.npy", "--top", "x"], "'--top': \"x\" is not a whole number of at least 1"),
        (["run", "a.ini", "--inputs", "x.npy", "--top", "0"], "'--top': \"0\" is not a whole number of at least 1"),
        (["verify", "a.ini", "--min-sqnr", "high"], "'--min-sqnr': \"high\" is not a number"),
        *(
            (["verify", "a.ini", "--board", ".", *more], "do not go with --board")
            for more in (["--layers"], ["--jobs", "2"])
        ),
        (["verify", "a.ini", "--times", "board.json"], "--times goes with --board alone"),
        (["-v", "-q", "a.ini"], "use either -v or -q"),
        (["--max-kernel-size", "8", "a.ini", "b.ini"], "--max-kernel-size: expected 1 to 7, not 8"),
        (["d.ini"], 'there is no file "d.ini"'),
        (["convrt", "a.ini"], 'there is no command "convrt"; did you mean "convert"?'),
        (["inspect", "d.keras"], 'there is no file "d.keras"'),
        (["d.prototxt"], 'there is no file "d.prototxt"'),
        (["verify.ini"], 'there is no file "verify.ini"'),
        (["-q", "verify", "a.ini"], "options go after the command"),
        (["--max-kernel-size", "3", "inspect", "a.ini"], "options go after the command"),
    ],
)
def test_misuse_is_told_and_ends_with_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.match(r"error DV1\d\d: ", err) and message in err


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("cnn-convertor insp", ["inspect"]),
        ("cnn-convertor report --js", ["--json"]),
        ("cnn-convertor --cm", ["--cmake-dir"]),
        ("cnn-convertor --depfile-t", ["--depfile-target"]),
        ("cnn-convertor net.ini --stri", ["--strict"]),
        ("cnn-convertor net", ["net"]),  # a file, which the shell looks for
    ],
)
def test_shells_complete_commands_and_options(typed: str, completions: list[str]) -> None:
    words = typed.split()
    found = ShellComplete(cli.commands, {}, "cnn-convertor", "_COMPLETE").get_completions(words[1:-1], words[-1])
    assert [each.value for each in found] == completions


def test_help_names_the_options_and_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["-h"]):
        assert cli.main(arguments) == 0
        out = capsys.readouterr().out
        for word in (
            "MODEL_OR_INI",
            "--max-kernel-size",
            "--device",
            "--ub-size",
            "-q",
            "--version",
            "Commands:",
        ):
            assert word in out


def test_devices_are_listed_with_their_sources(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^(\S+): ", out, re.MULTILINE) == list(NAMES)
    assert re.search(r"^  unified buffer +524,288 bytes +kernel driver$", out, re.MULTILINE)
    assert re.search(r"^  memory bandwidth +3,200 MB/s +assumed: no public figure for any board$", out, re.MULTILINE)
    assert re.search(r"^  convolution clock +333 to 400 MHz +largest by the SDK's script", out, re.MULTILINE)
    (folder / "ours.toml").write_text("[device]\nub_size = 4096\nconv_freq = [99.5, 100]\n")
    assert cli.main(["devices", "ours.toml", "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert device["name"] == "ours"
    assert device["figures"]["conv_freq"]["value"] == [99.5, 100]
    assert device["figures"]["ub_size"] == {"value": 4096, "unit": "bytes", "source": "ours.toml", "assumed": False}


def test_an_unknown_device_is_misuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["convert", "a.ini", "--device"], ["devices"], ["audit", "a.cpp", "--device"]):
        assert cli.main([*command, "zia-c9"]) == 2
        assert 'DV150: there is no device "zia-c9"' in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        "report a.ini --json x --html ./x",
        "report a.ini --json link --html x",
        "report a.ini --json b/../a.ini",
        "report a.ini --svg x.svg --memory-svg x.svg",
        "sweep a.ini --vary fusion=none --csv x --json x",
        "b.ini a.ini --depfile a.ini",
        "verify a.ini --json a.ini",
    ],
)
def test_no_file_takes_the_place_of_another_one(
    folder: Path, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b").mkdir()
    (folder / "link").symlink_to("x")
    assert cli.main(arguments.split()) == 2
    assert re.search(r"^error DV100: .+ and -.+ name the same file, ", capsys.readouterr().err)
    assert not (folder / "x").exists() and (folder / "a.ini").read_text() == INI.format(name="a")


@pytest.fixture
def digits(tmp_path: Path) -> str:
    """The ini file of a real network."""
    ini = tmp_path / "digits.ini"
    model = ROOT / "examples/digits_keras/digits.keras"
    ini.write_text(f"[INPUT]\nname = digits\ndefinition = {model}\n[OUTPUT]\noutput_folder = .\ngenerate_source = 1\n")
    return str(ini)


def test_a_network_is_converted_without_a_terminal(digits: str) -> None:
    done = program(digits)
    assert (done.returncode, "\x1b" in done.stdout + done.stderr) == (0, False), done.stderr
    assert "digits_gen.cpp" in done.stdout
    assert done.stderr == ""


def test_audit_lists_a_source_and_finds_what_is_wrong_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ROOT / "examples/digits_keras/output/digits"
    source, weights = made / "digits_gen.cpp", made / "digits_weights.bin"
    assert cli.main(["audit", str(source), str(weights)]) == 0
    assert capsys.readouterr().out.endswith("digits on dv700: 6 commands, 0 findings\n")
    broken = tmp_path / "digits_gen.cpp"
    broken.write_text(source.read_text().replace("cmd.output_buf.offs = 768", "cmd.output_buf.offs = 6144"))
    assert cli.main(["audit", "-q", str(broken), str(weights)]) == 1
    assert "DV6" in capsys.readouterr().err
    assert cli.main(["audit", str(tmp_path / "no.cpp")]) == 1
    assert "DV600" in capsys.readouterr().err


NOTES = {
    "text": lambda out, err: "note DV630: " in err,
    "github": lambda out, err: "::notice title=DV630" in err,
    "json": lambda out, err: [row["kind"] for row in json.loads(out)] == ["note"],
    "sarif": lambda out, err: [result["level"] for result in json.loads(out)["runs"][0]["results"]] == ["note"],
}


@pytest.mark.parametrize("form", NOTES)
def test_audit_prints_notes_in_every_format(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "Branches_gen.cpp"
    source.write_text(branches(factor=0x3C00), encoding="utf-8")
    assert cli.main(["audit", "--strict", f"--format={form}", str(source)]) == 0
    assert NOTES[form](*capsys.readouterr())


# --- before the work -----------------------------------------------------------------------------------------------------


def test_strict_makes_errors_of_warnings(folder: Path, converts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def conversion(config: Any, progress: Any) -> Any:
        if config.name == "b":
            warn(Problem("DV501", "a weight is lost"))
        return works(config, progress)

    converts(conversion)
    (folder / "a.ini").write_text(INI.format(name="a") + "colour = red\nshape = round\n")
    assert cli.main(["a.ini", "b.ini", "c.ini"]) == 0
    assert capsys.readouterr().err.count("warning DV") == 3
    assert cli.main(["--strict", "a.ini", "b.ini", "c.ini"]) == 1
    out, err = capsys.readouterr()
    errors = [line for line in err.splitlines() if line.startswith("error ")]
    assert [error[:11] for error in errors] == ["error DV112", "error DV112", "error DV501"], (
        "all unknown keys come at once"
    )
    assert "warning" not in err and "c (c.ini)" in out and "b (b.ini)" not in out


def network(folder: Path, settings: str, channels: int = 3) -> Path:
    """An ini file for a network without weights."""
    (folder / "net.prototxt").write_text(
        f'input: "x" input_shape {{ dim: 1 dim: {channels} dim: 8 dim: 8 }}\n'
        'layer { name: "r" type: "ReLU" bottom: "x" top: "y" }\n'
    )
    ini = folder / "net.ini"
    ini.write_text(f"[INPUT]\nname = net\ndefinition = net.prototxt\n{settings}\n[OUTPUT]\noutput_folder = out\n")
    return ini


@pytest.mark.parametrize("command", ["convert", "inspect", "verify"])
def test_means_fit_the_channels_of_an_input(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, str(network(tmp_path, "mean = 1, 2"))]) == 2
    err = capsys.readouterr().err
    assert 'DV106: [INPUT] mean: expected one number, or one for each channel, not 2; the input "x" has 3' in err
    assert not (tmp_path / "out").exists()


def test_a_wrong_mean_is_found_at_its_line_before_the_weights_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.caffemodel").write_bytes(b"damaged")
    ini = network(tmp_path, "data = net.caffemodel\nmean = 1, 2")
    assert cli.main([str(ini)]) == 2
    err = capsys.readouterr().err
    assert err.count("error") == 1 and "error DV106: [INPUT] mean" in err and f"--> {ini}:5\n" in err


@pytest.mark.parametrize("mean", ["1", "1, 2, 3"])
def test_one_mean_or_one_for_each_channel_is_taken(mean: str, tmp_path: Path) -> None:
    assert cli.main(["inspect", str(network(tmp_path, f"mean = {mean}"))]) == 0


def test_a_folder_that_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = importlib.import_module("cnn_convertor.pipeline")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pipeline, "read", lambda *_, **__: pytest.fail("the network is read"))
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    assert cli.main([str(network(tmp_path, ""))]) == 2
    assert "DV110: cannot write the outputs: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "program"),
    [(["convertor.py"], "python convertor.py"), (["-m", "cnn_convertor"], "python -m cnn_convertor")],
)
def test_a_hint_can_be_pasted(call: list[str], program: str) -> None:
    done = subprocess.run([sys.executable, *call, "verify"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"try: {program} verify --help" in done.stderr


def test_a_hint_names_the_program_as_it_was_called(tmp_path: Path) -> None:
    ini = network(tmp_path, "")
    ini.write_text(ini.read_text() + "outputs = nowhere\n")
    call = [sys.executable, str(ROOT / "convertor.py"), str(ini)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    hint = f"`python convertor.py inspect {tmp_path / 'net.prototxt'}` lists the layers"
    assert done.returncode == 2 and "DV117" in done.stderr and hint in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "NET --depfile FILE",
        "draw NET -o FILE",
        "report NET --memory-svg FILE",
        "init MODEL -o FILE",
        "layouts describe NHWC --shape 1,2,2,2 --output FILE",
        "layouts plan TABLE --output FILE",
        "report NET --html FILE",
        "report NET --json FILE",
        "sweep NET --vary fusion=none --csv FILE",
        "sweep NET --vary fusion=none --html FILE",
        "sweep NET --vary fusion=none --json FILE",
    ],
)
def test_a_file_of_an_option_may_be_a_link(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like /dev/stdout, which is one, and must not be replaced."""
    monkeypatch.chdir(tmp_path)
    example = ROOT / "examples" / "digits_keras"
    (tmp_path / "net.ini").write_text(
        f"[INPUT]\nname = net\ndefinition = {example / 'digits.keras'}\n[OUTPUT]\noutput_folder = out\n"
    )
    (tmp_path / "table.csv").write_text("id,lower,upper,size\na,0,1,16\n")
    link = tmp_path / "link"
    link.symlink_to("target")
    places = {"NET": "net.ini", "MODEL": str(example / "digits.keras"), "TABLE": "table.csv", "FILE": "link"}
    assert cli.main([places.get(word, word) for word in call.split()]) == 0
    assert link.is_symlink() and (tmp_path / "target").stat().st_size
