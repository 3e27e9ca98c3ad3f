"""Finds the functions, variables and macros that a source defines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cnn_convertor.audit.codes import hint
from cnn_convertor.audit.tokens import Cursor, NotUnderstoodError, Token, shown, tokenize
from cnn_convertor.errors import Origin, Problem


class Parameter(NamedTuple):
    name: str
    is_reference: bool


class Function(NamedTuple):
    """owner: the class that it belongs to; empty for none."""

    name: str
    owner: str
    parameters: tuple[Parameter, ...]
    body: Sequence[Token]
    line: int


@dataclass(slots=True)
class Definitions:
    """The top level of a source. findings: what in it is not understood."""

    file: str
    functions: dict[str, Function] = field(default_factory=dict)
    macros: dict[str, list[Token]] = field(default_factory=dict)
    variables: list[Sequence[Token]] = field(default_factory=list)
    findings: list[Problem] = field(default_factory=list)

    def refuse(self, what: str, line: int) -> None:
        where = Origin(self.file, line=line)
        self.findings.append(Problem("DV602", f"not understood: {what}", where, hint("DV602")))


def definitions(text: str, file: str) -> Definitions:
    made = Definitions(file)
    _collect(Cursor(list(_preprocessed(text, made))), made)
    return made


def _preprocessed(text: str, made: Definitions) -> Iterator[Token]:
    """The tokens that the compiler sees; macros without parameters are noted."""
    taken: list[bool] = []  # one for each condition around the present line
    for token in tokenize(text):
        if token.kind != "directive":
            if all(taken):
                yield token
            continue
        word, _, rest = token.text[1:].strip().partition(" ")
        match word, rest.strip():
            case (("ifdef" | "ifndef"), name):
                taken.append((name in made.macros) == (word == "ifdef"))
            case "if", value:
                if value not in {"0", "1"} and all(taken):
                    made.refuse(token.text, token.line)
                taken.append(value != "0")
            case "else", _ if taken:
                taken[-1] = not taken[-1]
            case "endif", _ if taken:
                taken.pop()
            case "define", rest if all(taken):
                words = list(tokenize(rest))
                if words and not rest[len(words[0].text) :].startswith("("):
                    made.macros[words[0].text] = words[1:]
            case "undef", name if all(taken):
                made.macros.pop(name, None)
            case (("include" | "pragma" | "line" | "define" | "undef" | ""), _):
                pass
            case _ if all(taken) or word == "elif":
                made.refuse(token.text, token.line)


def _collect(cursor: Cursor, made: Definitions, depth: int = 0) -> None:
    while not cursor.done:
        start = cursor.at
        try:
            _definition(cursor, made, depth)
        except NotUnderstoodError as error:
            cursor.at = start
            line, statement = cursor.peek().line, cursor.statement()
            made.refuse(f"{shown(statement)}: {error}", line)


def _definition(cursor: Cursor, made: Definitions, depth: int) -> None:
    """One definition at the top level, or in a namespace."""
    start, head = cursor.at, set[str]()
    while not cursor.done:
        is_type = bool(head & {"class", "struct", "union", "enum"})
        if cursor.take(";"):
            return  # only declared
        if cursor.sees("=") or (cursor.sees("{") and is_type):
            is_variable = cursor.sees("=") and not head & {"using", "typedef"}
            cursor.statement()
            if cursor.peek(-1).text != ";":
                raise NotUnderstoodError("it does not end")
            if is_variable:
                made.variables.append(cursor.tokens[start : cursor.at])
            return
        if cursor.sees("{") and head & {"namespace", "extern"}:
            if depth > 20:
                raise NotUnderstoodError("nested too deep")
            _collect(Cursor(cursor.brackets()), made, depth + 1)
            return
        if cursor.sees("(") and cursor.at > start and cursor.peek(-1).kind == "name":
            _function(cursor, start, made)
            return
        token = cursor.next()
        head.add(token.text)
        if token.kind in {"unknown", "number"} or token.text in {"{", "}", ")", "]"}:
            raise NotUnderstoodError(f"unexpected {token.text}")
    raise NotUnderstoodError("it does not end")


def _function(cursor: Cursor, start: int, made: Definitions) -> None:
    """At the parenthesis of a function's parameters."""
    name, before = cursor.peek(-1), [token.text for token in cursor.tokens[start : cursor.at - 1]]
    owner = before[-2] if before[-1:] == ["::"] and len(before) > 1 else ""
    parameters = tuple(_parameters(cursor.brackets()))
    while cursor.take("const", "override", "final", "noexcept"):
        pass
    if cursor.sees(";", "="):  # declared only, or = default
        cursor.statement()
        return
    if cursor.take(":"):
        while not cursor.done and cursor.next().kind == "name":  # name(value), name{value}, ... of a constructor
            if cursor.sees("(", "{"):
                cursor.brackets()
            if not cursor.take(","):
                break
    if not cursor.sees("{"):
        raise NotUnderstoodError("a function without body")
    body = cursor.brackets()
    if before[-1:] == ["~"]:
        return
    if name.text in made.functions:
        raise NotUnderstoodError(f"{name.text} is defined a second time")
    made.functions[name.text] = Function(name.text, owner, parameters, body, name.line)


def _parameters(tokens: list[Token]) -> Iterator[Parameter]:
    """A parameter's name is the last word before a comma or the end."""
    part: list[Token] = []
    for token in [*tokens, Token("sign", ",", 0)]:
        if token.text != ",":
            part.append(token)
            continue
        names = [t.text for t in part if t.kind == "name"]
        if names and names != ["void"]:
            yield Parameter(names[-1], any(t.text == "&" for t in part))
        part = []
