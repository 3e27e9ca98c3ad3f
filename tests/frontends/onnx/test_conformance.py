"""The operator tests of the onnx package, as far as their nodes are converted: nothing is computed otherwise than they say."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.onnx import importer
from cnn_convertor.frontends.onnx.operators import onnx as registry
from frontends.onnx.networks import load, numpy_helper, onnx, results_of, to_map

pytestmark = pytest.mark.slow

PASSED, OTHERWISE = "passed", "computed otherwise"
# Results of 8 bits of mantissa, which the network computes more exactly.
INEXACT = frozenset({"test_celu_bfloat16"})


def cases() -> Iterator[Any]:
    """Tests of nodes whose types are all converted."""
    from onnx.backend.test.loader import load_model_tests

    for case in load_model_tests(kind="node"):
        if case.model is None:
            continue
        types = {node.op_type for node in case.model.graph.node}
        arrays = case.data_sets and all(isinstance(x, np.ndarray) for part in case.data_sets[0] for x in part)
        if arrays and types <= {*registry}:
            yield case


def with_constants(case: Any, kept: int) -> Any:
    """The model, in which all inputs but the first ones are constants, as in a trained network."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for info, values in list(zip(model.graph.input, case.data_sets[0][0], strict=False))[kept:]:
        model.graph.initializer.append(numpy_helper.from_array(values, info.name))
    return model


def outcome(case: Any, kept: int, path: Path) -> str:
    """PASSED, OTHERWISE, or the codes with which the model is refused."""
    onnx.save(with_constants(case, kept), path)
    inputs, outputs = case.data_sets[0]
    try:
        graph = load(path)
    except ConvertorError as error:
        return ", ".join(sorted({problem.code for problem in error.problems}))
    given = {node.name: x for node, x in zip(graph.inputs, inputs, strict=False)}
    with np.errstate(all="ignore"):
        found = results_of(graph, given)
    wanted = map(to_map, outputs)
    same = (
        f.shape == w.shape and np.allclose(f, w, rtol=1e-3, atol=1e-4, equal_nan=True)
        for f, w in zip(found, wanted, strict=False)
    )
    return PASSED if all(same) else OTHERWISE


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    """Operator type -> test -> outcome; refused only if it is so with constants and with inputs."""
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    found: dict[str, dict[str, str]] = defaultdict(dict)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(importer, "MAP_AXES", 99)  # batches of several and more axes, so that more tests apply
        patch.setattr(importer, "AXES", range(9))
        for case in cases():
            each = [outcome(case, kept, path) for kept in (1, len(case.data_sets[0][0]))]
            worst = next((o for o in (OTHERWISE, PASSED) if o in each), each[0])
            found[case.model.graph.node[-1].op_type][case.name] = worst
    return found


def test_no_operator_is_computed_otherwise(outcomes: Mapping[str, Mapping[str, str]]) -> None:
    wrong = {name for tests in outcomes.values() for name, result in tests.items() if result == OTHERWISE}
    assert wrong <= INEXACT


def test_most_tests_pass(outcomes: Mapping[str, Mapping[str, str]]) -> None:
    results = [result for tests in outcomes.values() for result in tests.values()]
    assert results.count(PASSED) >= 340


def test_the_page_is_fresh(outcomes: Mapping[str, Mapping[str, str]], golden: Callable[[str, str], None]) -> None:
    golden("../../docs/onnx.md", "\n".join(page(outcomes)) + "\n")


def page(outcomes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield "# ONNX operators"
    yield ""
    yield "This page is made by `tests/frontends/onnx/test_conformance.py`, which converts the operator tests of the onnx package and"
    yield "compares the graph's results with theirs. A refused test has a form of the operator that is not converted;"
    yield "[layers.md](layers.md) has the limits, and [messages.md](messages.md) the codes. Types without tests are not listed."
    yield ""
    yield "| operator | passed | refused |"
    yield "|---|---|---|"
    for type in sorted(outcomes):
        results = list(outcomes[type].values())
        codes = sorted({result for result in results if result not in (PASSED, OTHERWISE)})
        refused = len(results) - results.count(PASSED) - results.count(OTHERWISE)
        refusals = f"{refused} ({', '.join(codes)})" if refused else ""
        yield f"| `{type}` | {results.count(PASSED)} | {refusals} |"
