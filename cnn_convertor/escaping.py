"""Makes any text harmless where it lands in a generated file."""

from __future__ import annotations

import re


def comment(text: str) -> str:
    """For a // comment: one line, no trigraphs, no backslash at the end that would swallow the next line."""
    line = re.sub(r"\?(?=\?)", "? ", _visible(text))
    return line + "." if line.rstrip().endswith("\\") else line


def text(value: str) -> str:
    """As a C++ string literal, with its quotes."""
    escaped = []
    for char in value:
        if char in '"\\?':  # two question marks may begin a trigraph
            escaped.append("\\" + char)
        elif char.isprintable():
            escaped.append(char)
        else:  # octal escapes end after three digits, whatever follows
            escaped.extend(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))
    return '"' + "".join(escaped) + '"'


def doxygen(value: str) -> str:
    """For a Doxygen page inside a block comment: no commands, no markup, no end of comment."""
    line = _visible(value).replace("\\", "\\\\")
    for char in "@<>&#|%$`*[]":
        line = line.replace(char, "\\" + char)
    return line.replace("*/", "* /").replace("/*", "/ *")


def dot(value: str) -> str:
    """As a Graphviz string, with its quotes; line breaks stay line breaks."""
    lines = [_visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in value.split("\n")]
    return '"' + "\\n".join(lines) + '"'


def _visible(value: str) -> str:
    """Control characters (line breaks, right-to-left marks, ...) as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in value)
