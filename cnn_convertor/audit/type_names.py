"""Reads the names of types."""

from __future__ import annotations

from cnn_convertor.audit.cursor import Cursor
from cnn_convertor.audit.structs import SCALARS, STRUCTS, UNKNOWN, Type
from cnn_convertor.audit.tokens import Kind

QUALIFIERS = {"const", "constexpr", "static", "struct", "class", "enum", "inline", "volatile", "register", "std"}
_TYPES = {"void", *SCALARS, *STRUCTS}


def type_name(cursor: Cursor) -> tuple[Type, int] | None:
    """The type at the cursor and its number of stars; None, and the cursor stays, when there is no known type."""
    start, known = cursor.at, []
    while cursor.peek().kind is Kind.NAME or cursor.sees("::"):
        word = cursor.peek().text
        if word not in QUALIFIERS and word != "::" and word not in _TYPES:
            break
        if word in _TYPES:
            known.append(word)
        cursor.next()
    if not known:
        cursor.at = start
        return None
    stars = 0
    while cursor.sees("*") or cursor.sees("const") or cursor.sees("&"):
        stars += cursor.next().text == "*"
    return _named(known), stars


def _named(words: list[str]) -> Type:
    """The type of some words like unsigned long."""
    if words[-1] in STRUCTS:
        return STRUCTS[words[-1]]
    if "void" in words:
        return UNKNOWN
    if "unsigned" in words:
        size = SCALARS[next((word for word in words if word not in {"unsigned", "int"}), "int")].size
        return SCALARS[f"uint{8 * size}_t"]
    return SCALARS[next((word for word in words if word != "int"), "int")]
