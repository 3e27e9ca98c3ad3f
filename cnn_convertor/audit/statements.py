"""Follows the statements of a source from Initialize() on, and notes what they assign."""

from collections.abc import Sequence

from cnn_convertor.audit.cells import Cell, Pointer, Text, Value, load, number
from cnn_convertor.audit.codes import hint
from cnn_convertor.audit.definitions import Definitions, Function
from cnn_convertor.audit.expressions import QUALIFIERS, Expressions
from cnn_convertor.audit.sdk import POINTER, SCALARS, STRUCTS, UNKNOWN, Array, Type
from cnn_convertor.audit.tokens import Cursor, NotUnderstoodError, Token, shown
from cnn_convertor.errors import Origin, Problem

_SETUP = {"ReserveMemory": 2, "set_num_layers": 1, "set_num_output_layers": 1}  # calls and their numbers of arguments
_HARMLESS_CALLS = {"printf", "fprintf", "puts", "assert", "fflush"}
_BEYOND = {
    "for", "while", "do", "switch", "case", "default", "goto", "break", "continue", "try", "throw", "delete", "asm", "else",
}  # fmt: skip
_MOST = 1_000_000  # statements


class Statements(Expressions):
    """Executes functions. setup: the arguments of the base class's methods, and the line. findings: what it cannot follow."""

    def __init__(self, found: Definitions) -> None:
        super().__init__(found.macros)
        self.findings: list[Problem] = []
        self.called: set[str] = set()
        self.setup: dict[str, tuple[list[int], int]] = {}
        self._functions, self._file = found.functions, found.file
        self._running: list[str] = []
        self._left = _MOST
        for group in found.variables:
            self._follow(group)

    def report(self, code: str, message: str, line: int) -> None:
        self.findings.append(Problem(code, message, Origin(self._file, line=line), hint(code)))

    # --- calls ---

    def call(self, name: str, arguments: list[Value], line: int) -> Value:
        self.effects += name != "get_layer"
        match name, arguments:
            case "get_layer", [index]:
                if "set_num_layers" not in self.setup:
                    self.report("DV603", "get_layer before set_num_layers gives a dummy layer", line)
                return self.layer(index)
            case _ if _SETUP.get(name) == len(arguments):
                if name in self.setup:
                    raise NotUnderstoodError(f"{name} is called a second time")
                self.setup[name] = [number(argument) for argument in arguments], line
                return 1
            case "to_string", [value]:
                return Text(str(number(value)), is_temporary=True)
            case (("GenerateCommandLists" | "Commit"), []):
                self.report("DV605", f"{name}() in Initialize(): the application's Commit() then fails", line)
                return 1
            case "memset", [target, value, size]:
                if number(value):
                    raise NotUnderstoodError(f"a memset to {number(value)}")
                _whole(target, size).clear()
                return 0
            case "bzero", [target, size]:
                _whole(target, size).clear()
                return 0
            case "memcpy", [target, source, size]:
                to, of = _whole(target, size), _whole(source, size)
                if to.type != of.type:
                    raise NotUnderstoodError(f"a copy of {of.type.name} to {to.type.name}")
                to.copy(of, line)
                return 0
            case "SetConvertPolicy", [_, _] | [_, _, _]:
                return 1
            case _ if name in self._functions:
                return self.run(self._functions[name], arguments)
            case _ if name in _HARMLESS_CALLS:
                return 1
            case _ if name in STRUCTS and not arguments:
                return Cell(STRUCTS[name], name)
        raise NotUnderstoodError(f"a call of {name}, with {len(arguments)} arguments")

    def run(self, function: Function, arguments: list[Value]) -> Value:
        if function.name in self._running:
            raise NotUnderstoodError(f"{function.name} is called inside itself")
        self.called.add(function.name)
        if len(arguments) != len(function.parameters):
            raise NotUnderstoodError(f"{function.name} has {len(function.parameters)} parameters")
        pairs = zip(function.parameters, arguments, strict=True)
        scope = {parameter.name: value if parameter.is_reference else load(value) for parameter, value in pairs}
        outer, self.scopes = self.scopes, [self.scopes[0], scope]
        self._running.append(function.name)
        try:
            returned = self._follow(function.body)
        finally:
            self.scopes = outer
            self._running.pop()
        return 0 if returned is None else returned

    # --- statements ---

    def _follow(self, tokens: Sequence[Token]) -> Value | None:
        """Execute statements to the end, or to a return; gives what is returned."""
        outer, self.cursor = self.cursor, Cursor(tokens)
        cursor = self.cursor
        try:
            with self.nested(4):
                while not cursor.done:
                    start, returned = cursor.at, None
                    self._left -= 1
                    if self._left < 0:
                        raise NotUnderstoodError("more statements than any network needs")
                    try:
                        returned = self._statement()
                    except NotUnderstoodError as error:
                        self._skip(start, str(error))
                    if returned is not None:
                        if not cursor.done:
                            self._skip(cursor.at, "statements after a return are never reached")
                        return returned
        finally:
            self.cursor = outer
        return None

    def _skip(self, start: int, why: str) -> None:
        """Go past a statement that is not understood."""
        self.cursor.at = start
        line, statement = self.cursor.peek().line, self.cursor.statement()
        self.report("DV602", f"not understood: {shown(statement)}: {why}", line)

    def _statement(self) -> Value | None:
        cursor, word = self.cursor, self.cursor.peek().text
        if cursor.take(";"):
            return None
        if cursor.sees("{"):
            return self._inner(cursor.brackets())
        if cursor.take("if"):
            return self._if()
        if word in _BEYOND:
            raise NotUnderstoodError(f"the audit does not follow {word}")
        if word in {"using", "typedef", "static_assert"}:
            cursor.statement()
            return None
        if cursor.take("return"):
            returned = 1 if cursor.sees(";") else load(self.expression())
            cursor.expect(";")
            if returned == 0 and self._running[-1:] == ["Initialize"]:
                raise NotUnderstoodError("Initialize() always fails")
            return returned
        if self._is_declaration():
            self._declaration()
        else:
            before = self.effects
            self.expression()
            if self.effects == before:
                raise NotUnderstoodError("it does nothing")
        cursor.expect(";")
        return None

    def _inner(self, tokens: Sequence[Token]) -> Value | None:
        """Execute a block, or a branch, in a scope of its own."""
        self.scopes = [*self.scopes, {}]
        try:
            return self._follow(tokens)
        finally:
            self.scopes = self.scopes[:-1]

    def _if(self) -> Value | None:
        """Take the branch that the condition chooses; its value must be known."""
        self.cursor.expect("(")
        condition = load(self.expression())
        self.cursor.expect(")")
        is_true = isinstance(condition, Pointer) or number(condition) != 0
        first = self.cursor.statement()
        second = self.cursor.statement() if self.cursor.take("else") else ()
        return self._inner(first if is_true else second)

    # --- declarations ---

    def _is_declaration(self) -> bool:
        """Whether the statement starts with a type: a word of its own, or a name before another name."""
        before = self.cursor.peek()
        if before.text in QUALIFIERS or before.text in SCALARS or before.text in {"auto", "float", "double", "void"}:
            return True
        if before.kind != "name":
            return False
        ahead = 1
        while (token := self.cursor.peek(ahead)).text in {"::", "*", "&", "const"} or before.text == "::":
            if token.kind != "name" and before.text == "::":
                return False
            before = token
            ahead += 1
        return token.kind == "name"

    def _declaration(self) -> None:
        type = self.type_name() or self._unknown_type()
        is_reference = self.cursor.peek(-1).text == "&"
        while True:
            self._declarator(type, is_reference=is_reference)
            if not self.cursor.take(","):
                return
            is_reference = self.cursor.sees("&")
            while self.cursor.take("*", "&"):
                pass

    def _unknown_type(self) -> Type:
        """auto, or a type that the audit does not know."""
        stars = 0
        while self.cursor.peek(1).kind == "name" or self.cursor.peek(1).text in {"::", "*", "&"}:
            stars += self.cursor.next().text == "*"
        while self.cursor.sees("*", "&"):
            stars += self.cursor.next().text == "*"
        return POINTER if stars else UNKNOWN

    def _declarator(self, type: Type, *, is_reference: bool) -> None:
        cursor, name = self.cursor, self.cursor.next()
        if name.kind != "name":
            raise NotUnderstoodError("a declaration without a name")
        if is_reference:
            cursor.expect("=")
            self.scopes[-1][name.text] = self.assignment()
            return
        if cursor.take("["):
            length = None if cursor.sees("]") else number(self.assignment())
            cursor.expect("]")
            type = Array(type, length)
        cell = Cell(type, name.text)
        if cursor.take("=") or cursor.sees("{", "("):
            self._initial(cell, name.line)
        self.scopes[-1][name.text] = cell

    def _initial(self, cell: Cell, line: int) -> None:
        if self.cursor.sees("{"):
            self.initialize(cell, line)
            return
        value = load(self.assignment())
        if cell.type is UNKNOWN and isinstance(value, Cell):
            raise NotUnderstoodError(f"a copy of {value.name}, where a reference may be meant")
        self.assign(cell, value, line)


def _whole(target: Value, size: Value) -> Cell:
    """The cell that a pointer points to, all of whose bytes are meant."""
    value = load(target)
    cell = value.to if isinstance(value, Pointer) else value
    if not isinstance(cell, Cell):
        raise NotUnderstoodError("a pointer to nothing known")
    if cell.type.size != number(size):
        has = cell.type.size or "an unknown number of"
        raise NotUnderstoodError(f"{number(size)} bytes of {cell.name}, which has {has} bytes")
    return cell
