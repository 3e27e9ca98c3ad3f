"""Maps have places of their own while they live; parts of a concatenation lie in it, surface after surface."""

from __future__ import annotations

import itertools

import pytest

from cnn_convertor.devices.nvdla.chains import Chain, chains_of, is_view
from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.legalize import legalization
from cnn_convertor.devices.nvdla.placement import ChainSchedule, homes_of, map_bytes, schedule_chains
from cnn_convertor.devices.program import LayerType
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph
from cnn_convertor.passes import PASSES
from cnn_convertor.passes.contract import run_passes
from reference import random_networks


def planned(seed: int) -> tuple[Graph, ChainSchedule]:
    make = random_networks.network_of_blocks if seed % 2 else random_networks.network
    graph = run_passes((*PASSES, *legalization(NV_FULL)), make(seed, 12))
    return graph, schedule_chains(graph, chains_of(graph, NV_FULL, fuses=True))


def lives(graph: Graph, steps: tuple[Chain, ...]) -> dict[str, tuple[int, int]]:
    """Each map that a step or the application writes -> the steps from which and up to which it must be kept."""
    spans = {node.name: (0, 0) for node in graph.inputs}
    for index, step in enumerate(steps):
        if step.type is not LayerType.CONCAT:
            spans[step.writes] = (index, index)
    for index, step in enumerate(steps):
        for name in step.reads:
            for read in written(graph, name):
                spans[read] = (spans[read][0], max(spans[read][1], index))
    for output in graph.outputs:
        for read in written(graph, output):
            spans[read] = (spans[read][0], len(steps))
    return spans


def written(graph: Graph, name: str) -> list[str]:
    """The maps whose memory a map is."""
    node = graph[name]
    if is_view(graph, node):
        return written(graph, node.inputs[0])
    if isinstance(node.op, ops.Concat):
        return [each for part in node.inputs for each in written(graph, part)]
    return [name]


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(48))
def test_maps_that_live_at_a_time_share_no_bytes(seed: int) -> None:
    graph, schedule = planned(seed)
    offsets = schedule.places.offsets
    spans = lives(graph, schedule.steps)
    done: set[str] = {node.name for node in graph.inputs}
    for step in schedule.steps:
        for name in step.reads:
            assert set(written(graph, name)) <= done
        done.add(step.writes)
    for one, other in itertools.combinations(spans, 2):
        (first, last), (begin, end) = spans[one], spans[other]
        if first <= end and begin <= last:
            before, after = sorted((one, other), key=lambda name: offsets[name])
            assert offsets[before] + map_bytes(graph, before) <= offsets[after], (one, other)
    for name in spans:
        assert offsets[name] % 32 == 0
        assert offsets[name] + map_bytes(graph, name) <= schedule.places.plan.size


@pytest.mark.parametrize("seed", range(1, 20, 2))
def test_parts_lie_one_after_the_other(seed: int) -> None:
    graph, schedule = planned(seed)
    homes, offsets = homes_of(graph), schedule.places.offsets
    for step in schedule.steps:
        if step.type is LayerType.CONCAT:
            at = offsets[step.writes]
            for part in step.nodes[0].inputs:
                assert offsets[part] == at
                assert homes[part].name == homes[step.writes].name
                at += map_bytes(graph, part)
