"""The operator tests of the onnx package, as far as their nodes are converted: nothing is computed otherwise than they say.

Each graph is first computed by the tests' own reading of it. The emulated device then runs those that fit it; many of them are
parts of one network, so that few programs are compiled.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError
from cnn_convertor.frontends.onnx import importer
from cnn_convertor.frontends.onnx.operators import onnx as registry
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import plan
from cnn_convertor.verification.compare import sqnr
from development.benchmarks.networks_page import Table, page_with
from frontends.onnx.networks import load, numpy_helper, onnx, results_of, to_map
from verification import trials

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

PASSED, OTHERWISE, INAPPLICABLE = "passed", "computed otherwise", "not applicable"
# Results of 8 bits of mantissa, which the network computes more exactly.
INEXACT = frozenset(
    {
        "test_celu_bfloat16",
        *(f"test_attention_{form}_bf16" for form in ("3d_causal", "4d_causal", "4d_attn_mask_causal")),
    }
)
# Their other outputs serve training.
ONE_OUTPUT = frozenset({"LayerNormalization"})
# They treat each sample of a batch alike, and are converted for one; the first is taken.
ONE_SAMPLE = frozenset({"ConvTranspose", "GroupNormalization", "InstanceNormalization", "LRN", "SpaceToDepth"})
# The graph ends in the numbers that their integers stand for.
OF_INTEGERS = frozenset({"DynamicQuantizeLinear", "QuantizeLinear"})
IN_ONE_NETWORK = 60  # graphs
AT_LEAST_DB, LEAST_RMS = 40.0, 0.05
LARGEST_HALF = 65504
SETTINGS = trials.target_for(trials.config(Path("net.onnx")))


class Case(NamedTuple):
    """A test. inputs, outputs: arrays, in the order of the model's."""

    name: str
    model: Any
    inputs: Sequence[Any]
    outputs: Sequence[Any]

    @property
    def operator(self) -> str:
        return str(self.model.graph.node[-1].op_type)

    @property
    def is_of_halves(self) -> bool:
        """Whether inputs and results are FP32 numbers that FP16 holds, too. Indices may be whole numbers."""
        floats = [self.inputs[0], *(x for x in self.outputs if x.dtype != np.int64)]
        return all(x.dtype == np.float32 and not np.any(np.abs(x) > LARGEST_HALF) for x in floats)


class Trial(NamedTuple):
    """A case's graph, and what it is given."""

    case: Case
    graph: Graph
    given: Mapping[str, Any]


def cases() -> Iterator[Case]:
    """Tests of nodes whose types are all converted."""
    from onnx.backend.test.loader import load_model_tests

    for test in load_model_tests(kind="node"):
        if test.model is None or not test.data_sets:
            continue
        if not {node.op_type for node in test.model.graph.node} <= {*registry}:
            continue
        inputs, outputs = test.data_sets[0]
        if inputs and all(isinstance(x, np.ndarray | np.generic) for x in (*inputs, *outputs)):
            yield as_inferred(Case(test.name, test.model, [*map(np.asarray, inputs)], [*map(np.asarray, outputs)]))


def as_inferred(case: Case) -> Case:
    """The test without outputs and samples that ONE_OUTPUT and ONE_SAMPLE leave out."""
    inputs, outputs, graph = case.inputs, case.outputs, case.model.graph
    if case.operator in ONE_OUTPUT:
        del graph.output[1:]
        outputs = outputs[:1]
    if case.operator in ONE_SAMPLE:
        graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
        inputs, outputs = [inputs[0][:1], *inputs[1:]], [x[:1] for x in outputs]
    return case._replace(inputs=inputs, outputs=outputs)


def trial(case: Case, kept: int, path: Path) -> Trial:
    """All inputs but the first ones are constants, as in a trained network. Raises ConvertorError.

    path: of a file that is not there yet; the graph reads its constants late.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    pairs = list(zip(model.graph.input, case.inputs, strict=True))
    for info, values in pairs[kept:]:
        model.graph.initializer.append(numpy_helper.from_array(values, info.name))
    onnx.save(model, path)
    graph = load(path)
    return Trial(case, graph, {info.name: values for info, values in pairs[:kept]})


def is_right(made: Trial) -> bool:
    """Whether the graph, computed in FP64, gives what the test says."""
    with np.errstate(all="ignore"):
        found = results_of(made.graph, made.given)
    return all(
        f.shape == w.shape and np.allclose(f, w, rtol=1e-3, atol=1e-4, equal_nan=True)
        for f, w in zip(found, map(to_map, made.case.outputs), strict=True)
    )


# --- the emulated device -------------------------------------------------------------------------------------------------


def joined(parts: Sequence[Trial]) -> Graph:
    """One graph of several; the names of each begin with its number."""
    return Graph(
        tuple(
            replace(node, name=f"{at}/{node.name}", inputs=tuple(f"{at}/{x}" for x in node.inputs))
            for at, part in enumerate(parts)
            for node in part.graph.nodes
        ),
        tuple(f"{at}/{name}" for at, part in enumerate(parts) for name in part.graph.outputs),
    )


def wrong_on_device(parts: Sequence[Trial], folder: Path) -> list[str]:
    """Names of the cases whose results differ on the device, with their SQNR.

    The device takes FP16, so that the wanted results are those of a right graph for the same.
    """
    network = trials.network(joined(parts), folder)
    given = [{name: x.astype(np.float16).astype(np.float32) for name, x in part.given.items()} for part in parts]
    inputs = {f"{at}/{name}": to_map(x)[None] for at, part in enumerate(given) for name, x in part.items()}
    outputs = iter(network.run({name: x.astype(np.float32) for name, x in inputs.items()}).outputs)
    wrong = []
    for part, halves in zip(parts, given, strict=True):
        for wanted in results_of(part.graph, halves):
            ratio = sqnr(next(outputs), wanted[None], least_rms=LEAST_RMS)
            wrong += [f"{part.case.name} {ratio:.1f} dB"] if not ratio >= AT_LEAST_DB else []
    assert next(outputs, None) is None
    return wrong


# --- outcomes ------------------------------------------------------------------------------------------------------------


def outcome_of(case: Case, folder: Path) -> tuple[str, list[Trial]]:
    """PASSED, OTHERWISE, INAPPLICABLE, or the codes with which the case is refused, and the graphs that fit the device."""
    if case.operator in OF_INTEGERS:
        return INAPPLICABLE, []
    found = [converted(case, kept, folder / f"{case.name}{kept}.onnx") for kept in dict.fromkeys((1, len(case.inputs)))]
    if OTHERWISE in found:
        return OTHERWISE, []
    if not case.is_of_halves:
        return INAPPLICABLE, []
    trials_of = [made for made in found if isinstance(made, Trial)]
    fitting = [made for made in trials_of if not any(np.any(np.abs(x) > LARGEST_HALF) for x in made.given.values())]
    return (PASSED if trials_of else str(found[0])), fitting


def converted(case: Case, kept: int, path: Path) -> Trial | str:
    """What fits the device; else OTHERWISE, or the codes with which the case is refused."""
    try:
        made = trial(case, kept, path)
        if not is_right(made):
            return OTHERWISE
        plan(made.graph, "net", SETTINGS)
    except ConvertorError as error:
        return ", ".join(sorted({problem.code for problem in error.problems}))
    return made


@pytest.mark.rotating(turns=4)
def test_operators_compute_what_their_tests_say(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """In one test, since a second one may be in another process, which would have to do all of it again."""
    outcomes: dict[str, dict[str, str]] = defaultdict(dict)
    fitting: list[Trial] = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(importer, "MAP_AXES", 99)  # batches of several and more axes, so that more tests apply
        patch.setattr(importer, "AXES", range(9))
        for case in cases():
            outcomes[case.operator][case.name], more = outcome_of(case, tmp_path)
            fitting += more
        groups = [fitting[at : at + IN_ONE_NETWORK] for at in range(0, len(fitting), IN_ONE_NETWORK)]
        wrong = [name for at, group in enumerate(groups) for name in wrong_on_device(group, tmp_path / str(at))]
    results = [result for tests in outcomes.values() for result in tests.items()]
    assert {name for name, result in results if result == OTHERWISE} <= INEXACT
    assert not wrong
    assert [result for _, result in results].count(PASSED) >= 330
    assert len(fitting) >= 390
    golden("../../docs/networks.md", page_with(Table.OPERATORS, dict(rows(outcomes))))


def rows(outcomes: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Each operator, and its line of the page."""
    for type, tests in outcomes.items():
        found = Counter(tests.values())
        passed, inapplicable = found.pop(PASSED, 0), found.pop(INAPPLICABLE, 0)
        found.pop(OTHERWISE, 0)
        codes = sorted({code for result in found for code in result.split(", ")})
        refusals = f"{found.total()} ({', '.join(codes)})" if codes else ""
        yield type, f"| `{type}` | {passed} | {refusals} | {inapplicable or ''} |"
