"""Each reason for which a layer of Keras's is refused has a case, which says the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.keras.importer import keras
from cnn_convertor.frontends.keras.unsupported import ADVICE
from frontends.keras import test_functions as functions
from frontends.keras import test_keras_layers as layers
from frontends.keras.conftest import Writer, layer
from frontends.loading import load_keras as load
from frontends.reasons import PACKAGE, is_said, reasons

Make: TypeAlias = Callable[[Writer], Path]
FIVE = layer("Reshape", "five", "in", target_shape=[6, 5, 2, 2])
TWO = layer("Reshape", "two", "in", target_shape=[6, 10, 2])
FLAT = layer("Flatten", "flat", "in")
POOL = layer("MaxPooling2D", "pool", "in")
SLICES = {"start": None, "stop": None, "step": None}
NOTHING = [
    {
        **layer("SlicingOpLambda", "none", function="__operators__.getitem"),
        "inbound_nodes": [["in", 0, 0, {"slice_spec": [SLICES, {**SLICES, "stop": 0}]}]],
    }
]


def net(*made: Any) -> Make:
    """A network on an input of (6, 5, 4), of which the layer "x" is the last."""
    source = layer("InputLayer", "in", batch_input_shape=[None, 6, 5, 4])
    return lambda model: model.h5(model.functional([source, *made], ["in"], ["x"]))


def call(function: str, *source: Any, type: str = "TFOpLambda", **keywords: Any) -> Any:
    """A function of TensorFlow's, as Keras 2 writes it. source: its first argument."""
    made = layer(type, "x", function=function)
    return {**made, "inbound_nodes": [[*(source or ("in", 0, 0)), keywords]]}


def single(type: str, *arrays: Any, **config: Any) -> Make:
    return lambda model: model.single(type, arrays=arrays, **config)


def source(*shape: int | None, **config: Any) -> Make:
    read = layer("MaxPooling1D", "read") if len(shape) == 2 else layer("ReLU", "read")
    return lambda model: model.h5(
        model.sequential(layer("InputLayer", "x", batch_input_shape=[None, *shape], **config), read)
    )


def theano(type: str, *arrays: Any, **config: Any) -> Make:
    def make(model: Writer) -> Path:
        source = layer("InputLayer", "in", batch_input_shape=[None, 6, 5, 4])
        kept = [(f"v{number}", values) for number, values in enumerate(arrays)]
        return model.h5(model.sequential(source, layer(type, "x", **config)), {"x": kept}, backend="theano")

    return make


def operation(type: str, **config: Any) -> Make:
    """A function of Keras 3."""
    tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["in", 0, 0]}}
    made = {"class_name": type, "name": "x", "config": {"name": "x", **config}, "module": "keras.src.ops.nn"}
    return net({**made, "inbound_nodes": [{"args": [tensor], "kwargs": {}}]})


def attention(values: str = "in", keys: str = "in", **config: Any) -> Any:
    """Attention with several heads, called as Keras 2 writes it."""
    made = layer("MultiHeadAttention", "x", num_heads=2, key_dim=3, **config)
    keywords = {"value": [values, 0, 0], "key": [keys, 0, 0]}
    return {**made, "inbound_nodes": [[["in" if values != "flat" else "flat", 0, 0, keywords]]]}


def masked(type: str) -> Any:
    made = layer(type, "x")
    keywords = {"mask": [["in", 0, 0], ["in", 0, 0]]}
    return {**made, "inbound_nodes": [[["in", 0, 0, keywords], ["in", 0, 0, keywords]]]}


ROWS = layer("Reshape", "rows", "in", target_shape=[30, 4])
KERNEL = {"filters": 4, "kernel_size": 1, "use_bias": False}
CASES: dict[str, Make] = {
    "normalization over the batch": single("Normalization", axis=0, mean=1.0, variance=1.0),
    "softmax over four axes": net(FIVE, layer("Activation", "x", "five", activation="softmax")),
    "setting of an activation": single("Activation", activation={"class_name": "ReLU", "config": {"brand_new": 3}}),
    "sum of five axes": net(FIVE, layer("Reshape", "other", "in", target_shape=[6, 5, 4, 1]), layer("Add", "x", "five", "other")),
    "sum of other sizes": net(POOL, layer("Add", "x", "in", "pool")),
    "join of other kinds": net(FLAT, layer("Concatenate", "x", "in", "flat")),
    "number beyond all floats": single("GroupNormalization", groups=2, epsilon=10**400),
    "groups": single("Conv2D", **KERNEL, groups=3),
    "three output paddings": single("Conv2DTranspose", **KERNEL, output_padding=[1, 2, 3]),
    "output padding beyond the stride": single("Conv2DTranspose", **KERNEL, output_padding=1),
    "padding by a flag": single("ZeroPadding2D", padding=True),
    "scale of one": single("CustomScaleLayer", scale=2.0),
    "dense on five axes": net(FIVE, layer("Dense", "x", "five", units=3)),
    "theano": theano("DepthwiseConv2D", np.ones((1, 1, 4, 1)), kernel_size=1, use_bias=False),
    "theano's interpolation": theano("UpSampling2D", interpolation="bilinear"),
    "an activation of the user's": single(
        "Activation", activation={"class_name": "ReLU", "config": {}, "module": "mine", "registered_name": "mine>ReLU"}
    ),
    "squareplus of another b": operation("Squareplus", b=3.0),
    "shrinking to another threshold": operation("SoftShrink", threshold=0.25),
    "halves of an odd length": single("Activation", shape=(6, 5, 3), activation="glu"),
    "sparse input": source(6, 5, 4, sparse=True),
    "ragged input": source(6, 5, 4, ragged=True),
    "input of five axes": source(6, 5, 4, 3),
    "input without channels": source(6, 5, None),
    "input without steps": source(None, 5),
    "normalization of each row": single("InstanceNormalization", axis=2, epsilon=0.5),
    "steps of a vector": net(FLAT, layer("TimeDistributed", "x", "flat", layer=layer("ReLU", "inner"))),
    "layer scale": single("LayerScale", np.ones(4), projection_dim=5),
    "normalization of an axis twice": single("Normalization", axis=[1, 1], mean=1.0, variance=1.0),
    "normalization of a word": single("Normalization", axis="first", mean=1.0, variance=1.0),
    "normalization of an axis beyond": single("Normalization", axis=4, mean=1.0, variance=1.0),
    "rescaling by four axes": single("Rescaling", scale=[[[[2.0]]]]),
    "reshape to a word": single("Reshape", target_shape="flat"),
    "function of a constant": net(call("nn.relu", "_CONSTANT_VALUE", -1, 1.0, other=["in", 0, 0])),
    "sum of other ranks": net(FLAT, call("math.add", y=["flat", 0, 0])),
    "sum of constants": net(call("math.add", "_CONSTANT_VALUE", -1, 1.0, y=2.0, other=["in", 0, 0])),
    "mean of five axes": net(FIVE, call("math.reduce_mean", "five", 0, 0, axis=1)),
    "largest of all": net(call("math.argmax", axis=None)),
    "blocks of a vector": net(FLAT, call("nn.depth_to_space", "flat", 0, 0, block_size=2)),
    "log softmax of rows": net(call("nn.log_softmax", axis=1)),
    "clip to several": net(call("clip_by_value", clip_value_min=[1, 2, 3, 4], clip_value_max=5)),
    "joined with a constant": net({
        **call("concat"), "inbound_nodes": [[["in", 0, 0, {"axis": 3}], ["_CONSTANT_VALUE", -1, [[[[1.0]]]], {"axis": 3}]]],
    }),
    "axis that is no number": net(call("expand_dims", axis="first")),
    "part of five axes": net(FIVE, call("__operators__.getitem", "five", 0, 0, type="SlicingOpLambda", slice_spec=[SLICES])),
    "norm of the first order": net(call("math.l2_normalize", axis=3, order=1)),
    "several exponents": net(call("math.pow", y=[1.0, 2.0, 3.0, 4.0])),
    "two largest numbers": net(TWO, call("math.maximum", "two", 0, 0, y=[1.0, 2.0])),
    "size of one number": net(call("image.resize", size=[3])),
    "blocks of nothing": net(call("nn.space_to_depth", block_size=0)),
    "nothing as an input": net(*NOTHING, layer("ReLU", "x", "none")),
    "nothing joined to nothing": net(*NOTHING, layer("Concatenate", "x", "none", "none", axis=-1)),
    "nothing, of fewer axes": net(call("__operators__.getitem", type="SlicingOpLambda", slice_spec=[SLICES, 0, {**SLICES, "stop": 0}])),
    "split of the batch": net(call("split", num_or_size_splits=2, axis=0)),
    "product of other ranks": net(ROWS, call("linalg.matmul", b=["rows", 0, 0])),
    "product of other sizes": net(call("linalg.matmul", b=["in", 0, 0])),
    "dot of one": net(layer("Dot", "x", "in", axes=1)),
    "attention with a mask": net(masked("Attention")),
    "dot along other lengths": net(layer("Dot", "x", "in", "in", axes=[1, 2])),
    "dot along the batch": net(layer("Dot", "x", "in", "in", axes=0)),
    "dot of normalized arrays": net(FIVE, layer("Dot", "x", "five", "five", axes=1, normalize=True)),
    "attention of sums": net(layer("Attention", "x", "in", "in", score_mode="concat")),
    "causal attention": net(layer("Attention", "x", "in", "in", causal=True)),
    "attention on five axes": net(FIVE, layer("Attention", "x", "five", "five")),
    "attention with a gate": net(attention(use_gate=True)),
    "more keys than values": net(POOL, attention(keys="pool")),
    "attention without values": net({**attention(), "inbound_nodes": [[["in", 0, 0, {}]]]}),
    "attention of vectors": net(FLAT, attention(values="flat", keys="flat")),
    "attention along columns": net(attention(attention_axes=[2])),
    "attention to two axes": net(attention(output_shape=[2, 3])),
}  # fmt: skip


def refusal(path: Path) -> Any:
    with pytest.raises(ConvertorError) as caught:
        load(path, path)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_with_the_code_and_the_layer(case: str, model: Writer) -> None:
    problem = refusal(CASES[case](model))
    assert (problem.code, problem.where.layer) == ("DV302", "x")


def test_advice_is_for_types_that_do_not_convert() -> None:
    assert set(ADVICE) & set(keras) == set()


@pytest.mark.slow
@pytest.mark.usefixtures("hdf5_in_this_process")
def test_each_reason_has_a_case(model: Writer) -> None:
    """Here, or in test_keras_layers.py and test_functions.py, which say more of the message."""
    of_layers = layers.test_what_cannot_be_converted_is_refused.pytestmark[0].args[1]
    of_functions = functions.test_what_functions_cannot_do_is_refused.pytestmark[0].args[1]
    made: list[Make] = [
        *CASES.values(),
        *(single(type, *arrays, **config) for type, config, arrays, _ in of_layers),
        *(
            lambda model, f=function, k=keywords: functions.between(model, f, **k)
            for function, keywords, _ in of_functions
        ),
    ]
    said = [refusal(make(model)).message for make in made]
    files = [
        path for path in (PACKAGE / "keras").glob("*.py") if path.name != "reading.py"
    ]  # of which test_odd_models.py has cases
    written = reasons(files, frozenset({"refuse", "misfit"}))
    assert len(written) > 50
    assert {reason for reason in written if not is_said(reason, said)} == set()
