"""Finds out what a reader of a layer type does, from its source: the settings it takes, what it makes, what it refuses.

The source is followed from function to function, for one layer type at a time. Strings that name settings are followed
through arguments, tuples that are looped over, and f-strings; branches for another layer type are left out.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from cnn_convertor.frontends import readers as registry
from cnn_convertor.ir import ops

PACKAGE = __name__.rpartition(".")[0]
TAKES = "take"
REFUSALS = frozenset({"unsupported", "refuse", "misfit"})  # methods whose first argument says what is not converted
SILENT = frozenset({"wrong", "contradiction"})  # makes no sense in the framework either

Strings: TypeAlias = tuple[str, ...]  # what an expression may be, as far as that is known
Environment: TypeAlias = Mapping[str, Strings]


@dataclass(frozen=True, slots=True)
class Trace:
    """What was found, each in the order of the source.

    made: classes of cnn_convertor.ir.ops. arranged: those that methods make, which bring inputs into the form that a
    reader wants, or results into the one that others want.
    """

    settings: dict[str, None] = field(default_factory=dict)
    made: dict[type, None] = field(default_factory=dict)
    arranged: dict[type, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)


def trace(
    reader: Callable[..., Any], type: str, classes: Iterable[type], apart: Mapping[Callable[..., Any], str] = {}
) -> Trace:
    """Follow a reader for one layer type.

    classes: those whose methods a reader calls on its arguments. apart: functions that are not followed, and the setting
    that they take; they are told of on their own.
    """
    methods = {
        name: method
        for owner in (*classes, registry.Settings)
        for base in reversed(owner.__mro__)
        for name, method in vars(base).items()
        if isinstance(method, FunctionType)
    }
    tracer = _Tracer(type, methods, apart)
    tracer.follow(reader, {})
    return tracer.found


@cache
def _definition(function: FunctionType) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):  # a lambda inside an expression
        return None
    return tree.body[0] if isinstance(tree.body[0], ast.FunctionDef) else None


class _Tracer:
    def __init__(self, type: str, methods: Mapping[str, FunctionType], apart: Mapping[Callable[..., Any], str]) -> None:
        self.found = Trace()
        self._apart = apart
        self._type = type
        self._methods = methods
        self._seen: set[tuple[object, ...]] = set()

    def follow(self, function: object, arguments: Environment) -> None:
        """Look at a function that is called with strings for some of its arguments."""
        while isinstance(function, partial):
            function = function.func
        function = inspect.unwrap(function) if callable(function) else function
        if callable(function) and function in self._apart:
            self.found.settings[self._apart[function]] = None
            return
        key = (function, *sorted(arguments.items()))
        if not isinstance(function, FunctionType) or not function.__module__.startswith(PACKAGE) or key in self._seen:
            return
        self._seen.add(key)
        definition = _definition(function)
        if definition is not None:
            _Body(self, function, arguments).statements(definition.body)

    def call(self, name: str, function: object, arguments: Environment, strings: Sequence[Strings]) -> None:
        """A method of a reading or of settings is called: by its name, since nobody knows the types here."""
        if name == TAKES:
            self.found.settings.update(dict.fromkeys(strings[0] if strings else ()))
        elif name not in SILENT:
            self.follow(function, arguments)

    def method(self, name: str) -> FunctionType | None:
        return self._methods.get(name)

    def is_of_another_type(self, test: ast.expr) -> bool | None:
        """Whether a condition on the layer's type does not hold (True) or holds (False); None for other conditions."""
        match test:
            case ast.Compare(left=ast.Attribute(attr="type"), ops=[ast.Eq() | ast.NotEq() as operator], comparators=[ast.Constant(value=str(value))]):  # fmt: skip
                return (value == self._type) is isinstance(operator, ast.NotEq)
            case _:
                return None

    @property
    def type(self) -> str:
        return self._type


class _Body:
    """One function that is looked at."""

    def __init__(self, tracer: _Tracer, function: FunctionType, arguments: Environment) -> None:
        self._tracer = tracer
        self._globals = function.__globals__
        self._is_method = "." in function.__qualname__
        self._known: dict[str, Strings] = dict(arguments)

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.If) and (other := self._tracer.is_of_another_type(statement.test)) is not None:
                self.statements(statement.orelse if other else statement.body)
            else:
                self._learn(statement)
                for inner in _blocks(statement):
                    self.statements(inner)
                for expression in _expressions(statement):
                    self._expression(expression)

    def _learn(self, statement: ast.stmt) -> None:
        """Strings that get a name."""
        match statement:
            case ast.For(target=ast.Name(id=name), iter=ast.Tuple() | ast.Constant() as sequence):
                self._known[name] = self._items(sequence)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._known[name] = self._strings(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for target, value in zip(names, values, strict=False):
                    if isinstance(target, ast.Name):
                        self._known[target.id] = self._strings(value)
            case _:
                pass

    def _items(self, sequence: ast.expr) -> Strings:
        """The strings in a tuple, or the letters of a string."""
        match sequence:
            case ast.Tuple(elts=values):
                return tuple(text for value in values for text in self._strings(value))
            case ast.Constant(value=str(letters)):
                return tuple(letters)
            case _:
                return ()

    def _strings(self, value: ast.expr) -> Strings:
        match value:
            case ast.Constant(value=str(text)):
                return (text,)
            case ast.Name(id=name):
                return self._known.get(name, ())
            case ast.IfExp(body=first, orelse=second):
                return (*self._strings(first), *self._strings(second))
            case ast.JoinedStr(values=parts):
                texts = [""]
                for part in parts:
                    inner = self._strings(part.value if isinstance(part, ast.FormattedValue) else part)
                    texts = [text + more for text in texts for more in inner]
                return tuple(texts)
            case _:
                return ()

    def _expression(self, root: ast.expr) -> None:
        for node in ast.walk(root):
            match node:
                case ast.comprehension(target=ast.Name(id=name), iter=ast.Tuple() | ast.Constant() as sequence):
                    self._known[name] = self._items(sequence)
                case _:
                    pass
        for node in _walk(root, self._tracer):
            match node:
                case ast.Call():
                    self._call(node)
                case ast.Subscript(value=ast.Name(id=name), slice=index):
                    self._table(self._globals.get(name), index)
                case _:
                    pass

    def _table(self, table: object, index: ast.expr) -> None:
        """A table of functions or operators: its entry for the layer's type, or else all of them."""
        if not isinstance(table, Mapping):
            return
        by_type = isinstance(index, ast.Attribute) and index.attr == "type" and self._tracer.type in table
        for entry in [table[self._tracer.type]] if by_type else table.values():
            for value in entry if isinstance(entry, tuple) else (entry,):
                if isinstance(value, type) and _is_operator(value):
                    self._make(value)
                elif _is_operator(type(value)):
                    self._make(type(value))
                else:
                    self._tracer.follow(value, {})

    def _make(self, made: type) -> None:
        found = self._tracer.found
        (found.arranged if self._is_method else found.made)[made] = None

    def _call(self, node: ast.Call) -> None:
        strings = [self._strings(argument) for argument in node.args]
        match node.func:
            case ast.Name(id=name):
                self._value(self._globals.get(name), node, strings)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if isinstance(
                self._globals.get(module), ModuleType
            ):
                self._value(getattr(self._globals[module], name, None), node, strings)
            case ast.Attribute(attr=name) if name in REFUSALS:
                if not self._is_method and node.args:  # what all layers have in common is not said of each
                    self._tracer.found.refused.update(dict.fromkeys(_template(node.args[0])))
            case ast.Attribute(attr=name):
                method = self._tracer.method(name)
                self._tracer.call(name, method, self._arguments(method, node, strings, skip=1), strings)
            case _:
                pass

    def _value(self, called: object, node: ast.Call, strings: Sequence[Strings]) -> None:
        if isinstance(called, type) and _is_operator(called):
            self._make(called)
        else:
            self._tracer.follow(called, self._arguments(called, node, strings, skip=0))
        for argument in node.args:  # functions that are handed over
            if isinstance(argument, ast.Name) and isinstance(self._globals.get(argument.id), FunctionType):
                self._tracer.follow(self._globals[argument.id], {})

    def _arguments(
        self, called: object, node: ast.Call, strings: Sequence[Strings], *, skip: int
    ) -> dict[str, Strings]:
        """Which of the called function's parameters are strings that are known."""
        if not isinstance(called, FunctionType):
            return {}
        parameters = list(inspect.signature(called).parameters.values())[skip:]
        given: dict[str, Strings] = {p.name: (p.default,) for p in parameters if isinstance(p.default, str)}
        given |= {p.name: value for p, value in zip(parameters, strings, strict=False)}
        given |= {word.arg: self._strings(word.value) for word in node.keywords if word.arg is not None}
        return {name: value for name, value in given.items() if value}


def _is_operator(value: type) -> bool:
    return value.__module__.startswith(ops.__name__) and hasattr(value, "__dataclass_fields__")


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body
    for case in getattr(statement, "cases", []):
        yield case.body


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, not those of the blocks in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr
        elif isinstance(child, ast.match_case) and child.guard is not None:
            yield child.guard


def _walk(root: ast.AST, tracer: _Tracer) -> Iterator[ast.AST]:
    """All nodes, but for branches of other layer types."""
    if isinstance(root, ast.IfExp) and (other := tracer.is_of_another_type(root.test)) is not None:
        yield from _walk(root.orelse if other else root.body, tracer)
        return
    yield root
    for child in ast.iter_child_nodes(root):
        yield from _walk(child, tracer)


def _template(message: ast.expr) -> Iterator[str]:
    """What a message says, with ... for what only a network tells."""
    match message:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)
        case ast.IfExp(body=first, orelse=second):
            yield from _template(first)
            yield from _template(second)
        case _:
            pass
