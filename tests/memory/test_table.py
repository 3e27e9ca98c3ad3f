"""The tables that the command `plan` reads and writes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cnn_convertor import cli
from cnn_convertor.errors import ModelError
from cnn_convertor.memory import Buffer, table

EXAMPLE = "id,lower,upper,size\na,0,2,8\nb,1,3,4\nc,2,3,8\n"


def test_live_ranges_in_tables_are_half_open() -> None:
    assert table.read(EXAMPLE, "x.csv") == (Buffer("a", 8, 0, 1), Buffer("b", 4, 1, 2), Buffer("c", 8, 2, 2))


def test_offsets_are_the_last_column() -> None:
    text = table.write(table.read(EXAMPLE, "x.csv"), {"a": 0, "b": 8, "c": 0})
    assert text == "id,lower,upper,size,offset\na,0,2,8,0\nb,1,3,4,8\nc,2,3,8,0\n"
    assert table.read(text, "x.csv") == table.read(EXAMPLE, "x.csv")


def test_a_table_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_LARGEST_FILE", 1 << 20)
    (tmp_path / "long.csv").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ModelError, match="DV121: the table is too large: it has more than 1 MB"):
        table.load(tmp_path / "long.csv")


@pytest.mark.parametrize(
    "text",
    [
        "buffer,start,end,size\na,0,2,8\n",
        "size , upper,id,lower\r\n8,2,a,0\r\n\r\n",
        "id,lower,upper,size,color\na,0,2,8,red\n",
    ],
)
def test_columns_may_have_other_names_and_places(text: str) -> None:
    assert table.read(text, "x.csv") == (Buffer("a", 8, 0, 1),)


WRONG = [
    ("", "x.csv:1", "missing: id, lower, upper, size"),
    ("id,lower,size\n", "x.csv:1", "missing: upper"),
    (EXAMPLE + "d,0,1\n", "x.csv:5", "3 columns, where the first line has 4"),
    (EXAMPLE + "\nd,0,one,4\n", "x.csv:6", 'upper is not a whole number: "one"'),
    (EXAMPLE + "d,0,1,4.5\n", "x.csv:5", 'size is not a whole number: "4.5"'),
    (EXAMPLE + "d,3,3,4\n", "x.csv:5", r"upper \(3\) must be more than lower \(3\)"),
    (EXAMPLE + "d,3,4,-4\n", "x.csv:5", "size is negative: -4"),
    (EXAMPLE + "a,3,4,4\n", "x.csv:5", 'the id "a" comes twice'),
    (EXAMPLE + ",3,4,4\n", "x.csv:5", "the id is empty"),
    (EXAMPLE + f"d,3,4,{1 << 60}\n", "x.csv:5", "size is more than"),
    (EXAMPLE + f"d,3,4,{1 << 53}\n", "x.csv", "all sizes together are more than"),
]


@pytest.mark.parametrize(("text", "where", "what"), WRONG, ids=[what for _, _, what in WRONG])
def test_a_wrong_line_is_shown(text: str, where: str, what: str) -> None:
    with pytest.raises(ModelError, match=what) as raised:
        table.read(text, "x.csv")
    assert {problem.code for problem in raised.value.problems} == {"DV121" if "missing" in what else "DV122"}
    assert [str(problem.where) for problem in raised.value.problems] == [where]


def test_all_wrong_lines_are_shown() -> None:
    with pytest.raises(ModelError) as raised:
        table.read(EXAMPLE + "d,0\ne,1,0,1\n", "x.csv")
    assert [str(problem.where) for problem in raised.value.problems] == ["x.csv:5", "x.csv:6"]


def damaged(rng: random.Random) -> Iterator[str]:
    for _ in range(500):
        text = list(EXAMPLE)
        for _ in range(rng.randint(1, 4)):
            text[rng.randrange(len(text))] = rng.choice('x,\n"-9\0é ')
        yield "".join(text)


def test_any_table_is_read_or_a_user_error() -> None:
    for text in damaged(random.Random(0)):
        with suppress(ModelError):
            table.read(text, "x.csv")


# --- the command ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def example(tmp_path: Path) -> Path:
    (tmp_path / "x.csv").write_text(EXAMPLE)
    return tmp_path / "x.csv"


def test_the_command_adds_offsets(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["layouts", "plan", str(example), "--capacity", "12"]) == 0
    said = capsys.readouterr()
    assert said.out == "id,lower,upper,size,offset\na,0,2,8,0\nb,1,3,4,8\nc,2,3,8,0\n"
    assert "3 buffers in 12 bytes, proven smallest" in said.err


def test_the_command_writes_a_file(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["layouts", "plan", str(example), "--output", str(example.with_name("out.csv"))]) == 0
    assert capsys.readouterr().out == ""
    assert example.with_name("out.csv").read_text().splitlines()[1] == "a,0,2,8,0"


def test_a_capacity_that_is_too_small_ends_with_one(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["layouts", "plan", str(example), "--capacity", "11"]) == 1
    error = capsys.readouterr().err
    assert "DV120" in error and "no plan is smaller" in error


def test_offsets_may_have_to_be_aligned(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["layouts", "plan", str(example), "--alignment", "16"]) == 0
    assert "b,1,3,4,16" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "content"), [("none.csv", None), ("bad.csv", b"\xff\xfe"), ("bad.csv", b"id\n")])
def test_an_invalid_table_ends_with_one(
    name: str, content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert cli.main(["layouts", "plan", str(tmp_path / name)]) == 1
    assert str(tmp_path / name) in capsys.readouterr().err
