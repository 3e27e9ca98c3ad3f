"""Nodes of any graph have places of their own, and arrows lead from node to node."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn_convertor.errors import UsageError
from cnn_convertor.report.layering import layered

pytest.importorskip("fast_sugiyama")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """The number of nodes, and arrows from earlier to later ones, each once."""
    count = draw(st.integers(1, 24))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    return count, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=40)) if pairs else []


@given(graphs())
def test_no_two_nodes_share_a_place(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, arrows = graph
    places = layered(count, arrows).positions
    assert len(places) == count
    assert all(x >= 0 and y >= 0 for x, y in places)
    for (x, y), (other_x, other_y) in combinations(places, 2):
        assert abs(x - other_x) >= 0.99 or abs(y - other_y) >= 0.99


@given(graphs())
def test_arrows_lead_down_from_node_to_node(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, arrows = graph
    layering = layered(count, arrows)
    for (start, end), route in zip(arrows, layering.routes, strict=True):
        assert (route[0], route[-1]) == (layering.positions[start], layering.positions[end])
        assert all(one[1] < other[1] for one, other in pairwise(route))


def test_an_arrow_that_passes_others_bends() -> None:
    chain = [(0, 1), (1, 2), (2, 3)]
    *_, long = layered(4, [*chain, (0, 3)]).routes
    assert len(long) == 4


@pytest.mark.parametrize("nodes", [(0, 1, 2), (0, 4, 5), (3, 4, 5)])
def test_bends_are_no_nodes_for_any_numbers_of_nodes(nodes: tuple[int, int, int]) -> None:
    first, second, third = nodes
    layering = layered(6, [(first, second), (first, third), (second, third)])
    assert len({*layering.positions}) == 6
    assert [len(route) for route in layering.routes] == [2, 3, 2]


def test_nodes_without_arrows_stand_beside_each_other() -> None:
    assert layered(3, []).positions == ((0, 0), (1, 0), (2, 0))


def test_long_arrows_across_a_large_network_are_not_drawn() -> None:
    chain = list(pairwise(range(300)))
    with pytest.raises(
        UsageError, match=r"DV164: the network is too large to draw: .* need 44,851 points, of at most 40,000"
    ):
        layered(300, [*chain, *((node, 299) for node in range(298))])
    assert len(layered(300, chain).positions) == 300


def test_parts_of_a_network_have_their_own_arrows() -> None:
    layering = layered(4, [(0, 2), (1, 3)])
    assert layering.positions == ((0, 0), (1, 0), (0, 1), (1, 1))
    assert layering.routes == (((0, 0), (0, 1)), ((1, 0), (1, 1)))
