"""NVDLA's alignment rules."""

from typing import NamedTuple

from cnn_convertor.errors import Problem, UsageError


class Alignment(NamedTuple):
    """Alignments of addresses, strides and sizes in bytes; 1: none."""

    start: int
    line: int = 1
    surface: int = 1
    cube: int = 1
    size: int = 1


ALIGNMENTS = {
    "feature": Alignment(32, 32, 32, 32),
    "weight": Alignment(256, size=128),
    "weight mask": Alignment(256, size=128),
    "weight group sizes": Alignment(256, size=128),
    "pixel": Alignment(32, 32),
    "bias": Alignment(32, 32, 32),
    "prelu": Alignment(32),
    "batch norm": Alignment(32),
    "element-wise": Alignment(32, 32, size=32),
}


def check_alignment(
    kind: str, *, start: int = 0, line: int = 0, surface: int = 0, cube: int = 0, size: int = 0
) -> None:
    """Raise UsageError that lists all misaligned values."""
    if kind not in ALIGNMENTS:
        raise UsageError.of("DV836", f'there is no rule for "{kind}" data', hint=", ".join(ALIGNMENTS))
    rule = ALIGNMENTS[kind]
    values = Alignment(start, line, surface, cube, size)
    problems = [
        Problem("DV836", f"{kind} data: {name} {value} is not a multiple of {multiple} bytes")
        for name, value, multiple in zip(Alignment._fields, values, rule, strict=True)
        if value % multiple or value < 0
    ]
    if problems:
        raise UsageError(problems)
