"""`outputs` in the ini file: the network ends at the named layers, in their order; problems of later layers are dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnn_convertor.errors import ConvertorError, Origin, UnsupportedError, UsageError
from cnn_convertor.frontends.builder import PartialGraph
from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.endings import end_at
from cnn_convertor.ir.ops import Softmax

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
    ended = end_at(read(tmp_path, HEAD), ("relu", "pool"), INI)
    assert ended.graph.output_names == ("relu", "pool")
    assert [node.name for node in ended.graph.inputs] == ["data"], "nothing reads the mask any more"
    assert not any(isinstance(node.op, Softmax) for node in ended.graph.nodes)


def test_the_outputs_have_the_order_of_the_list(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD)
    assert end_at(partial, ("prob", "relu"), INI).graph.output_names == ("prob", "relu")
    assert end_at(partial, ("relu", "prob"), INI).graph.output_names == ("relu", "prob")


def test_a_layer_with_two_outputs_gives_both(tmp_path: Path) -> None:
    ended = end_at(read(tmp_path, HEAD), ("parts",), INI)
    assert ended.graph.output_names == ("parts", "parts#2")


def test_problems_behind_the_end_are_dropped(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD + TAIL)
    with pytest.raises(UnsupportedError, match="LSTM"):
        partial.require_complete()
    assert end_at(partial, ("prob", "relu"), INI).require_complete().output_names == ("prob", "relu")


def test_problems_before_the_end_stay(tmp_path: Path) -> None:
    partial = read(tmp_path, HEAD.replace('"MAX"', '"STOCHASTIC"').replace("MAX", "STOCHASTIC") + TAIL)
    ended = end_at(partial, ("after",), INI)
    assert [problem.where.layer for problem in ended.problems if problem.where] == ["pool", "lstm"]
    with pytest.raises(ConvertorError, match="LSTM"):
        ended.require_complete()


def test_a_name_that_no_layer_has_is_an_error_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        end_at(read(tmp_path, HEAD), ("porb", "prob", "?"), INI)
    assert [(p.code, p.hint) for p in caught.value.problems] == [
        ("DV117", 'did you mean "prob"?'),
        ("DV117", "`cnn-convertor inspect net.ini` lists the layers"),
    ]
