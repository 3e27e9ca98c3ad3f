"""Every network that real Caffe ran for us converts and computes the same, or is refused for the reasons listed here."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ir_reference
from cnn_convertor.errors import UnsupportedError
from cnn_convertor.frontends import caffe
from cnn_convertor.frontends.caffe.writing import write

SHARED = Path(os.environ.get("CNN_CONVERTOR_SHARED", Path(__file__).resolve().parents[4] / "shared"))
CASES = sorted(path.parent for path in SHARED.glob("vectors/caffe*/*/case.json"))

UNKNOWN, FORM = "DV301", "DV302"  # a layer type that cannot be converted; a form of a layer that can
REFUSED: dict[str, list[str]] = {
    "absval": [UNKNOWN],
    "alias_axpy_senet": [UNKNOWN],
    "alias_clip_bvlc_master": [UNKNOWN],
    "alias_interp_deeplab": [UNKNOWN],
    "alias_interp_zoom": [UNKNOWN],
    "alias_swish_bvlc_master": [UNKNOWN],
    "argmax_axis1_map": [UNKNOWN],
    "argmax_flat": [UNKNOWN],
    "bias": [UNKNOWN],
    "bn_use_global_stats_false": [FORM],
    "bnll": [UNKNOWN],
    "concat_axis2": [FORM],
    "crop_offset1_default": [UNKNOWN],
    "crop_offset2": [UNKNOWN],
    "detection_output": [FORM, UNKNOWN],
    "eltwise_max_3": [FORM],
    "eltwise_prod": [FORM],
    "elu_05": [FORM],
    "exp_base2": [UNKNOWN],
    "exp_default": [UNKNOWN],
    "flatten_axis2": [FORM],
    "flatten_end_axis": [FORM],
    "ip_axis2": [FORM],
    "log_base10": [UNKNOWN],
    "lrn_across": [UNKNOWN],
    "lrn_across_k2": [UNKNOWN],
    "lrn_within": [UNKNOWN],
    "maxpool_k1_s2_even": [FORM],
    "mvn": [UNKNOWN],
    "mvn_across_novar": [UNKNOWN],
    "normalize_all_shared": [UNKNOWN],
    "normalize_channels": [UNKNOWN],
    "pad_asym": [UNKNOWN],
    "permute_0231": [UNKNOWN],
    "permute_0312_partial": [UNKNOWN],
    "power": [FORM],
    "power_neg1": [FORM],
    "priorbox_basic": [UNKNOWN],
    "priorbox_step_clip": [UNKNOWN],
    "reduction_mean_axis2": [UNKNOWN],
    "reduction_sumsq_coeff": [UNKNOWN],
    "reshape_axis_num_axes": [FORM],
    "resize_bilinear_align": [UNKNOWN],
    "resize_bilinear_half": [UNKNOWN],
    "scale_axis_num_axes": [FORM],
    "scale_two_bottoms_axis0": [FORM],
    "slice_dim_legacy": [UNKNOWN],
    "slice_equal_axis2": [UNKNOWN],
    "slice_points": [UNKNOWN],
    "split_explicit": [UNKNOWN],
    "threshold": [UNKNOWN],
    "v1_layers": [UNKNOWN],
    "ultraface_slim": [*[UNKNOWN, FORM] * 8, FORM],
}


def test_the_vectors_are_there() -> None:
    if not CASES:
        pytest.skip(f"no test vectors in {SHARED}")
    assert {case.name for case in CASES} >= REFUSED.keys()


def _files(folder: Path, case: dict[str, Any], spare: Path) -> tuple[Path, Path]:
    if "prototxt" in case:
        return folder / case["prototxt"], folder / case["caffemodel"]
    if case["has_weights"]:
        return folder / "deploy.prototxt", folder / "weights.caffemodel"
    write(spare / "none.caffemodel", [("none", "None", ())])
    return folder / "deploy.prototxt", spare / "none.caffemodel"


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_it_computes_what_caffe_computes_or_is_refused(folder: Path, tmp_path: Path) -> None:
    case = json.loads((folder / "case.json").read_text())
    definition, data = _files(folder, case, tmp_path)
    if folder.name in REFUSED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(UnsupportedError) as caught:
                caffe.load(definition, data)
        assert [problem.code for problem in caught.value.problems] == REFUSED[folder.name]
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if folder.name == "train_val_rules" else "error")
        graph = caffe.load(definition, data)
    expected = {blob["layer"]: blob for name, blob in case["outputs"].items() if name not in ("accuracy", "loss")}
    assert set(graph.outputs) == set(expected)
    inputs = {node.name: np.load(folder / case["inputs"][node.name]["file"]) for node in graph.inputs}
    results = ir_reference.run(graph, {name: ir_reference.from_nchw(x) for name, x in inputs.items()}, dtype=np.float32)
    for name in graph.outputs:
        right = np.load(folder / expected[name]["file"])
        ours = ir_reference.to_chw(results[name]).reshape(right.shape)
        np.testing.assert_allclose(ours, right, rtol=0, atol=1e-4 * np.abs(right).max())


def test_the_values_between_are_those_of_caffe_too(shared: Path) -> None:
    folder = shared / "vectors" / "caffe" / "caffemodel_shuffled_extra"
    graph = caffe.load(folder / "deploy.prototxt", folder / "weights.caffemodel")
    results = ir_reference.run(graph, {"data": ir_reference.from_nchw(np.load(folder / "input.npy"))})
    for stage, name in enumerate(("c", "bn", "sc"), start=1):
        right = np.load(folder / f"stage_0{stage}_{name}__c.npy")[0]
        np.testing.assert_allclose(ir_reference.to_chw(results[name]), right, atol=1e-4)
