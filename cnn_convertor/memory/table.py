"""Reads and writes the CSV tables of allocation benchmarks: id,lower,upper,size, and offset; one buffer per line.

A buffer is live from lower up to, excluding, upper.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.files.limited import TooLargeError, contents
from cnn_convertor.memory.buffer import Buffer

# The published instances use two sets of column names.
_COLUMNS = ("id", "lower", "upper", "size")
_NAMES = {name: name for name in _COLUMNS} | {"buffer": "id", "start": "lower", "end": "upper"}
_WHOLE = re.compile("-?[0-9]{1,20}")
_LARGEST_FILE = 256 << 20  # bytes
_LARGEST = 1 << 53  # of any number, and of the sum of sizes: far below 64 bits


def load(path: Path) -> tuple[Buffer, ...]:
    """The buffers of a file. Raises ModelError, or OSError if it cannot be read."""
    try:
        return read(contents(path, _LARGEST_FILE).decode("utf-8-sig"), str(path))
    except TooLargeError as error:
        raise ModelError.of("DV121", f"the table is too large: {error}", Origin(str(path))) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ModelError.of("DV121", f"not a table in UTF-8: {error}", Origin(str(path))) from None


def read(text: str, file: str) -> tuple[Buffer, ...]:
    """The buffers of a table. Raises ModelError that lists all invalid lines."""
    rows = csv.reader(io.StringIO(text))
    header = [name.strip().lower() for name in next(rows, [])]
    columns = {_NAMES[name]: position for position, name in enumerate(header) if name in _NAMES}
    if missing := [name for name in _COLUMNS if name not in columns]:
        reason = f"the first line must name the columns {','.join(_COLUMNS)}; missing: {', '.join(missing)}"
        raise ModelError.of("DV121", reason, Origin(file, line=1))
    problems: list[Problem] = []
    buffers: dict[str, Buffer] = {}
    for line, row in _lines(rows):
        where = Origin(file, line=line)
        match _buffer(row, columns, len(header)):
            case str(reason):
                problems.append(Problem("DV122", reason, where))
            case Buffer(name=name) if name in buffers:
                problems.append(Problem("DV122", f'the id "{name}" comes twice', where))
            case buffer:
                buffers[buffer.name] = buffer
    if not problems and sum(b.size for b in buffers.values()) > _LARGEST:
        problems.append(Problem("DV122", f"all sizes together are more than {_LARGEST:,}", Origin(file)))
    if problems:
        raise ModelError(problems)
    return tuple(buffers.values())


def write(buffers: Sequence[Buffer], offsets: Mapping[str, int]) -> str:
    """The table with offsets."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*_COLUMNS, "offset"])
    table.writerows([b.name, b.first, b.last + 1, b.size, offsets[b.name]] for b in buffers)
    return out.getvalue()


def _lines(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """The non-empty lines, with their numbers."""
    for line, row in enumerate(rows, start=2):
        if any(cell.strip() for cell in row):
            yield line, row


def _buffer(row: Sequence[str], columns: Mapping[str, int], width: int) -> Buffer | str:
    """The buffer of one line, or what is wrong with it."""
    if len(row) != width:
        return f"{len(row)} columns, where the first line has {width}"
    cells = {column: row[columns[column]].strip() for column in _COLUMNS}
    for column in _COLUMNS[1:]:
        if not _WHOLE.fullmatch(cells[column]):
            return f'{column} is not a whole number: "{cells[column]}"'
        if abs(int(cells[column])) > _LARGEST:
            return f"{column} is more than {_LARGEST:,}"
    name = cells["id"]
    lower = int(cells["lower"])
    upper = int(cells["upper"])
    size = int(cells["size"])
    if not name:
        return "the id is empty"
    if lower >= upper:
        return f"upper ({upper}) must be more than lower ({lower})"
    if size < 0:
        return f"size is negative: {size}"
    return Buffer(name, size, lower, upper - 1)
