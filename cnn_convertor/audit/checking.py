"""Checks a network that was read from its source: every finding, in the order of the source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cnn_convertor.audit.flow import Flow
from cnn_convertor.audit.layers import check_layer
from cnn_convertor.audit.network import Network
from cnn_convertor.audit.rules import Device
from cnn_convertor.audit.slices import check_weights
from cnn_convertor.errors import Problem


def check(network: Network, flow: Flow, weights: Path | None, device: Device) -> Iterator[Problem]:
    """What is wrong with the network. flow: its maps, followed through the memory."""
    for layer in network.layers:
        yield from check_layer(network, layer, device)
    yield from flow.findings
    yield from check_weights(network, weights)


def in_order(findings: list[Problem]) -> tuple[Problem, ...]:
    """By line, each once; what has no line comes last."""

    def line(problem: Problem) -> float:
        where = problem.where
        return float("inf") if where is None or where.line is None else where.line

    return tuple(sorted(dict.fromkeys(findings), key=line))
