"""Follows the statements of a source from Initialize() on, and notes what they assign."""

from collections.abc import Sequence

from tree_sitter import Node

from cnn_convertor.audit.cells import Cell, NotUnderstoodError, Pointer, Text, Value, load, number
from cnn_convertor.audit.definitions import Definitions, Function, line_of, shown, text_of
from cnn_convertor.audit.expressions import Expressions, part, type_of
from cnn_convertor.audit.sdk import POINTER, STRUCTS, UNKNOWN, Array, Type
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.codes import hint

_SETUP = {"ReserveMemory": 2, "set_num_layers": 1, "set_num_output_layers": 1}  # calls and their numbers of arguments
_HARMLESS_CALLS = {"printf", "fprintf", "puts", "assert", "fflush"}
_WITHOUT_EFFECT = {"using_declaration", "alias_declaration", "type_definition", "static_assert_declaration"}
_MOST = 1_000_000  # statements


class Statements(Expressions):
    """Executes functions. setup: the arguments of the base class's methods, and the line. findings: what it cannot follow."""

    def __init__(self, defined: Definitions) -> None:
        super().__init__()
        self.findings: list[Problem] = []
        self.called: set[str] = set()
        self.setup: dict[str, tuple[list[int], int]] = {}
        self._functions, self._file = defined.functions, defined.file
        self._running: list[str] = []
        self._left = _MOST
        self._follow(defined.variables)

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
            returned = self._follow(function.body.named_children)
        finally:
            self.scopes = outer
            self._running.pop()
        return 0 if returned is None else returned

    # --- statements ---

    def _follow(self, nodes: Sequence[Node]) -> Value | None:
        """Execute statements to the end, or to a return; gives what is returned."""
        with self.nested(10):
            for index, node in enumerate(nodes):
                self._left -= 1
                if self._left < 0:
                    raise NotUnderstoodError("more statements than any network needs")
                try:
                    returned = self._statement(node)
                except NotUnderstoodError as error:
                    self._refuse(node, str(error))
                    continue
                if returned is not None:
                    if index + 1 < len(nodes):
                        self._refuse(nodes[index + 1], "statements after a return are never reached")
                    return returned
        return None

    def _refuse(self, node: Node, why: str) -> None:
        self.report("DV602", f"not understood: {shown(node)}: {why}", line_of(node))

    def _statement(self, node: Node) -> Value | None:
        match node.type:
            case "expression_statement":
                before = self.effects
                for expression in node.named_children:  # one, or none
                    self.evaluate(expression)
                    if self.effects == before:
                        raise NotUnderstoodError("it does nothing")
            case "declaration":
                self._declare(node)
            case "compound_statement":
                return self._inner(node)
            case "if_statement":
                return self._if(node)
            case "return_statement":
                returned = load(self.evaluate(node.named_children[0])) if node.named_child_count else 1
                if returned == 0 and self._running[-1:] == ["Initialize"]:
                    raise NotUnderstoodError("Initialize() always fails")
                return returned
            case kind if kind not in _WITHOUT_EFFECT:
                raise NotUnderstoodError(f"the audit does not follow {text_of(node).partition(' ')[0][:40]}")
        return None

    def _inner(self, node: Node) -> Value | None:
        """Execute a block, or a branch, in a scope of its own."""
        self.scopes = [*self.scopes, {}]
        try:
            return self._follow(node.named_children if node.type == "compound_statement" else [node])
        finally:
            self.scopes = self.scopes[:-1]

    def _if(self, node: Node) -> Value | None:
        """Take the branch that the condition chooses; its value must be known."""
        condition = part(node, "condition")
        if condition.named_child_count != 1:
            raise NotUnderstoodError("a condition with a declaration")
        if self.is_true(part(condition, "value")):
            return self._inner(part(node, "consequence"))
        alternative = node.child_by_field_name("alternative")
        return None if alternative is None else self._inner(alternative.named_children[0])

    # --- declarations ---

    def _declare(self, node: Node) -> None:
        text = text_of(part(node, "type"))
        if "<" in text or "{" in text:
            raise NotUnderstoodError(f"the type {text[:40]}")
        for declarator in node.children_by_field_name("declarator"):
            self._declarator(declarator, type_of(text) or UNKNOWN)

    def _declarator(self, node: Node, type: Type) -> None:
        """One variable. The grammar takes T x(y) for a function."""
        value, is_reference = node.child_by_field_name("value"), False
        name = part(node, "declarator") if node.type == "init_declarator" else node
        while name.type != "identifier":
            match name.type:
                case "pointer_declarator":
                    type = POINTER
                case "reference_declarator":
                    is_reference = True
                case "array_declarator":
                    size = name.child_by_field_name("size")
                    type = Array(type, None if size is None else number(self.evaluate(size)))
                case "function_declarator" if value is None:
                    value = part(name, "parameters")
                case _:
                    raise NotUnderstoodError("a declaration without a name")
            name = name.child_by_field_name("declarator") or name.named_children[-1]
        if is_reference and (value is None or value.type in {"initializer_list", "argument_list", "parameter_list"}):
            raise NotUnderstoodError("a reference without =")
        if is_reference and value is not None:
            self.scopes[-1][text_of(name)] = self.evaluate(value)
            return
        cell = Cell(type, text_of(name))
        if value is not None:
            self._start(cell, value)
        self.scopes[-1][text_of(name)] = cell

    def _start(self, cell: Cell, value: Node) -> None:
        """Give a variable its first value."""
        if value.type == "initializer_list":
            self.initialize(cell, value)
            return
        if value.type in {"argument_list", "parameter_list"}:
            if value.named_child_count != 1:
                raise NotUnderstoodError(f"{value.named_child_count} values")
            value = value.named_children[0]
            if value.type == "parameter_declaration" and value.named_child_count == 1:
                value = value.named_children[0]
        first = load(self.evaluate(value))
        if cell.type is UNKNOWN and isinstance(first, Cell):
            raise NotUnderstoodError(f"a copy of {first.name}, where a reference may be meant")
        self.assign(cell, first, line_of(value))


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
