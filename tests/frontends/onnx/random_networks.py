"""Random ONNX networks: deterministic for a seed, of the nodes that exporters write, with all their settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="networks are written with the onnx package")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

OPSETS = (11, 13, 17, 20)
LARGEST = 6000  # elements of an array
UNARY = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Elu", "LeakyRelu", "Softplus", "Abs", "Neg", "HardSigmoid", "Selu",
         "Softsign", "Identity", "Dropout", "Erf", "Celu", "Mish", "Gelu")  # fmt: skip
SINCE = {"HardSwish": 14, "Celu": 12, "Mish": 18, "Gelu": 20, "LayerNormalization": 17, "GroupNormalization": 21}


class Tensor(NamedTuple):
    name: str
    dims: tuple[int, ...]


class Maker:
    """A model under construction."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.opset = self.pick(OPSETS)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.count = 0
        side = int(self.random.integers(4, 13))
        width = side if self.chance(0.5) else int(self.random.integers(4, 13))
        self.inputs = [Tensor("x", (1, self.pick((1, 3, 4, 8, 12)), side, width))]
        self.tensors = list(self.inputs)

    # --- parts

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def normal(self, *dims: int, by: float = 1.0, at: float = 0.0) -> str:
        return self.constant((at + self.random.standard_normal(dims) / by).astype(np.float32))

    def positive(self, *dims: int) -> str:
        return self.constant(self.random.uniform(0.5, 1.5, dims).astype(np.float32))

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, type: str, *inputs: str, **attributes: Any) -> Tensor | None:
        """Append a node, unless the onnx package finds it wrong, or it makes too much."""
        self.count += 1
        node = helper.make_node(type, inputs, [f"y{self.count}"], **attributes)
        dims = self._dims_of(node)
        if not dims or min(dims) < 1 or math.prod(dims) > LARGEST:
            return None
        self.nodes.append(node)
        made = Tensor(node.output[0], dims)
        self.tensors.append(made)
        return made

    def _dims_of(self, node: Any) -> tuple[int, ...] | None:
        known = {x.name: x.dims for x in self.tensors}
        inputs = [info(name, known[name]) for name in dict.fromkeys(node.input) if name in known]
        graph = helper.make_graph([node], "net", inputs, [info(node.output[0], None)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        try:
            made = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output[0]
        except (onnx.shape_inference.InferenceError, RuntimeError):
            return None
        shape = made.type.tensor_type.shape
        return tuple(dim.dim_value for dim in shape.dim) if made.type.tensor_type.HasField("shape") else None

    def model(self, steps: int) -> Any:
        while len(self.nodes) < steps:
            x = self.tensors[-1] if self.chance(0.75) else self.pick(self.tensors)
            kinds = ON_MAPS if len(x.dims) == 4 and x.dims[0] == 1 and self.chance(0.8) else ON_ARRAYS
            self.pick(kinds)(self, x)
        used = {name for node in self.nodes for name in node.input}
        outputs = [info(node.output[0], None) for node in self.nodes if node.output[0] not in used]
        inputs = [info(x.name, x.dims) for x in self.inputs]
        constants = [array for array in self.constants if array.name in used]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def info(name: str, dims: Sequence[int] | None) -> Any:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)


def network(seed: int) -> Any:
    """A model of two to nine nodes."""
    maker = Maker(seed)
    return maker.model(int(maker.random.integers(2, 10)))


# --- nodes on maps -------------------------------------------------------------------------------------------------------


def window(make: Maker, x: Tensor, *, dilated: bool = True) -> dict[str, Any]:
    """A kernel with strides and padding that fit."""
    kernel = [make.pick((1, 2, 3, 3, 5)) for _ in range(2)] if make.chance(0.3) else [make.pick((1, 2, 3, 3, 5))] * 2
    kernel = [min(k, n) for k, n in zip(kernel, x.dims[2:], strict=True)]
    made: dict[str, Any] = {"kernel_shape": kernel}
    if make.chance(0.5):
        made["strides"] = [make.pick((1, 2, 3))] * 2 if make.chance(0.7) else [1, 2]
    if dilated and make.chance(0.2):
        made["dilations"] = [make.pick((1, 2)), make.pick((1, 2))]
    if make.chance(0.15):
        made["auto_pad"] = make.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif make.chance(0.6):
        same = [(k - 1) // 2 for k in kernel] * 2
        made["pads"] = same if make.chance(0.7) else [int(make.random.integers(0, k)) for k in kernel * 2]
    return made


def conv(make: Maker, x: Tensor) -> None:
    channels, settings = x.dims[1], window(make, x)
    group = make.pick((1, 1, 1, channels, 2 if channels % 2 == 0 else 1))
    outputs = group * make.pick((1, 2) if group > 2 else (1, 4, 8, 12))
    kernel = settings["kernel_shape"]
    weight = make.normal(outputs, channels // group, *kernel, by=math.sqrt(channels // group * math.prod(kernel)))
    bias = [make.normal(outputs)] if make.chance(0.6) else []
    made = make.add("Conv", x.name, weight, *bias, group=group, **settings)
    if made is not None and make.chance(0.4):
        batch_norm(make, made)


def conv_transpose(make: Maker, x: Tensor) -> None:
    channels, settings = x.dims[1], window(make, x, dilated=make.chance(0.3))
    settings.pop("auto_pad", None)
    group = make.pick((1, 1, channels))
    outputs, kernel = make.pick((1, 2) if group > 1 else (3, 8)), settings["kernel_shape"]
    if "strides" in settings and make.chance(0.3):
        settings["output_padding"] = [min(1, s - 1) for s in settings["strides"]]
    weight = make.normal(channels, outputs, *kernel, by=math.sqrt(channels // group * math.prod(kernel)))
    bias = [make.normal(outputs * group)] if make.chance(0.6) else []
    make.add("ConvTranspose", x.name, weight, *bias, group=group, **settings)


def pool(make: Maker, x: Tensor) -> None:
    type = make.pick(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    settings = window(make, x, dilated=type == "MaxPool" or (type == "AveragePool" and make.opset >= 19))
    if type == "AveragePool" and "dilations" in settings:
        settings.pop("auto_pad", None)  # onnxruntime gives another size than ONNX says
    if type != "LpPool" and "auto_pad" not in settings and make.chance(0.4):
        settings["ceil_mode"] = 1
    if type == "AveragePool" and make.chance(0.4):
        settings["count_include_pad"] = 1
    make.add(type, x.name, **settings)


def global_pool(make: Maker, x: Tensor) -> None:
    made = make.add(make.pick(("GlobalAveragePool", "GlobalMaxPool")), x.name)
    if made is not None and make.chance(0.4):  # squeeze and excitation
        gate = make.add("Conv", made.name, make.normal(x.dims[1], x.dims[1], 1, 1, by=math.sqrt(x.dims[1])))
        gate = make.add(make.pick(("Sigmoid", "HardSigmoid")), gate.name) if gate is not None else None
        if gate is not None:
            make.add("Mul", *make.pick(((x.name, gate.name), (gate.name, x.name))))


def batch_norm(make: Maker, x: Tensor) -> None:
    c = x.dims[1]
    parts = (make.positive(c), make.normal(c), make.normal(c), make.positive(c))
    make.add("BatchNormalization", x.name, *parts, epsilon=make.pick((1e-5, 1e-3)))


def other_norm(make: Maker, x: Tensor) -> None:
    c = x.dims[1]
    match make.pick(range(3)):
        case 0 if math.prod(x.dims[2:]) > 3:
            make.add("InstanceNormalization", x.name, make.positive(c), make.normal(c), epsilon=1e-3)
        case 1:
            make.add("LRN", x.name, size=make.pick((3, 5)), alpha=0.1, beta=0.75)
        case 2 if make.opset >= SINCE["LayerNormalization"] and x.dims[-1] > 3:
            make.add("LayerNormalization", x.name, make.positive(x.dims[-1]), make.normal(x.dims[-1]), epsilon=1e-3)


def prelu(make: Maker, x: Tensor) -> None:
    dims = make.pick(((x.dims[1], 1, 1), (1,), x.dims[1:], (x.dims[3],)))
    make.add("PRelu", x.name, make.normal(*dims, by=4))


def resize(make: Maker, x: Tensor) -> None:
    factor = [make.pick((1, 2, 2, 3)), make.pick((1, 2, 2))]
    settings: dict[str, Any] = {"mode": make.pick(("nearest", "linear"))}
    if settings["mode"] == "nearest":
        settings |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
        settings["coordinate_transformation_mode"] = make.pick(modes)
    if make.chance(0.5):
        make.add("Resize", x.name, "", make.constant(np.array([1, 1, *factor], np.float32)), **settings)
    else:
        sizes = [n * f for n, f in zip(x.dims[2:], factor, strict=True)]
        make.add("Resize", x.name, "", "", make.integers(*x.dims[:2], *sizes), **settings)


def blocks(make: Maker, x: Tensor) -> None:
    if make.chance(0.5):
        make.add("DepthToSpace", x.name, blocksize=2, mode=make.pick(("DCR", "CRD")))
    elif x.dims[2] % 2 == x.dims[3] % 2 == 0:
        make.add("SpaceToDepth", x.name, blocksize=2)


def shuffle(make: Maker, x: Tensor) -> None:
    c, groups = x.dims[1], make.pick((2, 4))
    if c % groups == 0 and c > groups:
        split = make.add("Reshape", x.name, make.integers(1, groups, c // groups, *x.dims[2:]))
        if split is not None and (moved := make.add("Transpose", split.name, perm=[0, 2, 1, 3, 4])) is not None:
            make.add("Reshape", moved.name, make.integers(1, -1, *x.dims[2:]))


def classifier(make: Maker, x: Tensor) -> None:
    flat = make.add("Flatten", x.name, axis=1)
    if flat is not None:
        size, outputs = flat.dims[1], make.pick((3, 10, 17))
        weight = make.normal(outputs, size, by=math.sqrt(size))
        make.add("Gemm", flat.name, weight, make.normal(outputs), transB=1)


def concat_maps(make: Maker, x: Tensor) -> None:
    others = [y for y in make.tensors if len(y.dims) == 4 and y.dims[::2] == x.dims[::2] and y.dims[3] == x.dims[3]]
    chosen = [x.name, *(make.pick(others).name for _ in range(make.pick((1, 1, 2))))]
    make.add("Concat", *chosen, axis=make.pick((1, -3)))


def pad(make: Maker, x: Tensor) -> None:
    sides = [int(make.random.integers(0, 3)) for _ in range(4)]
    mode = make.pick(("constant", "constant", "reflect", "edge"))
    pads = make.integers(0, 0, *sides[:2], 0, 0, *sides[2:])
    value = [make.constant(np.float32(0.5))] if mode == "constant" and make.chance(0.4) else []
    make.add("Pad", x.name, pads, *value, mode=mode)


# --- nodes on arrays of any axes -----------------------------------------------------------------------------------------


def unary(make: Maker, x: Tensor) -> None:
    type = make.pick(UNARY)
    if make.opset >= SINCE.get(type, 0):
        make.add(type, x.name)


def clip(make: Maker, x: Tensor) -> None:
    low, high = make.pick(((0, 6), (-1, 1), (0, 1), (-0.5, None), (None, 2)))
    bounds = ["" if n is None else make.constant(np.float32(n)) for n in (low, high)]
    make.add("Clip", x.name, *bounds)


def swish(make: Maker, x: Tensor) -> None:
    gate = make.add("Sigmoid", x.name)
    if gate is not None:
        make.add("Mul", x.name, gate.name)


def with_constant(make: Maker, x: Tensor) -> None:
    kept = int(make.random.integers(0, len(x.dims) + 1))
    dims = tuple(n if make.chance(0.5) else 1 for n in x.dims[len(x.dims) - kept :])
    type = make.pick(("Add", "Sub", "Mul", "Div", "Max", "Min"))
    other = make.positive(*dims) if type == "Div" else make.normal(*dims)
    swapped = type != "Div" and make.chance(0.3)
    make.add(type, *((other, x.name) if swapped else (x.name, other)))


def of_two(make: Maker, x: Tensor) -> None:
    same = [y for y in make.tensors if y.dims == x.dims]
    type = make.pick(("Add", "Add", "Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"))
    make.add(type, x.name, make.pick(same).name)


def broadcast(make: Maker, x: Tensor) -> None:
    make.add(make.pick(("Add", "Mul", "Sub")), x.name, make.pick(make.tensors).name)


def concat(make: Maker, x: Tensor) -> None:
    axis = int(make.random.integers(len(x.dims)))
    same = [y for y in make.tensors if y.dims == x.dims]
    other = make.normal(*x.dims) if make.chance(0.3) else make.pick(same).name
    make.add("Concat", x.name, other, axis=axis)


def slice_(make: Maker, x: Tensor) -> None:
    axis = int(make.random.integers(len(x.dims)))
    size = x.dims[axis]
    start = int(make.random.integers(0, size))
    step = make.pick((1, 1, 1, 2, -1))
    bounds = (size - 1, -size - 1) if step < 0 else (start, make.pick((size, size - 1, 2**62, -1)))
    make.add("Slice", x.name, *(make.integers(n) for n in (*bounds, axis - len(x.dims) * make.chance(0.3), step)))


def gather(make: Maker, x: Tensor) -> None:
    axis = int(make.random.integers(len(x.dims)))
    size = x.dims[axis]
    if make.chance(0.4):
        index = make.constant(np.int64(make.random.integers(-size, size)))
    else:
        index = make.integers(*(int(n) for n in make.random.integers(0, size, 3)))
    make.add("Gather", x.name, index, axis=axis)


def transpose(make: Maker, x: Tensor) -> None:
    order = [int(n) for n in make.random.permutation(len(x.dims))]
    if make.chance(0.5):
        order = [0, *(n for n in order if n)]
    make.add("Transpose", x.name, perm=order)


def reshape(make: Maker, x: Tensor) -> None:
    dims = list(x.dims)
    at = int(make.random.integers(len(dims)))
    if make.chance(0.5) and at + 1 < len(dims):
        dims[at : at + 2] = [-1]
    elif dims[at] % 2 == 0:
        dims[at : at + 1] = make.pick(([dims[at] // 2, 2], [2, dims[at] // 2]))
    if make.chance(0.3) and len(dims) == 3:
        dims.insert(0, 1)
    make.add("Reshape", x.name, make.integers(*dims))


def axes(make: Maker, x: Tensor) -> None:
    """Squeeze and Unsqueeze, in the form of the opset."""
    ones = [at for at, n in enumerate(x.dims) if n == 1]
    type, at = (
        ("Squeeze", make.pick(ones)) if ones and make.chance(0.5) else ("Unsqueeze", make.pick(range(len(x.dims))))
    )
    if len(x.dims) > 4 and type == "Unsqueeze":
        return
    if make.opset < 13:
        make.add(type, x.name, axes=[at])
    else:
        make.add(type, x.name, make.integers(at))


def reduce(make: Maker, x: Tensor) -> None:
    at = make.pick(([-1], [1], [2, 3], [0], [1, 2]))
    if max(at) >= len(x.dims):
        return
    type, kept = (
        make.pick(("ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2")),
        make.pick((0, 1)),
    )
    if make.opset >= (13 if type == "ReduceSum" else 18):
        make.add(type, x.name, make.integers(*at), keepdims=kept)
    else:
        make.add(type, x.name, axes=at, keepdims=kept)


def softmax(make: Maker, x: Tensor) -> None:
    make.add(make.pick(("Softmax", "Softmax", "LogSoftmax")), x.name, axis=make.pick((1, -1)))


def matmul(make: Maker, x: Tensor) -> None:
    make.add("MatMul", x.name, make.normal(x.dims[-1], make.pick((3, 8)), by=math.sqrt(x.dims[-1])))


def repeat(make: Maker, x: Tensor) -> None:
    if make.chance(0.5):
        make.add("Tile", x.name, make.integers(*(make.pick((1, 1, 2)) for _ in x.dims)))
    else:
        make.add("Expand", x.name, make.integers(*(n if n > 1 else make.pick((1, 3)) for n in x.dims)))


Kind = Callable[[Maker, Tensor], None]
ON_MAPS: Sequence[Kind] = (
    *[conv] * 6, *[pool] * 4, *[batch_norm] * 2, *[unary] * 4, *[concat_maps] * 2, *[of_two] * 2, conv_transpose, global_pool,
    other_norm, prelu, resize, blocks, shuffle, classifier, pad, clip, swish, with_constant,
)  # fmt: skip
ON_ARRAYS: Sequence[Kind] = (
    unary, unary, clip, swish, with_constant, with_constant, of_two, broadcast, concat, slice_, gather, transpose, reshape,
    axes, reduce, softmax, matmul, repeat,
)  # fmt: skip
