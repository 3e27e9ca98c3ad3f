"""The devices of the family."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cnn_convertor.devices.dv700.commands import WITH_PACKED, run_of
from cnn_convertor.devices.dv700.cpu_costs import estimate_on_cpu
from cnn_convertor.devices.dv700.device import Cost, Device
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, read_profile
from cnn_convertor.devices.dv700.estimate import Estimate, change_usec, estimate
from cnn_convertor.devices.dv700.fusion.combining import split_runs
from cnn_convertor.devices.dv700.fusion.levels import ALLOWED, Form
from cnn_convertor.devices.dv700.memory.placement import nbytes
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.rules import RULES
from cnn_convertor.devices.dv700.runs import Layer
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.settings import Fusion, Runtime
from cnn_convertor.ir.graph import Graph, Node


def device_of(profile: Profile, runtime: Runtime = Runtime.SDK) -> Device:
    """The device that has the figures of a profile, with the changes of side of a runtime."""
    forms = {fusion: _possible(profile, fusion) for fusion in Fusion}
    return Device(
        profile.name,
        profile.limits,
        RULES,
        forms,
        cost=command_cost,
        estimate=partial(command_estimate, profile),
        cpu_usec=partial(cpu_usec, profile),
        change_usec=partial(change_usec, profile, runtime),
        blocks=frozenset(profile.blocks.value),
        profile=profile,
    )


def _possible(profile: Profile, fusion: Fusion) -> frozenset[Form]:
    """The forms of commands at a level of fusion. A probe has the last word: exactly what it saw work is allowed.

    The max pool in several tiles depends on driver and hardware alone, or on the probe.
    """
    forms = ALLOWED[fusion]
    if profile.passed is not None:
        forms = forms & profile.passed if fusion is Fusion.NONE else profile.passed
    return forms | {Form.TILED_POOL} if profile.limits.pools_tiles else forms - {Form.TILED_POOL}


def command_cost(graph: Graph, path: tuple[Node, ...], slices: int = 1) -> Cost:
    """The cost of a command with one branch, or with one for each of so many slices of the channels."""
    inputs = path[0].inputs * slices
    reads = sum(nbytes(graph, name) for name in (*inputs, *_operands(path)))
    return Cost(reads + nbytes(graph, path[-1].name), 1, slices * len(split_runs(path)))


def command_estimate(profile: Profile, graph: Graph, path: tuple[Node, ...]) -> Estimate:
    """What a command with one branch and FP16 weights takes."""
    runs = [run_of(graph, nodes, transposed=True, external=nodes[-1] is path[-1]) for nodes in split_runs(path)]
    others = () if isinstance(path[0].op, WITH_PACKED) else path[0].inputs[1:]  # which are its weights
    operand_bytes = sum(nbytes(graph, name) for name in (*others, *_operands(path)))
    return estimate(runs, operand_bytes=operand_bytes, profile=profile)


def cpu_usec(profile: Profile, layer: Layer) -> Interval | None:
    """The microseconds of a layer on the CPU."""
    cost = estimate_on_cpu(layer, profile)
    return None if cost is None else cost.usec


def _operands(path: tuple[Node, ...]) -> list[str]:
    """What the nodes behind the first read beside each other."""
    inside = {node.name for node in path}
    return [name for node in path[1:] for name in node.inputs if name not in inside]


DV700 = device_of(read_profile(DEFAULT_DEVICE, Path()))
