"""Ini files: their lines, sections and keys, and what is no ini file."""

from __future__ import annotations

import dataclasses
import re
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn_convertor.config import KEYS, Config
from cnn_convertor.devices.settings import Quantization
from cnn_convertor.errors import ConvertorWarning, UsageError
from config.ini_texts import SMALLEST, complaint, problem, problems, read, said


@pytest.mark.parametrize(
    "line",
    [
        "definition = net.h5",
        "definition=net.h5",
        "DEFINITION = net.h5",
        "  Definition\t=\tnet.h5  ",
        'definition = "net.h5"',
        'definition = "net.h5" ; the model',
        "definition = net.h5 ; the model",
        "definition = net.h5;the model",
        "definition = net.h5 # the model",
        "definition = net.h5# = ; [x]",
        '# definition = other.h5 "\ndefinition = net.h5',
        "; [OTHER]\n\n   # x\ndefinition = net.h5",
        "definition = subfolder/../net.h5",
    ],
)
def test_ways_of_writing_the_same(folder: Path, line: str) -> None:
    text = SMALLEST.replace("definition = net.h5", line)
    assert read(folder, text).definition.resolve() == folder.resolve() / "net.h5"


@pytest.mark.parametrize(
    "text",
    [
        SMALLEST.replace("\n", "\r\n"),
        SMALLEST.replace("\n", "\r"),
        "\ufeff" + SMALLEST,
        SMALLEST.rstrip(),
        SMALLEST.replace("[INPUT]", "  [ input ] ; what to convert"),
        "# Netz für Ziffern, 数字\n" + SMALLEST,
    ],
)
def test_files_of_all_systems(folder: Path, text: str) -> None:
    assert read(folder, text) == read(folder, SMALLEST)


def test_double_quotes_keep_what_begins_a_comment(folder: Path) -> None:
    assert read(folder, SMALLEST.replace("net.h5", '"a # b.h5" # c')).definition == folder / "a # b.h5"


def test_false_and_true_stand_for_0_and_1(folder: Path) -> None:
    config = read(folder, SMALLEST)
    for flag in (False, True):
        assert dataclasses.replace(config, quantization=flag).quantization is Quantization(flag)


@pytest.mark.parametrize("name", [key.name for key in KEYS if key.default is None])
def test_a_key_without_default_must_be_there(folder: Path, name: str) -> None:
    found = problem(folder, re.sub(f"{name} = .*\n", "", SMALLEST))
    assert said(found) == ("DV105", None)
    assert f"] {name} is missing: expected a" in found.message and f"{name} = ..." in found.hint
    found = problem(folder, re.sub(f"{name} = .*", f"{name} =", SMALLEST))
    assert found.code == "DV106"
    assert f"] {name}: expected a" in found.message and found.message.endswith("found nothing")


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    text = "[INPUT]\nname = 1-\nname = 2\n???\ndefinition = nit.h5\n[OUTPUT]\nquantization = x\n[INPUT]\n"
    assert [said(found) for found in problems(folder, text)] == [
        ("DV103", 3),
        ("DV102", 4),
        ("DV103", 8),
        ("DV106", 2),
        ("DV107", 5),
        ("DV105", None),
        ("DV106", 7),
    ]


@pytest.mark.parametrize(
    "line",
    ["definition", "= net.h5", 'data = "net.h5', 'data = "net.h5" x', 'data = a "b"', "[INPUT", "data ; = x", "]"],
)
def test_lines_that_are_no_ini(folder: Path, line: str) -> None:
    found = problem(folder, f"{SMALLEST}{line}\n")
    assert said(found) == ("DV102", 6)
    assert line in found.message
    assert ("double quote" in found.hint) == ('"' in line)


@pytest.mark.parametrize("section", ["[INPUT]", "[OUTPUT]"])
def test_a_section_without_its_closing_bracket_is_one_error(folder: Path, section: str) -> None:
    text = SMALLEST.replace(section, section[:-1] + " ; what to do")
    found = problem(folder, text)
    assert said(found) == ("DV102", text.splitlines().index(section[:-1] + " ; what to do") + 1)
    assert "does not end with a bracket" in found.message and found.hint == section


def test_a_key_before_the_first_section(folder: Path) -> None:
    assert said(problem(folder, "name = net\n" + SMALLEST)) == ("DV102", 1)


def test_a_key_or_section_that_comes_again_names_both_lines(folder: Path) -> None:
    found = problem(folder, SMALLEST + "Output_Folder = out2\n")
    assert said(found) == ("DV103", 6) and "line 5" in found.message
    found = problem(folder, SMALLEST + "[output]\n")
    assert said(found) == ("DV103", 6) and "line 4" in found.message


@pytest.mark.parametrize(
    ("section", "line", "message"),
    [
        ("INPUT", "defintion = x", '[INPUT] has no key "defintion"; did you mean "definition"?'),
        ("INPUT", "quantization = 0", '[INPUT] has no key "quantization"; it belongs to [OUTPUT]'),
        ("OUTPUT", "grafviz_path = x", '[OUTPUT] has no key "grafviz_path"; did you mean "graphviz_path"?'),
        ("OUTPUT", "color = x", '[OUTPUT] has no key "color"'),
    ],
)
def test_an_unknown_key_is_a_warning_with_the_nearest_one(folder: Path, section: str, line: str, message: str) -> None:
    text = SMALLEST.replace(f"[{section}]", f"[{section}]\n{line}")
    number = text[: text.index(line)].count("\n") + 1
    assert complaint(folder, text) == f"DV112: {message}\n  --> {folder / 'net.ini'}:{number}"


def test_an_unknown_section_is_one_warning(folder: Path) -> None:
    text = SMALLEST + "[OPTIONS]\nverbose = 1\nx = y\n"
    assert "there is no section [OPTIONS]" in complaint(folder, text)
    assert 'did you mean "OPTIONAL"?' in complaint(folder, text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89HDF\r\n\x1a\n" + bytes(99), "UTF-8"),
        ("[INPUT]\n# café ".encode("latin-1"), "UTF-8"),
        (b"\xff\xfe[\0", "UTF-8"),
    ],
)
def test_a_file_that_is_no_text(folder: Path, content: bytes, message: str) -> None:
    found = problem(folder, content)
    assert found.code == "DV101" and message in found.message


def test_a_file_without_end_is_not_read_to_its_end(folder: Path) -> None:
    path = folder / "zeros.ini"
    with path.open("wb") as file:
        file.truncate(10**10)
    with pytest.raises(UsageError, match="DV101: this is not an ini file: it has more than 1,000,000 bytes"):
        Config.read(path)


def test_a_file_that_is_not_there(folder: Path) -> None:
    (folder / "net.ini").write_text(SMALLEST)
    for path, message in ((folder / "nett.ini", 'did you mean "net.ini"?'), (folder, "is a folder")):
        with pytest.raises(UsageError, match="DV101") as caught:
            Config.read(path)
        assert message in str(caught.value) and str(path) in str(caught.value)


@given(
    st.lists(
        st.sampled_from([*SMALLEST.splitlines(), *(f"{key.name} = " for key in KEYS), *'=[]#;"\\\0\x1c\u2028'])
        | st.text(max_size=8),
        max_size=20,
    ).map("\n".join)
    | st.binary()
)
def test_any_file_is_read_or_refused(content: str | bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ini = Path(folder, "net.ini")
        ini.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvertorWarning)
            with suppress(UsageError):
                assert isinstance(Config.read(ini), Config)


def test_a_model_given_as_an_ini_file_is_told_once(tmp_path: Path) -> None:
    for name in ("net.prototxt", "net.H5", "net.keras"):
        (tmp_path / name).write_text("layer {\n}\n" * 50)
        with pytest.raises(UsageError) as caught:
            Config.read(tmp_path / name)
        (problem,) = caught.value.problems
        assert (problem.code, problem.message) == ("DV101", "this is a model, not an ini file")
        assert f"init {tmp_path / name} -o net.ini" in problem.hint


def test_a_file_that_is_no_ini_file_does_not_flood_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some text\n" * 1000)
    with pytest.raises(UsageError) as caught:
        Config.read(tmp_path / "notes.txt")
    codes = [problem.code for problem in caught.value.problems]
    assert codes == ["DV102"]


def test_the_first_zero_byte_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "net.ini").write_text("\n[INPUT]\nname = n\ndefinition = a\0b\n[OUTPUT]\noutput_folder = \0\n")
    with pytest.raises(UsageError) as caught:
        Config.read(tmp_path / "net.ini")
    (problem,) = caught.value.problems
    assert (problem.code, problem.where.line if problem.where else None) == ("DV101", 4)


@pytest.mark.parametrize(
    "line", [" " * 100_000 + "a", "a" + " " * 100_000 + "a", "a=" + " " * 100_000 + 'a"', "[" + " " * 100_000]
)
def test_blanks_take_time_that_grows_with_their_number(folder: Path, line: str) -> None:
    """Cubic time would be hours."""
    assert said(problems(folder, f"[INPUT]\n{line}\n")[0]) == ("DV102", 2)
