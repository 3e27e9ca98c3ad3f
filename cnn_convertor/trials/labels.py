"""Reads names of classes, and the right class of each sample."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.errors import Origin, Problem, UsageError, warn
from cnn_convertor.files import json_files
from cnn_convertor.files.limited import TooLargeError, contents
from cnn_convertor.ir.graph import Graph

_LARGEST_LABELS: Final = 1 << 24  # bytes
_CLASS: Final = re.compile(r"\s*[0-9]{1,18}\s*")  # a number that an index can hold


def read_labels(path: Path) -> tuple[str, ...]:
    """Class names: one per line, without empty lines at the end, or in JSON.

    Raises UsageError if the file cannot be read as text, or if its name ends in .json and it has another form.
    """
    hint = "write one name per line, or a JSON list of the names"
    try:
        text = contents(path, _LARGEST_LABELS).decode()
        try:
            return _names_in(json_files.parse(text))
        except ValueError as error:
            if path.suffix.lower() != ".json":
                return tuple(text.rstrip().splitlines())
            reason = f"the class names are in JSON, but in no form that can be read: {error}"
    except TooLargeError as error:
        reason = f"the file of class names is too large: {error}"
    except OSError as error:
        reason = f"the class names cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "the class names are not UTF-8 text"
    raise UsageError.of("DV707", reason, Origin(str(path)), hint)


def _names_in(value: Any) -> tuple[str, ...]:
    """The names of a list, or of an object: number -> name, number -> [identifier, name] or name -> number.

    Raises ValueError for anything else.
    """
    if isinstance(value, dict):
        pairs = [*value.items()]
        if all(isinstance(number, int) for number in value.values()):
            pairs = [(number, name) for name, number in pairs]
        names = {int(number): name[-1] if isinstance(name, list) and name else name for number, name in pairs}
        if sorted(names) != [*range(len(value))]:
            raise ValueError("its numbers are not 0, 1, 2 and so on")
        value = [names[number] for number in range(len(names))]
    if not isinstance(value, list) or not all(isinstance(name, str | int) for name in value):
        raise ValueError("it is neither a list of names nor an object of numbers and names")
    return tuple(map(str, value))


def check_labels(path: Path, names: Sequence[str], results: Mapping[str, Maps]) -> None:
    """Warn of outputs with another number of classes than there are names. results: as in `run`."""
    for output, values in results.items():
        classes = values.shape[-1]
        if values[0].size == classes != len(names):
            problem = f'the file has {len(names)} names, but the output "{output}" has {classes} classes'
            warn(Problem("DV720", problem, Origin(str(path)), "write one name per line, in the order of the classes"))


def read_classes(path: Path, count: int, graph: Graph) -> NDArray[np.intp]:
    """The right class of each sample.

    Raises UsageError unless the file has a line for each sample, and each line the number of a class that the network has.
    """
    lines, where = read_labels(path), Origin(str(path))
    hint = "count classes from 0, in the order of the samples"
    if len(lines) != count:
        reason = f"expected {count} lines, a class number for each sample, and found {len(lines)} lines"
        raise UsageError.of("DV707", reason, where, hint)
    for number, line in enumerate(lines, start=1):
        if not _CLASS.fullmatch(line):
            raise UsageError.of("DV707", f'line {number} is not a class number: "{line[:20]}"', where, hint)
    classes = np.array([int(line.strip()) for line in lines], np.intp)  # int() keeps some blanks
    known = max((shape.size for shape in map(graph.shape, graph.outputs) if shape.is_vector), default=0)
    if not known:
        reason = "accuracy is computed for outputs that are vectors, and the network has none"
        raise UsageError.of("DV707", reason, where, "leave out --labels")
    if classes.max() >= known:
        reason = (
            f"line {classes.argmax() + 1} has the class {classes.max()}, but the network's classes end at {known - 1}"
        )
        raise UsageError.of("DV707", reason, where, hint)
    return classes
