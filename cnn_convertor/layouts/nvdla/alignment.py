"""NVDLA's alignment rules."""

from typing import NamedTuple

from cnn_convertor.errors import Problem, UsageError
from cnn_convertor.layouts.nvdla.memory_forms import FULL, MemoryForm
from cnn_convertor.layouts.nvdla.precision import ATOM
from cnn_convertor.layouts.nvdla.weights import START_ALIGN


class Alignment(NamedTuple):
    """Alignments of addresses, strides and sizes in bytes; 1: none."""

    start: int
    line: int = 1
    surface: int = 1
    cube: int = 1
    size: int = 1


def alignments(form: MemoryForm) -> dict[str, Alignment]:
    """Kind of data -> its alignments. Lines of pixels are what the vendor's software makes them, in every configuration."""
    atom = form.atom
    kernels = Alignment(START_ALIGN, size=form.entry)
    return {
        "feature": Alignment(atom, atom, atom, atom),
        "weight": kernels,
        "weight mask": kernels,
        "weight group sizes": kernels,
        "pixel": Alignment(ATOM, ATOM),
        "bias": Alignment(atom, atom, atom),
        "prelu": Alignment(atom),
        "batch norm": Alignment(atom),
        "element-wise": Alignment(atom, atom, size=atom),
    }


def check_alignment(
    kind: str,
    form: MemoryForm = FULL,
    *,
    start: int = 0,
    line: int = 0,
    surface: int = 0,
    cube: int = 0,
    size: int = 0,
) -> None:
    """Raise UsageError that lists all misaligned values."""
    rules = alignments(form)
    if kind not in rules:
        raise UsageError.of("DV836", f'there is no rule for "{kind}" data', hint=", ".join(rules))
    rule = rules[kind]
    values = Alignment(start, line, surface, cube, size)
    problems = [
        Problem("DV836", f"{kind} data: {name} {value} is not a multiple of {multiple} bytes")
        for name, value, multiple in zip(Alignment._fields, values, rule, strict=True)
        if value % multiple or value < 0
    ]
    if problems:
        raise UsageError(problems)
