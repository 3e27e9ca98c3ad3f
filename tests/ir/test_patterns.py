"""Patterns match what computes the same, whatever the order, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from cnn_convertor.ir.patterns import Bound, Either, Numeric, OfKind, Pattern, Product, first_match

X, Y = Bound("x"), Bound("y")


@dataclass(frozen=True)
class Nodes:
    """Values by name: (kind, inputs), or a number."""

    values: Mapping[str, tuple[str, ...] | float]

    def kind(self, name: str) -> str:
        value = self.values.get(name)
        return value[0] if isinstance(value, tuple) else ""

    def inputs(self, name: str) -> Sequence[str]:
        value = self.values[name]
        assert isinstance(value, tuple)
        return value[1:]

    def number(self, name: str) -> float | None:
        value = self.values.get(name)
        return value if isinstance(value, float) else None


NODES = Nodes(
    {
        "2": 2.0,
        "4": 4.0,
        "0": 0.0,
        "sum": ("Add", "a", "b"),
        "twice": ("Add", "a", "a"),
        "difference": ("Sub", "a", "b"),
        "square": ("Mul", "a", "a"),
        "double": ("Mul", "2", "a"),
        "half": ("Div", "a", "2"),
        "inverse": ("Div", "2", "a"),
        "by zero": ("Div", "a", "0"),
        "nested": ("Mul", "double", "half"),
        "deep": ("Mul", "2", "nested"),
        "deeper": ("Mul", "2", "deep"),
        "mean": ("Mean", "a", "axes"),
    }
)
MATCHES: list[tuple[Pattern, str, dict[str, str] | None]] = [
    (OfKind("Add", (X, Y)), "sum", {"x": "a", "y": "b"}),
    (OfKind("Add", (X, X)), "sum", None),
    (OfKind("Add", (X, X)), "twice", {"x": "a"}),
    (OfKind("Sub", (X, Y)), "sum", None),
    (OfKind("Add", (Bound("b"),)), "sum", None),
    (OfKind("Mul", (X, Numeric(2.0))), "double", None),
    (OfKind("Mul", (X, Numeric(2.0)), commutes=True), "double", {"x": "a"}),
    (OfKind("Mul", (X, Numeric(4.0)), commutes=True), "double", None),
    (OfKind("Mul", (X, Numeric(name="n")), commutes=True), "double", {"x": "a", "n": "2"}),
    (OfKind("Div", (X, Numeric(name="n"))), "inverse", None),
    (OfKind("Mean", (X,)), "mean", None),
    (OfKind("Mean", (X,), more=True), "mean", {"x": "a"}),
    (Bound("y", OfKind("Add", (X, X))), "twice", {"x": "a", "y": "twice"}),
    (Bound("y", OfKind("Add", (X, X))), "sum", None),
    (Product((X,), 2.0), "double", {"x": "a"}),
    (Product((X,), 0.5), "half", {"x": "a"}),
    (Product((X,), 0.5), "inverse", None),
    (Product((X, X)), "square", {"x": "a"}),
    (Product((X, X), 1.0), "nested", {"x": "a"}),
    (Product((X, X), 2.0), "deep", {"x": "a"}),
    (Product((X, X), 2.003), "deep", None),
    (Product((X, X), 4.0), "deeper", None),  # too deep
    (Product((X,), 0.0), "by zero", None),
    (Either((OfKind("Sub", (X, Y)), OfKind("Add", (Y, X)))), "sum", {"x": "b", "y": "a"}),
    (X, "unknown", {"x": "unknown"}),
    (Numeric(), "a", None),
]


@pytest.mark.parametrize(("pattern", "value", "expected"), MATCHES)
def test_what_matches(pattern: Pattern, value: str, expected: dict[str, str] | None) -> None:
    match = first_match(NODES, pattern, value)
    assert (None if match is None else match.values) == expected


def test_a_match_lists_operators_after_those_that_they_read() -> None:
    match = first_match(NODES, OfKind("Mul", (OfKind("Mul", (Y, X)), OfKind("Div", (X, Y)))), "nested")
    assert match is not None and match.nodes == ("double", "half", "nested")


def test_another_way_is_tried_where_the_first_one_fails() -> None:
    """The name x is bound to the first factor before the second one shows that it is the wrong one."""
    nodes = Nodes({"g": ("Sigmoid", "a"), "y": ("Mul", "g", "a")})
    match = first_match(nodes, OfKind("Mul", (X, OfKind("Sigmoid", (X,))), commutes=True), "y")
    assert match is not None and match.values == {"x": "a"}
