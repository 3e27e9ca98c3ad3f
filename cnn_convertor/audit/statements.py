"""Follows the statements of a source from Initialize() on, and notes what they assign."""

from __future__ import annotations

from cnn_convertor.audit.cursor import Cursor, shown, skip_statement
from cnn_convertor.audit.expressions import Expressions
from cnn_convertor.audit.functions import Declarations, Function
from cnn_convertor.audit.state import (
    IO_BYTES,
    LAYER_COUNT,
    OUTPUT_COUNT,
    WEIGHT_BYTES,
    NotUnderstoodError,
    Place,
    Pointer,
    Text,
    Value,
    describe,
    number,
)
from cnn_convertor.audit.structs import POINTER, SCALARS, STRUCTS, UNKNOWN, Array, Type, size_of
from cnn_convertor.audit.tokens import Kind, Token
from cnn_convertor.audit.type_names import QUALIFIERS, type_name
from cnn_convertor.errors import Origin, Problem

_HARMLESS_CALLS = {"printf", "fprintf", "puts", "assert", "fflush"}
_BEYOND = {
    "for",
    "while",
    "do",
    "switch",
    "case",
    "default",
    "goto",
    "break",
    "continue",
    "try",
    "throw",
    "delete",
    "asm",
}
_BEYOND |= {"else"}
_DEEPEST = 30  # blocks and calls in each other
_SHORT = 16  # bytes; a longer string is on the heap, and its move is right
_MOST = 1_000_000  # statements


class Statements(Expressions):
    """Executes functions. findings: what it could not follow."""

    def __init__(self, declarations: Declarations, file: str) -> None:
        super().__init__()
        self.findings: list[Problem] = []
        self.called: set[str] = set()
        self.macros = declarations.macros
        self._functions = declarations.functions
        self._file = file
        self._running: list[str] = []
        self._left = _MOST
        self._nested = 0
        for group in declarations.variables:
            self._follow(Cursor(group, group[-1].line))

    def lost(self, wrong: str, line: int) -> None:
        self.findings.append(
            Problem("DV604", wrong, Origin(self._file, line=line), "give a value that the field can hold")
        )

    def moved(self, value: Text, line: int) -> None:
        if value.is_temporary and len(value.text.encode("utf-8", "replace")) < _SHORT:
            message = f"the temporary std::string {describe(value)} is moved into a layer of zeros: the SDK crashes"
            hint = "assign a literal, or a variable"
            self.findings.append(Problem("DV606", message, Origin(self._file, line=line), hint))

    # --- calls ---

    def call(self, name: str, arguments: list[Value], line: int) -> Value:
        if name == "get_layer" and len(arguments) == 1:
            return self.layer(arguments[0])
        self.effects += 1
        match name, arguments:
            case "ReserveMemory", [weights, io]:
                self._note(WEIGHT_BYTES, weights, line)
                self._note(IO_BYTES, io, line)
                return 1
            case "set_num_layers", [count]:
                self._note(LAYER_COUNT, count, line)
                return 0
            case "set_num_output_layers", [count]:
                self._note(OUTPUT_COUNT, count, line)
                return 0
            case "to_string", [value]:
                return Text(str(number(self.state.load(value))), is_temporary=True)
            case (("GenerateCommandLists" | "Commit"), []):
                message = f"{name}() in Initialize(): the application's Commit() then fails"
                where = Origin(self._file, line=line)
                self.findings.append(Problem("DV605", message, where, "leave it out: Commit() builds the lists"))
                return 1
            case (("memset" | "bzero"), [target, *rest]):
                self._cleared(target, rest)
                return 0
            case "memcpy", [target, source, size]:
                self._copied(target, source, size, line)
                return 0
            case _ if name in self._functions:
                return self.run(self._functions[name], arguments)
            case _ if name in _HARMLESS_CALLS:
                return 1
            case _ if name in STRUCTS and not arguments:
                return self.make(STRUCTS[name])
        raise NotUnderstoodError(f"a call of {name}, with {len(arguments)} arguments")

    def _note(self, place: Place, value: Value, line: int) -> None:
        if place.path in self.state.values:
            raise NotUnderstoodError(f"{place.path[0]} is called a second time")
        self.assign(place, value, line)

    def _cleared(self, target: Value, rest: list[Value]) -> None:
        place = self._pointed(target)
        *value, size = [number(self.state.load(v)) for v in rest] or [0]
        if any(value):
            raise NotUnderstoodError(f"a memset of {place} to {value[0]}")
        self._check_size(place, size)
        self.state.clear(place)

    def _copied(self, target: Value, source: Value, size: Value, line: int) -> None:
        to, of = self._pointed(target), self._pointed(source)
        if to.type != of.type:
            raise NotUnderstoodError(f"a copy of {of.type} to {to.type}")
        self._check_size(to, number(self.state.load(size)))
        self.state.copy(of, to, line)

    def _pointed(self, value: Value) -> Place:
        value = self.state.load(value)
        if isinstance(value, Pointer):
            return value.to
        if isinstance(value, Place):
            return value
        raise NotUnderstoodError(f"{describe(value)} does not point to anything known")

    def _check_size(self, place: Place, size: int) -> None:
        whole = size_of(place.type)
        if whole != size:
            raise NotUnderstoodError(f"{size} bytes of {place}, which has {whole or 'an unknown number of'} bytes")

    def run(self, function: Function, arguments: list[Value]) -> Value:
        """Execute a function of the source. Gives what it returns."""
        if function.name in self._running:
            raise NotUnderstoodError(f"{function.name} is called inside itself")
        self.called.add(function.name)
        if len(arguments) != len(function.parameters):
            raise NotUnderstoodError(f"{function.name} has {len(function.parameters)} parameters")
        outer = self.cursor, self.scopes
        scope: dict[str, Value] = {}
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            scope[parameter.name] = argument if parameter.is_reference else self.state.load(argument)
        self.scopes = [outer[1][0], scope]
        self._running.append(function.name)
        try:
            returned = self._follow(Cursor(function.body, function.end_line))
        finally:
            self.cursor, self.scopes = outer
            self._running.pop()
        return 0 if returned is None else returned

    # --- statements ---

    def _follow(self, cursor: Cursor) -> Value | None:
        """Execute statements to the end, or to a return; gives what is returned."""
        if self._nested >= _DEEPEST:
            raise NotUnderstoodError("nested too deep")
        self._nested += 1
        outer, self.cursor = self.cursor, cursor
        try:
            while not cursor.done:
                start = cursor.at
                self._left -= 1
                if self._left < 0:
                    raise NotUnderstoodError("more statements than any network needs")
                try:
                    returned = self._statement()
                except NotUnderstoodError as error:
                    self._not_understood(start, str(error))
                    continue
                if returned is not None:
                    if not cursor.done:
                        self._not_understood(cursor.at, "statements after a return are never reached")
                    return returned
        finally:
            self.cursor = outer
            self._nested -= 1
        return None

    def _not_understood(self, start: int, why: str) -> None:
        cursor = self.cursor
        cursor.at = start
        line = cursor.peek().line
        skip_statement(cursor)
        text = shown(cursor.tokens[start : cursor.at])
        where = Origin(self._file, line=line)
        hint = "write it in the SDK's plain form: fields that are assigned one by one"
        self.findings.append(Problem("DV602", f"not understood: {text}: {why}", where, hint))

    def _statement(self) -> Value | None:
        cursor = self.cursor
        word = cursor.peek()
        if cursor.take(";"):
            return None
        if cursor.sees("{"):
            return self._block()
        if cursor.sees("if"):
            return self._if()
        if cursor.take("return"):
            value = 1 if cursor.sees(";") else self.state.load(self.expression())
            self._end()
            if value == 0 and self._running[-1:] == ["Initialize"]:
                raise NotUnderstoodError("Initialize() fails always")
            return value
        if word.kind is Kind.NAME and word.text in _BEYOND:
            raise NotUnderstoodError(f"the audit does not follow {word.text}")
        if word.kind is Kind.NAME and word.text in {"using", "typedef", "static_assert"}:
            skip_statement(cursor)
            return None
        if self._is_declaration():
            self._declaration()
        else:
            before = self.effects
            self.expression()
            if self.effects == before:
                raise NotUnderstoodError("it does nothing")
        self._end()
        return None

    def _end(self) -> None:
        self.cursor.expect(";")

    def _block(self) -> Value | None:
        line = self.cursor.peek().line
        body = self.cursor.skip_brackets()
        self.scopes = [*self.scopes, {}]
        try:
            return self._follow(Cursor(body, line))
        finally:
            self.scopes = self.scopes[:-1]

    def _if(self) -> Value | None:
        """Take the branch that the condition chooses; its value must be known."""
        self.cursor.expect("if")
        self.cursor.expect("(")
        condition = self.state.load(self.expression())
        self.cursor.expect(")")
        chosen = number(condition) != 0 if not isinstance(condition, Pointer) else True
        returned = self._branch(taken=chosen)
        if self.cursor.take("else"):
            other = self._branch(taken=not chosen)
            returned = other if returned is None else returned
        return returned

    def _branch(self, *, taken: bool) -> Value | None:
        start = self.cursor.at
        skip_statement(self.cursor)
        if not taken:
            return None
        tokens = self.cursor.tokens[start : self.cursor.at]
        if self.cursor.at - start == len(self.cursor.tokens):
            raise NotUnderstoodError("a condition without end")
        self.scopes = [*self.scopes, {}]
        try:
            return self._follow(Cursor(tokens, self.cursor.peek().line))
        finally:
            self.scopes = self.scopes[:-1]

    # --- declarations ---

    def _is_declaration(self) -> bool:
        """Whether the statement starts with a type: a word of its own, or a name before another name."""
        first = self.cursor.peek()
        if first.kind is not Kind.NAME:
            return False
        if (
            first.text in QUALIFIERS - {"std"}
            or first.text in SCALARS
            or first.text in {"auto", "float", "double", "void"}
        ):
            return True
        ahead = 1
        while self.cursor.peek(ahead).text in {"::", "*", "&", "const"} or (
            self.cursor.peek(ahead - 1).text == "::" and self.cursor.peek(ahead).kind is Kind.NAME
        ):
            ahead += 1
        last = self.cursor.peek(ahead)
        return last.kind is Kind.NAME and self.cursor.peek(ahead - 1).text != "::"

    def _declaration(self) -> None:
        found = type_name(self.cursor)
        if found is None:
            found = self._unknown_type()
        type, stars = found
        while True:
            self._declarator(type, stars)
            if not self.cursor.take(","):
                return
            stars = 0
            while self.cursor.sees("*") or self.cursor.sees("&"):
                stars += self.cursor.next().text == "*"

    def _unknown_type(self) -> tuple[Type, int]:
        """auto, or a type of somebody's own."""
        stars = 0
        while self.cursor.peek(1).kind is Kind.NAME or self.cursor.peek(1).text in {"::", "*", "&"}:
            token = self.cursor.next()
            stars += token.text == "*"
            if token.kind is not Kind.NAME and token.text not in {"::", "*", "&"}:
                raise NotUnderstoodError(f"a declaration with {token.text}")
        while self.cursor.sees("*") or self.cursor.sees("&"):
            stars += self.cursor.next().text == "*"
        return UNKNOWN, stars

    def _declarator(self, type: Type, stars: int) -> None:
        cursor = self.cursor
        is_reference = cursor.tokens[cursor.at - 1].text == "&" if cursor.at else False
        name = cursor.next()
        if name.kind is not Kind.NAME:
            raise NotUnderstoodError("a declaration without a name")
        if stars:
            type = POINTER
        if cursor.sees("["):
            self.scopes[-1][name.text] = self._array(type, name)
            return
        if is_reference:
            cursor.expect("=")
            self.scopes[-1][name.text] = self.assignment()
            return
        place = self.make(type)
        if cursor.take("=") or cursor.sees("{") or cursor.sees("("):
            self._initial(place, name.line)
        self.scopes[-1][name.text] = place

    def _initial(self, place: Place, line: int) -> None:
        if self.cursor.sees("{"):
            self.initialize(place, line)
            return
        value = self.state.load(self.assignment())
        if place.type is UNKNOWN and isinstance(value, Place):
            raise NotUnderstoodError(f"a copy of {value}, where a reference may be meant")
        self.assign(place, value, line)

    def _array(self, type: Type, name: Token) -> Place:
        self.cursor.expect("[")
        length = None if self.cursor.sees("]") else number(self.state.load(self.assignment()))
        self.cursor.expect("]")
        place = self.make(Array(type, length))
        if self.cursor.take("=") or self.cursor.sees("{"):
            self.initialize(place, name.line)
        return place
