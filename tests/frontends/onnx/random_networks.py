"""Random ONNX networks: deterministic for a seed, of the nodes that exporters write, with all their settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontends.onnx.random_maker import NEGATIVE, Maker, Tensor

UNARY = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Elu", "LeakyRelu", "Softplus", "Abs", "Neg", "HardSigmoid", "Selu",
         "Softsign", "Identity", "Dropout", "Erf", "Celu", "Mish", "Gelu", "Swish", "ThresholdedRelu")  # fmt: skip

# --- nodes on maps -------------------------------------------------------------------------------------------------------


def window(make: Maker, x: Tensor, *, dilated: bool = True) -> dict[str, Any]:
    """A kernel with strides and padding that fit."""
    axes = len(x.dims) - 2
    kernel = (
        [make.pick((1, 2, 3, 3, 5)) for _ in range(axes)] if make.chance(0.3) else [make.pick((1, 2, 3, 3, 5))] * axes
    )
    kernel = [min(k, n) for k, n in zip(kernel, x.dims[2:], strict=True)]
    made: dict[str, Any] = {"kernel_shape": kernel}
    if make.chance(0.5):
        made["strides"] = [make.pick((1, 2, 3))] * axes if make.chance(0.7) else [1, 2][:axes]
    if dilated and make.chance(0.2):
        made["dilations"] = [make.pick((1, 2)) for _ in range(axes)]
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
    settings = window(make, x, dilated=make.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[type])
    if "dilations" in settings:
        settings.pop("auto_pad", None)  # onnxruntime gives another size than ONNX says
    if make.opset >= (18 if type == "LpPool" else 10) and "auto_pad" not in settings and make.chance(0.4):
        settings["ceil_mode"] = 1
    if type == "AveragePool" and make.chance(0.4):
        settings["count_include_pad"] = 1
    make.add(type, x.name, **settings)


def global_pool(make: Maker, x: Tensor) -> None:
    made = make.add(make.pick(("GlobalAveragePool", "GlobalMaxPool")), x.name)
    if made is not None and make.chance(0.4):  # squeeze and excitation
        ones = [1] * (len(x.dims) - 2)
        gate = make.add("Conv", made.name, make.normal(x.dims[1], x.dims[1], *ones, by=math.sqrt(x.dims[1])))
        gate = make.add(make.pick(("Sigmoid", "HardSigmoid")), gate.name) if gate is not None else None
        if gate is not None:
            make.add("Mul", *make.pick(((x.name, gate.name), (gate.name, x.name))))


def batch_norm(make: Maker, x: Tensor) -> None:
    c = x.dims[1]
    parts = (make.positive(c), make.normal(c), make.normal(c), make.positive(c))
    make.add("BatchNormalization", x.name, *parts, epsilon=make.pick((1e-5, 1e-3)))


def other_norm(make: Maker, x: Tensor) -> None:
    c, c_of = x.dims[1], (make.positive, make.normal)
    match make.pick(range(6)):
        case 0 if math.prod(x.dims[2:]) > 3:
            make.add("InstanceNormalization", x.name, *(part(c) for part in c_of), epsilon=1e-3)
        case 1 if len(x.dims) == 4:
            make.add("LRN", x.name, size=make.pick((3, 5)), alpha=0.1, beta=0.75)
        case 2 if make.has("LayerNormalization") and x.dims[-1] > 3:
            make.add("LayerNormalization", x.name, *(part(x.dims[-1]) for part in c_of), epsilon=1e-3)
        case 3 if make.has("GroupNormalization") and c % 4 == 0:
            groups = make.pick((2, 4))
            length = c if make.opset >= 21 else groups
            settings = {"num_groups": groups, "epsilon": 1e-3}
            make.add("GroupNormalization", x.name, *(part(length) for part in c_of), **settings)
        case 4 if make.has("MeanVarianceNormalization") and math.prod(x.dims[2:]) > 3 and len(x.dims) == 4:
            make.add("MeanVarianceNormalization", x.name)
        case 5 if c > 1:
            make.add("LpNormalization", x.name, axis=1, p=make.pick((1, 2)))


def prelu(make: Maker, x: Tensor) -> None:
    dims = make.pick(((x.dims[1], 1, 1), (1,), x.dims[1:], x.dims[3:]))
    make.add("PRelu", x.name, make.normal(*dims, by=4))


def resize(make: Maker, x: Tensor) -> None:
    factor = [make.pick((1, 2, 2, 3)), make.pick((1, 2, 2))]
    settings: dict[str, Any] = {"mode": make.pick(("nearest", "linear"))}
    if make.opset < 11:
        scales = [1.0, 1.0, *(float(n) for n in factor)]
        given = {"scales": scales} if make.opset < 9 else {}
        inputs = [] if given else [make.constant(np.array(scales, np.float32))]
        make.add("Upsample" if make.opset < 10 else "Resize", x.name, *inputs, **settings, **given)
        return
    if settings["mode"] == "nearest":
        settings |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
        settings["coordinate_transformation_mode"] = make.pick(modes)
    left_out = make.constant(np.zeros(0, np.float32)) if make.opset < 13 else ""
    if make.chance(0.5):
        make.add("Resize", x.name, left_out, make.constant(np.array([1, 1, *factor], np.float32)), **settings)
    else:
        sizes = [n * f for n, f in zip(x.dims[2:], factor, strict=True)]
        make.add("Resize", x.name, left_out, left_out, make.integers(*x.dims[:2], *sizes), **settings)


def blocks(make: Maker, x: Tensor) -> None:
    if make.chance(0.5):
        mode = {"mode": make.pick(("DCR", "CRD"))} if make.opset >= 11 else {}
        make.add("DepthToSpace", x.name, blocksize=2, **mode)
    elif x.dims[2] % 2 == x.dims[3] % 2 == 0:
        make.add("SpaceToDepth", x.name, blocksize=2)


def shuffle(make: Maker, x: Tensor) -> None:
    c, groups = x.dims[1], make.pick((2, 4))
    if c % groups == 0 and c > groups:
        split = make.add("Reshape", x.name, make.integers(1, groups, c // groups, *x.dims[2:]))
        if split is not None and (moved := make.add("Transpose", split.name, perm=[0, 2, 1, 3, 4])) is not None:
            make.add("Reshape", moved.name, make.integers(1, -1, *x.dims[2:]))


def focus(make: Maker, x: Tensor) -> None:
    if x.dims[2] % 2 or x.dims[3] % 2 or make.opset < 10:
        return
    parts = []
    for corner in ((0, 0), (1, 0), (0, 1), (1, 1)):
        part = x.name
        for axis, start in zip((2, 3), corner, strict=True):
            part = make.add_computed("Slice", part, *(make.integers(n) for n in (start, 2**62, axis, 2)))
        parts.append(part)
    make.add("Concat", *parts, axis=1)


def classifier(make: Maker, x: Tensor) -> None:
    flat = make.add("Flatten", x.name, axis=1)
    if flat is not None:
        size, outputs = flat.dims[1], make.pick((3, 10, 17))
        weight = make.normal(outputs, size, by=math.sqrt(size))
        make.add("Gemm", flat.name, weight, make.normal(outputs), transB=1)


def concat_maps(make: Maker, x: Tensor) -> None:
    others = [y for y in make.tensors if len(y.dims) == 4 and y.dims[::2] == x.dims[::2] and y.dims[3] == x.dims[3]]
    chosen = [x.name, *(make.pick(others).name for _ in range(make.pick((1, 1, 2))))]
    make.add("Concat", *chosen, axis=make.axis(x, 1))


def pad(make: Maker, x: Tensor) -> None:
    sides = [int(make.random.integers(0, 3)) for _ in range(4)]
    mode = make.pick(("constant", "constant", "reflect", "edge"))
    settings: dict[str, Any] = {"pads": [0, 0, *sides[:2], 0, 0, *sides[2:]]}
    settings |= {"value": 0.5} if mode == "constant" and make.chance(0.4) else {}
    make.add_since(11, "Pad", x.name, settings, mode=mode)


# --- nodes on arrays of any axes -----------------------------------------------------------------------------------------


def unary(make: Maker, x: Tensor) -> None:
    type = make.pick(UNARY)
    if make.has(type):
        make.add(type, x.name)


def clip(make: Maker, x: Tensor) -> None:
    low, high = make.pick(((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0), (-0.5, None), (None, 2.0)))
    make.add_since(11, "Clip", x.name, {"min": low, "max": high})


def of_positive(make: Maker, x: Tensor) -> None:
    """A function that is not defined, or too large, for some numbers."""
    size = make.add("Abs", x.name)
    near = make.add("Add", size.name, make.constant(np.float32(0.5))) if size is not None else None
    if near is None:
        return
    match make.pick(("Sqrt", "Log", "Reciprocal", "Exp", "Pow")):
        case "Exp":
            negative = make.add("Neg", near.name)
            make.add("Exp", near.name if negative is None else negative.name)
        case "Pow":
            make.add("Pow", near.name, make.constant(np.float32(make.pick((0.5, 2, 3, -1)))))
        case type:
            make.add(type, near.name)


def swish(make: Maker, x: Tensor) -> None:
    gate = make.add("Sigmoid", x.name)
    if gate is not None:
        make.add("Mul", x.name, gate.name)


def with_constant(make: Maker, x: Tensor) -> None:
    kept = int(make.random.integers(0, len(x.dims) + 1))
    dims = tuple(n if make.chance(0.5) else 1 for n in x.dims[len(x.dims) - kept :])
    type = make.pick(("Add", "Sub", "Mul", "Div", "Max", "Min") if make.has("Max") else ("Add", "Sub", "Mul", "Div"))
    other = make.positive(*dims) if type == "Div" else make.normal(*dims)
    swapped = type != "Div" and make.chance(0.3)
    make.add(type, *((other, x.name) if swapped else (x.name, other)))


def of_two(make: Maker, x: Tensor) -> None:
    same = [y for y in make.tensors if y.dims == x.dims]
    type = make.pick(("Add", "Add", "Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"))
    if make.has(type):
        make.add(type, x.name, make.pick(same).name)


def broadcast(make: Maker, x: Tensor) -> None:
    make.add(make.pick(("Add", "Mul", "Sub")), x.name, make.pick(make.tensors).name)


def concat(make: Maker, x: Tensor) -> None:
    axis = int(make.random.integers(len(x.dims)))
    same = [y for y in make.tensors if y.dims == x.dims]
    other = make.normal(*x.dims) if make.chance(0.3) else make.pick(same).name
    make.add("Concat", x.name, other, axis=make.axis(x, axis))


def slice_(make: Maker, x: Tensor) -> None:
    axis = int(make.random.integers(len(x.dims)))
    size = x.dims[axis]
    start = int(make.random.integers(0, size))
    step = make.pick((1, 1, 1, 2, -1))
    end = make.pick((size, size - 1, 2**62, -1))
    if make.opset < 10:
        make.add("Slice", x.name, starts=[start], ends=[end], axes=[axis])
        return
    bounds = (size - 1, -size - 1) if step < 0 else (start, end)
    make.add("Slice", x.name, *(make.integers(n) for n in (*bounds, make.axis(x, axis), step)))


def split(make: Maker, x: Tensor) -> None:
    axis = int(make.random.integers(len(x.dims)))
    size = x.dims[axis]
    if size < 2:
        return
    first = int(make.random.integers(1, size))
    if make.opset >= 18 and make.chance(0.3):
        made = make.add_all("Split", [x.name], 2, axis=axis, num_outputs=2)
    elif make.opset >= 13:
        made = make.add_all("Split", [x.name, make.integers(first, size - first)], 2, axis=axis)
    else:
        made = make.add_all("Split", [x.name], 2, axis=axis, split=[first, size - first])
    if made and made[0].dims == made[1].dims and make.chance(0.5):
        make.add("Mul", made[0].name, made[1].name)


def gather(make: Maker, x: Tensor) -> None:
    axis = int(make.random.integers(len(x.dims)))
    size = x.dims[axis]
    if make.chance(0.4):
        index = make.constant(np.int64(make.random.integers(-size if make.opset >= NEGATIVE else 0, size)))
    else:
        index = make.integers(*(int(n) for n in make.random.integers(0, size, 3)))
    make.add("Gather", x.name, index, axis=make.axis(x, axis))


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
    make.add_since(13, type, x.name, {"axes": [at]})


def view(make: Maker, x: Tensor) -> None:
    """x.view(x.size(0), -1), as PyTorch exports it."""
    shape = make.add_computed("Shape", x.name)
    batch = make.add_computed("Gather", shape, make.constant(np.int64(0)), axis=0)
    axes = {"axes": [0]} if make.opset < 13 else {}
    row = make.add_computed("Unsqueeze", batch, *([] if axes else [make.integers(0)]), **axes)
    make.add("Reshape", x.name, make.add_computed("Concat", row, make.integers(-1), axis=0))


def reduce(make: Maker, x: Tensor) -> None:
    at = make.pick(([-1] if make.opset >= NEGATIVE else [len(x.dims) - 1], [1], [2, 3], [0], [1, 2]))
    if max(at) >= len(x.dims):
        return
    types = (
        "ReduceMean",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceSum",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
    )
    type = make.pick(types)
    make.add_since(13 if type == "ReduceSum" else 18, type, x.name, {"axes": at}, keepdims=make.pick((0, 1)))


def softmax(make: Maker, x: Tensor) -> None:
    make.add(
        make.pick(("Softmax", "Softmax", "LogSoftmax")), x.name, axis=make.axis(x, make.pick((1, len(x.dims) - 1)))
    )


def matmul(make: Maker, x: Tensor) -> None:
    make.add("MatMul", x.name, make.normal(x.dims[-1], make.pick((3, 8)), by=math.sqrt(x.dims[-1])))


def repeat(make: Maker, x: Tensor) -> None:
    if make.chance(0.5):
        make.add("Tile", x.name, make.integers(*(make.pick((1, 1, 2)) for _ in x.dims)))
    elif make.has("Expand"):
        make.add("Expand", x.name, make.integers(*(n if n > 1 else make.pick((1, 3)) for n in x.dims)))


Kind = Callable[[Maker, Tensor], None]
ON_MAPS: Sequence[Kind] = (
    *[conv] * 6, *[pool] * 4, *[batch_norm] * 2, *[unary] * 4, *[concat_maps] * 2, *[of_two] * 2, conv_transpose, global_pool,
    other_norm, other_norm, prelu, resize, blocks, shuffle, focus, classifier, pad, clip, swish, with_constant, split, view,
)  # fmt: skip
ON_ROWS: Sequence[Kind] = (
    *[conv] * 3, *[pool] * 2, batch_norm, *[unary] * 2, of_two, conv_transpose, global_pool, other_norm, classifier, clip, view,
)  # fmt: skip
ON_ARRAYS: Sequence[Kind] = (
    unary, unary, clip, swish, of_positive, with_constant, with_constant, of_two, broadcast, concat, slice_, split, gather,
    transpose, reshape, axes, reduce, softmax, matmul, repeat,
)  # fmt: skip


def network(seed: int) -> Any:
    """A model of at least two to nine nodes."""
    make = Maker(seed)
    steps = int(make.random.integers(2, 10))
    while len(make.nodes) < steps:
        x = make.tensors[-1] if make.chance(0.75) else make.pick(make.tensors)
        kinds = ON_MAPS if len(x.dims) == 4 else ON_ROWS if len(x.dims) == 3 else ON_ARRAYS
        make.pick(kinds if x.dims[0] == 1 and make.chance(0.8) else ON_ARRAYS)(make, x)
    return make.model()
