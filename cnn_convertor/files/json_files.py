"""Reads JSON of any origin: rejects non-finite and over-long numbers, and lone surrogates."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from cnn_convertor.files.limited import contents

Objects: TypeAlias = Callable[[list[tuple[str, Any]]], dict[str, Any]]

LARGEST: Final = 1 << 24  # bytes of a file; each can take 20 bytes of memory
_DIGITS: Final = 19  # of a whole number; 64 bits hold 18 and most of the numbers of 19


def load(path: Path) -> Any:
    """The value in a file. Raises ValueError if it is not JSON or too large, or OSError."""
    return parse(contents(path, LARGEST).decode())


def parse(text: str, *, objects: Objects = dict) -> Any:
    """The value of a text. Numbers are finite and below 10^19. objects: makes an object of its entries. Raises ValueError."""
    try:
        value = json.loads(
            text, parse_int=whole, parse_float=_finite, parse_constant=_refuse, object_pairs_hook=objects
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # raises UnicodeEncodeError for halves of pairs
    return value


def whole(text: str) -> int:
    """Raises ValueError for a number of many digits, which no calculation with floats can take."""
    if len(text.lstrip("-")) > _DIGITS:
        raise ValueError(f"the number {text[:_DIGITS]}... is too large")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:_DIGITS]} is not a finite number")
