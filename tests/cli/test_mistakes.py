"""Mistakes of users, and the places and ways out that the messages name."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor import cli

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits_keras"


@pytest.fixture
def ini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in ("net.ini", "digits.keras"):
        shutil.copy(DIGITS / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return Path("net.ini")


def with_line(ini: Path, section: str, line: str) -> int:
    """Write a line into a section; returns its number."""
    text = re.sub(r"(?m)^scale = .*\n", "", ini.read_text())
    if f"[{section}]" not in text:
        text += f"\n[{section}]\n"
    before, _, after = text.partition(f"[{section}]\n")
    ini.write_text(f"{before}[{section}]\n{line}\n{after}")
    return before.count("\n") + 2


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--fusion", "write it into [OPTIONAL] of the ini file: fusion = ...; `init MODEL` makes one"),
        ("--quantization", "write it into [OUTPUT] of the ini file: quantization = ...; `init MODEL` makes one"),
        ("--colour", "convert --help"),
    ],
)
def test_an_option_that_is_a_key_belongs_into_the_ini_file(
    option: str, hint: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["convert", str(ini), option, "1"]) == 2
    problem, remedy = capsys.readouterr().err.splitlines()
    assert problem.startswith(f"error DV100: No such option '{option}'") and remedy.endswith(hint)


@pytest.mark.parametrize(
    ("section", "line", "message", "remedy"),
    [
        ("OPTIONAL", "device = zia", 'DV150: there is no device "zia"; did you mean "zia-c3"?', "dv700, zia-c2"),
        ("OUTPUT", "outputs = stemm", 'DV117: [OUTPUT] outputs: the network has no layer "stemm"', '"stem"'),
        (
            "INPUT",
            "inputs = nothing",
            'DV117: [INPUT] inputs: the network has no layer "nothing"',
            "inspect digits.keras",
        ),
        ("INPUT", "mean = 127,5", "DV106: [INPUT] mean: expected one number", "write decimals with a point"),
        ("INPUT", "mean = [1, 2]", "DV106: [INPUT] mean: expected a number, or one for each channel", "mean = 1, 2"),
        ("OUTPUT", "selftest = \uff11", "DV106: [OUTPUT] selftest", "selftest = 1"),
        ("OUTPUT", "selftest = yes", 'DV106: [OUTPUT] selftest: expected 0 or 1, not "yes"', "selftest = 1"),
        ("OUTPUT", "quantization_threshold = 40dB", "DV106: [OUTPUT]", "quantization_threshold = 40"),
        ("OUTPUT", "python_module = a.b", "DV106: [OUTPUT] python_module", "python_module = a_b"),
        ("OUTPUT", "report : 1", "DV102: expected [SECTION]", "report = 1"),
        ("OUTPUT", "report\uff1d1", "DV102: expected [SECTION]", "report = 1"),
        ("INPUT", "data = ~/a.h5", 'DV107: [INPUT] data: "~/a.h5" begins with ~', ""),
    ],
)
def test_a_message_names_the_line_of_the_ini_file(
    section: str, line: str, message: str, remedy: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = with_line(ini, section, line)
    assert cli.main([str(ini)]) != 0
    said = capsys.readouterr().err
    assert f"error {message}" in said and f"--> net.ini:{number}\n" in said
    assert remedy in said.partition(f"net.ini:{number}\n")[2]


def test_an_input_of_an_unknown_size_names_the_line(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = with_line(ini, "INPUT", "inputs = stem, stem_norm")
    assert cli.main([str(ini)]) == 2
    assert f'no output needs the result of "stem"\n  --> net.ini:{number}\n' in capsys.readouterr().err


def test_shift_jis_is_read_with_a_warning(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini.write_bytes("; 手書き数字\n".encode("cp932") + ini.read_bytes())
    assert cli.main(["inspect", str(ini)]) == 0
    assert "warning DV137: this is not UTF-8, and is read as Shift-JIS" in (said := capsys.readouterr().err)
    assert "--> net.ini:1\n" in said and "save it as UTF-8" in said
    ini.write_bytes(b"; \xff\xff\n" + ini.read_bytes())
    assert cli.main(["inspect", str(ini)]) == 2
    assert "error DV101: this is not text in UTF-8" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(ini), "--cache", "digits.keras/cache"]) == 2
    said = capsys.readouterr().err
    assert "DV126: the cache cannot be written, the system says: Not a directory\n  --> digits.keras/cache" in said


def test_a_kit_that_cannot_be_written_names_its_folder(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["board", "kit", str(ini), "-o", "digits.keras/kit"]) == 2
    said = capsys.readouterr().err
    assert "--> digits.keras/kit\n  try: name a folder that can be written" in said
    assert "output_folder" not in said


@pytest.mark.parametrize(
    ("value", "shown", "way_out"),
    [
        (np.nan, "nan", "look for a division by zero"),
        (-1e300, "-inf", "numbers beyond FP32"),
        (1e5, "100000", "arrays are used as they are"),
    ],
)
def test_numbers_that_the_device_does_not_hold_name_their_file_and_place(
    value: float, shown: str, way_out: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = np.zeros((3, 8, 8, 1))
    numbers[2, 4, 5, 0] = value
    np.save("bad.npy", numbers)
    assert cli.main(["run", str(ini), "--inputs", "bad.npy"]) == 2
    said = capsys.readouterr().err
    assert f'DV706: the input "image" holds {shown} in sample 2, row 4, column 5, channel 0, counted from 0' in said
    assert "\n  --> bad.npy\n" in said and way_out in said


def test_check_names_files_that_no_conversion_writes(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-q", str(ini)]) == 0
    Path("output/digits/notes.txt").touch()
    assert cli.main(["check", str(ini)]) == 0
    assert "no conversion writes these files of the output folder: notes.txt" in capsys.readouterr().err


def test_check_gives_other_programs_the_place_of_each_file(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-q", str(ini)]) == 0
    source = Path("output/digits/digits_gen.cpp")
    lines = source.read_text().splitlines(keepends=True)
    source.write_text("".join([*lines[:20], "// mine\n", *lines[20:]]))
    Path("output/digits/digits.dot").unlink()
    assert cli.main(["check", str(ini), "--format", "github"]) == 1
    said = capsys.readouterr().err
    assert re.search(r"::error title=DV123,file=output/digits/digits_gen.cpp,line=2\d::this file would change", said)
    assert "file=output/digits/digits.dot::this file would change: it is missing" in said


def test_a_model_needs_no_ini_file(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["digits.keras", "-o", "made"]) == 0
    assert Path("made/digits/digits_gen.cpp").is_file()
    assert "digits (digits.keras)\n" in capsys.readouterr().out


def test_the_same_ini_file_twice_is_converted_once(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(ini), f"./{ini}"]) == 0
    assert capsys.readouterr().out.count("device commands") == 1


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (["run", "net.ini", "--inputs", "a.txt"], "DV707: this is not an image", "give an image, a .npy or .npz file"),
        (["run", "net.ini", "--inputs", "one.npz"], "DV707: there is no such file or folder; did you mean", ""),
        (["run", "net.ini", "--inputs", "ones.npz", "-o", "a.png"], "DV100: --output writes arrays", "-o a.npz"),
        (["run", "net.ini", "--inputs", "two.npz"], 'DV707: it holds "image", "label"', "leave out the others"),
        (["run", "net.ini", "--inputs", "texts.npy"], 'DV707: the input "image" is an array of <U1', ".astype("),
        (["run", "net.ini", "--inputs", "wide.npy"], "DV707: an array of 1x8x9x1 does not fit", "(N, 8, 8, 1)"),
        (["net.ini", "--depfile-target", "x"], "DV100: --depfile-target needs --depfile", "add --depfile"),
        (["report", "net.ini", "--json"], "DV100: Option '--json' requires an argument", "report --help"),
        (["net.ini", "--ub-size", "512K"], 'DV100: Invalid value for \'--ub-size\': "512K" is not a whole number', ""),
        (["net.ini", "--device", "flat.toml"], 'DV150: the key "ub_size" belongs to the table [device]', ""),
        (["net.ini", "--device", "odd.toml"], 'DV150: there is no key "size"; known: title, base, device', ""),
        (["verify", "nets"], 'DV101: "nets" is a folder, not a file', "give one of its files, like nets/net.ini"),
        (["verify", "empty"], 'DV101: "empty" is a folder, not a file', "give the path of a net.ini"),
        (["init", "digit.keras"], 'DV162: there is no file "digit.keras"; did you mean "digits.keras"?', ""),
        (["inspect", "a.txt"], "DV102: expected a section before anything else", "give a model, or an ini file: begin with"),
        (["empty"], "DV124: the folder has no .ini file", "init MODEL -o empty/net.ini"),
        (["custom.ini"], "DV115: the file of custom layers fails: ZeroDivisionError", "python custom.py"),
    ],
)  # fmt: skip
def test_a_mistake_on_the_command_line_has_a_way_out(
    arguments: list[str], message: str, remedy: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.txt").write_text("text")
    Path("empty").mkdir()
    Path("nets").mkdir()
    shutil.copy(ini, "nets")
    np.save("texts.npy", np.array(["a"]))
    np.save("wide.npy", np.zeros((1, 8, 9, 1)))
    np.savez("ones.npz", image=np.ones((1, 8, 8, 1)))
    np.savez("two.npz", image=np.zeros((1, 8, 8, 1)), label=np.zeros(1))
    Path("flat.toml").write_text("ub_size = 5000\n")
    Path("odd.toml").write_text("size = 5000\n")
    Path("custom.py").write_text("x = 1\n1 / 0\n")
    shutil.copy(ini, "custom.ini")
    with_line(Path("custom.ini"), "INPUT", "custom_layer = custom.py")
    assert cli.main(arguments) == 2
    said = capsys.readouterr().err
    assert f"error {message}" in said and remedy in said
    assert "custom.ini" not in arguments or "--> custom.py:2\n" in said


def test_a_caffe_file_that_is_of_keras(ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (DIGITS.parent / "digits_caffe").glob("digits.*"):
        shutil.copy(file, ".")
    text = (DIGITS.parent / "digits_caffe" / "net.ini").read_text()
    ini.write_text(text.replace("digits.caffemodel", "digits.keras"))
    assert cli.main([str(ini)]) == 1
    assert "this is a file of Keras: name it as `definition`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "net.ini", "--inputs", "a.png", "--inputs", "b.png"],
            "--inputs is given 2 times, and takes one value",
        ),
        (["verify", "net.ini", "--seed", "1", "--seed", "1"], "--seed is given 2 times, and takes one value"),
        (["run", "net.ini", "--inputs", "a.png", "-o", "outs/"], '"outs/" is a folder: name a file in it'),
        (["init", "digits.keras", "-o", "."], '"." is a folder: name a file in it'),
    ],
)
def test_an_option_is_given_once_and_an_output_is_no_folder(
    arguments: list[str], message: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ini.exists() and cli.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("outs").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("output_folder = $HOME/out", '"$HOME/out" has a $, which no shell replaces here'),
        ("output_folder = ${HOME}", '"${HOME}" has a $, which no shell replaces here'),
        ("python_module = os", "neither a keyword nor a module of Python's own"),
    ],
)
def test_a_value_that_would_become_another_thing_is_refused(
    line: str, message: str, ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini.write_text(
        re.sub(r"(?m)^output_folder = .*\n", "", ini.read_text()).replace("[OUTPUT]\n", f"[OUTPUT]\n{line}\n")
    )
    assert cli.main([str(ini)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["convert", "inspect", "run", "verify", "report", "init", "check"])
def test_a_loop_of_links_is_no_crash(command: str, ini: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("loop.ini").symlink_to("loop.ini")
    Path("loop.onnx").symlink_to("loop.onnx")
    for name in ("loop.ini", "loop.onnx"):
        assert cli.main([command, name, *["--inputs", "x.npy"] * (command == "run")]) != 0
        said = capsys.readouterr().err
        assert "error DV" in said and "DV000" not in said
    assert ini.exists()


@pytest.mark.parametrize(
    "arguments",
    [["inspect", "long.keras"], ["layouts", "export", "net.ini", "--target", f"bpu:{'1' * 5000}", "-o", "x"]],
)
def test_a_number_of_thousands_of_digits_is_no_crash(
    arguments: list[str], ini: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile("digits.keras") as whole, zipfile.ZipFile("long.keras", "w") as changed:
        for name in whole.namelist():
            text = b'{"keras_version": "' + b"3" * 5000 + b'.0"}' if name == "metadata.json" else whole.read(name)
            changed.writestr(name, text)
    assert ini.exists() and cli.main(arguments) != 0
    assert "DV142: an input has a number of thousands of digits" in capsys.readouterr().err
