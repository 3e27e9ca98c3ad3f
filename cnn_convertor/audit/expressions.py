"""Reads and evaluates C++ expressions, as far as generated sources use them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from cnn_convertor.audit.cursor import Cursor
from cnn_convertor.audit.operators import PRECEDENCE, compute
from cnn_convertor.audit.state import (
    HANDLES,
    LAYERS,
    MEMBERS,
    NotUnderstoodError,
    Place,
    Pointer,
    State,
    Symbol,
    Text,
    Value,
    describe,
    number,
    wrap,
)
from cnn_convertor.audit.structs import (
    CONSTANTS,
    FIELD_NAMES,
    POINTER,
    SCALARS,
    UNKNOWN,
    Array,
    Opaque,
    Scalar,
    Struct,
    Type,
    size_of,
)
from cnn_convertor.audit.tokens import Kind, Token, integer
from cnn_convertor.audit.type_names import type_name

_ASSIGNMENTS = {"=", "|=", "&=", "^=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>="}
_DEEPEST = 60


class Expressions(ABC):
    """Evaluates expressions at a cursor. Names mean what the scopes say, then members, then constants."""

    def __init__(self) -> None:
        self.state = State()
        self.scopes: list[dict[str, Value]] = [{}]
        self.cursor = Cursor((), 0)
        self.macros: dict[str, list[Token]] = {}
        self.effects = 0  # what was assigned or called so far
        self._depth = 0
        self._made = 0

    @abstractmethod
    def call(self, name: str, arguments: list[Value], line: int) -> Value:
        """The value of a call."""

    @abstractmethod
    def lost(self, wrong: str, line: int) -> None:
        """Called for a value that does not fit its field."""

    def make(self, type: Type) -> Place:
        """A new object."""
        self._made += 1
        return Place(("local", self._made), type)

    @abstractmethod
    def moved(self, value: Text, line: int) -> None:
        """Called for a text that is assigned to a layer's name."""

    # --- assignments and operators ---

    def expression(self) -> Value:
        value = self.assignment()
        while self.cursor.take(","):
            value = self.assignment()
        return value

    def assignment(self) -> Value:
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise NotUnderstoodError("nested too deep")
            left = self._conditional()
            token = self.cursor.peek()
            if token.kind is not Kind.SIGN or token.text not in _ASSIGNMENTS:
                return left
            self.cursor.next()
            if not isinstance(left, Place):
                raise NotUnderstoodError(f"{describe(left)} cannot be assigned to")
            if token.text == "=" and self.cursor.sees("{"):
                self.initialize(left, token.line)
                return left
            right = self.assignment()
            if token.text != "=":
                right = compute(token.text[:-1], self.state.load(left), self.state.load(right))
            self.assign(left, right, token.line)
            return left
        finally:
            self._depth -= 1

    def assign(self, place: Place, value: Value, line: int) -> None:
        self.effects += 1
        value = self.state.load(value)
        if isinstance(place.type, Struct):
            if isinstance(value, Place) and value.type == place.type:
                self.state.copy(value, place, line)
                return
            raise NotUnderstoodError(f"{place} is {place.type}, but {describe(value)} is not")
        if place.path[0] == "layers_" and isinstance(value, Text):
            self.moved(value, line)
        wrong = self.state.store(place, value, line)
        if wrong:
            self.lost(wrong, line)

    def initialize(self, place: Place, line: int) -> None:
        """Braces: empty, or {0}, for a structure; one value for each element of an array; the value of anything else."""
        self.effects += 1
        match place.type:
            case Opaque(name="unknown type"):
                self.cursor.skip_brackets()
            case Array(element=element):
                self.state.clear(place)
                for index, value in enumerate(self.braces()):
                    self.assign(Place((*place.path, index), element), value, line)
            case Struct():
                if any(value != 0 for value in self.braces()):
                    raise NotUnderstoodError(f"values of {place} without their names")
                self.state.clear(place)
            case _:
                values = self.braces() or [0]
                if len(values) > 1:
                    raise NotUnderstoodError(f"{place} holds one value")
                self.assign(place, values[0], line)

    def braces(self) -> list[Value]:
        self.cursor.expect("{")
        return self._list("}")

    def _list(self, end: str) -> list[Value]:
        values: list[Value] = []
        while not self.cursor.take(end):
            values.append(self.assignment())
            if not self.cursor.sees(end):
                self.cursor.expect(",")
        return values

    def _conditional(self) -> Value:
        value = self._binary(0)
        if not self.cursor.take("?"):
            return value
        condition = number(self.state.load(value))
        first = self.assignment()
        self.cursor.expect(":")
        second = self.assignment()
        return first if condition else second

    def _binary(self, loosest: int) -> Value:
        """Operands joined by operators that bind at least that tightly."""
        value = self._unary()
        while self.cursor.peek().kind is Kind.SIGN:
            level = PRECEDENCE.get(self.cursor.peek().text)
            if level is None or level < loosest:
                break
            sign = self.cursor.next().text
            right = self._binary(level + 1)
            value = compute(sign, self.state.load(value), self.state.load(right))
        return value

    def _unary(self) -> Value:
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise NotUnderstoodError("nested too deep")
            return self._prefixed()
        finally:
            self._depth -= 1

    def _prefixed(self) -> Value:
        token = self.cursor.peek()
        if token.kind is Kind.SIGN and token.text in {"-", "+", "~", "!", "&", "*"}:
            self.cursor.next()
            operand = self._unary()
            if token.text == "&":
                if isinstance(operand, Place):
                    return Pointer(operand)
                if isinstance(operand, Symbol):
                    return operand  # a function
                raise NotUnderstoodError(f"the address of {describe(operand)}")
            if token.text == "*":
                return self._target(operand)
            operand = self.state.load(operand)
            if token.text == "-" and isinstance(operand, Symbol):
                return Symbol(f"-{operand.name}")
            if token.text == "!" and isinstance(operand, Pointer):
                return 0
            value = number(operand)
            return {"-": -value, "+": value, "~": ~value, "!": int(not value)}[token.text]
        if self.cursor.sees("sizeof"):
            return self._sizeof()
        if self.cursor.sees("new"):
            return self._new()
        if self.cursor.sees("("):
            type = self._cast()
            if type is not None:
                return self._converted(self._unary(), type)
        return self._postfix(self._primary())

    # --- types ---

    def _cast(self) -> Type | None:
        start = self.cursor.at
        self.cursor.next()
        found = type_name(self.cursor)
        if found is not None and self.cursor.take(")"):
            return POINTER if found[1] else found[0]
        self.cursor.at = start
        return None

    def _converted(self, value: Value, type: Type) -> Value:
        loaded = self.state.load(value)
        return wrap(loaded, type) if isinstance(type, Scalar) and isinstance(loaded, int) else value

    def _sizeof(self) -> int:
        self.cursor.next()
        start = self.cursor.at
        self.cursor.take("(")
        found = type_name(self.cursor)
        if found is None:
            self.cursor.at = start
            value = self._unary()
            type: Type = value.type if isinstance(value, Place) else UNKNOWN
        else:
            self.cursor.expect(")")
            type = POINTER if found[1] else found[0]
        size = size_of(type)
        if size is None:
            raise NotUnderstoodError(f"the size of {type} is not known")
        return size

    def _new(self) -> Value:
        """An array, or a structure, of pointers or of anything."""
        self.cursor.next()
        found = type_name(self.cursor)
        if found is None:
            raise NotUnderstoodError("new, of a type that is not known")
        type = POINTER if found[1] else found[0]
        if self.cursor.take("["):
            length = None if self.cursor.sees("]") else number(self.state.load(self.assignment()))
            self.cursor.expect("]")
            place = self.make(Array(type, length))
        else:
            place = self.make(type)
        if self.cursor.sees("{"):
            self.initialize(place, self.cursor.peek().line)
        elif self.cursor.take("("):
            self.cursor.expect(")")
        return Pointer(place)

    # --- names, fields, elements ---

    def _primary(self) -> Value:
        token = self.cursor.next()
        match token.kind:
            case Kind.NUMBER:
                value = integer(token.text)
                return Symbol(token.text) if value is None else value
            case Kind.STRING:
                text = token.text
                while self.cursor.peek().kind is Kind.STRING:
                    text += self.cursor.next().text
                return Text(text)
            case Kind.NAME:
                return self._name(token)
        if token.text == "(":
            inner = self.expression()
            self.cursor.expect(")")
            return inner
        if token.text == "::":
            return self._primary()
        raise NotUnderstoodError(f"unexpected {token.text or 'end'}")

    def _name(self, token: Token) -> Value:
        name = token.text
        while self.cursor.sees("::") and self.cursor.peek(1).kind is Kind.NAME:
            self.cursor.next()
            name = self.cursor.next().text
        if name == "this":
            self.cursor.expect("->")
            return self._name(self.cursor.next())
        if name in {"static_cast", "reinterpret_cast", "const_cast"}:
            return self._named_cast()
        if self.cursor.sees("(") and name in {"string", *SCALARS}:
            self.cursor.next()
            value = self.expression()
            self.cursor.expect(")")
            loaded = self.state.load(value)
            if name == "string" and isinstance(loaded, Text):
                return Text(loaded.text, is_temporary=True)
            return self._converted(value, SCALARS.get(name, UNKNOWN))
        if self.cursor.sees("("):
            line = self.cursor.next().line
            return self.call(name, self._list(")"), line)
        return self.lookup(name)

    def lookup(self, name: str) -> Value:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self.macros:
            return self._expanded(name)
        if name in MEMBERS:
            return MEMBERS[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        return Symbol(name) if name in HANDLES else Place(("member", name), UNKNOWN)

    def _expanded(self, name: str) -> Value:
        outer, tokens = self.cursor, self.macros[name]
        self.cursor = Cursor(tokens, outer.peek().line)
        try:
            value = self.assignment()
            if not self.cursor.done:
                raise NotUnderstoodError(f"the macro {name} is not an expression")
        finally:
            self.cursor = outer
        return value

    def _named_cast(self) -> Value:
        self.cursor.expect("<")
        found = type_name(self.cursor)
        if found is None:
            raise NotUnderstoodError("a cast to a type that is not known")
        self.cursor.expect(">")
        self.cursor.expect("(")
        value = self.expression()
        self.cursor.expect(")")
        return self._converted(value, POINTER if found[1] else found[0])

    def _postfix(self, value: Value) -> Value:
        while True:
            if self.cursor.take("."):
                value = self._member(value)
            elif self.cursor.take("->"):
                value = self._member(self._target(value))
            elif self.cursor.take("["):
                index = number(self.state.load(self.expression()))
                self.cursor.expect("]")
                value = self.element(value, index)
            elif self.cursor.sees("++") or self.cursor.sees("--") or self.cursor.sees("("):
                raise NotUnderstoodError(f"{self.cursor.peek().text} after {describe(value)}")
            else:
                return value

    def _target(self, value: Value) -> Value:
        value = self.state.load(value)
        match value:
            case Pointer(to=Place(type=Array()) as array):
                return self.element(array, 0)
            case Pointer(to=to):
                return to
            case Place(type=Array()):
                return self.element(value, 0)
        raise NotUnderstoodError(f"{describe(value)} does not point to anything known")

    def _member(self, value: Value) -> Value:
        token = self.cursor.next()
        if not isinstance(value, Place) or token.kind is not Kind.NAME:
            raise NotUnderstoodError(f"a field of {describe(value)}")
        match value.type:
            case Struct() as struct:
                type = struct.field(token.text)
                if type is None:
                    raise NotUnderstoodError(f"{struct} has no field {token.text}")
                return Place((*value.path, token.text), type)
            case Array() if token.text == "at" and self.cursor.take("("):
                index = number(self.state.load(self.expression()))
                self.cursor.expect(")")
                return self.element(value, index)
            case Opaque(name="unknown type") if value.path[0] == "local" or token.text not in FIELD_NAMES:
                return Place((*value.path, token.text), UNKNOWN)  # a custom layer's parameter
        raise NotUnderstoodError(f"{value} has no known field {token.text}")

    def element(self, value: Value, index: int) -> Value:
        if isinstance(value, Place) and not isinstance(value.type, Array) and value.type is not UNKNOWN:
            value = self.state.load(value)
        if isinstance(value, Pointer):
            value = value.to
        match value:
            case Place(type=Array(element=element, length=length)):
                if index < 0 or (length is not None and index >= length):
                    raise NotUnderstoodError(f"{value} has {length} elements, there is no element {index}")
                return Place((*value.path, index), element)
            case Place(type=Opaque(name="unknown type")):
                return Place((*value.path, index), UNKNOWN)
        raise NotUnderstoodError(f"an element of {describe(value)}")

    def layer(self, index: Value) -> Value:
        return self.element(LAYERS, number(self.state.load(index)))
