"""Tables fit a terminal of any width without losing text; without a terminal, they have their full width."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from cli.terminal import terminal
from cnn_convertor import cli
from cnn_convertor.cli import grids
from cnn_convertor.cli.grids import Column, Grid, Item, fitted, plain

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
INI, CAFFE = EXAMPLES / "digits_keras" / "net.ini", EXAMPLES / "digits_caffe" / "net.ini"
PYTORCH = EXAMPLES / "digits_pytorch" / "net.ini"
IMAGE = EXAMPLES / "digits_samples" / "digit_3.png"
COMMANDS = (
    f"convert {INI} {CAFFE} {PYTORCH} -v --output OUT",
    *(f"inspect {ini} -v --cost" for ini in (INI, CAFFE, PYTORCH)),
    f"inspect {INI} --device all",
    f"run {INI} --inputs {IMAGE}",
    f"report {INI}",
    f"report {INI} --compare OUT/old.json --device zia-c3",
    f"sweep {INI} --vary quantization=0,1 --vary fusion=none,full",
    f"audit {EXAMPLES / 'digits_keras/output/digits/digits_gen.cpp'}",
    f"layouts export {INI} --target nvdla-int8 --output OUT",
    "devices",
    "layout list",
    "layout describe whc8 --shape 4,4,8",
    "docs",
)
SLOW = (
    f"convert {INI} --calibrate {EXAMPLES / 'digits_samples'} -v --output OUT",
    f"verify {INI} --layers --attribute --sensitivity",
)
every_command = pytest.mark.parametrize(
    "command", [*COMMANDS, *(pytest.param(c, marks=pytest.mark.slow) for c in SLOW)]
)


@every_command
def test_tables_fit_the_terminal_and_lose_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "old.json" in command:
        assert cli.main(["report", str(INI), "-q", "--json", str(tmp_path / "old.json")]) == 0
    printed: list[Item] = []

    def kept(items: Iterable[Item], width: int) -> str:
        printed.extend(given := list(items))
        return fitted(given, width)

    monkeypatch.setattr(grids, "fitted", kept)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with terminal(80, stream="stdout") as screen:
        assert cli.main(command.replace("OUT", str(tmp_path)).split()) == 0
    assert "".join(fitted(printed, 80).split()) in "".join(screen.text.split())
    for columns in (200, 80, 40):
        narrow = re.sub(r"\x1b\[[\d;]*m", "", fitted(printed, columns))
        assert max(map(len, narrow.splitlines())) <= columns
        assert not cells_of(printed) - Counter("".join(narrow.split())), columns


def cells_of(items: Iterable[Item]) -> Counter[str]:
    """The characters of all cells and lines."""
    texts = (cell for item in items for row in ([(item,)] if isinstance(item, str) else item.rows) for cell in row)
    return Counter("".join("".join(texts).split()))


def test_what_fits_looks_the_same_with_and_without_a_terminal() -> None:
    exact = max(map(len, plain([GRID]).splitlines()))
    for width in (80, exact):
        assert fitted([GRID, "a line"], width) == plain([GRID, "a line"])
    assert fitted([GRID, "a line"], exact - 1) != plain([GRID, "a line"])


# --- one table -----------------------------------------------------------------------------------------------------------

GRID = Grid.of(
    "layer",
    ("FP16 bytes", "reason"),
    [("conv1", "1,234,567", "as the ini file says"), ("fc", "89", "")],
    folds="reason",
)


def test_a_table_is_as_wide_as_it_is() -> None:
    assert plain([GRID]).splitlines() == [
        "  layer  FP16 bytes                reason",
        "  conv1   1,234,567  as the ini file says",
        "  fc             89",
    ]


def test_a_table_of_other_letters_that_fits_exactly_folds_nothing() -> None:
    grid = Grid.of("layer", ("FP16 bytes",), [("é", "1")])
    assert fitted([grid], 19) == plain([grid]) and fitted([grid], 18) != plain([grid])


def test_titles_and_texts_fold_first() -> None:
    assert fitted([GRID], 32).splitlines() == [
        "             FP16",
        "  layer     bytes         reason",
        "  conv1 1,234,567     as the ini",
        "                       file says",
        "  fc           89",
    ]


def test_a_row_becomes_a_record_where_columns_have_no_room() -> None:
    assert fitted([GRID], 24).splitlines() == [
        "  conv1",
        "    FP16 bytes 1,234,567",
        "    reason as the ini",
        "    file says",
        "  fc",
        "    FP16 bytes 89",
    ]


def test_lines_hang_below_their_beginning() -> None:
    assert fitted(["  one two three four"], 12).splitlines() == ["  one two", "    three", "    four"]


@pytest.mark.parametrize("width", [1, 2, 7])
def test_no_width_is_too_small(width: int) -> None:
    drawn = fitted([GRID, "  a sentence", ""], width)
    assert max(map(len, drawn.splitlines())) <= width


def test_control_characters_of_names_stay_in_their_cells() -> None:
    hostile = Grid((Column("layer", right=False, folds=True), Column("n")), (("a\nb\x1b[31m\tc", "1"),))
    for text in (plain([hostile]), fitted([hostile], 10), fitted([hostile], 80)):
        assert "\x1b" not in text and "\\x1b" in text.replace("\n", "").replace(" ", "")


def test_a_line_break_in_a_title_begins_no_line() -> None:
    assert plain(["a\nb"]) == fitted(["a\nb"], 80) == "a\\nb"


def test_a_title_cannot_steer_the_terminal() -> None:
    assert plain(["a\x1b[2J\u202e"]) == fitted(["a\x1b[2J\u202e"], 80) == "a\\x1b[2J\\u202e"


def test_an_empty_table_has_its_titles() -> None:
    assert fitted([Grid.of("layer", ("n",), [])], 4) is not None
    assert plain([Grid.of("layer", ("n",), [])]) == "  layer  n"


def test_words_stay_whole_where_the_longest_of_each_column_fit() -> None:
    columns = (
        Column("layer", right=False, folds=True),
        Column("type", right=False, folds=True),
        Column("how", right=False, folds=True),
    )
    row = (
        "features/bn1/batch",
        "BatchNormalization",
        "depthwise_leaky convolution 3x3, within the command of another layer",
    )
    shown = fitted([Grid(columns, (row,))], 60)
    assert all(word in shown.split() for cell in row for word in cell.split())
    assert max(map(len, shown.splitlines())) <= 60
    assert "BatchNormalization" not in fitted([Grid(columns, (row,))], 48)
