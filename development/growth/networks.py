"""Networks, most of them of ONNX, with a count of something: layers, branches, inputs, outputs, parts, constants."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import h5py
import numpy as np
from onnx import TensorProto, helper, numpy_helper

Inputs = Mapping[str, tuple[int, ...]]

_INPUT: Final[Inputs] = {"x": (1, 4, 8, 8)}
_KERNEL: Final = {"w": np.full((4, 4, 1, 1), 0.25, np.float32)}


def chain(count: int) -> bytes:
    """Convolutions, one behind the other."""
    return _model(_chain(count), [f"c{count - 1}"], _KERNEL)


def outputs(count: int) -> bytes:
    """A chain, each map of which is an output."""
    return _model(_chain(count), [f"c{i}" for i in range(count)], _KERNEL)


def fan(count: int) -> bytes:
    """Convolutions of the same input, which are all outputs."""
    return _model([_convolution("x", f"c{i}") for i in range(count)], [f"c{i}" for i in range(count)], _KERNEL)


def sum_of_branches(count: int) -> bytes:
    """Convolutions of the same input, added one after the other."""
    branches = [_convolution("x", f"c{i}") for i in range(count)]
    sums = [_node("Add", "c0" if i == 1 else f"s{i - 1}", f"c{i}", to=f"s{i}") for i in range(1, count)]
    return _model([*branches, *sums], [f"s{count - 1}"], _KERNEL)


def long_skips(count: int) -> bytes:
    """A chain whose maps are added in reverse order: all are live at its end."""
    last = count - 1
    sums = [_node("Add", f"c{last}" if i == 0 else f"s{i - 1}", f"c{last - 1 - i}", to=f"s{i}") for i in range(last)]
    return _model([*_chain(count), *sums], [f"s{last - 1}"], _KERNEL)


def dense_block(count: int) -> bytes:
    """Each convolution reads the concatenation of the last one's input and its output, as in DenseNet."""
    nodes, kernels, before = [], {}, "x"
    for i in range(count):
        kernels[f"w{i}"] = np.full((4, 4 * (i + 1), 1, 1), 0.1, np.float32)
        nodes.append(_node("Conv", before, f"w{i}", to=f"c{i}", kernel_shape=[1, 1]))
        nodes.append(_node("Concat", before, f"c{i}", to=f"k{i}", axis=1))
        before = f"k{i}"
    return _model(nodes, [before], kernels)


def flat_dense_block(count: int) -> bytes:
    """The same in the form of exports: each concatenation lists all maps before it, so many in all."""
    nodes, kernels, maps = [], {}, ["x"]
    while count > 0:
        i = len(maps) - 1
        kernels[f"w{i}"] = np.full((8, 4 + 8 * i, 1, 1), 0.1, np.float32)
        if i:
            nodes.append(_node("Concat", *maps, to=f"k{i}", axis=1))
        nodes.append(_node("Conv", f"k{i}" if i else "x", f"w{i}", to=f"c{i}", kernel_shape=[1, 1]))
        count -= len(maps)
        maps.append(f"c{i}")
    return _model(nodes, maps[-1:], kernels)


def split(count: int) -> bytes:
    """One node whose parts are all outputs."""
    parts = [f"p{i}" for i in range(count)]
    node = helper.make_node("Split", ["x"], parts, name="split", axis=1)
    return _model([node], parts, {}, {"x": (1, count, 4, 4)})


def inputs(count: int) -> bytes:
    """One concatenation of the network's inputs."""
    names = [f"x{i}" for i in range(count)]
    return _model([_node("Concat", *names, to="y", axis=1)], ["y"], {}, dict.fromkeys(names, (1, 4, 4, 4)))


def constants(count: int) -> bytes:
    """Additions of constants, which are computed when the model is read."""
    sums = [_node("Add", "k" if i == 0 else f"a{i - 1}", "k", to=f"a{i}") for i in range(count)]
    scaled = _node("Mul", "x", f"a{count - 1}", to="y")
    return _model([*sums, scaled], ["y"], {"k": np.full((1, 4, 1, 1), 1e-3, np.float32)})


def cpu_layers(count: int) -> bytes:
    """Functions of single elements that only the CPU has, one behind the other."""
    nodes = [_node(("Abs", "Erf")[i % 2], "x" if i == 0 else f"c{i - 1}", to=f"c{i}") for i in range(count)]
    return _model(nodes, [f"c{count - 1}"], {})


def changes_of_side(count: int) -> bytes:
    """Convolutions with swish between them, which the CPU computes."""
    nodes, before = [], "x"
    for i in range(count):
        nodes += [_convolution(before, f"c{i}"), _node("Sigmoid", f"c{i}", to=f"s{i}")]
        nodes.append(_node("Mul", f"c{i}", f"s{i}", to=f"m{i}"))
        before = f"m{i}"
    return _model(nodes, [before], _KERNEL)


def blocks(count: int) -> bytes:
    """What the passes work on: batch norms, scales, padding, functions, parts, transpositions, blocks with an average.

    Half as many, since each has 14 nodes.
    """
    nodes, before = [], "x"
    for i in range(count // 2):
        nodes += [
            _node("Pad", before, "pads", to=f"p{i}"),
            helper.make_node("Conv", [f"p{i}", "k"], [f"c{i}"], name=f"c{i}", kernel_shape=[3, 3]),
            _node("BatchNormalization", f"c{i}", *["four"] * 4, to=f"b{i}"),
            _node("Mul", f"b{i}", "scale", to=f"m{i}"),
            _node("Add", f"m{i}", "scale", to=f"a{i}"),
            _node("Relu", f"a{i}", to=f"r{i}"),
            _node("GlobalAveragePool", f"r{i}", to=f"g{i}"),
            _node("Sigmoid", f"g{i}", to=f"s{i}"),
            _node("Mul", f"r{i}", f"s{i}", to=f"e{i}"),
            helper.make_node("Split", [f"e{i}"], [f"o{i}", f"t{i}"], name=f"o{i}", axis=1),
            _node("Concat", f"t{i}", f"o{i}", to=f"k{i}", axis=1),
            _node("Transpose", f"k{i}", to=f"h{i}", perm=[0, 2, 3, 1]),
            _node("Transpose", f"h{i}", to=f"w{i}", perm=[0, 3, 1, 2]),
            _node("Identity", f"w{i}", to=f"i{i}"),
        ]
        before = f"i{i}"
    arrays = {
        "k": np.full((4, 4, 3, 3), 0.03, np.float32),
        "four": np.ones(4, np.float32),
        "scale": np.full((1, 4, 1, 1), 0.5, np.float32),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    }
    return _model(nodes, [before], arrays)


def matrix_weights(count: int) -> bytes:
    """One product with a matrix whose rows are the inputs, as MatMul has them."""
    return _model([_node("MatMul", "x", "w", to="y")], ["y"], {"w": _numbers(1024, 256 * count)}, {"x": (1, 1024)})


def turned_weights(count: int) -> bytes:
    """The same with a matrix that the model itself transposes."""
    nodes = [_node("Transpose", "w", to="t", perm=[1, 0]), _node("MatMul", "x", "t", to="y")]
    return _model(nodes, ["y"], {"w": _numbers(256 * count, 1024)}, {"x": (1, 1024)})


def transposed_convolution_weights(count: int) -> bytes:
    """A transposed convolution, whose weights begin with the inputs."""
    node = _node("ConvTranspose", "x", "w", to="y", kernel_shape=[2, 2])
    return _model([node], ["y"], {"w": _numbers(256, 256 * count, 2, 2)}, {"x": (1, 256, 2, 2)})


def caffe_matrix(count: int) -> tuple[str, np.ndarray]:
    """A fully connected layer of Caffe whose matrix has its inputs as rows."""
    parameters = f"inner_product_param {{ num_output: {256 * count} bias_term: false transpose: true }}"
    return _caffe("InnerProduct", parameters, "dim: 1 dim: 1024"), _numbers(1024, 256 * count)


def caffe_deconvolution(count: int) -> tuple[str, np.ndarray]:
    """A deconvolution of Caffe, whose weights begin with the inputs."""
    parameters = f"convolution_param {{ num_output: {256 * count} bias_term: false kernel_size: 2 }}"
    return _caffe("Deconvolution", parameters, "dim: 1 dim: 256 dim: 2 dim: 2"), _numbers(256, 256 * count, 2, 2)


def _caffe(type: str, parameters: str, dims: str) -> str:
    return f'input: "x" input_shape {{ {dims} }} layer {{ name: "y" type: "{type}" bottom: "x" top: "y" {parameters} }}'


def keras_kernels(count: int, compression: str | None = None) -> bytes:
    """A Dense layer of Keras, whose kernel has its inputs as rows."""
    kernel, dtype = _numbers(1024, 256 * count), {"dtype": "float32"}
    layers = [
        {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 1024], "name": "x", **dtype}},
        {"class_name": "Dense", "config": {"name": "d", "units": kernel.shape[1], "use_bias": False, **dtype}},
    ]
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        structure = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
        file.attrs.update({"model_config": json.dumps(structure), "keras_version": "2.15.0", "backend": "tensorflow"})
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = [b"d"]
        group = weights.create_group("d")
        group.attrs["weight_names"] = [b"d/kernel:0"]
        group.create_dataset("d/kernel:0", data=kernel, compression=compression)
    return stream.getvalue()


def compressed_keras_kernels(count: int) -> bytes:
    """The same, compressed."""
    return keras_kernels(count, "gzip")


def normalizations(count: int) -> bytes:
    """Normalizations, one behind the other, of which the CPU and the device each compute a part."""
    nodes = [_node("InstanceNormalization", f"c{i - 1}" if i else "x", "s", "s", to=f"c{i}") for i in range(count)]
    return _model(nodes, [f"c{count - 1}"], {"s": np.ones(4, np.float32)})


def branches(count: int) -> bytes:
    """Nodes with two bodies, of which the first is taken, one behind the other."""
    nodes = []
    for i in range(count):
        before = f"c{i - 1}" if i else "x"
        result = helper.make_tensor_value_info(f"r{i}", TensorProto.FLOAT, None)
        other = helper.make_tensor_value_info(f"o{i}", TensorProto.FLOAT, None)
        taken = helper.make_graph([_node("Relu", before, to=f"r{i}")], "then", [], [result])
        left = helper.make_graph([_node("Neg", before, to=f"o{i}")], "else", [], [other])
        nodes.append(_node("If", "yes", to=f"c{i}", then_branch=taken, else_branch=left))
    return _model(nodes, [f"c{count - 1}"], {"yes": np.array(True)})


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def refusals(count: int) -> bytes:
    """Layers that no reader knows."""
    nodes = [_node("NoSuchType", "x", to=f"c{i}") for i in range(count)]
    return _model(nodes, [f"c{i}" for i in range(count)], {})


NETWORKS: Final[Mapping[str, Callable[[int], bytes]]] = {
    make.__name__: make
    for make in (
        chain,
        outputs,
        fan,
        sum_of_branches,
        long_skips,
        dense_block,
        flat_dense_block,
        split,
        inputs,
        constants,
        cpu_layers,
        changes_of_side,
    )
}


def _chain(count: int) -> list[Any]:
    return [_convolution("x" if i == 0 else f"c{i - 1}", f"c{i}") for i in range(count)]


def _convolution(source: str, to: str) -> Any:
    return _node("Conv", source, "w", to=to, kernel_shape=[1, 1])


def _node(type: str, *sources: str, to: str, **settings: Any) -> Any:
    return helper.make_node(type, sources, [to], name=to, **settings)


def _model(
    nodes: Sequence[Any], results: Sequence[str], arrays: Mapping[str, np.ndarray], sources: Inputs = _INPUT
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sources.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString(deterministic=True))
