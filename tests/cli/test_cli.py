from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.shell_completion import ShellComplete

from audit.vendor import branches, save
from cli.conversions import INI, ROOT, Conversion, made, program, raises, works
from cnn_convertor import cli
from cnn_convertor.devices.dv700.device_file import NAMES
from cnn_convertor.devices.facts import Reason, StoredWeights
from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError, UsageError, warn
from cnn_convertor.workers.outcomes import DEBUG

SUMMARY = """\
  device commands  0
  CPU layers       0
  weights          0 bytes
  I/O buffer       32 bytes, not proven smallest: the lower bound is 16
"""


def by_name(**conversions: Conversion) -> Conversion:
    return lambda config, progress: conversions[config.name](config, progress)


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


@pytest.mark.parametrize("subject", ["board", "cache", "layouts"])
def test_the_list_of_commands_shows_whole_sentences(subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([subject, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.partition("Commands:")[2] != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a NET.ini, a model or a command"),
        (["board"], "DV100: expected a command: kit, probe\n"),
        (["convert"], "Missing argument 'MODEL_OR_INI...'"),
        (["--max_kernel_sise", "3", "a.ini"], "--max-kernel-size"),
        (["--ub-size", "many", "a.ini"], '"many" is not a whole number of at least 1'),
        (["--ub-size"], "--ub-size"),
        (["run", "a.ini", "--inputs", "x.npy", "--top", "x"], "'--top': \"x\" is not a whole number of at least 1"),
        (["run", "a.ini", "--inputs", "x.npy", "--top", "0"], "'--top': \"0\" is not a whole number of at least 1"),
        (["verify", "a.ini", "--min-sqnr", "high"], "'--min-sqnr': \"high\" is not a number"),
        (["verify", "a.ini", "--min-sqnr", "nan"], "'--min-sqnr': \"nan\" is not a number"),
        (["report", "a.ini", "--inputs", "x.npy"], "--inputs goes with --verify or --board alone"),
        (["verify", "a.ini", "--board", ".", "--times", "none.json"], "--times takes a board.json"),
        (["init", "."], "this is not a model"),
        ([""], "'MODEL_OR_INI...': a path is empty"),
        (["report", "a.ini", "--html", ""], "'--html': a path is empty"),
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
    for arguments in (["--help"], ["-h"], ["help"]):
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
    assert re.findall(r"^(\S+): ", out, re.MULTILINE) == [*NAMES, "nvdla-full"]
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
        "report a.ini --compare x --html x",
        "run a.ini --inputs x -o x",
        "init x -o ./x",
        "layouts plan x -o link",
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
    source = save(branches(factor=0x3C00), tmp_path)
    assert cli.main(["audit", "--strict", f"--format={form}", str(source)]) == 0
    assert NOTES[form](*capsys.readouterr())


def test_a_range_begins_at_0_and_not_at_minus_0(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.array([-0.0, 2.5], np.float32).reshape(1, 2, 1, 1)
    monkeypatch.setattr("cnn_convertor.trials.run.run", lambda *_, **__: {"y": values})
    assert cli.main(["run", "a.ini", "--inputs", "x.npy"]) == 0
    assert capsys.readouterr().out.split("\n")[1] == "  range  0 to 2.5"
