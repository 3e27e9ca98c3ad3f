"""Every network that real Caffe ran for us converts and computes the same, or is refused for the reasons listed here."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.errors import UnsupportedError
from cnn_convertor.ir import ops
from examples.caffemodel import write
from frontends.loading import load_caffe
from reference import ir_reference

SHARED = Path(os.environ.get("CNN_CONVERTOR_SHARED", Path(__file__).resolve().parents[4] / "shared"))
CASES = sorted(path.parent for path in SHARED.glob("vectors/caffe*/*/case.json"))

FORM = "DV302"  # a form of a layer that cannot be converted
REFUSED: dict[str, list[str]] = {
    "maxpool_k1_s2_even": [FORM],  # its last windows see nothing: Caffe gives -FLT_MAX
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
                load_caffe(definition, data)
        assert [problem.code for problem in caught.value.problems] == REFUSED[folder.name]
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if folder.name == "train_val_rules" else "error")
        graph = load_caffe(definition, data)
    expected = {
        name if blob["n_tops"] > 1 else blob["layer"]: np.load(folder / blob["file"])
        for name, blob in case["outputs"].items()
        if name not in ("accuracy", "loss")
    }
    assert set(graph.outputs) == set(expected)
    inputs = {node.name: np.load(folder / case["inputs"][node.name]["file"]) for node in graph.inputs}
    results = ir_reference.run(graph, {name: as_map(x) for name, x in inputs.items()})
    for name, right in expected.items():
        ours = ir_reference.to_chw(results[name])
        if isinstance(graph[name].op, ops.DetectionOutput):
            found = right.shape[2]
            assert (ours[:, found:, 0] == -1).all(), "rows without a detection"
            ours = ours[:, :found]
        np.testing.assert_allclose(ours.reshape(right.shape), right, rtol=0, atol=1e-5 * np.abs(right).max())


def as_map(values: NDArray[Any]) -> NDArray[Any]:
    """Caffe's (1, C), (1, C, H) or (1, C, H, W) as a map."""
    channels, height, width = (*values.shape[1:], 1, 1)[:3]
    return values.reshape(channels, height, width).transpose(1, 2, 0)


def test_the_values_between_are_those_of_caffe_too(shared: Path) -> None:
    folder = shared / "vectors" / "caffe" / "caffemodel_shuffled_extra"
    graph = load_caffe(folder / "deploy.prototxt", folder / "weights.caffemodel")
    results = ir_reference.run(graph, {"data": ir_reference.from_nchw(np.load(folder / "input.npy"))})
    for stage, name in enumerate(("c", "bn", "sc"), start=1):
        right = np.load(folder / f"stage_0{stage}_{name}__c.npy")[0]
        np.testing.assert_allclose(ir_reference.to_chw(results[name]), right, atol=1e-4)
