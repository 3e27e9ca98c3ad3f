"""Random small Caffe networks, as texts and weights: deterministic per seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.verification.caffe_network import Evaluation, evaluate, input_dims, read_network
from cnn_convertor.verification.formulas import Blob
from examples import caffemodel

Dims: TypeAlias = tuple[int, ...]
LARGEST = 3000  # elements of a blob
INPUTS: list[Dims] = [(3, 7, 6), (4, 5, 8), (8, 6, 6), (1, 9, 5), (6, 1, 7), (12,)]


class Proposal(NamedTuple):
    """A layer on a blob. others: how many further bottoms it reads. weights: shapes."""

    type: str
    settings: str = ""
    weights: tuple[Dims, ...] = ()
    others: int = 0
    tops: int = 1


Propose: TypeAlias = Callable[[random.Random, Dims], Proposal]


def _pick(r: random.Random, *words: str) -> str:
    return " ".join(word for word in words if r.random() < 0.5)


def _window(r: random.Random, dims: Dims, *, convolution: bool) -> str:
    """Kernel, stride and pad, once or for each side."""
    if r.random() < 0.6:
        text = f"kernel_size: {(kernel := r.choice([1, 2, 3, 3, 4]))} stride: {r.choice([1, 1, 2, 3])} pad: {r.randrange(kernel)}"
    else:
        height, width = r.choice([1, 2, 3]), r.choice([1, 2, 3, 5])
        text = f"kernel_h: {height} kernel_w: {width} pad_h: {r.randrange(height)} pad_w: {r.randrange(width)}"
        text += f" stride_h: {r.choice([1, 2])} stride_w: {r.choice([1, 2, 3])}"
    return text + (f" dilation: {r.choice([1, 1, 2])}" if convolution else "")


def _conv(r: random.Random, dims: Dims) -> Proposal:
    channels = dims[1]
    type = r.choice(["Convolution", "Convolution", "Deconvolution", "DepthwiseConvolution"])
    group = (
        channels if type == "DepthwiseConvolution" else r.choice([d for d in (1, 1, 2, channels) if channels % d == 0])
    )
    count = group * r.choice([1, 2, 3])
    text = _window(r, dims, convolution=True)
    part = dict(zip(text.replace(":", "").split()[::2], text.replace(":", "").split()[1::2], strict=True))
    kernel = (
        int(part.get("kernel_size", part.get("kernel_h", 1))),
        int(part.get("kernel_size", part.get("kernel_w", 1))),
    )
    matrix = (channels, count // group) if type == "Deconvolution" else (count, channels // group)
    bias = r.random() < 0.7
    text += f" num_output: {count} group: {group} bias_term: {str(bias).lower()}"
    return Proposal(type, f"convolution_param {{ {text} }}", ((*matrix, *kernel), *([(count,)] if bias else [])))


def _pool(r: random.Random, dims: Dims) -> Proposal:
    method = r.choice(["MAX", "AVE"])
    if r.random() < 0.15:
        return Proposal("Pooling", f"pooling_param {{ pool: {method} global_pooling: true }}")
    rounding = _pick(r, r.choice(["round_mode: FLOOR", "ceil_mode: false"])) if r.random() < 0.4 else ""
    return Proposal("Pooling", f"pooling_param {{ pool: {method} {_window(r, dims, convolution=False)} {rounding} }}")


def _inner(r: random.Random, dims: Dims) -> Proposal:
    axis = r.choice([1, 1, 1, *range(1, len(dims)), -1])
    inputs, count = int(np.prod(dims[axis:])), r.choice([1, 5, 8])
    transpose = r.random() < 0.3
    shape = (inputs, count) if transpose else (count, inputs)
    return Proposal(
        "InnerProduct",
        f"inner_product_param {{ num_output: {count} axis: {axis} transpose: {str(transpose).lower()} }}",
        (shape, (count,)),
    )


def _norm(r: random.Random, dims: Dims) -> Proposal:
    count = dims[1]
    return r.choice(
        [
            Proposal("BatchNorm", "batch_norm_param { eps: 0.01 }", ((count,), (count,), (1,))),
            Proposal("BatchNorm", "batch_norm_param { use_global_stats: false eps: 0.1 }"),
            Proposal("BN", "bn_param { eps: 0.01 }", ((count,),) * 4),
            Proposal("Scale", "scale_param { bias_term: true }", ((count,), (count,))),
            Proposal("Scale", f"scale_param {{ axis: {len(dims) - 1} }}", ((dims[-1],),)),
            Proposal("Bias", "bias_param { axis: 1 num_axes: -1 }", (dims[1:],)),
            Proposal("PReLU", "", ((count,),)),
            Proposal("PReLU", "prelu_param { channel_shared: true }", ((1,),)),
            Proposal("Normalize", "norm_param { across_spatial: false channel_shared: false }", ((count,),)),
            Proposal("Normalize", "norm_param { eps: 0.1 }", ((1,),)),
        ]
    )


def _function(r: random.Random, dims: Dims) -> Proposal:
    return r.choice(
        [
            Proposal("ReLU", r.choice(["", "relu_param { negative_slope: 0.1 }"])),
            Proposal(r.choice(["Sigmoid", "TanH", "AbsVal", "BNLL", "ReLU6", "Split"])),
            Proposal("ELU", "elu_param { alpha: 0.7 }"),
            Proposal("Swish", "swish_param { beta: 1.5 }"),
            Proposal("Threshold", "threshold_param { threshold: 0.25 }"),
            Proposal("Clip", "clip_param { min: -0.5 max: 1 }"),
            Proposal("Power", f"power_param {{ {_pick(r, 'power: 2', 'scale: 0.5', 'shift: 1')} }}"),
            Proposal("Exp", f"exp_param {{ {_pick(r, 'base: 2', 'scale: 0.5', 'shift: 1')} }}"),
            Proposal("Log", f"log_param {{ {_pick(r, 'base: 2', 'scale: 0.5', 'shift: 9')} }}"),
            Proposal("Dropout", r.choice(["", "dropout_param { scale_train: false dropout_ratio: 0.3 }"])),
        ]
    )


def _reduce(r: random.Random, dims: Dims) -> Proposal:
    size = r.choice([1, 3, 5])
    return r.choice(
        [
            Proposal("LRN", f"lrn_param {{ local_size: {size} {_pick(r, 'alpha: 0.5', 'beta: 0.5', 'k: 2')} }}"),
            Proposal("LRN", f"lrn_param {{ local_size: {size} norm_region: WITHIN_CHANNEL {_pick(r, 'alpha: 0.5', 'k: 2')} }}"),
            Proposal("MVN", f"mvn_param {{ eps: 0.1 {_pick(r, 'across_channels: true', 'normalize_variance: false')} }}"),
            Proposal("Softmax", f"softmax_param {{ axis: {r.randrange(1, len(dims))} }}"),
            Proposal("Reduction", f"reduction_param {{ axis: {r.randrange(1, len(dims))} operation: {r.choice(['SUM', 'ASUM', 'SUMSQ', 'MEAN'])} coeff: 0.5 }}"),
            Proposal("ArgMax", f"argmax_param {{ {_pick(r, 'out_max_val: true', 'top_k: 2', 'axis: 1')} }}"),
            Proposal("SPP", f"spp_param {{ pyramid_height: {r.choice([1, 2])} pool: {r.choice(['MAX', 'AVE'])} }}"),
        ]
    )  # fmt: skip


def _move(r: random.Random, dims: Dims) -> Proposal:
    rank = len(dims)
    order = list(range(1, rank))
    r.shuffle(order)
    axis, halves = r.randrange(1, rank), r.choice([1, 2])
    group = r.choice([d for d in (1, 2, 3) if dims[1] % d == 0])
    return r.choice(
        [
            Proposal("Flatten", f"flatten_param {{ axis: {r.randrange(1, rank)} }}"),
            Proposal("Reshape", r.choice(["reshape_param { shape { dim: 0 dim: -1 } }", "reshape_param { shape { dim: 0 dim: 0 dim: -1 dim: 1 } }"])),
            Proposal("Permute", f"permute_param {{ {' '.join(f'order: {a}' for a in (0, *order))} }}"),
            Proposal("ShuffleChannel", f"shuffle_channel_param {{ group: {group} }}"),
            Proposal("Slice", f"slice_param {{ axis: {axis} }}", tops=halves) if dims[axis] % halves == 0
            else Proposal("Slice", f"slice_param {{ axis: {axis} slice_point: 1 }}", tops=2),
            Proposal("Tile", f"tile_param {{ axis: {axis} tiles: 2 }}"),
            Proposal("Pad", "pad_param { pad_u: 1 pad_r: 2 pad_value: 0.5 }"),
            Proposal("Upsample", "upsample_param { scale: 2 }"),
            Proposal("Interp", r.choice(["interp_param { zoom_factor: 2 }", "interp_param { height: 5 width: 4 }", "interp_param { shrink_factor: 2 }"])),
            Proposal("BilinearInterpolate", f"bilinear_interpolate_param {{ dst_h: 5 dst_w: 7 align_corners: {r.choice(['true', 'false'])} }}"),
        ]
    )  # fmt: skip


def _join(r: random.Random, dims: Dims) -> Proposal:
    return r.choice(
        [
            Proposal("Eltwise", f"eltwise_param {{ operation: {r.choice(['SUM', 'PROD', 'MAX'])} }}", others=1),
            Proposal("Eltwise", "eltwise_param { coeff: 2 coeff: -0.5 coeff: 1 }", others=2),
            Proposal("Concat", f"concat_param {{ axis: {r.randrange(1, len(dims))} }}", others=r.choice([0, 1, 1, 2])),
        ]
    )


PROPOSALS: list[Propose] = [
    _conv,
    _conv,
    _conv,
    _pool,
    _pool,
    _inner,
    _norm,
    _norm,
    _function,
    _function,
    _reduce,
    _move,
    _join,
]


class Made(NamedTuple):
    """A network in files, and its values. types: of its layers. inputs: name -> (1, ...)."""

    definition: Path
    weights: Path
    types: tuple[str, ...]
    inputs: dict[str, Blob]
    values: Evaluation


def network(seed: int, folder: Path, *, steps: int = 6) -> Made:
    """Up to `steps` layers. Layers that the formulas cannot compute on their bottoms are left out, and such as give no finite or
    too many numbers."""
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    dims = (1, *r.choice(INPUTS))
    text = f'input: "data" input_shape {{ {" ".join(f"dim: {n}" for n in dims)} }}\n'
    inputs: dict[str, Blob] = {"data": numbers.normal(size=dims)}
    shapes: dict[str, Dims] = {"data": dims}
    weights: list[tuple[str, str, list[NDArray[Any]]]] = [("none", "None", [np.zeros(1)])]
    types: list[str] = []
    found = Evaluation()
    definition, data = folder / "net.prototxt", folder / "net.caffemodel"
    for index in range(steps):
        bottom = r.choice([list(shapes)[-1]] * 2 + list(shapes))
        proposal = r.choice(PROPOSALS)(r, shapes[bottom]) if len(shapes[bottom]) > 1 else Proposal("AbsVal")
        same = [name for name in shapes if shapes[name] == shapes[bottom]]
        bottoms = [bottom, *(r.choice(same) for _ in range(proposal.others))]
        in_place = proposal.tops == 1 and proposal.type in ("ReLU", "Dropout", "Scale") and r.random() < 0.3
        tops = [bottom] if in_place and bottom != "data" else [f"b{index}_{top}" for top in range(proposal.tops)]
        ends = " ".join([*(f'bottom: "{name}"' for name in bottoms), *(f'top: "{name}"' for name in tops)])
        more = f'layer {{ name: "l{index}" type: "{proposal.type}" {ends} {proposal.settings} }}\n'
        made = [_weight(numbers, proposal.type, place, shape) for place, shape in enumerate(proposal.weights)]
        definition.write_text(text + more)
        caffemodel.write(data, [*weights, (f"l{index}", proposal.type, made)])
        result = evaluate(read_network(definition, data), inputs)
        new = [result.tops.get((f"l{index}", top)) for top in range(proposal.tops)]
        if all(
            v is not None and np.isfinite(v).all() and 0 < v.size <= LARGEST and float(np.abs(v).max()) < 1e4
            for v in new
        ):
            text += more
            weights.append((f"l{index}", proposal.type, made))
            types.append(proposal.type)
            shapes |= {name: v.shape for name, v in zip(tops, new, strict=True) if v is not None}
            found = result
    definition.write_text(text)
    caffemodel.write(data, weights)
    assert set(input_dims(read_network(definition, data))) == {"data"}
    return Made(definition, data, tuple(types), inputs, found)


def _weight(numbers: np.random.Generator, type: str, place: int, shape: Dims) -> NDArray[Any]:
    """Variances are above 0."""
    is_variance = (type, place) in {("BatchNorm", 1), ("BatchNorm", 2), ("BN", 3)}
    made = (
        numbers.uniform(0.5, 2, shape) if is_variance else numbers.normal(size=shape) / math.sqrt(math.prod(shape[1:]))
    )
    return made.astype(np.float32)
