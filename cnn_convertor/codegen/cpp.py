"""Values and names as C++ text."""

import numpy as np

from cnn_convertor.devices.program import Program


def class_name(program: Program) -> str:
    """The C++ class. The name of a network may begin with a digit; with the C it is an identifier."""
    return f"C{program.name}"


def c_string(name: str) -> str:
    """The name as a C string can hold it: a zero byte would end it, and the SDK crashes on a layer whose name is empty."""
    return name.replace("\0", "\\0") or "unnamed"


def bool_literal(value: bool) -> str:
    return "true" if value else "false"


def literal(kind: str, value: bool | int | float) -> str:
    if kind == "bool":
        return bool_literal(bool(value))
    if kind == "int":
        return str(int(value))
    with np.errstate(over="ignore"):
        text = str(np.float32(value))
    return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(text, f"{text}f")
