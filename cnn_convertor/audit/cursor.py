"""Walks through tokens, forwards and with a look ahead."""

from __future__ import annotations

from collections.abc import Sequence

from cnn_convertor.audit.state import NotUnderstoodError
from cnn_convertor.audit.tokens import Kind, Token

_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Cursor:
    """A place in a list of tokens."""

    def __init__(self, tokens: Sequence[Token], end_line: int) -> None:
        self.tokens = tokens
        self.at = 0
        self._end = Token(Kind.SIGN, "", end_line)

    def peek(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else self._end

    def next(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def sees(self, *texts: str) -> bool:
        return all(
            self.peek(i).text == text and self.peek(i).kind in {Kind.SIGN, Kind.NAME} for i, text in enumerate(texts)
        )

    def take(self, text: str) -> bool:
        """Go past the sign or word, if it is there."""
        if self.sees(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise NotUnderstoodError(f"expected {text}, not {self.peek().text or 'the end'}")

    def skip_brackets(self) -> list[Token]:
        """Go past a bracket and all that is in it; gives what was in it. A brace ends what is open inside of it."""
        start, awaited = self.at, list[str]()
        while not self.done:
            token = self.next()
            if token.kind is not Kind.SIGN:
                continue
            if token.text in _CLOSING:
                awaited.append(_CLOSING[token.text])
            elif token.text in awaited and (token.text == "}" or token.text == awaited[-1]):
                while awaited.pop() != token.text:
                    pass
            if not awaited:
                return list(self.tokens[start + 1 : self.at - 1])
        raise NotUnderstoodError("a bracket that is never closed")


def skip_statement(cursor: Cursor) -> None:
    """Go to the end of the statement at the cursor, with all branches of an if; at least one token."""
    while cursor.take("if"):
        if cursor.sees("("):
            _skip_brackets(cursor)
        if cursor.sees("if"):
            continue
        _skip_simple(cursor)
        if not cursor.take("else"):
            return
    _skip_simple(cursor)


def _skip_simple(cursor: Cursor) -> None:
    while not cursor.done:
        if cursor.sees("{") or cursor.sees("(") or cursor.sees("["):
            is_block = cursor.sees("{")
            _skip_brackets(cursor)
            if is_block and not any(map(cursor.sees, (";", ",", ")", ".", "(", "["))):
                return
        elif cursor.next().text == ";":
            return


def _skip_brackets(cursor: Cursor) -> None:
    try:
        cursor.skip_brackets()
    except NotUnderstoodError:
        cursor.at = len(cursor.tokens)


def shown(tokens: Sequence[Token], most: int = 80) -> str:
    """The tokens as one line of text."""
    text = ""
    for token in tokens:
        word = str(token)
        glued = not text or text[-1] in "([.&!~>:" or word in {";", ",", ".", "->", "(", ")", "[", "]", "::"}
        text += word if glued else f" {word}"
        if len(text) > most:
            return text[:most] + "..."
    return text
