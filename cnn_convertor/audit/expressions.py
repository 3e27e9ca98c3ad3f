"""Evaluates C++ expressions, as far as generated sources use them."""

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tree_sitter import Node

from cnn_convertor.audit.cells import (
    Cell,
    NotUnderstoodError,
    Pointer,
    Symbol,
    Text,
    Value,
    describe,
    load,
    number,
    pointed,
    wrap,
)
from cnn_convertor.audit.definitions import line_of, text_of
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

_HANDLES = {"io_mem_", "weights_mem_", "io_ptr_", "ctx_"}
_CASTS = {"static_cast", "reinterpret_cast", "const_cast"}
_TYPES: dict[str, Type] = {"void": UNKNOWN, "string": UNKNOWN, "pointer": POINTER, **SCALARS, **STRUCTS}
_DEEPEST = 200
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"\n": b""}


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


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "|": operator.or_, "^": operator.xor, "&": operator.and_, "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    ">": operator.gt, "<=": operator.le, ">=": operator.ge, "<<": _shifted(operator.lshift), ">>": _shifted(operator.rshift),
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b),
}  # fmt: skip
_SECOND_NAMES = {
    "and": "&&", "or": "||", "not": "!", "compl": "~", "bitand": "&", "bitor": "|", "xor": "^", "not_eq": "!=",
    "and_eq": "&=", "or_eq": "|=", "xor_eq": "^=",
}  # fmt: skip


def compute(sign: str, left: Value, right: Value) -> Value:
    """The result of an operator. Raises NotUnderstoodError for other operands, and where C++ promises nothing."""
    left, right = load(left), load(right)
    if sign == "+" and isinstance(left, Text) and isinstance(right, Text):
        return Text(left.text + right.text, is_temporary=True)
    if sign in {"==", "!="} and not (isinstance(left, int) and isinstance(right, int)):
        return int((left == right) == (sign == "=="))
    if sign not in _OPERATORS:
        raise NotUnderstoodError(f"the operator {sign}")
    value = int(_OPERATORS[sign](number(left), number(right)))
    if abs(value) >> 64:
        raise NotUnderstoodError(f"{sign} gives more than 64 bits")
    return value


class Expressions(ABC):
    """Evaluates nodes: those of a kind by the method _KIND. A name is looked up in the scopes, then among members and constants."""

    def __init__(self) -> None:
        self.layers, self.outputs = Cell(Array(LAYER, None), "layers_"), Cell(Array(POINTER, None), "output_layers_")
        self.is_transposed = Cell(BOOL, "is_weight_transposed")
        self.scopes: list[dict[str, Value]] = [{}]
        self.effects = 0  # assignments and calls so far
        self._members = {cell.name: cell for cell in (self.layers, self.outputs, self.is_transposed)}
        self._depth = 0

    @abstractmethod
    def call(self, name: str, arguments: list[Value], line: int) -> Value:
        """The value of a call."""

    @abstractmethod
    def report(self, code: str, message: str, line: int) -> None:
        """Note a finding."""

    @contextmanager
    def nested(self, levels: int) -> Iterator[None]:
        """So many levels deeper. Raises NotUnderstoodError when there are too many."""
        if self._depth + levels > _DEEPEST:
            raise NotUnderstoodError("nested too deep")
        self._depth += levels
        try:
            yield
        finally:
            self._depth -= levels

    def evaluate(self, node: Node) -> Value:
        while node.type == "parenthesized_expression":
            node = node.named_children[0]
        evaluator: Callable[[Node], Value] | None = getattr(self, f"_{node.type}", None)
        if evaluator is None:
            raise NotUnderstoodError(f"unexpected {text_of(node)[:40]}")
        if self._depth >= _DEEPEST:
            raise NotUnderstoodError("nested too deep")
        self._depth += 1
        try:
            return evaluator(node)
        finally:
            self._depth -= 1

    # --- assignments ---

    def _comma_expression(self, node: Node) -> Value:
        """The last of some values. The grammar nests their rest to the right."""
        while node.type == "comma_expression":
            self.evaluate(part(node, "left"))
            node = part(node, "right")
        return self.evaluate(node)

    def _assignment_expression(self, node: Node) -> Value:
        left, right = self.evaluate(part(node, "left")), part(node, "right")
        if not isinstance(left, Cell):
            raise NotUnderstoodError(f"{describe(left)} cannot be assigned to")
        line, calculation = line_of(part(node, "operator")), _sign(node).removesuffix("=")
        if right.type == "initializer_list" and not calculation:
            self.initialize(left, right)
        elif calculation:
            self.assign(left, compute(calculation, left, self.evaluate(right)), line)
        else:
            self.assign(left, self.evaluate(right), line)
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

    def initialize(self, cell: Cell, braces: Node) -> None:
        """Braces: one value for each element of an array, zeros for a structure, one value for anything else."""
        self.effects += 1
        line, values = line_of(braces), braces.named_children
        match cell.type:
            case Array():
                cell.clear()
                for index, value in enumerate(values):
                    self._initial(cell.element(index), value)
            case Struct():
                if any(load(self.evaluate(value)) != 0 for value in values):
                    raise NotUnderstoodError(f"values of {cell.name} without their names")
                cell.clear()
            case _ if cell.type is UNKNOWN:  # members are numbered
                with suppress(NotUnderstoodError):  # a custom layer's parameters may be anything
                    for value in values:
                        self._initial(cell.element(len(cell.parts)), value)
            case _ if len(values) > 1:
                raise NotUnderstoodError(f"{cell.name} holds one value")
            case _:
                self.assign(cell, self.evaluate(values[0]) if values else 0, line)

    def _initial(self, cell: Cell, value: Node) -> None:
        if value.type == "initializer_list":
            with self.nested(1):
                self.initialize(cell, value)
        else:
            self.assign(cell, self.evaluate(value), line_of(value))

    # --- operators ---

    def _conditional_expression(self, node: Node) -> Value:
        """The value that the condition chooses."""
        is_true = self.is_true(part(node, "condition"))
        return self.evaluate(part(node, "consequence" if is_true else "alternative"))

    def is_true(self, node: Node) -> bool:
        value = load(self.evaluate(node))
        return isinstance(value, Pointer) or number(value) != 0

    def _binary_expression(self, node: Node) -> Value:
        """Operands joined by operators. The grammar nests them to the left, however many there are."""
        operations = []
        while node.type == "binary_expression":
            operations.append((_sign(node), part(node, "right")))
            node = part(node, "left")
        value = self.evaluate(node)
        for sign, right in reversed(operations):
            if sign in {"||", "&&"}:
                is_left = number(value) != 0
                value = int(is_left if is_left == (sign == "||") else number(self.evaluate(right)) != 0)
            else:
                value = compute(sign, value, self.evaluate(right))
        return value

    def _unary_expression(self, node: Node) -> Value:
        sign, operand = _sign(node), self.evaluate(part(node, "argument"))
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

    _pointer_expression = _unary_expression

    # --- types ---

    def _cast_expression(self, node: Node) -> Value:
        return _converted(self.evaluate(part(node, "value")), _cast_type(part(node, "type")))

    def _sizeof_expression(self, node: Node) -> Value:
        inner = node.child_by_field_name("type") or part(node, "value")
        while inner.type == "parenthesized_expression":
            inner = inner.named_children[0]
        is_type = inner.type in {"type_descriptor", "identifier", "qualified_identifier"}
        type = type_of(text_of(inner)) if is_type else None
        if type is None:
            value = self.evaluate(inner)
            type = value.type if isinstance(value, Cell) else UNKNOWN
        if not type.size:
            raise NotUnderstoodError(f"the size of {type.name} is not known")
        return type.size

    def _new_expression(self, node: Node) -> Value:
        type = type_of(text_of(part(node, "type")))
        if type is None or node.child_by_field_name("placement") is not None:
            raise NotUnderstoodError("new, of a type that is not known")
        declarator, arguments = node.child_by_field_name("declarator"), node.child_by_field_name("arguments")
        if declarator is not None:
            if declarator.named_child_count > 1:
                raise NotUnderstoodError("new, of more than one dimension")
            length = declarator.child_by_field_name("length")
            type = Array(type, None if length is None else number(self.evaluate(length)))
        cell = Cell(type, "new")
        if arguments is not None and arguments.type == "initializer_list":
            self.initialize(cell, arguments)
        elif arguments is not None and arguments.named_child_count:
            raise NotUnderstoodError("new, with arguments")
        return Pointer(cell)

    # --- literals, names, fields, elements ---

    @staticmethod
    def _number_literal(node: Node) -> Value:
        """The grammar counts a sign to the number."""
        text = text_of(node)
        value = integer(text.lstrip("+-"))
        return Symbol(text) if value is None else -value if text.startswith("-") else value

    @staticmethod
    def _char_literal(node: Node) -> Value:
        text = unescape(text_of(node).partition("'")[2][:-1])
        if len(text) != 1:
            raise NotUnderstoodError(f"{text_of(node)} is not one character")
        return ord(text)

    def _string_literal(self, node: Node) -> Value:
        """A literal, or several."""
        text = ""
        for literal in node.named_children if node.type == "concatenated_string" else [node]:
            inside = text_of(literal).partition('"')[2][:-1]
            text += inside.partition("(")[2].rpartition(")")[0] if "raw" in literal.type else unescape(inside)
        return Text(text)

    _raw_string_literal = _concatenated_string = _string_literal

    def _identifier(self, node: Node) -> Value:
        name = text_of(node).rpartition("::")[2]
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        return Symbol(name) if name in _HANDLES else self._members.setdefault(name, Cell(UNKNOWN, name))

    _qualified_identifier = _type_identifier = _true = _false = _null = _identifier

    def _call_expression(self, node: Node) -> Value:
        function, arguments = part(node, "function"), part(node, "arguments")
        values = [self.evaluate(argument) for argument in arguments.named_children]
        name = text_of(function).rpartition("::")[2]
        match function.type:
            case "identifier" | "qualified_identifier" | "primitive_type" if name in {"string", *SCALARS}:
                (value,) = values if len(values) == 1 else [Symbol("")]
                text = load(value)
                return Text(text.text, is_temporary=True) if isinstance(text, Text) else _converted(value, _TYPES[name])
            case "identifier" | "qualified_identifier":
                return self.call(name, values, line_of(node))
            case "field_expression" if part(function, "argument").type == "this":
                return self.call(text_of(part(function, "field")), values, line_of(node))
            case "field_expression" if text_of(part(function, "field")) == "at" and len(values) == 1:
                array = self.evaluate(part(function, "argument"))
                if isinstance(array, Cell) and isinstance(array.type, Array):
                    return array.element(number(values[0]))
            case "template_function" if text_of(part(function, "name")) in _CASTS and len(values) == 1:
                return _converted(values[0], _cast_type(part(function, "arguments").named_children[0]))
        raise NotUnderstoodError(f"a call of {text_of(function)[:40]}, with {len(values)} arguments")

    def _field_expression(self, node: Node) -> Value:
        argument, field = part(node, "argument"), part(node, "field")
        if argument.type == "this":
            return self._identifier(field)
        value, name = self.evaluate(argument), text_of(field)
        if _sign(node) == "->":
            value = pointed(value)
        if not isinstance(value, Cell):
            raise NotUnderstoodError(f"a field of {describe(value)}")
        if value.type is UNKNOWN and name in FIELD_NAMES and value.root in self._members.values():
            raise NotUnderstoodError(f"{value.name} has no known field {name}")
        return value.field(name)

    def _subscript_expression(self, node: Node) -> Value:
        value, indices = self.evaluate(part(node, "argument")), part(node, "indices").named_children
        if len(indices) != 1:
            raise NotUnderstoodError(f"an element of {describe(value)}")
        index = number(self.evaluate(indices[0]))
        if isinstance(value, Cell) and (value.type is not UNKNOWN or value.value is not None):
            value = load(value)
        if isinstance(value, Pointer):
            value = value.to
        if isinstance(value, Cell):
            return value.element(index)
        raise NotUnderstoodError(f"an element of {describe(value)}")

    def layer(self, index: Value) -> Cell:
        return self.layers.element(number(index))


def part(node: Node, field: str) -> Node:
    """A part that the grammar promises."""
    child = node.child_by_field_name(field)
    if child is None:
        raise NotUnderstoodError(f"unexpected {text_of(node)[:40]}")
    return child


def _sign(node: Node) -> str:
    """An expression's operator, by its first name: `not` is "!". The type of a word or a sign is its text."""
    text = part(node, "operator").type
    return _SECOND_NAMES.get(text, text)


def type_of(text: str) -> Type | None:
    """The type that C++ names so; None when it is not known."""
    if "*" in text:
        return POINTER
    words = [word for word in re.findall(r"\w+", text) if word in _TYPES]
    if "<" in text or not words:
        return None
    return _TYPES[words[-1]] if len(words) == 1 else _integer_type(words)


def _cast_type(node: Node) -> Type:
    type = type_of(text_of(node))
    if type is None:
        raise NotUnderstoodError("a cast to a type that is not known")
    return type


def _integer_type(words: list[str]) -> Type:
    """The type of some words like unsigned long."""
    if not SCALARS.keys() >= set(words):
        return UNKNOWN
    size = SCALARS[next((word for word in words if word not in {"unsigned", "signed", "int"}), "int")].size
    if "unsigned" in words:
        return SCALARS[f"uint{8 * size}_t"]
    return SCALARS[next((word for word in words if word != "int"), "int")]


def _converted(value: Value, type: Type) -> Value:
    loaded = load(value)
    return wrap(loaded, type) if isinstance(type, Scalar) and isinstance(loaded, int) else value


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
