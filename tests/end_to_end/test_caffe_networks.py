"""Any chain of Caffe's layers, on blobs of any axes, becomes a program that computes what the layers mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from cnn_convertor.errors import ConvertorError
from cnn_convertor.pipeline import build
from frontends.loading import load_caffe
from reference import ir_reference, program_reference
from verification.trials import config

# Layers without weights: (type, settings); x is read, and z as well where two are.
LAYERS = [
    "ReLU", "Sigmoid", "AbsVal", "BNLL", "Split", "Softmax", "Flatten", "LRN", "MVN", "TanH",
    "ReLU relu_param { negative_slope: 0.1 }",
    "Power power_param { scale: 0.5 shift: -0.25 }",
    "Power power_param { power: 2 }",
    "Threshold threshold_param { threshold: 0.2 }",
    "Clip clip_param { min: -0.5 max: 0.75 }",
    "Softmax softmax_param { axis: -1 }",
    "Permute permute_param { order: [0, 2, 3, 1] }",
    "Permute permute_param { order: [0, 2, 1] }",
    "Flatten flatten_param { axis: 2 }",
    "Flatten flatten_param { axis: 1 end_axis: 2 }",
    "Reshape reshape_param { shape { dim: [0, -1, 2] } }",
    "Reshape reshape_param { shape { dim: [0, 2, -1] } axis: 1 num_axes: 1 }",
    "Reshape reshape_param { shape { dim: [0, 8, -1, 2] } }",
    "Reshape reshape_param { shape { dim: [0, -1] } }",
    "Reshape reshape_param { shape { dim: [-1, 4] } }",
    "Slice slice_param { axis: 1 slice_point: 1 }",
    "Slice slice_param { axis: 1 slice_point: 8 }",
    "Slice slice_param { axis: 2 }",
    "Tile tile_param { axis: 1 tiles: 2 }",
    "Tile tile_param { axis: 2 tiles: 2 }",
    "ArgMax argmax_param { axis: 1 out_max_val: true }",
    "Reduction reduction_param { axis: 2 operation: MEAN }",
    "Pooling pooling_param { kernel_size: 2 stride: 2 }",
    "Pooling pooling_param { pool: AVE kernel_size: 3 pad: 1 stride: 2 }",
    "Pooling pooling_param { pool: AVE global_pooling: true }",
    "Upsample upsample_param { scale: 2 }",
    "Interp interp_param { height: 5 width: 7 }",
    "Pad pad_param { pad_u: 1 pad_r: 2 pad_value: 0.5 }",
    "ShuffleChannel shuffle_channel_param { group: 2 }",
    "LRN lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 }",
    "BatchNorm batch_norm_param { use_global_stats: false eps: 0.1 }",
    "+Eltwise", "+Eltwise eltwise_param { operation: PROD }", "+Eltwise eltwise_param { operation: MAX }",
    "+Concat", "+Concat concat_param { axis: 2 }", "+Bias bias_param { axis: 0 }", "+Scale scale_param { axis: 0 }",
]  # fmt: skip
SHAPES = ["1 8 6 4", "1 12 4 4", "1 16 1 1", "1 24", "1 6 4", "1 1 4 6"]


@st.composite
def networks(draw: st.DrawFn) -> str:
    dims = " ".join(f"dim: {dim}" for dim in draw(st.sampled_from(SHAPES)).split())
    text = f"input: 'x' input_shape {{ {dims} }}\n"
    blobs = ["x"]
    for index, chosen in enumerate(draw(st.lists(st.sampled_from(LAYERS), min_size=1, max_size=6))):
        type, _, settings = chosen.partition(" ")
        bottoms = [draw(st.sampled_from(blobs[-2:]))]
        bottoms += [draw(st.sampled_from(blobs))] if type.startswith("+") else []
        tops = [f"b{index}", f"c{index}"] if type == "Slice" else [f"b{index}"]
        ends = [f"bottom: '{name}'" for name in bottoms] + [f"top: '{name}'" for name in tops]
        text += f"layer {{ name: 'l{index}' type: '{type.removeprefix('+')}' {' '.join(ends)} {settings} }}\n"
        blobs += tops
    return text


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning")
@settings(suppress_health_check=list(HealthCheck), max_examples=150)
@given(definition=networks(), transposed=st.booleans())
def test_a_chain_of_layers_computes_what_they_mean(definition: str, transposed: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(definition)
    try:
        graph = load_caffe(path, path)
    except ConvertorError:
        reject()  # the layers do not fit together
    program = build(graph, config(path, transpose_weight=transposed))
    (source,) = graph.inputs
    given = {source.name: np.random.default_rng(0).normal(size=graph.shape(source.name))}
    values = ir_reference.run(graph, given)
    for name, got in zip(graph.outputs, program_reference.run(program, given), strict=True):
        expected = program_reference.as_output(values[name], graph[name].op, transposed=transposed)
        largest = max(1e-3, float(np.abs(expected).max()))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * largest, err_msg=definition)
