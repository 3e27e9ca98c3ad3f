"""Cuts C++ text into tokens."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    NAME = auto()
    NUMBER = auto()
    STRING = auto()  # the text is what the literal means
    SIGN = auto()
    DIRECTIVE = auto()  # a whole line of the preprocessor
    UNKNOWN = auto()  # no C++ at all


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    line: int

    def __str__(self) -> str:
        return f'"{self.text}"' if self.kind is Kind.STRING else self.text


_TOKEN = re.compile(
    r"""
      (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<directive> \#[^\n]* )
    | (?P<raw> R"(?P<mark>[^\s()\\"]{0,16})\((?P<body>.*?)\)(?P=mark)" )
    | (?P<string> (?:u8|[uUL])? "(?P<inside>(?:[^"\\\n]|\\.)*)" )
    | (?P<char> '(?P<sign>[^'\\\n]|\\[^\n]{1,3}?)' )
    | (?P<number> \.?[0-9](?:[eEpP][+-]|'[0-9a-fA-F]|[0-9a-zA-Z_.])* )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<op> <<=|>>=|->|::|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]] )
    | (?P<unknown> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]+|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def tokenize(text: str) -> list[Token]:
    """The tokens of a source, without comments. Never fails: what is no C++ becomes a token of its own."""
    text, lines = _splice(text.replace("\r\n", "\n"))
    tokens = []
    for match in _TOKEN.finditer(text):
        line = bisect_right(lines, match.start())
        match match.lastgroup:
            case "space":
                continue
            case "directive":
                tokens.append(Token(Kind.DIRECTIVE, _without_comment(match[0]), line))
            case "raw":
                tokens.append(Token(Kind.STRING, match["body"], line))
            case "string":
                tokens.append(Token(Kind.STRING, unescape(match["inside"]), line))
            case "char":
                tokens.append(_character(match, line))
            case "number":
                tokens.append(Token(Kind.NUMBER, match[0], line))
            case "name":
                tokens.append(Token(Kind.NAME, match[0], line))
            case "op":
                tokens.append(Token(Kind.SIGN, match[0], line))
            case _:
                tokens.append(Token(Kind.UNKNOWN, match[0], line))
    return tokens


def _splice(text: str) -> tuple[str, list[int]]:
    """The text with continued lines joined, and where each line of the file starts in it."""
    pieces, starts, length = [], [0], 0
    for line in text.split("\n"):
        piece = line[:-1] if line.endswith("\\") else line + "\n"
        pieces.append(piece)
        length += len(piece)
        starts.append(length)
    return "".join(pieces), starts[:-1]


def _without_comment(directive: str) -> str:
    return re.sub(r"//.*|/\*.*?\*/", " ", directive).strip()


def _character(match: re.Match[str], line: int) -> Token:
    """A character is its number."""
    character = unescape(match["sign"])
    if len(character) != 1:
        return Token(Kind.UNKNOWN, match[0], line)
    return Token(Kind.NUMBER, str(ord(character)), line)


def unescape(text: str) -> str:
    """What stands between the quotes of a literal, as the characters that it means; octal and hex escapes are UTF-8."""
    pieces: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        pieces += [text[end : match.start()].encode("utf-8", "replace"), _meaning(match[1])]
        end = match.end()
    pieces.append(text[end:].encode("utf-8", "replace"))
    return b"".join(pieces).decode("utf-8", "replace")


def _meaning(escape: str) -> bytes:
    if escape[0] in "01234567":
        return bytes([int(escape, 8) & 0xFF])
    if escape[0] == "x" and len(escape) > 1:
        return bytes([int(escape[-2:], 16) if len(escape) > 2 else int(escape[1:], 16)])
    if escape[0] in "uU" and len(escape) > 1:
        number = int(escape[1:], 16)
        return (chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd").encode()
    return _ESCAPED.get(escape, escape).encode("utf-8", "replace")


def integer(text: str) -> int | None:
    """The value of an integer literal with its suffixes and separators; None when it is none."""
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlLzZ]{0,3}", text.replace("'", ""))
    if match is None or len(text) > 40:
        return None
    digits = match[1].lower()
    if digits[:2] in {"0x", "0b"}:
        return int(digits, 0)
    if digits[0] == "0":
        return int(digits, 8) if set(digits) <= set("01234567") else None
    return int(digits)
