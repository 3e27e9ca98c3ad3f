"""Evaluates C++ expressions, as far as generated sources use them."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cnn_convertor.audit.cells import Cell, Pointer, Symbol, Text, Value, describe, load, number, pointed, wrap
from cnn_convertor.audit.sdk import (
    BOOL,
    CONSTANTS,
    FIELD_NAMES,
    LAYER,
    POINTER,
    SCALARS,
    STRUCTS,
    UNKNOWN,
    Array,
    Scalar,
    Struct,
    Type,
)
from cnn_convertor.audit.tokens import Cursor, NotUnderstoodError, Token, integer

QUALIFIERS = {"const", "constexpr", "static", "struct", "class", "enum", "inline", "volatile", "register"}
_HANDLES = {"io_mem_", "weights_mem_", "io_ptr_", "ctx_"}
_ASSIGNMENTS = {"=", "|=", "&=", "^=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>="}
_DEEPEST = 80


def _shifted(shift: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(value: int, count: int) -> int:
        if not 0 <= count < 64:
            raise NotUnderstoodError(f"a shift by {count} bits")
        return shift(value, count)

    return checked


def _quotient(a: int, b: int) -> int:
    """Rounded to zero, as C++ does."""
    if b == 0:
        raise NotUnderstoodError("a division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# From the loosest to the tightest.
_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: a != 0 or b != 0},
    {"&&": lambda a, b: a != 0 and b != 0},
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"<<": _shifted(operator.lshift), ">>": _shifted(operator.rshift)},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b)},
)
_OPERATORS = {sign: compute for level in _LEVELS for sign, compute in level.items()}
_PRECEDENCE = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}


def compute(sign: str, left: Value, right: Value) -> Value:
    """The result of an operator. Raises NotUnderstoodError for other operands, and where C++ promises nothing."""
    left, right = load(left), load(right)
    if sign == "+" and isinstance(left, Text) and isinstance(right, Text):
        return Text(left.text + right.text, is_temporary=True)
    if sign in {"==", "!="} and not (isinstance(left, int) and isinstance(right, int)):
        return int((left == right) == (sign == "=="))
    value = int(_OPERATORS[sign](number(left), number(right)))
    if abs(value) >> 64:
        raise NotUnderstoodError(f"{sign} gives more than 64 bits")
    return value


class Expressions(ABC):
    """Evaluates at a cursor. A name is looked up in the scopes, then among macros, members of the network and constants."""

    def __init__(self, macros: dict[str, list[Token]]) -> None:
        self.layers, self.outputs = Cell(Array(LAYER, None), "layers_"), Cell(Array(POINTER, None), "output_layers_")
        self.is_transposed = Cell(BOOL, "is_weight_transposed")
        self.scopes: list[dict[str, Value]] = [{}]
        self.cursor = Cursor(())
        self.effects = 0  # assignments and calls so far
        self._members = {cell.name: cell for cell in (self.layers, self.outputs, self.is_transposed)}
        self._macros = macros
        self._depth = 0

    @abstractmethod
    def call(self, name: str, arguments: list[Value], line: int) -> Value:
        """The value of a call."""

    @abstractmethod
    def report(self, code: str, message: str, line: int) -> None:
        """Note a finding."""

    @contextmanager
    def nested(self, levels: int = 1) -> Iterator[None]:
        """So many levels deeper. Raises NotUnderstoodError when there are too many."""
        if self._depth + levels > _DEEPEST:
            raise NotUnderstoodError("nested too deep")
        self._depth += levels
        try:
            yield
        finally:
            self._depth -= levels

    # --- assignments ---

    def expression(self) -> Value:
        value = self.assignment()
        while self.cursor.take(","):
            value = self.assignment()
        return value

    def assignment(self) -> Value:
        with self.nested():
            left = self._conditional()
            token = self.cursor.peek()
            if token.text not in _ASSIGNMENTS:
                return left
            self.cursor.next()
            if not isinstance(left, Cell):
                raise NotUnderstoodError(f"{describe(left)} cannot be assigned to")
            if token.text == "=" and self.cursor.sees("{"):
                self.initialize(left, token.line)
            elif token.text == "=":
                self.assign(left, self.assignment(), token.line)
            else:
                self.assign(left, compute(token.text[:-1], left, self.assignment()), token.line)
            return left

    def assign(self, cell: Cell, value: Value, line: int) -> None:
        self.effects += 1
        value = load(value)
        if isinstance(cell.type, Struct):
            if not isinstance(value, Cell) or value.type is not cell.type:
                raise NotUnderstoodError(f"{cell.name} is {cell.type.name}, but {describe(value)} is not")
            cell.copy(value, line)
            return
        if isinstance(value, Text) and value.is_short_temporary and cell.owner is not None and cell.owner.type is LAYER:
            message = f"the temporary std::string {describe(value)} is moved into a layer of zeros: the SDK crashes"
            self.report("DV606", message, line)
        wrong = cell.store(value, line)
        if wrong:
            self.report("DV604", wrong, line)

    def initialize(self, cell: Cell, line: int) -> None:
        """Braces: one value for each element of an array, zeros for a structure, one value for anything else."""
        self.effects += 1
        if cell.type is UNKNOWN:
            start = self.cursor.at
            try:
                self._members_of(cell, line)
            except NotUnderstoodError:  # a custom layer's parameters may be anything
                self.cursor.at = start
                self.cursor.brackets()
            return
        self.cursor.expect("{")
        values = self._list("}")
        match cell.type:
            case Array():
                cell.clear()
                for index, value in enumerate(values):
                    self.assign(cell.element(index), value, line)
            case Struct():
                if any(value != 0 for value in values):
                    raise NotUnderstoodError(f"values of {cell.name} without their names")
                cell.clear()
            case _ if len(values) > 1:
                raise NotUnderstoodError(f"{cell.name} holds one value")
            case _:
                self.assign(cell, values[0] if values else 0, line)

    def _members_of(self, cell: Cell, line: int) -> None:
        """Braces in braces: the members of a structure of unknown type are numbered."""
        with self.nested():
            self.cursor.expect("{")
            while not self.cursor.take("}"):
                member = cell.element(len(cell.parts))
                if self.cursor.sees("{"):
                    self._members_of(member, line)
                else:
                    self.assign(member, self.assignment(), line)
                if not self.cursor.sees("}"):
                    self.cursor.expect(",")

    def _list(self, end: str) -> list[Value]:
        """Values up to the closing bracket."""
        values: list[Value] = []
        while not self.cursor.take(end):
            values.append(self.assignment())
            if not self.cursor.sees(end):
                self.cursor.expect(",")
        return values

    # --- operators ---

    def _conditional(self) -> Value:
        value = self._binary(0)
        if not self.cursor.take("?"):
            return value
        condition = number(value)
        first = self.assignment()
        self.cursor.expect(":")
        second = self.assignment()
        return first if condition else second

    def _binary(self, loosest: int) -> Value:
        """Operands joined by operators that bind at least that tightly."""
        value = self._unary()
        while (level := _PRECEDENCE.get(self.cursor.peek().text, -1)) >= loosest:
            sign = self.cursor.next().text
            value = compute(sign, value, self._binary(level + 1))
        return value

    def _unary(self) -> Value:
        with self.nested():
            sign = self.cursor.peek().text
            if self.cursor.take("-", "+", "~", "!", "&", "*"):
                return self._signed(sign, self._unary())
            if self.cursor.take("sizeof"):
                return self._sizeof()
            if self.cursor.take("new"):
                return self._new()
            if self.cursor.sees("(") and (type := self._cast()) is not None:
                return _converted(self._unary(), type)
            return self._postfix(self._primary())

    def _signed(self, sign: str, operand: Value) -> Value:
        if sign == "*":
            return pointed(operand)
        if sign == "&":
            if isinstance(operand, Cell):
                return Pointer(operand)
            raise NotUnderstoodError(f"the address of {describe(operand)}")
        operand = load(operand)
        if sign == "-" and isinstance(operand, Symbol):
            return Symbol(f"-{operand.name}")
        if sign == "!" and isinstance(operand, Pointer):
            return 0
        value = number(operand)
        return {"-": -value, "+": value, "~": ~value, "!": int(not value)}[sign]

    # --- types ---

    def type_name(self) -> Type | None:
        """The type at the cursor; None, and the cursor stays, when it is not a known one. It ends with * or & if it has them."""
        start, words = self.cursor.at, list[str]()
        known = {"void", *SCALARS, *STRUCTS}
        while self.cursor.sees("std", "::", *QUALIFIERS) or self.cursor.peek().text in known:
            words.append(self.cursor.next().text)
        words = [word for word in words if word in known]
        if not words:
            self.cursor.at = start
            return None
        stars = 0
        while self.cursor.sees("*", "&", "const"):
            stars += self.cursor.next().text == "*"
        return POINTER if stars else _named(words)

    def _cast(self) -> Type | None:
        start = self.cursor.at
        self.cursor.next()
        type = self.type_name()
        if type is not None and self.cursor.take(")"):
            return type
        self.cursor.at = start
        return None

    def _sizeof(self) -> int:
        type = self._cast() if self.cursor.sees("(") else None
        if type is None:
            value = self._unary()
            type = value.type if isinstance(value, Cell) else UNKNOWN
        if not type.size:
            raise NotUnderstoodError(f"the size of {type.name} is not known")
        return type.size

    def _new(self) -> Value:
        type = self.type_name()
        if type is None:
            raise NotUnderstoodError("new, of a type that is not known")
        if self.cursor.take("["):
            length = None if self.cursor.sees("]") else number(self.assignment())
            self.cursor.expect("]")
            type = Array(type, length)
        cell = Cell(type, "new")
        if self.cursor.sees("{"):
            self.initialize(cell, self.cursor.peek().line)
        elif self.cursor.take("("):
            self.cursor.expect(")")
        return Pointer(cell)

    # --- names, fields, elements ---

    def _primary(self) -> Value:
        token = self.cursor.next()
        if token.kind == "number":
            value = integer(token.text)
            return Symbol(token.text) if value is None else value
        if token.kind == "string":
            text = token.text[1:]
            while self.cursor.peek().kind == "string":
                text += self.cursor.next().text[1:]
            return Text(text)
        if token.kind == "name":
            return self._name(token.text)
        if token.text == "(":
            inner = self.expression()
            self.cursor.expect(")")
            return inner
        if token.text == "::":
            return self._primary()
        raise NotUnderstoodError(f"unexpected {token.text or 'end'}")

    def _name(self, name: str) -> Value:
        while self.cursor.sees("::") and self.cursor.peek(1).kind == "name":
            self.cursor.next()
            name = self.cursor.next().text
        if name == "this":
            self.cursor.expect("->")
            return self._name(self.cursor.next().text)
        if name in {"static_cast", "reinterpret_cast", "const_cast"}:
            self.cursor.expect("<")
            type = self.type_name()
            self.cursor.expect(">")
            if type is None:
                raise NotUnderstoodError("a cast to a type that is not known")
            return _converted(self._parenthesis(), type)
        if not self.cursor.sees("("):
            return self._lookup(name)
        if name in {"string", *SCALARS}:
            value = self._parenthesis()
            text = load(value)
            return Text(text.text, is_temporary=True) if isinstance(text, Text) else _converted(value, _named([name]))
        line = self.cursor.next().line
        return self.call(name, self._list(")"), line)

    def _parenthesis(self) -> Value:
        self.cursor.expect("(")
        value = self.expression()
        self.cursor.expect(")")
        return value

    def _lookup(self, name: str) -> Value:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self._macros:
            return self._expanded(name)
        if name in CONSTANTS:
            return CONSTANTS[name]
        return Symbol(name) if name in _HANDLES else self._members.setdefault(name, Cell(UNKNOWN, name))

    def _expanded(self, name: str) -> Value:
        outer, self.cursor = self.cursor, Cursor(self._macros[name])
        try:
            value = self.assignment()
            if not self.cursor.done:
                raise NotUnderstoodError(f"the macro {name} is not an expression")
        finally:
            self.cursor = outer
        return value

    def _postfix(self, value: Value) -> Value:
        while True:
            if self.cursor.take("."):
                value = self._member(value)
            elif self.cursor.take("->"):
                value = self._member(pointed(value))
            elif self.cursor.take("["):
                index = number(self.expression())
                self.cursor.expect("]")
                value = self._element(value, index)
            elif self.cursor.sees("++", "--", "("):
                raise NotUnderstoodError(f"{self.cursor.peek().text} after {describe(value)}")
            else:
                return value

    def _member(self, value: Value) -> Value:
        token = self.cursor.next()
        if not isinstance(value, Cell) or token.kind != "name":
            raise NotUnderstoodError(f"a field of {describe(value)}")
        if isinstance(value.type, Array) and token.text == "at":
            return self._element(value, number(self._parenthesis()))
        if value.type is UNKNOWN and token.text in FIELD_NAMES and value.root in self._members.values():
            raise NotUnderstoodError(f"{value.name} has no known field {token.text}")
        return value.field(token.text)

    def _element(self, value: Value, index: int) -> Cell:
        if isinstance(value, Cell) and (value.type is not UNKNOWN or value.value is not None):
            value = load(value)
        if isinstance(value, Pointer):
            value = value.to
        if isinstance(value, Cell):
            return value.element(index)
        raise NotUnderstoodError(f"an element of {describe(value)}")

    def layer(self, index: Value) -> Cell:
        return self.layers.element(number(index))


def _named(words: list[str]) -> Type:
    """The type of some words like unsigned long."""
    if words[-1] in STRUCTS:
        return STRUCTS[words[-1]]
    if "void" in words or "string" in words:
        return UNKNOWN
    size = SCALARS[next((word for word in words if word not in {"unsigned", "signed", "int"}), "int")].size
    if "unsigned" in words:
        return SCALARS[f"uint{8 * size}_t"]
    return SCALARS[next((word for word in words if word != "int"), "int")]


def _converted(value: Value, type: Type) -> Value:
    loaded = load(value)
    return wrap(loaded, type) if isinstance(type, Scalar) and isinstance(loaded, int) else value
