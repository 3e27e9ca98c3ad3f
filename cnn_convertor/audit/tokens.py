"""Cuts C++ text into tokens, and walks through them."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class NotUnderstoodError(Exception):
    """A construct that the reader does not know; the text names it."""


class Token(NamedTuple):
    """kind: name, number, string, sign, directive or unknown. The text of a string has its meaning behind one quote."""

    kind: str
    text: str
    line: int

    def __str__(self) -> str:
        return self.text + '"' * (self.kind == "string")


_TOKEN = re.compile(
    r"""
      (?P<space> (?:\s|\\\n)+ | //(?:\\\n|[^\n])* | /\*.*?\*/ )
    | (?P<directive> \#(?:\\.|[^\\\n])* )
    | R"(?P<mark>[^\s()\\"]{0,16})\((?P<raw>.*?)\)(?P=mark)"
    | (?:u8|[uUL])?"(?P<string>(?:[^"\\\n]|\\.)*)"
    | '(?P<character>[^'\\\n]|\\[^\n]{1,3}?)'
    | (?P<number> \.?[0-9](?:[eEpP][+-]|'[0-9a-fA-F]|[0-9a-zA-Z_.])* )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign> <<=|>>=|->|::|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]] )
    | (?P<unknown> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"\n": b""}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of a source, without comments. What is not C++ becomes a token of its own."""
    line = 1
    for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
        kind = str(match.lastgroup)
        word = match[kind]
        if kind in {"raw", "string"}:
            yield Token("string", '"' + (word if kind == "raw" else unescape(word)), line)
        elif kind == "character":
            word = unescape(word)
            yield Token("number", str(ord(word)), line) if len(word) == 1 else Token("unknown", match[0], line)
        elif kind == "directive":
            yield Token(kind, re.sub(r"\\\n|//.*|/\*.*?\*/", " ", word).strip(), line)
        elif kind != "space":
            yield Token(kind, word, line)
        line += match[0].count("\n")


def unescape(text: str) -> str:
    """The characters that the inside of a literal stands for; octal and hexadecimal escapes are bytes of UTF-8."""
    return _ESCAPE.sub(_meaning, text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _meaning(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, *wide, other = match.groups()
    if octal or hexadecimal:
        return bytes([(int(octal, 8) if octal else int(hexadecimal, 16)) & 0xFF])
    if other is None:
        number = int(wide[0] or wide[1], 16)
        return (chr(number) if number < 0x110000 else "\ufffd").encode("utf-8", "replace")
    return _ESCAPED.get(other, other)


def integer(text: str) -> int | None:
    """The value of an integer literal with its suffixes and separators; None for another literal."""
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)[uUlLzZ]{0,3}", text.replace("'", ""))
    if match is None or len(text) > 40:
        return None
    is_octal = match[1].isdigit() and match[1].startswith("0")
    return int(match[1], 8 if is_octal else 0)


class Cursor:
    """A place in a list of tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self._end = Token("sign", "", tokens[-1].line if tokens else 1)

    def peek(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else self._end

    def next(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these signs or words."""
        return self.peek().text in texts

    def take(self, *texts: str) -> bool:
        """Go past the next token, if it is one of these."""
        found = self.sees(*texts) and not self.done
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise NotUnderstoodError(f"expected {text}, not {self.peek().text or 'the end'}")

    def brackets(self) -> list[Token]:
        """Go past a bracket and what is in it; gives what was in it. A brace ends what is open inside of it."""
        start, awaited, braces = self.at, list[str](), 0
        while not self.done:
            text = self.next().text
            if text in _CLOSING:
                awaited.append(_CLOSING[text])
                braces += text == "{"
            elif text == awaited[-1] or (text == "}" and braces):
                braces -= text == "}"
                while awaited.pop() != text:
                    pass
            if not awaited:
                return list(self.tokens[start + 1 : self.at - 1])
        raise NotUnderstoodError("a bracket that is never closed")

    def statement(self) -> Sequence[Token]:
        """Go past a statement, with all branches of an if; gives its tokens, at least one."""
        start = self.at
        while self.take("if"):
            if self.sees("("):
                self._bracket()
            if self.sees("if"):
                continue
            self._simple()
            if not self.take("else"):
                return self.tokens[start : self.at]
        self._simple()
        return self.tokens[start : self.at]

    def _simple(self) -> None:
        while not self.done:
            if self.sees(*_CLOSING):
                is_block = self.sees("{")
                self._bracket()
                if is_block and not self.sees(";", ",", ")", ".", "(", "["):
                    return
            elif self.next().text == ";":
                return

    def _bracket(self) -> None:
        try:
            self.brackets()
        except NotUnderstoodError:
            self.at = len(self.tokens)


def shown(tokens: Sequence[Token], most: int = 80) -> str:
    text = ""
    for token in tokens:
        word = str(token)
        glued = not text or text[-1] in "([.&!~>:" or word in {";", ",", ".", "->", "(", ")", "[", "]", "::"}
        text += word if glued else f" {word}"
        if len(text) > most:
            return text[:most] + "..."
    return text
