"""Random networks with attention, as the exporters of PyTorch write it: deterministic for a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontends.onnx.random_maker import Maker, Tensor

LARGEST = 1 << 18  # elements of an array
# Of each node that a block needs, there must be one: a block whose sizes do not fit is a mistake of this file.


def node(make: Maker, type: str, *inputs: Tensor | str, **attributes: Any) -> Tensor:
    result = make.add(type, *(x if isinstance(x, str) else x.name for x in inputs), **attributes)
    assert result is not None, (type, inputs, attributes)
    return result


def linear(make: Maker, x: Tensor, outputs: int) -> Tensor:
    """A linear layer on the last axis; its bias comes first or second in the sum."""
    product = node(make, "MatMul", x, make.normal(x.dims[-1], outputs, by=math.sqrt(x.dims[-1])))
    bias = make.normal(outputs)
    return node(make, "Add", *((product, bias) if make.chance(0.5) else (bias, product)))


def pointwise(make: Maker, x: Tensor, outputs: int) -> Tensor:
    return node(make, "Conv", x, make.normal(outputs, x.dims[1], 1, 1, by=math.sqrt(x.dims[1])), make.normal(outputs))


def reshaped(make: Maker, x: Tensor, *dims: int) -> Tensor:
    return node(make, "Reshape", x, make.integers(*dims))


def turned(make: Maker, x: Tensor, *axes: int) -> Tensor:
    return node(make, "Transpose", x, perm=axes)


def layer_norm(make: Maker, x: Tensor) -> Tensor:
    """As one node, or as the nodes that older exporters write."""
    channels = x.dims[-1]
    scale, shift = make.positive(channels), make.normal(channels)
    if make.has("LayerNormalization") and make.chance(0.6):
        return node(make, "LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)
    mean = average(make, x)
    center = node(make, "Sub", x, mean)
    variance = average(make, node(make, "Pow", center, make.constant(np.float32(2))))
    deviation = node(make, "Sqrt", node(make, "Add", variance, make.constant(np.float32(1e-5))))
    return node(make, "Add", node(make, "Mul", node(make, "Div", center, deviation), scale), shift)


def average(make: Maker, x: Tensor) -> Tensor:
    if make.opset >= 18:
        return node(make, "ReduceMean", x, make.integers(-1), keepdims=1)
    return node(make, "ReduceMean", x, axes=[len(x.dims) - 1], keepdims=1)


def gelu(make: Maker, x: Tensor) -> Tensor:
    if make.has("Gelu"):
        return node(make, "Gelu", x, approximate=make.pick(("none", "tanh")))
    if not make.has("Erf"):
        return node(make, "Relu", x)
    error = node(make, "Erf", node(make, "Div", x, make.constant(np.float32(math.sqrt(2)))))
    product = node(make, "Mul", x, node(make, "Add", error, make.constant(np.float32(1))))
    return node(make, "Mul", product, make.constant(np.float32(0.5)))


def tokens(make: Maker) -> Tensor:
    """The network's input as a sequence (1, N, C), often with a class token or trained positions."""
    (image,) = make.inputs[:1]
    count, heads = math.prod(image.dims[2:]), make.pick((1, 2, 3, 4))
    width = heads * make.pick((4, 5, 8))
    x = turned(make, reshaped(make, image, 1, image.dims[1], count), 0, 2, 1)
    x = linear(make, x, width)
    if make.chance(0.4):
        x = node(make, "Concat", make.constant(np.ones((1, 1, width), np.float32)), x, axis=1)
    return node(make, "Add", x, make.normal(1, x.dims[1], width)) if make.chance(0.5) else x


def parts(make: Maker, x: Tensor, axis: int, count: int) -> list[Tensor]:
    """unbind: by Gather, or by Split and Squeeze."""
    if make.chance(0.5):
        return [node(make, "Gather", x, make.constant(np.array(at, np.int64)), axis=axis) for at in range(count)]
    settings = {"num_outputs": count} if make.opset >= 18 else {}
    pieces = make.add_all("Split", [x.name], count, axis=axis, **settings)
    assert pieces
    return [
        node(make, "Squeeze", x, make.integers(axis)) if make.opset >= 13 else node(make, "Squeeze", x, axes=[axis])
        for x in pieces
    ]


def number(make: Maker, value: float) -> str:
    return make.constant(np.float32(value))


def scaled_product(make: Maker, q: Tensor, k: Tensor, v: Tensor, axes: Sequence[int]) -> Tensor:
    """softmax(q k') v; k is transposed with these axes. Scaled at one of the places that exporters choose, or masked."""
    depth, place = q.dims[-1], make.pick(("q", "both", "scores", "divided", "none"))
    if place in ("q", "both"):
        root = depth**-0.5 if place == "q" else depth**-0.25
        q = node(make, "Mul", q, number(make, root))
        k = node(make, "Mul", k, number(make, root)) if place == "both" and make.chance(0.5) else k
    if make.opset >= 12 and len(q.dims) == 4 and axes == (0, 1, 3, 2) and make.chance(0.2):
        scores = node(make, "Einsum", q, k, equation="b h i d, b h j d -> b h i j")
        return node(make, "Einsum", node(make, "Softmax", scores, axis=3), v, equation="bhij,bhjd->bhid")
    if make.has("Attention") and len(q.dims) == 4 and axes == (0, 1, 3, 2) and make.chance(0.5):
        extra = [mask(make, (*q.dims[:3], k.dims[2]))] if make.chance(0.5) else []
        settings = {"softcap": 2.0} if make.chance(0.3) else {}
        return node(make, "Attention", q, k, v, *extra, is_causal=int(not extra and make.chance(0.3)), **settings)
    k = turned(make, k, *axes)
    if place == "both" and make.chance(0.5):
        k = node(make, "Mul", k, number(make, depth**-0.25))
    scores = node(make, "MatMul", q, k)
    if place == "scores":
        scores = node(make, "Mul", scores, number(make, depth**-0.5))
    if place == "divided":
        scores = node(make, "Div", scores, number(make, math.sqrt(depth)))
    if make.chance(0.4):
        scores = node(make, "Add", scores, mask(make, scores.dims))
    # Before operator set 13, Softmax takes all axes from its own on together: only the last axis means the same.
    gate = node(make, "Softmax", scores, axis=-1 if make.opset >= 11 and make.chance(0.5) else len(scores.dims) - 1)
    return node(make, "MatMul", gate, v)


def mask(make: Maker, dims: Sequence[int]) -> str:
    """Trained position biases, the same for all heads or not, or a triangle that hides what comes later."""
    rows, columns = dims[-2:]
    match int(make.random.integers(3)):
        case 0:
            return make.normal(*dims)
        case 1:
            return make.normal(rows, columns)
        case _:
            hidden = np.triu(np.ones((rows, columns), np.float32), 1)
            return make.constant(np.where(hidden > 0, np.float32(make.pick((-1e4, -3.4e38, -np.inf))), np.float32(0)))


# --- blocks --------------------------------------------------------------------------------------------------------------


def heads_of(make: Maker, width: int) -> int:
    return int(make.pick([heads for heads in (1, 2, 3, 4) if width % heads == 0]))


def joint_attention(make: Maker, x: Tensor) -> Tensor:
    """One linear layer for q, k and v, through an array of five axes (timm)."""
    _, count, width = x.dims
    heads = heads_of(make, width)
    qkv = reshaped(make, linear(make, x, 3 * width), 1, count, 3, heads, width // heads)
    q, k, v = parts(make, turned(make, qkv, 2, 0, 3, 1, 4), 0, 3)
    return joined(make, scaled_product(make, q, k, v, (0, 1, 3, 2)), width)


def separate_attention(make: Maker, x: Tensor) -> Tensor:
    """A linear layer for each of q, k and v; k may go to its final axes at once."""
    _, count, width = x.dims
    heads = heads_of(make, width)
    if make.has("Attention") and make.chance(0.5):  # the node itself makes heads; some may share keys and values
        shared = int(make.pick([n for n in (1, 2, 3, 4) if heads % n == 0]))
        q, k, v = (linear(make, x, n * width // heads) for n in (heads, shared, shared))
        return linear(make, node(make, "Attention", q, k, v, q_num_heads=heads, kv_num_heads=shared), width)
    q, k, v = (reshaped(make, linear(make, x, width), 1, count, heads, width // heads) for _ in range(3))
    q, v = (turned(make, each, 0, 2, 1, 3) for each in (q, v))
    if make.chance(0.5):
        return joined(make, scaled_product(make, q, k, v, (0, 2, 3, 1)), width)
    return joined(make, scaled_product(make, q, turned(make, k, 0, 2, 1, 3), v, (0, 1, 3, 2)), width)


def batch_second(make: Maker, x: Tensor) -> Tensor:
    """torch.nn.MultiheadAttention: (N, 1, C), the heads in the place of the batch."""
    _, count, width = x.dims
    heads = heads_of(make, width)
    x = turned(make, x, 1, 0, 2)
    q, k, v = (
        turned(make, reshaped(make, linear(make, x, width), count, heads, width // heads), 1, 0, 2) for _ in range(3)
    )
    result = turned(make, scaled_product(make, q, k, v, (0, 2, 1)), 1, 0, 2)
    result = linear(make, reshaped(make, result, count, width), width)
    return turned(make, reshaped(make, result, count, 1, width), 1, 0, 2)


def channel_attention(make: Maker, x: Tensor) -> Tensor:
    """Products over the tokens: each channel looks at the channels of its head (XCiT)."""
    _, count, width = x.dims
    heads = heads_of(make, width)
    q, k, v = (
        turned(make, reshaped(make, linear(make, x, width), 1, count, heads, width // heads), 0, 2, 3, 1)
        for _ in range(3)
    )
    result = turned(make, scaled_product(make, q, k, v, (0, 1, 3, 2)), 0, 3, 1, 2)
    return reshaped(make, result, 1, count, width)


def joined(make: Maker, x: Tensor, width: int) -> Tensor:
    """(1, heads, N, depth) as (1, N, C), and the last linear layer."""
    return linear(make, reshaped(make, turned(make, x, 0, 2, 1, 3), 1, x.dims[2], width), width)


def transformer(make: Maker) -> Tensor:
    x = tokens(make)
    attention = make.pick((joint_attention, separate_attention, batch_second, channel_attention))
    x = node(make, "Add", x, attention(make, layer_norm(make, x) if make.chance(0.7) else x))
    if make.chance(0.5):
        width = x.dims[-1]
        x = node(make, "Add", x, linear(make, gelu(make, linear(make, layer_norm(make, x), 2 * width)), width))
    if make.chance(0.3):  # back to a map
        height, columns = make.inputs[0].dims[2:] if len(make.inputs[0].dims) == 4 else (make.inputs[0].dims[2], 1)
        if x.dims[1] == height * columns:
            x = reshaped(make, turned(make, x, 0, 2, 1), 1, x.dims[2], height, columns)
    return x


def convolutional(make: Maker) -> Tensor:
    """q, k and v from one convolution, the positions in the last axis (YOLO)."""
    image = as_image(make)
    _, _, height, columns = image.dims
    heads, key, depth = make.pick((1, 2, 4)), make.pick((2, 4, 8)), make.pick((4, 8))
    qkv = reshaped(make, pointwise(make, image, heads * (2 * key + depth)), 1, heads, 2 * key + depth, height * columns)
    sizes = [key, key, depth]
    if make.opset >= 13:
        pieces = make.add_all("Split", [qkv.name, make.integers(*sizes)], 3, axis=2)
    else:
        pieces = make.add_all("Split", [qkv.name], 3, axis=2, split=sizes)
    q, k, v = pieces
    scores = node(make, "MatMul", turned(make, q, 0, 1, 3, 2), k)
    gate = node(make, "Softmax", node(make, "Mul", scores, number(make, key**-0.5)), axis=3)
    result = node(make, "MatMul", v, turned(make, gate, 0, 1, 3, 2))
    result = reshaped(make, result, 1, heads * depth, height, columns)
    if make.chance(0.5):
        result = node(make, "Add", result, pointwise(make, reshaped(make, v, *result.dims), heads * depth))
    return pointwise(make, result, 8)


def non_local(make: Maker) -> Tensor:
    """Arrays of three axes; the softmax may be along the middle one."""
    image = as_image(make)
    _, channels, height, columns = image.dims
    width = make.pick((2, 4, 8))
    q, k, v = (reshaped(make, pointwise(make, image, width), 1, width, height * columns) for _ in range(3))
    scores = node(make, "MatMul", turned(make, q, 0, 2, 1), k)
    if make.opset >= 13 and make.chance(0.5):
        gate = node(make, "Softmax", scores, axis=1)
        result = node(make, "MatMul", v, gate)
    else:
        gate = node(make, "Softmax", scores, axis=2)
        result = turned(make, node(make, "MatMul", gate, turned(make, v, 0, 2, 1)), 0, 2, 1)
    result = pointwise(make, reshaped(make, result, 1, width, height, columns), channels)
    return node(make, "Add", image, result)


def windows(make: Maker) -> Tensor:
    """Attention within windows of 2x2 pixels, through arrays of six axes (Swin)."""
    (image,) = make.inputs[:1]
    channels, size = image.dims[1], 2
    rows, columns = (n // size for n in (*image.dims[2:], 2)[:2])
    if len(image.dims) != 4:
        return transformer(make)
    x = node(make, "Conv", image, make.normal(8, channels, 1, 1), kernel_shape=[1, 1])
    if make.opset < 10:
        return transformer(make)
    x = node(make, "Slice", x, make.integers(0, 0), make.integers(rows * size, columns * size), make.integers(2, 3))
    x = turned(make, x, 0, 2, 3, 1)
    x = turned(make, reshaped(make, x, 1, rows, size, columns, size, 8), 0, 1, 3, 2, 4, 5)
    x = reshaped(make, x, rows * columns, size * size, 8)
    qkv = reshaped(make, linear(make, x, 24), rows * columns, size * size, 3, 2, 4)
    q, k, v = parts(make, turned(make, qkv, 2, 0, 3, 1, 4), 0, 3)
    result = turned(make, scaled_product(make, q, k, v, (0, 1, 3, 2)), 0, 2, 1, 3)
    result = linear(make, reshaped(make, result, rows * columns, size * size, 8), 8)
    result = turned(make, reshaped(make, result, 1, rows, columns, size, size, 8), 0, 1, 3, 2, 4, 5)
    return turned(make, reshaped(make, result, 1, rows * size, columns * size, 8), 0, 3, 1, 2)


def products(make: Maker) -> Tensor:
    """A product of any two arrays that fit, with batches that repeat, or of a vector, or with a constant."""
    (image,) = make.inputs[:1]
    count = math.prod(image.dims)
    rows = make.pick([n for n in (1, 2, 3, 4, 6, 8, 12) if count % n == 0])
    rest = count // rows
    batch = make.pick([n for n in (1, 2, 3, 4) if rest % n == 0])
    x = reshaped(make, image, *make.pick(((batch, rows, rest // batch), (1, batch, rows, rest // batch))))
    square = node(make, "MatMul", x, turned(make, x, *range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2))
    match int(make.random.integers(8)):
        case 6 | 7:
            return general_product(make, reshaped(make, image, rows, rest))
        case 0:
            return node(make, "MatMul", make.normal(*make.pick(((3, rows), (batch, 3, rows)))), square)
        case 1:
            return node(make, "MatMul", square, make.normal(batch, rows, 3))
        case 2:
            return node(make, "MatMul", square, make.normal(rows))
        case 3:
            return node(make, "MatMul", make.normal(rows), square)
        case 4:
            first = reshaped(make, image, -1) if make.chance(0.5) else reshaped(make, image, 1, -1)
            return node(make, "MatMul", first, reshaped(make, image, -1, 1))
        case _:
            return node(make, "MatMul", square, node(make, "Relu", square))


def general_product(make: Maker, x: Tensor) -> Tensor:
    """alpha * A B + beta * C of computed matrices."""
    rows, columns = x.dims
    settings = {"alpha": make.pick((0.5, 1.0)), "beta": make.pick((2.0, 1.0))}
    if make.chance(0.3):
        return node(make, "Gemm", make.normal(3, rows), x, make.normal(columns), **settings)
    square = node(make, "Gemm", x, x, make.normal(rows, rows), transB=1, **settings)
    if make.chance(0.5):
        return (
            node(make, "Gemm", make.normal(rows, 3), square, transA=1, transB=1, alpha=0.5)
            if make.opset >= 11
            else square
        )
    return node(make, "Gemm", square, square, node(make, "Relu", square), transA=1, **settings)


def as_image(make: Maker) -> Tensor:
    (image,) = make.inputs[:1]
    return image if len(image.dims) == 4 else reshaped(make, image, *image.dims, 1)


BLOCKS: tuple[Callable[[Maker], Tensor], ...] = (
    transformer, transformer, transformer, convolutional, non_local, windows, products,
)  # fmt: skip


def network(seed: int) -> Any:
    """A network of one block."""
    make = Maker(seed, LARGEST)
    make.inputs = make.inputs[:1]
    make.tensors = list(make.inputs)
    make.pick(BLOCKS)(make)
    return make.model()
