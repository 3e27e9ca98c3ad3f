"""Every function between layers gives the results of Keras or TensorFlow, under every name in files."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest

from cnn_convertor.frontends.keras.importer import operations
from cnn_convertor.frontends.keras.model import OPERATIONS_WITH_DTYPE
from cnn_convertor.frontends.keras.operations import FUNCTIONS
from frontends.keras import networks
from frontends.keras.conftest import Writer, layer
from frontends.loading import load_keras as load
from reference import ir_reference

pytestmark = pytest.mark.slow

# Keras 3 calls its operations by the names of classes, TensorFlow by those of functions.
OF_KERAS_3 = {name for name in operations if name[0].isupper()}
OF_TENSORFLOW = set(operations) - OF_KERAS_3
# Names of functions that are methods of a tensor, and those that TensorFlow 2 has under another name alone.
METHODS = {
    "__operators__.add": operator.add,
    "__operators__.sub": operator.sub,
    "__operators__.mul": operator.mul,
    "__operators__.pow": operator.pow,
}
RENAMED = {
    "math.truediv": "math.truediv", "add": "math.add", "multiply": "math.multiply", "subtract": "math.subtract", "maximum": "math.maximum",
    "minimum": "math.minimum", "truediv": "math.truediv", "realdiv": "realdiv", "negative": "math.negative", "pow": "math.pow",
}  # fmt: skip
# What a function is called with beside the tensor; one tuple for each call that is compared.
ARGUMENTS: dict[str, tuple[dict[str, Any], ...]] = {
    **dict.fromkeys(("math.add", "math.subtract", "math.multiply", "math.maximum", "math.minimum", "math.truediv", "math.divide", "realdiv", "truediv",
                     "add", "subtract", "multiply", "maximum", "minimum"), ({"y": 0.75},)),
    **dict.fromkeys(("__operators__.add", "__operators__.sub", "__operators__.mul"), ({"y": 0.75},)),
    **dict.fromkeys(("math.pow", "pow", "__operators__.pow"), ({"y": 2.0},)),
    **dict.fromkeys(("math.reduce_mean", "math.reduce_max", "math.reduce_min", "math.reduce_sum"),
                    ({"axis": [1, 2]}, {"axis": -1, "keepdims": True}, {"axis": [1]})),
    "math.argmax": ({"axis": -1}, {"axis": 1}), "cast": ({"dtype": "float32"},), "clip_by_value": ({"clip_value_min": -0.5, "clip_value_max": 0.25},),
    "expand_dims": ({"axis": 1}, {"axis": -1}), "squeeze": ({}, {"axis": [1]}), "reshape": ({"shape": [-1, 9, 24]},), "transpose": ({"perm": [0, 2, 1, 3]},),
    "image.resize": ({"size": [6, 10]}, {"size": [9, 3], "method": "nearest"}), "math.l2_normalize": ({"axis": -1},), "nn.l2_normalize": ({"axis": 3},),
    "nn.depth_to_space": ({"block_size": 2},), "nn.space_to_depth": ({"block_size": 3},), "nn.gelu": ({}, {"approximate": True}),
    "nn.leaky_relu": ({}, {"alpha": 0.4}), "nn.softmax": ({}, {"axis": 1}), "nn.log_softmax": ({},),
    **dict.fromkeys(("nn.lrn", "nn.local_response_normalization"), ({"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75}, {})),
    "pad": ({"paddings": [[0, 0], [1, 0], [0, 2], [0, 0]]},),
}  # fmt: skip
# Those that take or give several tensors, or parts of one: test_functions.py has them.
ELSEWHERE = {"__operators__.getitem", "strided_slice", "concat", "stack", "split", "linalg.matmul"}
POSITIVE = {"math.log", "math.sqrt", "sqrt", "math.rsqrt", "math.reciprocal"}
# Names that no function of Keras 3.15 writes: other versions may; their readers are those of Absolute and its like.
UNWRITTEN = {"Abs", "Identity", "Mish"}
NEGATIVES = {"math.negative", "negative"}


def test_every_function_of_tensorflow(model: Writer) -> None:
    networks.imported()
    tf = import_module("tensorflow")
    unary: dict[str, tuple[dict[str, Any], ...]] = {name: ({},) for name in FUNCTIONS if name in OF_TENSORFLOW}
    assert {*unary, *ARGUMENTS, *ELSEWHERE, *NEGATIVES} == OF_TENSORFLOW
    x = np.random.default_rng(0).normal(size=(1, 6, 9, 4)).astype(np.float32)
    tensors: dict[str, Any] = {"in": x, "above": np.abs(x) + 0.25, "thin": x[:, :1]}
    layers = [layer("InputLayer", name, batch_input_shape=[None, *value.shape[1:]]) for name, value in tensors.items()]
    expected = {}
    for function, calls in {**unary, **ARGUMENTS, **dict.fromkeys(NEGATIVES, ({},))}.items():
        for number, keywords in enumerate(calls):
            name = f"{function.replace('.', '_')}{number}"
            read = "above" if function in POSITIVE else "thin" if function == "squeeze" else "in"
            made = layer("TFOpLambda", name, function=function)
            layers.append({**made, "inbound_nodes": [[read, 0, 0, keywords]]})
            expected[name] = _run(tf, function, tensors[read], keywords)
    path = model.h5(model.functional(layers, list(tensors), list(expected)))
    graph = load(path, path)
    values = ir_reference.run(graph, {name: value[0] for name, value in tensors.items()})
    for name, output in zip(expected, graph.outputs, strict=True):
        right = np.asarray(expected[name])
        np.testing.assert_allclose(values[output].ravel(), right.ravel(), rtol=1e-4, atol=1e-5, err_msg=name)


def _run(tf: Any, function: str, x: Any, keywords: dict[str, Any]) -> Any:
    if function in METHODS:
        return METHODS[function](x, keywords["y"])
    found = tf
    for part in RENAMED.get(function, function).split("."):
        found = getattr(found, part, None) or getattr(tf.raw_ops, part)
    return found(x, **keywords)


def test_every_operation_of_keras_3_is_in_a_case_that_is_compared(tmp_path: Path) -> None:
    """test_agrees_with_keras.py compares what networks.py makes."""
    keras = networks.imported()
    inputs = [keras.Input(shape) for shape in networks.INPUTS]
    made = keras.Model(inputs, [make(keras, *inputs) for make in networks.OPERATIONS])
    seen = {type(found).__name__ for found in made.operations}
    assert OF_KERAS_3 - seen == UNWRITTEN


def test_operations_that_have_a_dtype_are_known() -> None:
    """Whole-model .h5 files do not say what is an operation: without its name, it would be taken for a layer."""
    keras = networks.imported()
    package = import_module("keras.src.ops")
    for module in walk_packages(package.__path__, "keras.src.ops."):
        if not module.name.endswith("_test"):  # Keras ships some of its tests
            import_module(module.name)
    operations_of_keras = {c for c in _subclasses(keras.Operation) if not issubclass(c, keras.Layer)}
    found = {c.__name__ for c in operations_of_keras if "dtype" in signature(c).parameters}
    assert {"Cast", "Cumsum"} <= found <= OPERATIONS_WITH_DTYPE


def _subclasses(of: type[Any]) -> Iterator[type[Any]]:
    for made in of.__subclasses__():
        yield made
        yield from _subclasses(made)
