"""`inputs` and `outputs` in the ini file: the network between the named layers; problems of other layers are dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cnn_convertor.errors import ConvertorError, Origin, UnsupportedError, UsageError
from cnn_convertor.frontends.builder import PartialGraph
from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.subnetwork import layers_apart, part_of
from cnn_convertor.ir.ops import Input, Softmax

INI = Origin("net.ini")
HEAD = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 6 } } }
layer { name: "mask" type: "Input" top: "mask" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 6 } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "relu" type: "ReLU" bottom: "pool" top: "pool" }
layer { name: "parts" type: "Slice" bottom: "pool" top: "a" top: "b" }
layer { name: "rest" type: "ReLU" bottom: "mask" top: "rest" }
layer { name: "prob" type: "Softmax" bottom: "a" top: "prob" }
"""
TAIL = """
layer { name: "lstm" type: "LSTM" bottom: "b" bottom: "mask" top: "lstm" }
layer { name: "after" type: "ReLU" bottom: "lstm" top: "after" }
"""


def read(folder: Path, text: str) -> PartialGraph:
    path = folder / "net.prototxt"
    path.write_text(text)
    return CAFFE.read(path, None)


def test_a_network_ends_at_the_layers_that_are_named(tmp_path: Path) -> None:
    ended = part_of(read(tmp_path, HEAD), (), ("relu", "pool"), INI)
    assert ended.graph.output_names == ("relu", "pool")
    assert [node.name for node in ended.graph.inputs] == ["data"], "nothing reads the mask any more"
    assert not any(isinstance(node.op, Softmax) for node in ended.graph.nodes)


def test_the_outputs_have_the_order_of_the_list(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD)
    assert part_of(partial, (), ("prob", "relu"), INI).graph.output_names == ("prob", "relu")
    assert part_of(partial, (), ("relu", "prob"), INI).graph.output_names == ("relu", "prob")


def test_a_layer_with_two_outputs_gives_both(tmp_path: Path) -> None:
    ended = part_of(read(tmp_path, HEAD), (), ("parts",), INI)
    assert ended.graph.output_names == ("a", "b")


def test_an_output_of_a_layer_with_several_has_its_own_name(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD)
    assert part_of(partial, (), ("b", "prob", "a"), INI).graph.output_names == ("b", "prob", "a")
    begun = part_of(partial, ("a",), ("prob",), INI)
    assert [node.name for node in begun.graph.inputs] == ["a"]
    assert partial.graph.output_names == ("b", "rest", "prob"), "and the model's own outputs, too"


def test_a_name_of_a_layer_and_of_an_output_of_another_one_means_the_layer(tmp_path: Path) -> None:
    text = HEAD.replace('name: "rest"', 'name: "b"')
    partial = read(tmp_path, text)
    ended = part_of(partial, (), ("b",), INI).graph
    assert [node.name for node in ended.inputs] == ["mask"]
    assert part_of(partial, (), ("parts", "b"), INI).graph.output_names == ("a", "b", "b#2")


def test_a_name_that_a_layer_shares_with_its_own_output_means_the_output(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD.replace('name: "parts"', 'name: "a"'))
    assert part_of(partial, (), ("a",), INI).graph.output_names == ("a",)


def test_problems_behind_the_end_are_dropped(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD + TAIL)
    with pytest.raises(UnsupportedError, match="LSTM"):
        partial.require_complete()
    assert part_of(partial, (), ("prob", "relu"), INI).require_complete().output_names == ("prob", "relu")


def test_problems_before_the_end_stay(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD.replace('"MAX"', '"STOCHASTIC"').replace("MAX", "STOCHASTIC") + TAIL)
    ended = part_of(partial, (), ("after",), INI)
    assert [problem.where.layer for problem in ended.problems if problem.where] == ["pool", "lstm"]
    with pytest.raises(ConvertorError, match="LSTM"):
        ended.require_complete()


def test_a_name_that_no_layer_has_is_an_error_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        part_of(read(tmp_path, HEAD), (), ("porb", "prob", "?"), INI)
    assert [(p.code, p.hint) for p in caught.value.problems] == [
        ("DV117", 'did you mean "prob"?'),
        ("DV117", "`cnn-convertor inspect net.ini` lists the layers"),
    ]


# --- inputs --------------------------------------------------------------------------------------------------------------


def test_a_network_begins_behind_the_layers_that_are_named(tmp_path: Path) -> None:
    begun = part_of(read(tmp_path, HEAD), ("relu",), ("prob",), INI)
    assert [(node.name, begun.graph.shape(node.name)) for node in begun.graph.inputs] == [("relu", (3, 3, 4))]
    assert begun.graph.output_names == ("prob",)


def test_other_outputs_keep_their_inputs(tmp_path: Path) -> None:
    begun = part_of(read(tmp_path, HEAD), ("relu",), (), INI)
    assert {node.name for node in begun.graph.inputs} == {"mask", "relu"}


def test_a_network_begins_behind_a_layer_that_cannot_be_read_if_its_size_is_known(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD.replace("MAX", "STOCHASTIC"))
    assert partial.problems
    begun = part_of(replace(partial, guessed=frozenset()), ("pool",), ("prob",), INI)
    assert begun.require_complete().output_names == ("prob",)
    with pytest.raises(UsageError, match=r'the size of the result of "pool" is unknown'):
        part_of(partial, ("pool",), ("prob",), INI)


def test_a_size_that_the_user_gives_confirms_the_guess_for_a_layer_that_cannot_be_read(tmp_path: Path) -> None:
    rescaled = HEAD.replace('type: "Pooling"', 'type: "Mine"')
    partial = read(tmp_path, rescaled)
    height, width, _ = partial.graph.shape("pool")
    begun = part_of(partial, ("pool",), ("prob",), INI, size=(height, width))
    assert begun.require_complete().output_names == ("prob",) and not begun.guessed
    for size in ((height + 1, width), None):
        with pytest.raises(UsageError, match=r'the size of the result of "pool" is unknown'):
            part_of(partial, ("pool",), ("prob",), INI, size=size)
    two = read(tmp_path, rescaled.replace('type: "ReLU"', 'type: "Mine"'))
    with pytest.raises(UsageError, match=r'the size of the result of "pool" is unknown'):
        part_of(two, ("pool",), ("prob",), INI, size=(height, width))


def test_an_input_that_no_output_needs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'no output needs the result of "rest"'):
        part_of(read(tmp_path, HEAD), ("relu", "rest"), ("prob",), INI)


def test_the_key_of_a_wrong_name_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'\[INPUT\] inputs: the network has no layer "nothing"'):
        part_of(read(tmp_path, HEAD), ("nothing",), (), INI)


# --- where a network can end ---------------------------------------------------------------------------------------------


def test_a_network_can_end_where_the_rest_reads_it(tmp_path: Path) -> None:
    ends, rest = layers_apart(read(tmp_path, HEAD + TAIL), {"lstm"})
    assert ends == ("b", "rest", "prob")
    assert [(origin.layer, origin.type) for origin in rest] == [("lstm", "LSTM"), ("after", "ReLU")]


def test_nothing_is_left_of_a_network_that_begins_with_a_refused_layer(tmp_path: Path) -> None:
    ends, rest = layers_apart(read(tmp_path, HEAD), {"pool", "rest"})
    assert ends == ()
    assert [origin.layer for origin in rest] == ["pool", "relu", "parts", "rest", "prob"]


def test_the_part_before_any_layer_does_without_it(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD)
    for layer in {origin.layer for node in partial.graph.nodes for origin in node.origins}:
        ends, rest = layers_apart(partial, {layer})
        if not ends:
            continue
        part = part_of(partial, (), ends, INI).graph
        left = {origin.layer for origin in rest}
        assert layer in left or layer in {"data", "mask"}
        assert left.isdisjoint(origin.layer for node in part.nodes for origin in node.origins)
        for node in partial.graph.nodes:  # as large as it can be: what is left out needs the layer
            if node.origins[0].layer not in left and not isinstance(node.op, Input):
                assert node.name in part
