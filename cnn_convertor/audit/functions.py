"""Finds the functions, constants and macros that a source defines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cnn_convertor.audit.cursor import Cursor, shown, skip_statement
from cnn_convertor.audit.state import NotUnderstoodError
from cnn_convertor.audit.tokens import Kind, Token, integer, tokenize
from cnn_convertor.errors import Origin, Problem


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    is_reference: bool


@dataclass(frozen=True, slots=True)
class Function:
    """owner: the class that it belongs to; empty for none."""

    name: str
    owner: str
    parameters: tuple[Parameter, ...]
    body: tuple[Token, ...]
    line: int
    end_line: int


@dataclass(slots=True)
class Declarations:
    functions: dict[str, Function] = field(default_factory=dict)
    macros: dict[str, list[Token]] = field(default_factory=dict)
    variables: list[list[Token]] = field(default_factory=list)
    findings: list[Problem] = field(default_factory=list)

    def problem(self, file: str, line: int, message: str, hint: str) -> None:
        self.findings.append(Problem("DV602", message, Origin(file, line=line), hint))


def declarations(text: str, file: str) -> Declarations:
    """What the source defines at its top level; findings are what cannot be understood there."""
    made = Declarations()
    tokens = list(_preprocessed(tokenize(text), made, file))
    _collect(Cursor(tokens, tokens[-1].line if tokens else 1), made, file)
    return made


def _preprocessed(tokens: list[Token], made: Declarations, file: str) -> Iterator[Token]:
    """The tokens that the compiler sees; macros that stand for one value are noted."""
    taken: list[bool] = []  # one for each condition around the present line
    for token in tokens:
        if token.kind is not Kind.DIRECTIVE:
            if all(taken):
                yield token
            continue
        word, _, rest = token.text[1:].strip().partition(" ")
        match word, rest.strip():
            case (("ifdef" | "ifndef"), name):
                taken.append((name in made.macros) == (word == "ifdef"))
            case "if", value:
                number = integer(value)
                if number is None:
                    made.problem(
                        file, token.line, f"not understood: {token.text}", "audit what the preprocessor leaves: g++ -E"
                    )
                taken.append(number != 0)
            case "else", _ if taken:
                taken[-1] = not taken[-1]
            case "endif", _ if taken:
                taken.pop()
            case "define", rest if all(taken):
                _define(rest, made)
            case "undef", name if all(taken):
                made.macros.pop(name, None)
            case (("include" | "pragma" | "line" | "define" | "undef" | ""), _):
                pass
            case _:
                if all(taken):
                    made.problem(
                        file, token.line, f"not understood: {token.text}", "audit what the preprocessor leaves: g++ -E"
                    )


def _define(rest: str, made: Declarations) -> None:
    """A macro with arguments is not noted: its use is then a call of something unknown."""
    tokens = tokenize(rest)
    if tokens and tokens[0].kind is Kind.NAME and not rest[len(tokens[0].text) :].startswith("("):
        made.macros[tokens[0].text] = tokens[1:]


def _collect(cursor: Cursor, made: Declarations, file: str, depth: int = 0) -> None:
    while not cursor.done:
        start = cursor.at
        try:
            _definition(cursor, made, file, depth)
        except NotUnderstoodError as error:
            cursor.at = start
            line = cursor.peek().line
            skip_statement(cursor)
            text = shown(cursor.tokens[start : cursor.at])
            made.problem(
                file, line, f"not understood: {text}: {error}", "compare the source with what the SDK's tools write"
            )


def _definition(cursor: Cursor, made: Declarations, file: str, depth: int) -> None:
    """One definition at the top level, or in a namespace."""
    start, head = cursor.at, set[str]()
    while not cursor.done:
        if cursor.take(";"):
            _variable(list(cursor.tokens[start : cursor.at]), made)
            return
        if cursor.sees("=") or (cursor.sees("{") and head & {"class", "struct", "union", "enum"}):
            skip_statement(cursor)
            if cursor.tokens[cursor.at - 1].text != ";":
                raise NotUnderstoodError("it does not end")
            _variable(list(cursor.tokens[start : cursor.at]), made)
            return
        if cursor.sees("{") and head & {"namespace", "extern"}:
            if depth > 20:
                raise NotUnderstoodError("nested too deep")
            line = cursor.peek().line
            _collect(Cursor(cursor.skip_brackets(), line), made, file, depth + 1)
            return
        if cursor.sees("{"):
            raise NotUnderstoodError("braces that belong to nothing known")
        if cursor.sees("(") and cursor.at > start and cursor.peek(-1).kind is Kind.NAME:
            _function(cursor, start, made)
            return
        token = cursor.next()
        head.add(token.text)
        if token.kind in {Kind.UNKNOWN, Kind.NUMBER} or token.text in {"}", ")", "]"}:
            raise NotUnderstoodError(f"unexpected {token.text}")
    raise NotUnderstoodError("it does not end")


def _variable(tokens: list[Token], made: Declarations) -> None:
    """Types, and what is only declared, say nothing about a network."""
    words = [token.text for token in tokens]
    if "=" in words and not set(words) & {"using", "enum", "class", "union", "typedef"}:
        made.variables.append(tokens)


def _function(cursor: Cursor, start: int, made: Declarations) -> None:
    """At the parenthesis of a function's parameters."""
    name = cursor.peek(-1)
    before = cursor.tokens[max(start, cursor.at - 3) : cursor.at - 1]
    owner = before[-2].text if len(before) >= 2 and before[-1].text == "::" else ""
    is_destructor = bool(before) and before[-1].text == "~"
    parameters = _parameters(cursor.skip_brackets())
    while any(map(cursor.sees, ("const", "override", "final", "noexcept"))):
        cursor.next()
    if cursor.take(";") or cursor.take("="):  # declared only, or = default
        if cursor.tokens[cursor.at - 1].text == "=":
            skip_statement(cursor)
        return
    if cursor.take(":"):
        _skip_initializers(cursor)
    if not cursor.sees("{"):
        raise NotUnderstoodError("a function without body")
    body = cursor.skip_brackets()
    if is_destructor:
        return
    if name.text in made.functions:
        raise NotUnderstoodError(f"{name.text} is defined a second time")
    end_line = cursor.tokens[cursor.at - 1].line
    made.functions[name.text] = Function(name.text, owner, parameters, tuple(body), name.line, end_line)


def _parameters(tokens: list[Token]) -> tuple[Parameter, ...]:
    """The names of a function's parameters, which stand before a comma or the end."""
    parameters, part = [], list[Token]()
    for token in [*tokens, Token(Kind.SIGN, ",", 0)]:
        if token.text != ",":
            part.append(token)
            continue
        names = [t.text for t in part if t.kind is Kind.NAME]
        if names and names != ["void"]:
            parameters.append(Parameter(names[-1], any(t.text == "&" for t in part)))
        part = []
    return tuple(parameters)


def _skip_initializers(cursor: Cursor) -> None:
    """name(value), name{value}, ... of a constructor."""
    while cursor.peek().kind is Kind.NAME:
        cursor.next()
        if cursor.sees("(") or cursor.sees("{"):
            cursor.skip_brackets()
        cursor.take(",")
