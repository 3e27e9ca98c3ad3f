"""Reads a generated source back, and checks it: written from the device's specification, apart from what generates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cnn_convertor.audit.checking import check, in_order
from cnn_convertor.audit.flow import Flow
from cnn_convertor.audit.listing import listing
from cnn_convertor.audit.processor import check_processor, read_functions
from cnn_convertor.audit.reading import read
from cnn_convertor.audit.rules import Device, factor_notes
from cnn_convertor.errors import Problem


@dataclass(frozen=True, slots=True)
class Audit:
    """layers, commands: their numbers. listing: the network as text.

    findings: what is wrong, in the order of the source. notes: what may be right, but is unusual.
    """

    name: str
    layers: int
    commands: int
    findings: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    listing: str


def audit(
    source: str | Path, weights: str | Path | None = None, *, ub_size: int = 655360, max_kernel_size: int = 7
) -> Audit:
    """Check NAME_gen.cpp, of this convertor or another one, and its weights; without them, what is said of them.

    ub_size: bytes of the device's unified buffer. Raises ModelError when the source cannot be read, or is none.
    """
    source, weights = Path(source), None if weights is None else Path(weights)
    network, unread = read(source)
    functions = read_functions(source)
    flow = Flow(network, functions)
    device = Device(ub_size, max_kernel_size)
    findings = [*unread, *check(network, flow, weights, device), *check_processor(network, functions)]
    return Audit(
        name=network.name,
        layers=len(network.layers),
        commands=sum(layer.is_on_device and layer.command is not None for layer in network.layers),
        findings=in_order(findings),
        notes=tuple(note for layer in network.layers for note in factor_notes(layer)),
        listing=listing(network, flow),
    )
