"""Reads protobuf's text format into messages, with line numbers; skips the fields of vendors' forks."""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cnn_convertor.errors import ModelError, Origin, spelling_of, suggestion
from cnn_convertor.frontends.caffe.schema import SKIPPED, is_repeated

DEEPEST = 50  # messages inside messages; Caffe's own need four
LONGEST_SHOWN = 60  # characters of a word or a number in a message

TOKEN = re.compile(
    r"""(?P<space> \s+ | \#[^\n]* )
      | (?P<number> (?: 0[xX][0-9a-fA-F]+ | (?: \d+(?:\.\d*)? | \.\d+ ) (?: [eE][+-]?\d+ )? ) [fF]? )
      | (?P<word> [A-Za-z_]\w* )
      | (?P<string> ["'] )
      | (?P<mark> [][{}<>:;,./-] )""",
    re.VERBOSE | re.ASCII,
)
INSIDE = re.compile(r"""[^"'\\\n]*""")  # characters of a text between quotes that mean themselves
ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|(.))",
    re.DOTALL,
)
ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
CLOSING = {"{": "}", "<": ">"}
BOOLS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class TextToken(NamedTuple):
    kind: str  # one of the groups in TOKEN; "end" at the end of the text
    text: str
    line: int

    @property
    def shown(self) -> str:
        """The text, as messages show it."""
        return self.text if len(self.text) <= LONGEST_SHOWN else f"{self.text[: LONGEST_SHOWN - 3]}..."


@dataclass(frozen=True, slots=True)
class Unknown:
    """A field that the schema does not have. line: of the first one; count: of all in the same place.

    within: the message's own field around it, by (name, index). group: the field inside that one, where it is not in there itself.
    """

    message: str
    name: str
    within: tuple[str, int]
    group: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A parsed text. lines: of the message's own fields, by (name, index). unknown: the fields that were skipped."""

    message: Any
    lines: dict[tuple[str, int], int]
    unknown: tuple[Unknown, ...]
    words: dict[tuple[str, int, str], str]


def parse(text: str, message_class: Any, file: str, *, open_enums: Container[str] = ()) -> ParsedText:
    """Read a text as a message.

    open_enums: full names of enum fields that may hold unknown names. `words` then has the name, by (name and index of the
    message's own field, name of the field inside).
    Raises ModelError, with the line, where the text is invalid.
    """
    tokens = _tokens(text, file)
    reader = _TextReader(tokens, file, open_enums, next(tokens))
    message = message_class()
    reader.fields(message, closing="", depth=0)
    unknown = tuple(Unknown(*key, line, count) for key, (line, count) in reader.unknown.items())
    return ParsedText(message, reader.lines, unknown, reader.words)


def _error(file: str, line: int, message: str, hint: str = "") -> ModelError:
    return ModelError.of("DV211", message, Origin(file, line=line), hint)


def _tokens(text: str, file: str) -> Iterator[TextToken]:
    position, line = 0, 1
    while position < len(text):
        match = TOKEN.match(text, position)
        end = position if match is None else match.end() if match.lastgroup != "string" else _string_end(text, position)
        if match is None or end == position:
            wrong = text[position : position + 20].splitlines()[0]
            raise _error(file, line, f"{wrong!r} is not text of a Caffe definition")
        assert match.lastgroup is not None
        if match.lastgroup == "space":
            line += match[0].count("\n")
        else:
            yield TextToken(match.lastgroup, text[position:end], line)
        position = end
    yield TextToken("end", "the end of the file", line)


def _string_end(text: str, start: int) -> int:
    """Where the text between quotes ends that starts there; the start where it does not end in its line.

    A loop of a regular expression would keep memory for each escape.
    """
    position = start + 1
    while True:
        inside = INSIDE.match(text, position)
        assert inside is not None
        position = inside.end()
        match text[position : position + 1]:
            case "" | "\n":
                return start
            case "\\":
                position += 2 if text[position + 1 : position + 2] not in ("", "\n") else 1
            case quote:
                position += 1
                if quote == text[start]:
                    return position


@dataclass(slots=True)
class _TextReader:
    """Reads token after token, so that memory holds one at a time. token: the next one. line: of the last one taken."""

    tokens: Iterator[TextToken]
    file: str
    open_enums: Container[str]
    token: TextToken
    line: int = 1
    field_key: tuple[str, int] = ("", 0)
    group: str = ""
    lines: dict[tuple[str, int], int] = field(default_factory=dict)
    unknown: dict[tuple[str, str, tuple[str, int], str], tuple[int, int]] = field(default_factory=dict)
    words: dict[tuple[str, int, str], str] = field(default_factory=dict)

    # --- tokens

    def take(self) -> TextToken:
        token = self.token
        self.line = token.line
        if token.kind != "end":
            self.token = next(self.tokens)
        return token

    def take_mark(self, marks: str) -> str:
        """The next token if it is one of these marks, else an empty text."""
        return self.take().text if self.token.kind == "mark" and self.token.text in marks else ""

    def error(self, message: str, hint: str = "", token: TextToken | None = None) -> ModelError:
        return _error(self.file, (token or self.token).line, message, hint)

    # --- fields

    def fields(self, message: Any, *, closing: str, depth: int) -> None:
        """Read fields up to the closing bracket, or the end of the text."""
        if depth > DEEPEST:
            raise self.error("the brackets are nested too deeply")
        opened = self.line
        while True:
            token = self.take()
            if token.kind == "mark" and token.text in ",;":
                continue
            if token.kind == "mark" and token.text == closing:
                return
            if token.kind == "end" and closing:
                raise self.error(
                    f'the file ends before the "{closing}" of the bracket opened in line {opened}',
                    "is the file complete?",
                )
            if token.kind == "end":
                return
            self.one_field(message, token, depth)

    def one_field(self, message: Any, name: TextToken, depth: int) -> None:
        if name.kind != "word":
            raise self.error(f"{name.shown} stands where a field's name should be", token=name)
        described = message.DESCRIPTOR.fields_by_name.get(name.text)
        inner = None if described is None else described.message_type
        if described is None or (inner is not None and inner.name == "BlobProto"):
            self.note_unknown(message.DESCRIPTOR.name, name, depth)
            self.skip_value()
            return
        if inner is not None and inner.full_name == SKIPPED:
            self.skip_value()
            return
        if depth == 0:
            index = len(getattr(message, name.text)) if is_repeated(described) else 0
            self.field_key = (name.text, index)
            self.lines.setdefault(self.field_key, name.line)
        elif depth == 1:
            self.group = name.text
        colon = self.take_mark(":")
        if described.message_type is None and not colon:
            raise self.error(f'a colon is missing after "{name.shown}"')
        if is_repeated(described) and self.take_mark("["):
            while not self.take_mark("]"):
                self.value(message, described, name, depth)
                if not self.take_mark(",") and self.token.text != "]":
                    raise self.error(f"{self.token.shown} stands where a comma or the end of a list should be")
        else:
            self.value(message, described, name, depth)

    def value(self, message: Any, described: Any, name: TextToken, depth: int) -> None:
        if described.message_type is not None:
            opening = self.take_mark("{<")
            if not opening:
                raise self.error(f'"{name.text}" needs a bracket, not {self.token.shown}')
            inner = getattr(message, name.text)
            if is_repeated(described):
                inner = inner.add()
            else:
                inner.SetInParent()
            self.fields(inner, closing=CLOSING[opening], depth=depth + 1)
            return
        token = self.token
        value = self.scalar(described, name)
        if value is None:
            return
        try:
            if is_repeated(described):
                getattr(message, name.text).append(value)
                return
            if message.HasField(name.text) and getattr(message, name.text) != value:
                raise self.error(f'"{name.text}" is given twice, with different values', "keep one of them", token)
            setattr(message, name.text, value)
        except (ValueError, TypeError, OverflowError):
            raise self.error(f'{token.shown} is out of range for "{name.text}"', token=token) from None

    # --- values

    def scalar(self, described: Any, name: TextToken) -> Any:
        """The next value, in the field's type; None for an unknown name of an open enum."""
        minus = bool(self.take_mark("-"))
        token = self.take()
        if described.enum_type is not None:
            return self.enum(described, name, token, minus)
        match described.cpp_type, token.kind:
            case (described.CPPTYPE_STRING, "string") if not minus:
                literals = [token.text]
                while self.token.kind == "string":
                    literals.append(self.take().text)
                data = b"".join(ESCAPE.sub(_unescape, literal[1:-1].encode()) for literal in literals)
                return data if described.type == described.TYPE_BYTES else data.decode("utf-8", errors="replace")
            case (described.CPPTYPE_BOOL, "word" | "number" | "string") if not minus:
                if (word := token.text.strip("\"'").lower()) in BOOLS:
                    return BOOLS[word]
            case (described.CPPTYPE_FLOAT | described.CPPTYPE_DOUBLE, "number" | "word"):
                number = _float(token.text)
                if number is not None:
                    return -number if minus else number
            case (_, "number") if described.cpp_type not in (described.CPPTYPE_STRING, described.CPPTYPE_BOOL):
                whole = _whole(token.text)
                if whole is not None:
                    return -whole if minus else whole
        expected = {
            described.CPPTYPE_STRING: "a text in quotes",
            described.CPPTYPE_BOOL: "true or false",
            described.CPPTYPE_FLOAT: "a number",
            described.CPPTYPE_DOUBLE: "a number",
        }.get(described.cpp_type, "a whole number")
        raise self.error(f'"{name.text}" needs {expected}, not {"-" * minus}{token.shown}', token=token)

    def enum(self, described: Any, name: TextToken, token: TextToken, minus: bool) -> int | None:
        """An enum value's number. Quotes, case and underscores do not matter, since they leave no doubt."""
        if token.kind in ("word", "string") and not minus:
            word = token.text.strip("\"'")
            for value in described.enum_type.values:
                if spelling_of(value.name) == spelling_of(word):
                    return int(value.number)
            if described.full_name in self.open_enums:
                field, index = self.field_key
                self.words[field, index, name.text] = word
                return None
        elif token.kind == "number" and not minus:
            number = _whole(token.text)
            if number is not None and number in described.enum_type.values_by_number:
                return number
        names = [value.name for value in described.enum_type.values]
        hint = (
            f"Caffe's own values are {', '.join(names)}; this may be a value of a fork, which computes something else"
        )
        hint = suggestion(token.text, names, strict=True) or hint
        raise self.error(f'"{name.text}" is {"-" * minus}{token.shown}, which is not one of its values', hint, token)

    # --- unknown fields

    def note_unknown(self, message: str, name: TextToken, depth: int) -> None:
        within = self.field_key if depth > 0 else ("", 0)
        key = (message, name.text, within, self.group if depth > 1 else "")
        line, count = self.unknown.get(key, (name.line, 0))
        self.unknown[key] = line, count + 1

    def skip_value(self) -> None:
        """Skip a value of any kind."""
        colon = self.take_mark(":")
        if opening := self.take_mark("{<[" if colon else "{<"):
            brackets = [opening]
            while brackets:
                token = self.take()
                if token.kind == "end":
                    raise self.error("the file ends inside a bracket", "is the file complete?")
                if len(brackets) > DEEPEST:
                    raise self.error("the brackets are nested too deeply", token=token)
                if token.kind == "mark" and token.text in "{<[":
                    brackets.append(token.text)
                elif (
                    token.kind == "mark"
                    and token.text in "}>]"
                    and brackets.pop() + token.text not in ("{}", "<>", "[]")
                ):
                    raise self.error(f"{token.text} closes no bracket", token=token)
            return
        if not colon:
            raise self.error(f"{self.token.shown} stands where a colon or a bracket should be")
        self.take_mark("-")
        token = self.take()
        if token.kind not in ("number", "word", "string"):
            raise self.error(f"{token.shown} stands where a value should be", token=token)
        while token.kind == self.token.kind == "string":
            self.take()


def _unescape(match: re.Match[bytes]) -> bytes:
    """The bytes that an escape stands for: protobuf writes letters beyond ASCII as one escape for each byte of UTF-8."""
    octal, hexadecimal, short, long, other = match.groups()
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if code := short or long:
        return chr(int(code, 16)).encode("utf-8", "replace")
    return ESCAPED.get(other, other)


def _float(text: str) -> float | None:
    whole = _whole(text)
    try:
        return (
            float(text.rstrip("fF") if text[0].isdigit() or text[0] == "." else text) if whole is None else float(whole)
        )
    except (ValueError, OverflowError):
        return None


def _whole(text: str) -> int | None:
    """A whole number in decimal, octal or hexadecimal digits, or one written like 3.0."""
    try:
        if re.fullmatch(r"0[0-7]+", text):
            return int(text, 8)
        return int(text, 16 if text[:2] in ("0x", "0X") else 10)
    except ValueError:
        pass
    try:
        number = float(text.rstrip("fF"))
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
