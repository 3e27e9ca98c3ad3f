"""Parses a source, and finds the functions and variables that it defines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser, Point

from cnn_convertor.audit.preprocessor import Preprocessor
from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.files.codes import hint

_LANGUAGE = Language(tree_sitter_cpp.language())
_IGNORED = {
    "alias_declaration", "class_specifier", "enum_specifier", "static_assert_declaration", "struct_specifier",
    "type_definition", "union_specifier", "using_declaration",
}  # fmt: skip
_LONGEST = 1 << 16  # characters of a statement without lists of numbers
_LONGEST_LINE = 1 << 18  # characters; patterns take memory for each
_SHORTEST = 8  # characters of a statement, on average of a long source: each takes memory
_DEEPEST = 20  # namespaces in namespaces
_OPEN_ANGLE = re.compile(r"(?<!<)<(?![<=])[^;{}<>]*(?=[;{}<])")  # opens a template or compares: each way takes memory
_MOST_OPEN_ANGLES = 10_000
_CHUNK = 256  # bytes; the text of a node is read in these too


class Parameter(NamedTuple):
    name: str
    is_reference: bool


class Function(NamedTuple):
    """owner: the class that it belongs to; empty for none."""

    name: str
    owner: str
    parameters: tuple[Parameter, ...]
    body: Node
    line: int


@dataclass(slots=True)
class Definitions:
    """The top level of a source. findings: what in it is not understood."""

    file: str
    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Node] = field(default_factory=list)
    findings: list[Problem] = field(default_factory=list)

    def refuse(self, what: str, line: int) -> None:
        where = Origin(self.file, line=line)
        self.findings.append(Problem("DV602", f"not understood: {what}", where, hint("DV602")))


def definitions(text: str, file: str) -> Definitions:
    """Raises ModelError for a text that is not C++."""
    source = Definitions(file)
    if max(map(len, text.split("\n"))) > _LONGEST_LINE:
        raise _refusal(f"a line of more than {_LONGEST_LINE:,} characters", file, 0)
    _collect(_parsed(Preprocessor(source.refuse).run(text), file), source)
    return source


def line_of(node: Node) -> int:
    return int(node.start_point.row) + 1


def text_of(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def shown(node: Node, most: int = 80) -> str:
    text = " ".join(text_of(node)[: 4 * most].split())
    return text[:most] + "..." * (len(text) > most)


# --- parsing ---


def _parsed(text: str, file: str) -> Node:
    """The root of a tree without errors. The work is bounded: some texts take the parser more than in proportion."""
    at, calls = 0, 0

    def is_too_much(offset: int, _has_error: bool) -> bool:
        """The parser calls it every 100 steps: 1.2 times for 100 bytes of common C++, 8 times for the densest."""
        nonlocal at, calls
        at, calls = offset, calls + 1
        return calls > 200 + offset // 8

    if sum(map(text.count, ";{}")) > _LONGEST + len(text) // _SHORTEST:
        raise _refusal(f"statements of fewer than {_SHORTEST} characters on average", file, 0)
    for piece in re.finditer(r"[^;{}]+", text):
        if piece.end() - piece.start() > _LONGEST and re.search(r"[^\w\s,.+-]", piece[0]):
            row = text.count("\n", 0, piece.start())
            raise _refusal(f"a statement of more than {_LONGEST:,} characters", file, row)
    if sum(1 for _ in _OPEN_ANGLE.finditer(text)) > _MOST_OPEN_ANGLES:
        raise _refusal(f"more than {_MOST_OPEN_ANGLES:,} comparisons", file, 0)
    source = text.encode("utf-8", "replace")

    def read(offset: int, _point: Point) -> bytes:
        return source[offset : offset + _CHUNK]

    try:
        root = Parser(_LANGUAGE).parse(read, progress_callback=is_too_much).root_node
    except ValueError:
        raise _refusal("this is not C++ that the audit can parse", file, source.count(b"\n", 0, at)) from None
    if root.has_error:
        error = _first_error(root)
        row = error.start_point.row
        raise _refusal(f"{text.split(chr(10))[row].strip()[:80]}: this is not C++", file, row)
    return root


def _refusal(what: str, file: str, row: int) -> ModelError:
    return ModelError.of("DV602", f"not understood: {what}", Origin(file, line=row + 1), hint("DV602"))


def _first_error(node: Node) -> Node:
    while not node.is_error and not node.is_missing:
        node = next(child for child in node.children if child.has_error or child.is_missing)
    return node


# --- the top level ---


def _collect(scope: Node, source: Definitions, depth: int = 0) -> None:
    for node in scope.named_children:
        match node.type:
            case "function_definition":
                _function(node, source)
            case "declaration":
                if any(child.type == "init_declarator" for child in node.children_by_field_name("declarator")):
                    source.variables.append(node)
            case "template_declaration":
                _collect(node, source, depth)
            case "namespace_definition" | "linkage_specification" if depth < _DEEPEST:
                body = node.child_by_field_name("body")
                if body is not None:
                    _collect(body if body.type == "declaration_list" else node, source, depth + 1)
            case "expression_statement" if not node.named_child_count:
                pass
            case kind if kind not in _IGNORED:
                source.refuse(shown(node), line_of(node))


def _function(node: Node, source: Definitions) -> None:
    body, declarator = node.child_by_field_name("body"), node.child_by_field_name("declarator")
    while declarator is not None and declarator.type in {"pointer_declarator", "reference_declarator"}:
        declarator = declarator.named_children[-1]
    if body is None or declarator is None or declarator.type != "function_declarator":
        return  # = default, or an operator
    owner, _, name = text_of(declarator.child_by_field_name("declarator")).rpartition("::")
    if name.startswith("~"):
        return
    if name in source.functions:
        source.refuse(f"{shown(node)}: {name} is defined a second time", line_of(declarator))
        return
    parameters = tuple(_parameters(declarator.child_by_field_name("parameters")))
    owner = owner.rpartition("::")[2]
    source.functions[name] = Function(name, owner, parameters, body, line_of(declarator))


def _parameters(parameters: Node | None) -> Iterator[Parameter]:
    for node in () if parameters is None else parameters.named_children:
        words = re.findall(r"[^\W\d]\w*", text_of(node).partition("=")[0])
        if words and words != ["void"]:
            yield Parameter(words[-1], "&" in text_of(node))
