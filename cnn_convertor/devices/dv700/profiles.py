"""The devices of the family."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cnn_convertor.devices.dv700.commands import run_of
from cnn_convertor.devices.dv700.device import Cost, Device
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, read_profile
from cnn_convertor.devices.dv700.estimate import estimate
from cnn_convertor.devices.dv700.fusion.combining import split_runs
from cnn_convertor.devices.dv700.fusion.levels import ALLOWED, Form, Fusion
from cnn_convertor.devices.dv700.memory.placement import nbytes
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.rules import RULES
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.ir.graph import Graph, Node


def device_of(profile: Profile) -> Device:
    """The device that has the figures of a profile."""
    forms = {fusion: _possible(profile, fusion) for fusion in Fusion}
    usec = partial(command_usec, profile)
    return Device(profile.name, profile.limits, RULES, forms, command_cost, usec, frozenset(profile.blocks.value))


def _possible(profile: Profile, fusion: Fusion) -> frozenset[Form]:
    """The forms of commands at a level of fusion. A probe has the last word: exactly what it saw work is allowed.

    The max pool in several tiles depends on driver and hardware alone, or on the probe.
    """
    forms = ALLOWED[fusion]
    if profile.passed is not None:
        forms = forms & profile.passed if fusion is Fusion.NONE else profile.passed
    return forms | {Form.TILED_POOL} if profile.limits.pools_tiles else forms - {Form.TILED_POOL}


def command_cost(graph: Graph, path: tuple[Node, ...]) -> Cost:
    """The cost of a command with one branch."""
    reads = (*path[0].inputs, *_operands(path))
    return Cost(sum(nbytes(graph, name) for name in (*reads, path[-1].name)), 1, len(split_runs(path)))


def command_usec(profile: Profile, graph: Graph, path: tuple[Node, ...]) -> Interval:
    """The microseconds of a command with one branch and FP16 weights."""
    runs = [run_of(graph, nodes, transposed=True, external=nodes[-1] is path[-1]) for nodes in split_runs(path)]
    operand_bytes = sum(nbytes(graph, name) for name in (*path[0].inputs[1:], *_operands(path)))
    return estimate(runs, operand_bytes=operand_bytes, profile=profile).usec


def _operands(path: tuple[Node, ...]) -> list[str]:
    """What the nodes behind the first read beside each other."""
    inside = {node.name for node in path}
    return [name for node in path[1:] for name in node.inputs if name not in inside]


DV700 = device_of(read_profile(DEFAULT_DEVICE, Path()))
