"""The kinds of values that keys of the ini file take."""

from __future__ import annotations

import keyword
import math
import os
import re
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

# `--help` imports all of these; without numpy, which takes long.
from cnn_convertor.devices.registry import LOADABLES, NAMES, read_hardware
from cnn_convertor.devices.settings import Fusion, Quantization, Runtime
from cnn_convertor.errors import UsageError, near_file
from cnn_convertor.escaping import CPP_KEYWORDS
from cnn_convertor.frontends import FRONTENDS
from cnn_convertor.frontends.frontend import Frontend
from cnn_convertor.frontends.unsupported_formats import explain


class Kind(NamedTuple):
    """A kind of value.

    expected: its description in messages. parse: (text, folder of the ini file) -> value; raises ValueError for other
    text, OSError (with a whole sentence) for wrong files and folders, UsageError for models of unsupported formats.
    spellings: of a text that is not of this kind -> what it may mean.
    """

    expected: str
    parse: Callable[[str, Path], object]
    spellings: Callable[[str], tuple[str, ...]] = lambda _: ()


MOST_THREADS = 64
LONGEST_NAME = 200  # characters, so that file names derived from it are valid


def _cpp_identifier(text: str, _: Path) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) or text in CPP_KEYWORDS or len(text) > LONGEST_NAME:
        raise ValueError
    return text


def _network_name(text: str, _: Path) -> str:
    if not re.fullmatch(r"\w+", text, re.ASCII) or len(text) > LONGEST_NAME or text == "DMP_Network":
        raise ValueError  # the class CDMP_Network would be its own base class
    return text


def _module_name(text: str, folder: Path) -> str:
    if keyword.iskeyword(text) or text in sys.stdlib_module_names:
        raise ValueError
    return text and _cpp_identifier(text, folder)


def _flag(text: str, _: Path) -> bool:
    if text not in {"0", "1"}:
        raise ValueError
    return text == "1"


def _named_flags(text: str) -> tuple[str, ...]:
    meanings = {"yes": "1", "true": "1", "on": "1", "no": "0", "false": "0", "off": "0"}
    return tuple(value for name, value in meanings.items() if name == text.lower())


def _identifiers(text: str) -> tuple[str, ...]:
    return (re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_"),)


def _without_unit(text: str) -> tuple[str, ...]:
    return (re.sub(r"\s*[a-z]+$", "", text, flags=re.IGNORECASE),)


def _quantization(text: str, _: Path) -> Quantization:
    if text.lower() == "auto":
        return Quantization.AUTO
    return Quantization(_flag(text, _))


def _decibels(text: str, _: Path) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _output_decibels(text: str, folder: Path) -> float | None:
    return _decibels(text, folder) if text else None


def _pixels(text: str, _: Path) -> int | None:
    if text == "-1":
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) == 0:
        raise ValueError
    return int(text)


def _origin(text: str, _: Path) -> Frontend | None:
    if not text:
        return None
    origin = next((frontend for frontend in FRONTENDS if frontend.name == text.upper()), None)
    if origin is None:
        raise ValueError
    return origin


def _file(text: str, folder: Path) -> Path | None:
    if not text:
        return None
    path = _path(text, folder)
    if path.is_dir():
        raise IsADirectoryError(f'"{path}" is a folder, not a file')
    if not path.is_file():
        raise FileNotFoundError(f'there is no file "{path}"{near_file(path)}')
    return path


def _path(text: str, folder: Path) -> Path:
    if text.startswith("~"):
        raise NotADirectoryError(f'"{text}" begins with ~, which no shell replaces here: write the whole path')
    path = folder / text
    if re.search(r"(^|/)\$(\w|\{)", text) and not path.exists():
        raise NotADirectoryError(f'"{text}" has a $, which no shell replaces here: write the whole path')
    return path


def _model(text: str, folder: Path) -> Path | None:
    if text and (problem := explain(_path(text, folder))):
        raise UsageError(problem)
    return _file(text, folder)


def _folder(text: str, folder: Path) -> Path:
    path = _path(text, folder)
    if "\\" in text and os.sep == "/":
        raise NotADirectoryError(f'"{text}" has backslashes, which separate no folders on this system: write /')
    there = next(p for p in (path, *path.parents) if p.exists())
    if not there.is_dir():
        raise NotADirectoryError(f'"{there}" is a file, not a folder')
    return path


def _factors(text: str, _: Path) -> float | tuple[float, ...] | None:
    """One number, or several; None without any."""
    factors = tuple(_factor(part.strip()) for part in text.split(",")) if text else ()
    return factors if len(factors) > 1 else next(iter(factors), None)


def _factor(text: str) -> float:
    numerator, slash, denominator = text.partition("/")
    divisor = float(denominator) if slash else 1.0
    value = float(numerator) / divisor if divisor else math.nan
    if value == 0 or not math.isfinite(value):
        raise ValueError
    return value


def _numbers(text: str, _: Path) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.replace(",", " ").split())
    if not all(map(math.isfinite, values)):
        raise ValueError
    return values


def _fusion(text: str, _: Path) -> str:
    return Fusion({"conservative": "proven"}.get(text.lower(), text.lower())).value  # conservative: an alias


def _runtime(text: str, _: Path) -> str:
    return Runtime(text.lower()).value


def _softmax(text: str, _: Path) -> str:
    if text.lower() not in {"cpu", "sdk"}:
        raise ValueError
    return text.lower()


def _loadable(text: str, _: Path) -> str:
    if text.lower() not in {"none", *LOADABLES}:
        raise ValueError
    return text.lower()


class Threads(IntEnum):
    """In place of a number of threads. A number 0 would not survive its own check."""

    AUTO = 0


def _threads(text: str, _: Path) -> int:
    if text.lower() == "auto":
        return Threads.AUTO
    threads = int(text)
    if threads not in range(1, MOST_THREADS + 1):
        raise ValueError
    return threads


def _input_type(text: str, _: Path) -> str:
    if text.lower() not in INPUT_TYPES:
        raise ValueError
    return text.lower()


def _layer_names(text: str, _: Path) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text else ()
    if not all(names) or len(set(names)) < len(names):
        raise ValueError
    return names


def _level(text: str, _: Path) -> int | None:
    return int(text) if text else None


def _channel_order(text: str, _: Path) -> str:
    if text.upper() not in {"", "RGB", "BGR"}:
        raise ValueError
    return text.upper()


NETWORK_NAME = Kind(f"a name of up to {LONGEST_NAME} letters, digits and underscores", _network_name, _identifiers)
MODULE_NAME = Kind(
    "the name of a Python module: an identifier that is neither a keyword nor a module of Python's own",
    _module_name,
    _identifiers,
)
FLAG = Kind("0 or 1", _flag, _named_flags)
QUANTIZATION = Kind("0, 1 or auto", _quantization, _named_flags)
DECIBELS = Kind("a number of decibels", _decibels, _without_unit)
OUTPUT_DECIBELS = Kind("a number of decibels", _output_decibels, _without_unit)
PIXELS = Kind("a number of pixels, or -1 for the network's own", _pixels, _without_unit)
_FRAMEWORKS = [frontend.name for frontend in FRONTENDS]
ORIGIN = Kind(f"{', '.join(_FRAMEWORKS[:-1])} or {_FRAMEWORKS[-1]}", _origin)
FILE = Kind("a file", _file)
MODEL = Kind("a file", _model)
FOLDER = Kind("a folder", _folder)
FACTORS = Kind(
    "a number other than 0, a fraction such as 1/127.5, or one for each channel, separated by commas", _factors
)
NUMBERS = Kind("a number, or one for each channel, separated by commas", _numbers)
CHANNEL_ORDER = Kind("RGB or BGR", _channel_order)
INPUT_TYPES = {"fp16": "", "u8": "", "u8_rgb": "RGB", "u8_bgr": "BGR"}  # the order of channels that each demands
INPUT_TYPE = Kind("fp16, u8, u8_rgb or u8_bgr", _input_type)
FUSION = Kind("proven, documented, full or none", _fusion)
DEVICE = Kind(f"{', '.join(NAMES)}, or a .toml or .json file", read_hardware)
THREADS = Kind(f"auto, or a number of threads from 1 to {MOST_THREADS}", _threads)
SOFTMAX = Kind("cpu or sdk", _softmax)
LOADABLE = Kind(f"{', '.join(LOADABLES)} or none", _loadable)
RUNTIME = Kind("sdk or generated", _runtime)
STAGES = Kind("names of stages, each once, separated by commas", _layer_names)
LEVEL = Kind("a whole number", _level)
LAYER_NAMES = Kind("names of layers, each once, separated by commas", _layer_names)
TEXT = Kind("a text", lambda text, _: text)
