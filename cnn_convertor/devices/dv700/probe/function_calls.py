"""Calls of all C++ functions of CPU layers on maps of any size, to find what each costs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cnn_convertor.codegen.kernels import all_kernels, bundle, heads
from cnn_convertor.codegen.text_templates import render_text


class Case(NamedTuple):
    """A call on maps with `rows` rows of 16 x 16. work: how many units it does for a row. rows: of both sizes."""

    call: str
    work: int
    rows: tuple[int, int]


_MAPS: Final = {"Unary": "x, z", "Binary": "x, y, z"}
_UNARY_ROWS: Final = (16, 18)  # results are kept from 4096 elements on
_TIMED: Final = re.compile(r"^// Timed (\w+)(?:, (\d+) units)?: (.+(?:\n//   .+)*)", re.MULTILINE)


def cases() -> dict[str, Case]:
    """Every function, by the name of its table's row: as the head of its file calls it, or without arguments."""
    timed = {name: (int(units or 256), call) for text in heads() for name, units, call in _TIMED.findall(text)}
    kinds = {struct: function for function, struct in all_kernels().calls if struct}
    plain = {struct: (256, f"{function}({_MAPS[function]}, {struct}{{}})") for struct, function in kinds.items()}
    return {
        name: Case(call.replace("\n//  ", ""), work, _UNARY_ROWS if kinds.get(name) == "Unary" else (2, 4))
        for name, (work, call) in sorted({**plain, **timed}.items())
    }


def functions_header() -> str:
    """A table of all functions in C++, with the functions."""
    values = {"kernels": bundle(dict.fromkeys(function for function, _ in all_kernels().calls)), "cases": cases()}
    return render_text("functions.h.j2", "a table of functions", values)
