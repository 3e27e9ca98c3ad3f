"""Lays out lines and tables: at full width, or within the width of a terminal."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cnn_convertor.escaping import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_GAP, _NARROW_GAP = 2, 1  # characters between columns
_LEAST: Final = 10  # characters of a column that folds
_HANGING: Final = 2  # characters by which the rest of a line that is too long is indented


class Column(NamedTuple):
    """title: empty in grids without titles. right: aligned to the right. folds: takes several lines where there is no room."""

    title: str
    right: bool = True
    folds: bool = False


class Grid(NamedTuple):
    """A table. rows: of a cell for each column. indent: in characters. styles: a color for each row on a terminal, or none."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    indent: int = _HANGING
    styles: tuple[str, ...] = ()

    @classmethod
    def of(cls, first: str, titles: Iterable[str], rows: Iterable[Sequence[str]], *, folds: str = "") -> Grid:
        """Measures of named things. first: the title of the names. folds: the title of a column that does, like the names."""
        columns = (Column(first, right=False, folds=True), *(Column(title, folds=title == folds) for title in titles))
        return cls(columns, tuple(tuple(row) + ("",) * (len(columns) - len(row)) for row in rows))

    @property
    def is_titled(self) -> bool:
        return any(column.title for column in self.columns)

    @property
    def lines(self) -> tuple[tuple[str, ...], ...]:
        """The titles, if there are any, and the rows, without control characters."""
        titles = tuple(column.title for column in self.columns)
        return tuple(tuple(map(visible, line)) for line in ((titles,) if self.is_titled else ()) + self.rows)


Item: TypeAlias = str | Grid  # a line of text, or a table


def plain(items: Iterable[Item]) -> str:
    """As wide as it is."""
    return "\n".join(line for item in _on_one_line(items) for line in _plain(item))


def _on_one_line(items: Iterable[Item]) -> Iterator[Item]:
    """Names may have line breaks, which begin no line of the output, and other control characters."""
    return (visible(item) if isinstance(item, str) else item for item in items)


def _plain(item: Item) -> list[str]:
    if isinstance(item, str):
        return [item]
    widths = [max(map(len, cells)) for cells in zip(*item.lines, strict=True)]
    return [
        (
            " " * item.indent
            + (" " * _GAP).join(
                cell.rjust(width) if column.right else cell.ljust(width)
                for cell, width, column in zip(line, widths, item.columns, strict=True)
            )
        ).rstrip()
        for line in item.lines
    ]


def fitted(items: Iterable[Item], width: int) -> str:
    """Within the width of a terminal, in characters, with its colors."""
    return "\n".join(line for item in _on_one_line(items) for line in _fitted(item, width))


def _fitted(item: Item, width: int) -> list[str]:
    lines = _plain(item)
    has_color = isinstance(item, Grid) and any(item.styles)
    if not has_color and all(line.isascii() and len(line) <= width for line in lines):
        return lines
    return _drawn(item, width)


# --- with rich -----------------------------------------------------------------------------------------------------------


def _drawn(item: Item, width: int) -> list[str]:
    from rich.console import Console  # here, as it takes long to import

    page = io.StringIO()
    no_color = bool(os.environ.get("NO_COLOR"))
    console = Console(file=page, width=width, force_terminal=True, no_color=no_color, emoji=False, highlight=False)
    if isinstance(item, str):
        _print_hanging(console, item)
    elif _least(item) > width:
        for line in item.rows:
            _print_record(console, item, line)
    else:
        narrow = max(map(len, _plain(item))) > width
        console.print(_table(item, narrow=narrow, breaks_words=narrow and _least(item, _longest_word) > width))
    return [line.rstrip() for line in page.getvalue().splitlines()]


def _least(grid: Grid, least_of: Callable[[Iterable[str]], int] = lambda _: _LEAST) -> int:
    """The least width of a table: titles may take a line for each word, and some columns fold to `least_of` their cells."""
    widths = []
    for column, cells in _cells(grid):
        longest = max(map(len, (*column.title.split(), *cells)), default=0)
        widths.append(min(longest, least_of((column.title, *cells))) if column.folds else longest)
    return sum(widths) + _NARROW_GAP * (len(widths) - 1) + grid.indent


def _cells(grid: Grid) -> Iterator[tuple[Column, list[str]]]:
    for number, column in enumerate(grid.columns):
        yield column, [visible(row[number]) for row in grid.rows]


def _longest_word(texts: Iterable[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)


def _table(grid: Grid, *, narrow: bool, breaks_words: bool) -> RenderableType:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, collapse_padding=narrow, show_header=grid.is_titled, header_style="")
    for column, cells in _cells(grid):
        title = Text(column.title.replace(" ", "\n") if narrow else column.title)
        justify: Any = "right" if column.right else "left"
        least = _longest_word((column.title, *cells)) if column.folds and not breaks_words else None
        table.add_column(
            title, justify=justify, no_wrap=not column.folds, overflow="fold", min_width=least, vertical="top"
        )
    for number, row in enumerate(grid.rows):
        table.add_row(*(Text(visible(cell)) for cell in row), style=grid.styles[number] if grid.styles else "")
    return Padding(table, (0, 0, 0, grid.indent))


def _print_hanging(console: Console, line: str) -> None:
    """Print a line; what does not fit goes below, indented."""
    from rich.text import Text

    text = visible(line.lstrip(" "))
    indent = min(len(line) - len(line.lstrip(" ")), console.width // 2)
    first, *rest = Text(text).wrap(console, console.width - indent) or [Text("")]
    console.print(Text(" " * indent) + first)
    if rest:
        left = " " * (indent + _HANGING)
        more = Text(text[len(first.plain) :].lstrip(" "))
        for part in more.wrap(console, console.width - len(left)):
            console.print(Text(left) + part)


def _print_record(console: Console, grid: Grid, row: Sequence[str]) -> None:
    """Print a row of a table that is too wide: the first cell, and the others below, each after its title."""
    from rich.columns import Columns
    from rich.padding import Padding
    from rich.text import Text

    if row[0]:
        _print_hanging(console, " " * grid.indent + row[0])
    cells = zip(grid.columns[1:], row[1:], strict=True)
    named = [Text(f"{column.title} {visible(cell)}".strip(), overflow="fold") for column, cell in cells if cell]
    console.print(Padding(Columns(named, padding=(0, _GAP, 0, 0)), (0, 0, 0, grid.indent + _HANGING)))


def numbered(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def counted(number: int | None) -> str:
    return "?" if number is None else f"{number:,}" if number else ""


def share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def decibels(ratio: float) -> str:
    return {math.inf: "exact", -math.inf: "none"}.get(ratio, f"{ratio:.1f}")
