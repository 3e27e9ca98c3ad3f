"""The generated C++ on the emulated device gives what real Caffe gave (vectors made with BVLC Caffe)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.convert import convert_for_trial
from cnn_convertor.errors import ModelError, UnsupportedError
from cnn_convertor.frontends.caffe import writing
from cnn_convertor.ir.ops import Order
from cnn_convertor.verify import Network, prepare
from cnn_convertor.verify.compare import compare
from cnn_convertor.verify.frameworks import as_maps, as_output
from verify.trials import config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("compiler"),
    pytest.mark.filterwarnings("ignore::cnn_convertor.errors.ConvertorWarning"),
]

AT_LEAST_DB, AT_LEAST_COSINE = 45.0, 0.9999
CONVERTED = 70  # cases, at least


def cases(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/case.json"))


def prepared(case: Path, facts: Any, folder: Path, *, transposed: bool) -> Network | None:
    """The case's network, ready to run; None when it is refused."""
    definition, data = (
        case / facts.get("prototxt", "deploy.prototxt"),
        case / facts.get("caffemodel", "weights.caffemodel"),
    )
    if not data.exists():  # a network without weights
        folder.mkdir(parents=True, exist_ok=True)
        data = folder / "empty.caffemodel"
        writing.write(data, [("nothing", "Input", [])])
    try:
        return prepare(config(definition, data, transpose_weight=transposed), convert_for_trial, folder / "network")
    except (ModelError, UnsupportedError):
        return None


def check(case: Path, folder: Path, *, transposed: bool) -> bool:
    """Run a case; whether it converts. Fails when an output is not what Caffe gave."""
    facts = json.loads((case / "case.json").read_text())
    network = prepared(case, facts, folder, transposed=transposed)
    if network is None:
        return False
    files = {name: case / told["file"] for name, told in facts["inputs"].items()}
    given = {node.name: np.load(files.get(node.name, next(iter(files.values())))) for node in network.graph.inputs}
    inputs = {name: maps for name, values in given.items() if (maps := as_maps(values, Order.CHW)) is not None}
    outputs = {told["layer"]: np.load(case / told["file"]) for told in facts["outputs"].values()}
    for output, values in zip(network.graph.outputs, network.run(inputs).outputs, strict=True):
        where = network.graph[output].where
        assert where is not None
        expected = as_output(outputs[where.layer], network.graph.shape(output), Order.CHW)
        result = compare(where.layer, values, expected)
        assert result.sqnr >= AT_LEAST_DB and result.cosine >= AT_LEAST_COSINE, f"{case.name}: {result}"
        if all(np.all(v % 1 == 0) for v in (*given.values(), expected)):
            assert result.max_error == 0, f"{case.name}: whole numbers are exact: {result}"
    return True


@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_single_layers(transposed: bool, shared: Path, tmp_path: Path) -> None:
    every = cases(shared / "vectors" / "caffe")
    converted = [case for case in every if check(case, tmp_path / case.name, transposed=transposed)]
    assert len(converted) >= CONVERTED or not every


@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_whole_networks(transposed: bool, shared: Path, tmp_path: Path) -> None:
    every = cases(shared / "vectors" / "caffe_models")
    converted = {case.name for case in every if check(case, tmp_path / case.name, transposed=transposed)}
    assert converted >= {"lenet_mnist", "mtcnn_det1", "mtcnn_det2", "mtcnn_det3", "squeezenet_dc", "trained_caffe_elu"}
