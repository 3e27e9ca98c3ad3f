"""Compares the registers of a source of this project with their comments, which an edit of a register seldom changes, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.codes import hint
from cnn_convertor.files.opening import text_of

_MADE_HERE: Final = "// made by cnn-convertor "
_LEGEND: Final = "// Sizes are height x width x channels, or height x width."  # 0.1.0, without it, has other words
_ROW: Final = re.compile(r"\s*cmd\.run\[\d+\]\.(?P<field>[\w.]+) = (?P<value>\w+);(?:\s+// (?P<words>.*))?")
_KERNELS: Final = {0: "", 1: "convolution", 3: "depthwise", 5: "deconvolution", 7: "depthwise deconvolution"}
_FUNCTIONS: Final = {0: "", 1: "Tanh", 2: "Relu", 3: "Sigmoid", 4: "PRelu", 5: "Elu", 6: "Relu6"}


def _pair(value: int) -> str:
    """Height x width; a dilation of 0 is 1."""
    return f"{value >> 8 or 1}x{value & 0xFF or 1}"


def _dilation(value: int) -> str:
    """As this project writes it: both bytes, or neither."""
    return _pair(value) if bool(value >> 8) == bool(value & 0xFF) else "unknown"


def _sides(value: int) -> str:
    left, right, top, bottom = (value >> shift & 0xFF for shift in (0, 8, 16, 24))
    return f"left {left}, right {right}, top {top}, bottom {bottom}"


def _same_half(value: int, words: str) -> bool:
    """Whether a number in words, of which seven digits are shown, rounds to an FP16 register."""
    try:
        number = float(words.removeprefix("slope "))
    except ValueError:
        return False
    with np.errstate(over="ignore"):
        return int(np.float16(number).view(np.uint16)) == value


# Register -> its value in words (None: a number in FP16); what it is where nothing stands beside it.
_WORDS: Final[Mapping[str, tuple[Callable[[int], str] | None, int]]] = {
    "conv_enable": (lambda value: _KERNELS.get(value, "unknown"), 0),
    "p": (lambda value: f"kernel {_pair(value)}", 0x0101),
    "weight_fmt": (lambda value: {1: "FP16", 3: "8-bit palette"}.get(value, "unknown"), 0),
    "conv_pad": (_sides, 0),
    "conv_stride": (_pair, 0x0101),
    "conv_dilation": (_dilation, 0),
    "pool_enable": (lambda value: {1: "max", 2: "average", 4: "upsample"}.get(value, "unknown"), 0),
    "pool_size": (_pair, 0),
    "pool_stride": (_pair, 0x0101),
    "pool_pad": (_sides, 0),
    "pool_avg_param": (None, 0),
    "actfunc": (lambda value: _FUNCTIONS.get(value, "unknown"), 0),
    "actfunc_param": (None, 0),
}


def check_comments(source: Path) -> Iterator[Problem]:
    """Registers of a run that contradict their comments; nothing for sources of other convertors, and of 0.1.0."""
    lines = text_of(source, "replace").splitlines()
    if _LEGEND not in lines or not lines[0].startswith(_MADE_HERE):
        return
    for number, line in enumerate(lines, start=1):
        row = _ROW.fullmatch(line)
        if row is None or row["field"] not in _WORDS or not re.fullmatch(r"\d+|0[xX][0-9A-Fa-f]+", row["value"]):
            continue
        in_words, alone = _WORDS[row["field"]]
        value = int(row["value"], 0)
        words = row["words"]
        if words is None:
            agrees = value == alone
        else:
            agrees = _same_half(value, words) if in_words is None else in_words(value) == words
        if not agrees:
            said = words or f"no comment, which stands for {alone:#x}"
            message = f"{row['field']} is {row['value']}, and beside it is: {said}"
            yield Problem("DV691", message, Origin(source.name, line=number), hint("DV691"))
