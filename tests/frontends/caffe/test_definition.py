"""Which layers a definition has at test time, how they are joined, and files given by mistake."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorWarning, ModelError
from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.frontend import ReadOptions
from cnn_convertor.ir.ops import Input, Shape
from examples.caffemodel import write
from frontends.loading import load_caffe

INPUT = 'layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 } } }\n'


def relu(name: str, bottom: str, top: str = "", rules: str = "") -> str:
    return f'layer {{ name: "{name}" type: "ReLU" bottom: "{bottom}" top: "{top or name}" {rules} }}\n'


def names(graph: Any) -> list[str]:
    return [node.name for node in graph.nodes if not isinstance(node.op, Input)]


# --- inputs


@pytest.mark.parametrize(
    ("header", "shapes"),
    [
        ('input: "x" input_dim: 7 input_dim: 3 input_dim: 4 input_dim: 5', [(4, 5, 3)]),
        ('input: "x" input_shape { dim: 7 dim: 3 dim: 4 dim: 5 }', [(4, 5, 3)]),
        ('input: "x" input_shape { dim: 7 dim: 9 }', [(1, 1, 9)]),
        ('input: "x" input: "y" input_dim: [1, 3, 4, 5] input_dim: [1, 6, 7, 8]', [(4, 5, 3), (7, 8, 6)]),
        ('input: "x" input: "y" input_shape { dim: [1, 3, 4, 5] } input_shape { dim: [1, 6] }', [(4, 5, 3), (1, 1, 6)]),
        ('layer { name: "in" type: "Input" top: "x" top: "y" input_param { shape { dim: [1, 3, 4, 5] } } }', [(4, 5, 3)] * 2),
    ],
)  # fmt: skip
def test_inputs_of_every_form(header: str, shapes: list[tuple[int, int, int]], load: Any) -> None:
    graph = load(header + relu("a", "x") + (relu("b", "y") if len(shapes) > 1 else ""))
    assert [(node.name, node.op) for node in graph.inputs] == [
        (name, Input(Shape(*shape))) for name, shape in zip("xy", shapes, strict=False)
    ]


def test_a_size_replaces_height_and_width_of_every_map(load: Any) -> None:
    header = 'input: "x" input: "y" input: "z" input_shape { dim: [1, 3, 0, -1] }'
    header += "input_shape { dim: [1, 6, 7, 8] } input_shape { dim: [1, 6] }"
    graph = load(header + relu("a", "x") + relu("b", "y") + relu("c", "z"), size=(40, 50))
    assert [graph.shape(name) for name in "xyz"] == [(40, 50, 3), (40, 50, 6), (1, 1, 6)]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ('input: "x"', "0 sizes are given for 1 inputs"),
        ('input: "x" input_dim: [1, 3, 4]', "but the sizes given are not for as many"),
        ('input: "x" input_shape { dim: [1, 3, 4, 5] } input_shape { dim: [1, 3, 4, 5] }', "not for as many"),
        ('input: "x" input_shape { dim: [1, 3, 0, 0] }', "set width_override and height_override"),
        ('input: "x" input_shape { dim: [1, 0, 4, 4] }', 'the number of channels of the input "x" is not defined'),
        ('layer { name: "in" type: "Input" top: "x" }', "0 sizes are given for 1 inputs"),
    ],
)
def test_inputs_without_a_size_are_an_error(header: str, says: str, load: Any) -> None:
    with pytest.raises(ModelError) as caught:
        load(header + relu("a", "x"))
    assert says in str(caught.value)
    assert [problem.code for problem in caught.value.problems] == ["DV206"]


def test_an_input_that_nobody_reads_is_left_out_with_a_warning(load: Any) -> None:
    header = 'input: "x" input: "label" input_shape { dim: [1, 3, 4, 5] } input_shape { dim: 1 }'
    with pytest.warns(ConvertorWarning, match='no layer reads the input "label"'):
        graph = load(header + relu("a", "x"))
    assert [node.name for node in graph.inputs] == ["x"]


# --- rules


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ("", True),
        ("include { phase: TEST }", True),
        ("include { phase: TRAIN }", False),
        ("include { phase: TRAIN } include { phase: TEST }", True),
        ("exclude { phase: TRAIN }", True),
        ("exclude { phase: TEST }", False),
        ("exclude { }", False),
        ('include { stage: "deploy" }', False),
        ('include { not_stage: "deploy" }', True),
        ("include { min_level: 1 }", False),
        ("include { min_level: 0 max_level: 3 }", True),
        ("include { max_level: -1 }", False),
        ("include { phase: TEST min_level: 1 }", False),
    ],
)
@pytest.mark.parametrize("form", ["layer", "layers"])
def test_rules_choose_the_layers_of_test_time(form: str, rules: str, kept: bool, load: Any) -> None:
    header = 'input: "x" input_shape { dim: [1, 3, 4, 5] }'
    definition = header + relu("a", "x", "x") + relu("b", "x", "x", rules)
    if form == "layers":
        definition = definition.replace("layer {", "layers {").replace('"ReLU"', "RELU")
    assert names(load(definition)) == (["a", "b"] if kept else ["a"])


def test_the_state_of_the_definition_counts(load: Any) -> None:
    rules = 'include { stage: "deploy" min_level: 2 }'
    assert names(
        load('state { stage: "deploy" level: 2 }' + INPUT + relu("a", "x", "x") + relu("b", "x", "x", rules))
    ) == ["a", "b"]


def test_including_and_excluding_at_once_is_an_error(load: Any) -> None:
    with pytest.raises(ModelError, match="rules to include it and rules to exclude it"):
        load(INPUT + relu("a", "x", "", "include { } exclude { }"))


# --- wiring


def test_layers_in_place_follow_each_other(load: Any) -> None:
    graph = load(
        INPUT + relu("a", "x") + relu("early", "a") + relu("b", "a", "a") + relu("c", "a", "a") + relu("late", "a")
    )
    assert {name: graph[name].inputs for name in names(graph)} == {
        "a": ("x",),
        "early": ("a",),
        "b": ("a",),
        "c": ("b",),
        "late": ("c",),
    }
    assert graph.outputs == ("early", "late")


def test_outputs_keep_the_order_of_the_definition(load: Any) -> None:
    graph = load(INPUT + relu("z", "x") + relu("m", "x") + relu("a", "m", "m") + relu("b", "x"))
    assert graph.outputs == ("z", "a", "b")


def test_split_gives_its_input_to_every_output(load: Any) -> None:
    split = 'layer { name: "s" type: "Split" bottom: "x" top: "p" top: "q" }'
    graph = load(INPUT + split + relu("a", "p"))
    assert (graph["a"].inputs, graph.outputs) == (("p",), ("q", "a"))


def test_layers_of_one_name_stay_apart(load: Any) -> None:
    graph = load(INPUT + relu("a", "x", "y") + relu("a", "y", "z") + relu("x", "z", "w"))
    assert names(graph) == ["a", "a#2", "x#2"]


def test_silence_and_what_only_it_reads_are_left_out(load: Any) -> None:
    graph = load(INPUT + relu("a", "x") + relu("b", "x") + 'layer { name: "s" type: "Silence" bottom: "b" }')
    assert (names(graph), graph.outputs) == (["a"], ("a",))


def test_a_layer_with_a_loss_weight_is_a_loss_layer(load: Any) -> None:
    loss = 'layer { name: "j" type: "Python" bottom: "a" top: "j" loss_weight: 1 python_param { module: "m" } }'
    with pytest.warns(ConvertorWarning, match="only evaluates the network"):
        graph = load(INPUT + relu("a", "x") + loss)
    assert (names(graph), graph.outputs) == (["a"], ("a",))


def test_force_backward_changes_nothing(load: Any) -> None:
    assert names(load("force_backward: true " + INPUT + relu("a", "x"))) == ["a"]


def test_loss_and_accuracy_layers_are_left_out_and_their_inputs_are_outputs(load: Any) -> None:
    definition = (
        'layer { name: "in" type: "Input" top: "x" top: "label" input_param'
        " { shape { dim: [1, 3, 4, 5] } shape { dim: [1] } } }"
        + relu("a", "x")
        + relu("twice", "label")
        + 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "a" bottom: "twice" top: "loss" }'
        + relu("after", "loss")
        + 'layer { name: "right" type: "Accuracy" bottom: "a" bottom: "label" top: "right" }'
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph = load(definition)
    assert (names(graph), graph.outputs, [node.name for node in graph.inputs]) == (["a"], ("a",), ["x"])
    problems = [warning.message.problems[0] for warning in caught if isinstance(warning.message, ConvertorWarning)]
    assert [(problem.code, problem.where.layer) for problem in problems if problem.where] == [
        ("DV213", "loss"),
        ("DV213", "after"),
        ("DV213", "right"),
    ]


@pytest.mark.parametrize(
    ("definition", "line", "says"),
    [
        (INPUT + relu("a", "X"), 2, 'reads the blob "X", which no layer before it makes'),
        (INPUT + relu("conv1", "x") + relu("b", "conv2"), 3, 'did you mean "conv1"?'),
        (INPUT + relu("a", "x") + relu("b", "x", "a"), 3, 'redefines the blob "a"'),
        (INPUT, 1, "computes nothing at test time"),
        (INPUT + 'layers { type: RELU bottom: "x" top: "y" }', 2, "of the old form (layers) and of the new one"),
    ],
)
def test_layers_that_do_not_fit_together_are_an_error(definition: str, line: int, says: str, load: Any) -> None:
    with pytest.raises(ModelError) as caught:
        load(definition)
    (problem,) = caught.value.problems
    assert problem.where is not None
    assert (problem.code, problem.where.line) == ("DV212", line)
    assert says in str(problem)


def test_a_network_without_a_layer_at_test_time_is_an_error(load: Any) -> None:
    training = 'layer { name: "a" type: "ReLU" bottom: "x" top: "y" include { phase: TRAIN } }'
    with pytest.raises(ModelError, match="computes nothing at test time"):
        load(training)


def test_types_of_forks_in_old_definitions(load: Any) -> None:
    definition = 'input: "x" input_shape { dim: [1, 3, 4, 5] } layers { name: "b" type: BN bottom: "x" top: "x"'
    graph = load(definition + " bn_param { bn_mode: INFERENCE } }", {"b": [np.ones(3), np.ones(3)]}, v1=True)
    assert names(graph) == ["b"]


def test_unknown_fields_are_a_warning_with_file_and_line(load: Any) -> None:
    with pytest.warns(ConvertorWarning) as caught:
        load(INPUT + relu("a", "x", "y", "\n quick: 1") + relu("b", "y", "", "quick: 2"))
    (problem,) = [warning.message.problems[0] for warning in caught if isinstance(warning.message, ConvertorWarning)]
    assert problem.code == "DV210"
    assert str(problem.where).endswith("net.prototxt:3")
    assert '"quick" of LayerParameter is unknown and ignored (2 times, here first)' in problem.message


@pytest.mark.parametrize("field", ["include { stages: 'a' }", "exclude { min_levels: 1 }"])
def test_a_rule_with_an_unknown_field_is_an_error(field: str, load: Any) -> None:
    with pytest.raises(ModelError, match=r"DV212.*which chooses layers, is unknown(.|\n)*did you mean"):
        load(INPUT + relu("a", "x", "y", f"\n {field}"))


# --- files


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, ["a", "c"]),
        ({"stages": ("deploy",)}, ["a", "b"]),
        ({"level": 2}, ["a", "c", "d"]),
        ({"stages": ("deploy", "other"), "level": 2}, ["a", "b", "d"]),
    ],
    ids=str,
)
def test_stage_and_level_choose_layers(options: dict[str, Any], kept: list[str], tmp_path: Path) -> None:
    """As the options of Caffe's command line do."""
    path = tmp_path / "net.prototxt"
    path.write_text(
        INPUT + relu("a", "x") + relu("b", "a", rules='include { stage: "deploy" }')
        + relu("c", "a", rules='include { not_stage: "deploy" }') + relu("d", "a", rules="include { min_level: 1 }")
    )  # fmt: skip
    graph = CAFFE.read(path, path, ReadOptions(**options)).require_complete()
    assert [node.name for node in graph.nodes if node.name != "x"] == kept


WRONG_DEFINITIONS = {
    "nothing": (b"", "DV201", "is empty"),
    "weights": (b"\x0a\x03net\xa2\x06\x00\x00", "DV201", "`data` the .caffemodel"),
    "keras": (b"\x89HDF\r\n\x1a\n", "DV201", "set origin = KERAS"),
    "zip": (b"PK\x03\x04", "DV201", "set origin = KERAS"),
    "solver": (b'net: "train.prototxt" base_lr: 0.01', "DV201", "a solver"),
    "no layers": (b'name: "net"', "DV201", "holds no layer"),
    "keras, as text": (b'{"class_name": "Model"}', "DV201", "set origin = KERAS"),
    "json": (b'{"layers": "Model"}', "DV211", "stands where a field's name should be"),
    "prose": (b"How to use this network: first", "DV211", "stands where"),
    "umlauts": (b"\xff\xfe\xfc", "DV211", "is not text of a Caffe definition"),
}


@pytest.mark.parametrize("case", WRONG_DEFINITIONS)
def test_a_file_that_is_no_definition_is_named(case: str, tmp_path: Path) -> None:
    content, code, says = WRONG_DEFINITIONS[case]
    (tmp_path / "net.prototxt").write_bytes(content)
    write(tmp_path / "w", [])
    with pytest.raises(ModelError) as caught:
        load_caffe(tmp_path / "net.prototxt", tmp_path / "w")
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in str(problem)
    assert problem.where is not None and problem.where.file == str(tmp_path / "net.prototxt")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", Path("a\0b")):
        with pytest.raises(ModelError, match="DV201"):
            load_caffe(path, tmp_path)


def test_comments_in_any_encoding_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_bytes(
        "\ufeff".encode() + "# Größe\n".encode("latin-1") + (INPUT + relu("ä", "x")).encode()
    )
    write(tmp_path / "w", [("ä", "ReLU", [])])
    assert names(load_caffe(tmp_path / "net.prototxt", tmp_path / "w")) == ["ä"]
