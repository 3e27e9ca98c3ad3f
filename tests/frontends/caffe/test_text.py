"""The reader of text definitions: what it takes, and what it says about the rest."""

from __future__ import annotations

import contextlib

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.caffe import schema, text


def parse(definition: str) -> text.ParsedText:
    return text.parse(definition, schema.message_type("NetParameter"), "net.prototxt")


@pytest.mark.parametrize(
    "definition",
    [
        'name: "n" layer { name: "a" top: "x" top: "y" }',
        'name: "n";layer {name:"a",top:"x",top:"y",}',
        "name: 'n' layer: < name: 'a' top: ['x', \"y\"] >",
        'name: # the name\n"n"\nlayer\n{\n name : "a" # {\n top: [ "x" , "y" ] } # }',
        r"name: '\x6e' layer { name: '\141' top: 'x' top: 'y' }",
        'name: "" "n" \'\' layer { name: "a" top: "x" } layer { }',
    ],
)
def test_the_same_net_in_many_ways(definition: str) -> None:
    net = parse(definition).message
    assert (net.name, net.layer[0].name) == ("n", "a")
    assert net.layer[0].top[0] == "x"


@pytest.mark.parametrize("name", ["größe", "大きさ", "\U0001f600", "tab\t\"'\\", "\0\x01", "7\1\n7"])
@pytest.mark.parametrize("as_utf8", [False, True])
def test_texts_that_protobuf_writes_are_read(as_utf8: bool, name: str) -> None:
    net = schema.message_type("NetParameter")(name=name)
    assert parse(text_format.MessageToString(net, as_utf8=as_utf8)).message.name == name


def test_escapes_of_characters() -> None:
    assert parse(r"name: '\u00e9\U0001F600\x41'").message.name == "\u00e9\U0001f600A"
    assert parse(r"name: '\377\ud800'").message.name == "\ufffd?", "no text in UTF-8"


def test_numbers() -> None:
    net = parse(
        "layer { convolution_param { num_output: 0x10 pad: 3.0 kernel_size: 010 bias_term: f }"
        " elu_param { alpha: -.5e-1 } clip_param { min: -inf max: 2.5f } relu_param { negative_slope: 1 }"
        " softmax_param { axis: -1 } }"
    ).message
    layer = net.layer[0]
    settings = layer.convolution_param
    assert (settings.num_output, list(settings.pad), list(settings.kernel_size)) == (16, [3], [8])
    assert not settings.bias_term
    assert layer.elu_param.alpha == pytest.approx(-0.05)
    assert (layer.clip_param.min, layer.clip_param.max) == (float("-inf"), 2.5)
    assert layer.relu_param.negative_slope == 1
    assert layer.softmax_param.axis == -1


@pytest.mark.parametrize("word", ["AVE", '"AVE"', "ave", "1"])
def test_enum_values(word: str) -> None:
    net = parse(f"layer {{ pooling_param {{ pool: {word} }} }}").message
    assert schema.values(net.layer[0].pooling_param) == {"pool": "AVE"}


def test_every_layer_knows_its_line() -> None:
    lines = parse('name: "n"\n\nlayer {\n}\nlayer { } layer\n{ }').lines
    assert [lines["layer", index] for index in range(3)] == [3, 5, 5]


def test_unknown_fields_are_passed_over_and_counted() -> None:
    content = parse(
        'layer {\n vendor_param { a: 1 b { c: "}" } d: [1, {}] } name: "a"\n  quick: true odd: - 3 }\n'
        'layer { quick: "x" "y" name: "b" }'
    )
    assert [layer.name for layer in content.message.layer] == ["a", "b"]
    assert [(u.message, u.name, u.line, u.count) for u in content.unknown] == [
        ("LayerParameter", "vendor_param", 2, 1),
        ("LayerParameter", "quick", 3, 1),
        ("LayerParameter", "odd", 3, 1),
        ("LayerParameter", "quick", 4, 1),
    ]


def test_what_only_training_needs_is_passed_over_in_silence() -> None:
    content = parse('layer { data_param { source: "x" whatever: 3 } relu_param { engine: CUDNN } }')
    assert content.unknown == ()


def test_weights_in_a_text_are_not_read() -> None:
    content = parse("layer { blobs { data: 1.5 data: 2 } }")
    assert [unknown.name for unknown in content.unknown] == ["blobs"]


@pytest.mark.parametrize(
    ("definition", "line", "says"),
    [
        ('layer {\n name: "a"', 2, 'the file ends before the "}" of the bracket opened in line 1'),
        ("layer {\n name: a }", 2, '"name" needs a text in quotes, not a'),
        ("layer {\n convolution_param {\n num_output: 3.5 } }", 3, '"num_output" needs a whole number, not 3.5'),
        ("layer { convolution_param { num_output: -5 } }", 1, 'out of range for "num_output"'),
        ("layer { convolution_param { bias_term: 2 } }", 1, '"bias_term" needs true or false, not 2'),
        ("layer { elu_param { alpha: big } }", 1, '"alpha" needs a number, not big'),
        ("layer {\n pooling_param { pool: AVERAGE } }", 2, '"pool" is AVERAGE, which is not one of its values'),
        ("layer {\n pooling_param { pool: 7 } }", 2, '"pool" is 7, which is not one of its values'),
        ("layer {\n pooling_param { pool: MAXX } }", 2, 'did you mean "MAX"?'),
        ("layer {\n pooling_param { pool: AVE_EXC_PAD } }", 2, "a value of a fork, which computes something else"),
        ("layer { elu_param { alpha: 1 alpha: 2 } }", 1, '"alpha" is given twice, with different values'),
        ('layer { name "a" }', 1, 'a colon is missing after "name"'),
        ("layer: 3", 1, '"layer" needs a bracket, not 3'),
        ("layer { ] }", 1, "] stands where a field's name should be"),
        ("}", 1, "} stands where a field's name should be"),
        ('layer { top: ["a" "b" 1] }', 1, "1 stands where a comma or the end of a list should be"),
        ("vendor { [ } ]", 1, "} closes no bracket"),
        ("vendor", 1, "the end of the file stands where a colon or a bracket should be"),
        ('name: "a', 1, "is not text of a Caffe definition"),
        ("layer { " * 3 + "vendor {" * 9, 1, "the file ends inside a bracket"),
        ("layer { " * 3 + "vendor {" * 99, 1, "the brackets are nested too deeply"),
    ],
)
def test_what_makes_no_sense_is_named_with_its_line(definition: str, line: int, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse(definition)
    (problem,) = caught.value.problems
    assert problem.where is not None
    assert (problem.code, problem.where.file, problem.where.line) == ("DV211", "net.prototxt", line)
    assert says in f"{problem.message}; {problem.hint}"


# fmt: off
PIECES = st.sampled_from((
    "layer", "layers", "name", "type", "{", "}", "<", ">", "[", "]", ":", ",", ";", "-", ".", "'a'", '"b"', "1", "1e999",
    "0x", "1.5f", "99999999999999999999", "nan", "true", "vendor", "#", "\\", "CONVOLUTION", "convolution_param",
    "kernel_size", "pool", "pooling_param", "blobs", "engine", "input_dim", "param", "shape", "reshape_param", "dim",
))
# fmt: on


@given(
    st.one_of(
        st.text(),
        st.lists(PIECES).map(" ".join),
        st.lists(PIECES).map("\n".join),
        st.binary().map(lambda b: b.decode("latin-1")),
    )
)
def test_no_text_gives_anything_but_a_model_error(definition: str) -> None:
    with contextlib.suppress(ModelError):
        parse(definition)
