"""Patterns of operators: matched backwards from the value that they compute, they find the values that it depends on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple, Protocol, TypeAlias

TOLERANCE = 1e-3  # of the numbers in products: exporters round some to FP16
DEPTH = 3  # of nested products


class Network(Protocol):
    """What patterns ask of a network, whose operators have one output each."""

    def kind(self, name: str, /) -> str:
        """The kind of the operator that computes a value; empty for what none computes, or none of interest."""

    def inputs(self, name: str, /) -> Sequence[str]:
        """What the operator that computes a value reads."""

    def number(self, name: str, /) -> float | None:
        """The number that a constant holds; None for other values."""


class Match(NamedTuple):
    """values: those with a name in the pattern, by it. nodes: the operators, each after those that it reads."""

    values: dict[str, str]
    nodes: tuple[str, ...] = ()

    def naming(self, name: str, value: str) -> Iterator[Match]:
        """The match with a further named value, unless the name already means another one."""
        if self.values.get(name, value) == value:
            yield Match({**self.values, name: value}, self.nodes)


NOTHING_YET = Match({})


@dataclass(frozen=True)
class Bound:
    """Any value; the same wherever the name occurs in a pattern. of: what computes it."""

    name: str
    of: Pattern | None = None

    def match(self, network: Network, value: str, so_far: Match) -> Iterator[Match]:
        for match in (so_far,) if self.of is None else self.of.match(network, value, so_far):
            yield from match.naming(self.name, value)


@dataclass(frozen=True)
class Numeric:
    """A constant with one number; any number if none is given, and then with a name."""

    number: float | None = None
    name: str = ""

    def match(self, network: Network, value: str, so_far: Match) -> Iterator[Match]:
        number = network.number(value)
        if number is None or (self.number is not None and number != self.number):
            return
        yield from so_far.naming(self.name, value) if self.name else (so_far,)


@dataclass(frozen=True)
class OfKind:
    """An operator of a kind. commutes: its inputs may come in any order. more: it may have further inputs."""

    kind: str
    inputs: tuple[Pattern, ...]
    commutes: bool = False
    more: bool = False

    def match(self, network: Network, value: str, so_far: Match) -> Iterator[Match]:
        if network.kind(value) != self.kind:
            return
        sources = network.inputs(value)
        if len(sources) == len(self.inputs) or (self.more and len(sources) > len(self.inputs)):
            orders = permutations(sources) if self.commutes else (sources[: len(self.inputs)],)
            for order in orders:
                for match in _all(network, self.inputs, order, so_far):
                    yield Match(match.values, (*match.nodes, value))


@dataclass(frozen=True)
class Product:
    """The product of some values and a number, as nested products and quotients in any order."""

    factors: tuple[Pattern, ...]
    number: float = 1.0

    def match(self, network: Network, value: str, so_far: Match) -> Iterator[Match]:
        for factors, number in _factorings(network, value, DEPTH):
            if len(factors) == len(self.factors) and math.isclose(number, self.number, rel_tol=TOLERANCE):
                for order in permutations(factors):
                    yield from _all(network, self.factors, order, so_far)


@dataclass(frozen=True)
class Either:
    """One of several patterns."""

    patterns: tuple[Pattern, ...] = field(default=())

    def match(self, network: Network, value: str, so_far: Match) -> Iterator[Match]:
        for pattern in self.patterns:
            yield from pattern.match(network, value, so_far)


Pattern: TypeAlias = Bound | Numeric | OfKind | Product | Either


def first_match(network: Network, pattern: Pattern, value: str) -> Match | None:
    """The first way in which a pattern computes a value; None if there is none."""
    return next(pattern.match(network, value, NOTHING_YET), None)


def _all(network: Network, patterns: Sequence[Pattern], values: Sequence[str], so_far: Match) -> Iterator[Match]:
    """The ways to match each value by its pattern."""
    if not patterns:
        yield so_far
        return
    for match in patterns[0].match(network, values[0], so_far):
        yield from _all(network, patterns[1:], values[1:], match)


def _factorings(network: Network, value: str, depth: int) -> Iterator[tuple[tuple[str, ...], float]]:
    """The ways to write a value as a product: the factors, and the numbers among them multiplied."""
    number = network.number(value)
    if number is not None:
        yield (), number
        return
    yield (value,), 1.0
    if depth == 0 or network.kind(value) not in ("Mul", "Div") or len(network.inputs(value)) != 2:
        return
    left, right = network.inputs(value)
    for factors, a in _factorings(network, left, depth - 1):
        for others, b in _factorings(network, right, depth - 1):
            if network.kind(value) == "Mul":
                yield factors + others, a * b
            elif not others and b:
                yield factors, a / b
