"""onnxruntime's results come as maps, for the outputs and for every layer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

from cnn_convertor.errors import ConvertorError, ConvertorWarning, ModelError, UsageError
from cnn_convertor.frontends import recognize
from cnn_convertor.frontends.frontend import Model
from cnn_convertor.frontends.onnx.model import read_model
from cnn_convertor.ir.ops import Order
from cnn_convertor.samples import Preparation, prepared, random_samples, samples_of, shapes_of
from cnn_convertor.verification import framework_maps, frameworks, onnx_float32, onnx_runner
from cnn_convertor.verification.keras_runner import _OpenModel
from cnn_convertor.verification.onnx_integers import integers_of
from cnn_convertor.verification.onnx_runner import open_session
from frontends.onnx.networks import Network, helper, load, onnx, results_of, with_open_sizes

pytest.importorskip("onnxruntime", reason="onnxruntime computes the results")

RANDOM = np.random.default_rng(17)
SAMPLES = RANDOM.standard_normal((3, 6, 5, 4)).astype(np.float32)


def test_results_do_not_depend_on_the_number_of_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    threads, session = [], onnxruntime.InferenceSession

    def opened(content: bytes, options: Any, **others: Any) -> Any:
        threads.append(options.intra_op_num_threads)
        return session(content, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    network = Network([helper.make_node("Relu", ["x"], ["y"])], {"x": SAMPLES[:1].transpose(0, 3, 1, 2)}, {})
    open_session(network.write(tmp_path / "net.onnx"), ["y"])
    assert threads == [1]


def test_layers_are_computed_for_the_first_samples_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of many samples would take time and memory."""
    monkeypatch.setattr(onnx_runner, "KEPT", 2)
    asked: list[list[str]] = []

    def opened(*arguments: Any) -> Any:
        framework, session, ends = open_session(*arguments)

        def noted(names: Sequence[str], inputs: Any) -> Any:
            asked.append([*names])
            return session(names, inputs)

        return framework, noted, ends

    monkeypatch.setattr(onnx_runner, "open_session", opened)
    found = reference(SMALL, tmp_path / "net.onnx")
    assert asked == [["y", "s"], ["y", "s"], ["y"]]
    assert len(found.outputs[0]) == 3 and {name: len(maps) for name, maps in found.layers.items()} == {"y": 2, "s": 2}


def test_a_refusal_names_the_place_where_the_model_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster, it is another one for each part."""

    def failing(*_: Any) -> Any:
        def session(*_: Any) -> Any:
            raise RuntimeError("no memory")

        return "onnxruntime", session, ["y"]

    monkeypatch.setattr(onnx_runner, "open_session", failing)
    path = tmp_path / "net.onnx"
    SMALL.write(path)
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    run = onnx_runner.opened(Model(frontend, path, path), graph)
    elsewhere = path.rename(tmp_path / "elsewhere.onnx")
    with pytest.raises(ModelError, match=rf"DV712: onnxruntime refuses the model: no memory\n  --> {elsewhere}\n"):
        run(Model(frontend, elsewhere, elsewhere), {"x": SAMPLES}, {})


@pytest.mark.parametrize("external", [False, True], ids=["embedded", "beside the model"])
def test_results_are_those_of_the_graph(tmp_path: Path, external: bool) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "m"], ["y"]),
    ]
    arrays = {"w": RANDOM.standard_normal((3, 4, 3, 3)), "m": RANDOM.standard_normal((36, 7))}
    constants = {name: values.astype(np.float32) for name, values in arrays.items()}
    more: dict[str, Any] = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    network = Network(nodes, {"x": SAMPLES[:1].transpose(0, 3, 1, 2)}, constants)
    path = network.write(tmp_path / "net.onnx", **(more if external else {}))
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    reference = frameworks.run(Model(frontend, path, path), graph, {"x": SAMPLES})
    assert {name: maps.shape for name, maps in reference.layers.items()} == {
        "c": (3, 4, 3, 3), "r": (3, 4, 3, 3), "f": (3, 1, 1, 36), "y": (3, 1, 1, 7),
    }  # fmt: skip
    for at, sample in enumerate(SAMPLES):
        (expected,) = results_of(graph, {"x": sample.transpose(2, 0, 1)[None]})
        np.testing.assert_allclose(reference.outputs[0][at], expected, rtol=1e-4, atol=1e-4)


def reference(network: Network, path: Path, **options: Any) -> framework_maps.Reference:
    """The results of a network for SAMPLES."""
    network.write(path)
    frontend, graph = recognize(path), load(path, **options)
    assert frontend is not None
    return frameworks.run(Model(frontend, path, path), graph, {"x": SAMPLES})


SMALL = Network([helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("MaxPool", ["s"], ["y"], kernel_shape=[2, 2])],
                {"x": SAMPLES[:1].transpose(0, 3, 1, 2)}, {}, 18)  # fmt: skip


def test_the_reference_of_the_onnx_package_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = reference(SMALL, tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    slow = reference(SMALL, tmp_path / "net.onnx")
    np.testing.assert_allclose(slow.outputs[0], fast.outputs[0], rtol=1e-5)
    np.testing.assert_allclose(slow.layers["s"], fast.layers["s"], rtol=1e-5)
    assert slow.framework == "ONNX's reference" and fast.framework == "onnxruntime"


def of_type(type: int, path: Path, *, casts: bool = False) -> Path:
    """A network whose numbers are all of a type; casts: only those between an input and an output of float32."""

    def constant(name: str, values: Any) -> Any:
        return helper.make_tensor(name, type, values.shape, values.ravel().tolist())

    weights = [
        constant("w", RANDOM.standard_normal((3, 4, 3, 3))),
        constant("k", RANDOM.standard_normal((36, 7))),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Cast", ["c"], ["r"], to=type),
        helper.make_node("Constant", [], ["two"], value=constant("value", np.array([2.0]))),
        helper.make_node("Mul", ["r", "two"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "k"], ["y"]),
    ]
    ends = "x", "y"
    if casts:
        nodes[0].input[0], nodes[-1].output[0] = "inner", "last"
        nodes = [
            helper.make_node("Cast", ["x"], ["inner"], to=type), *nodes, helper.make_node("Cast", ["last"], ["y"], to=1),
        ]  # fmt: skip
    outside = 1 if casts else type
    inputs, outputs = (
        [helper.make_tensor_value_info(name, outside, dims)]
        for name, dims in zip(ends, ((1, 4, 6, 5), None), strict=True)
    )
    graph = helper.make_graph(nodes, "net", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    return path


@pytest.mark.parametrize("casts", [False, True], ids=["whole", "between casts"])
@pytest.mark.parametrize(
    "type",
    [onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE],
    ids=["float16", "bfloat16", "float64"],
)
def test_types_that_onnxruntime_rounds_or_refuses_run_as_float32(type: int, casts: bool, tmp_path: Path) -> None:
    path = of_type(type, tmp_path / "net.onnx", casts=casts)
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    before = path.read_bytes()
    found = frameworks.run(Model(frontend, path, path), graph, {"x": SAMPLES})
    assert found.framework == "onnxruntime (a copy in float32)" and path.read_bytes() == before
    assert {"c", "r", "f", "y"} <= {*found.layers}
    for at, sample in enumerate(SAMPLES):
        (expected,) = results_of(graph, {"x": sample[None].transpose(0, 3, 1, 2)})
        np.testing.assert_allclose(found.outputs[0][at], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("type", [onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16], ids=["float16", "bfloat16"])
def test_weights_that_are_only_stored_in_16_bits_need_no_copy(type: int, tmp_path: Path) -> None:
    weight = helper.make_tensor("w", type, (3, 4, 3, 3), RANDOM.standard_normal(108).tolist())
    nodes = [helper.make_node("Cast", ["w"], ["wide"], to=1), helper.make_node("Conv", ["x", "wide"], ["y"])]
    path = Network(nodes, {"x": SAMPLES[:1].transpose(0, 3, 1, 2)}, {}).write(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.initializer.append(weight)
    onnx.save(model, path)
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    found = frameworks.run(Model(frontend, path, path), graph, {"x": SAMPLES})
    assert found.framework == "onnxruntime"
    (expected,) = results_of(graph, {"x": SAMPLES[:1].transpose(0, 3, 1, 2)})
    np.testing.assert_allclose(found.outputs[0][0], expected, rtol=1e-4, atol=1e-4)


FLOAT16 = onnx.TensorProto.FLOAT16
HALF = helper.make_tensor("half", FLOAT16, (), [2.0])
BRANCH = helper.make_graph(
    [helper.make_node("Cast", ["x"], ["inner"], to=FLOAT16)], "branch", [], [helper.make_tensor_value_info("inner", FLOAT16, None)]
)  # fmt: skip
# Where a file may say that a network computes in float16.
PLACES = {
    "the type of a Cast": [helper.make_node("Cast", ["x"], ["h"], to=FLOAT16)],
    "a CastLike": [helper.make_node("CastLike", ["x", "half"], ["h"])],
    "a constant": [
        helper.make_node("Constant", [], ["c"], value=HALF),
        helper.make_node("CastLike", ["x", "c"], ["h"]),
    ],
    "a filled array": [
        helper.make_node("Constant", [], ["shape"], value_ints=[1]),
        helper.make_node("ConstantOfShape", ["shape"], ["c"], value=helper.make_tensor("v", FLOAT16, (1,), [2.0])),
        helper.make_node("CastLike", ["x", "c"], ["h"]),
    ],
    "random numbers": [helper.make_node("RandomNormalLike", ["x"], ["h"], dtype=FLOAT16)],
    "a branch": [helper.make_node("If", ["b"], ["h"], then_branch=BRANCH, else_branch=BRANCH)],
}


@pytest.mark.parametrize("place", PLACES)
def test_float16_is_found_in_every_place_and_copied_as_float32(place: str, tmp_path: Path) -> None:
    path, copy = tmp_path / "net.onnx", tmp_path / "copy.onnx"
    ends = [helper.make_tensor_value_info("x", 1, (1, 4))], [helper.make_tensor_value_info("y", 1, None)]
    nodes = [*PLACES[place], helper.make_node("Cast", ["h"], ["y"], to=1)]
    condition = helper.make_tensor("b", onnx.TensorProto.BOOL, (), [True])
    graph = helper.make_graph(
        nodes, "net", *ends, [HALF, condition], value_info=[helper.make_tensor_value_info("h", FLOAT16, None)]
    )
    function = helper.make_function(
        "mine", "F", ["a"], ["r"], PLACES["the type of a Cast"], [helper.make_opsetid("", 20)]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], functions=[function]), path)
    assert onnx_float32.computes_16_bits(read_model(path))
    assert onnx_float32.float32_copy(path, copy)
    assert "FLOAT16" not in str(onnx.printer.to_text(onnx.load(copy))).upper()
    assert not onnx_float32.computes_16_bits(read_model(copy))


def test_a_copy_in_float32_needs_the_onnx_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = of_type(onnx.TensorProto.DOUBLE, tmp_path / "net.onnx")
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match=r"DV711.*float64.*the package onnx"):
        frameworks.run(Model(frontend, path, path), graph, {"x": SAMPLES})


def test_without_any_runtime_the_error_names_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("onnxruntime", "onnx.reference"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match="onnxruntime") as error:
        reference(SMALL, tmp_path / "net.onnx")
    assert "the extra `onnx`" in error.value.problems[0].hint


def test_a_model_that_takes_integers_reads_pixels_alone(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["r"], to=1), helper.make_node("Sqrt", ["r"], ["y"])]
    network = Network(nodes, {"x": np.ones((1, 4, 6, 5), np.uint8)}, {})
    path = network.write(tmp_path / "net.onnx")
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    images = random_samples(shapes_of(graph), prepared(graph, Preparation()), samples=2, seed=0).inputs
    assert images["x"].min() == 0 and images["x"].max() == 255 and np.array_equal(images["x"], np.rint(images["x"]))
    found = frameworks.run(Model(frontend, path, path), graph, images)
    np.testing.assert_allclose(found.outputs[0], np.sqrt(images["x"]), rtol=1e-6)
    given = Preparation((1.0,), 0.5, is_given=True)
    assert prepared(graph, given) == replace(given, is_whole=True)
    for wrong in (0.5, -1.0, 256.0, 1e30):
        with pytest.raises(UsageError, match=r'DV707.*integers from 0 to 255 for the input "x"'):
            frameworks.run(Model(frontend, path, path), graph, {"x": np.full((1, 6, 5, 4), wrong, np.float32)})


@pytest.mark.parametrize(
    ("type", "low", "high"),
    [(np.int8, -128, 127), (np.bool_, 0, 1), (np.int16, 0, 255), (np.uint16, 0, 255), (np.int64, 0, 255)],
)
def test_random_images_hold_numbers_of_the_types_that_a_model_takes(
    type: DTypeLike, low: int, high: int, tmp_path: Path
) -> None:
    network = Network([helper.make_node("Cast", ["x"], ["y"], to=1)], {"x": np.ones((1, 4, 6, 5), type)}, {})
    path = network.write(tmp_path / "net.onnx")
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    samples = samples_of(None, graph, Preparation())
    images = samples.inputs["x"]
    assert images.min() == low and images.max() == high and samples.source.endswith(f", {low} to {high}")
    found = frameworks.run(Model(frontend, path, path), graph, samples.inputs)
    np.testing.assert_array_equal(found.outputs[0], images)
    centered = samples_of(None, graph, Preparation((128.0,), is_given=True)).inputs["x"]
    assert np.array_equal(centered, np.rint(centered)) and centered.min() == -128 and centered.max() == 127


def test_an_image_for_a_model_that_takes_other_integers_than_pixels_is_worth_a_warning(tmp_path: Path) -> None:
    network = Network([helper.make_node("Cast", ["x"], ["y"], to=1)], {"x": np.ones((1, 1, 6, 5), np.int8)}, {})
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(tmp_path / "a.png"), np.full((6, 5), 200, np.uint8))
    with pytest.warns(ConvertorWarning, match="DV714"):
        samples_of(tmp_path / "a.png", load(network.write(tmp_path / "net.onnx")), Preparation())


def test_open_sizes_are_those_of_the_samples(tmp_path: Path) -> None:
    """One of them is the length of a map without a width."""
    network = Network([helper.make_node("Relu", ["x"], ["y"])], {"x": SAMPLES[:1, :, 0].transpose(0, 2, 1)}, {})
    path = with_open_sizes(network.write(tmp_path / "net.onnx"), "N", 4, "length")
    frontend, graph = recognize(path), load(path, size=(6, 1))
    assert frontend is not None
    samples = SAMPLES[:, :, :1]
    found = frameworks.run(Model(frontend, path, path), graph, {"x": samples})
    np.testing.assert_allclose(found.outputs[0], np.maximum(samples, 0))


@pytest.mark.parametrize(
    ("chosen", "outputs"),
    [((), ("y", "s")), ((), ("s",)), ((), ("s", "y", "y")), (("y", "s"), ("s", "y"))],
    ids=["reversed", "the last is missing", "one more", "not as the ini file has them"],
)
def test_a_conversion_with_other_outputs_than_the_file_is_an_error(
    chosen: tuple[str, ...], outputs: tuple[str, ...], tmp_path: Path
) -> None:
    path = SMALL.write(tmp_path / "net.onnx", ["s", "y"])
    frontend = recognize(path)
    assert frontend is not None
    model = Model(frontend, path, path, outputs=chosen)
    right = model.read().require_complete()
    assert onnx_runner.opened(model, right)(model, {"x": SAMPLES}, None).outputs.keys() == {0, 1}
    with pytest.raises(ConvertorError, match=r'DV734: the outputs are "[sy", ]+" in the conversion, and'):
        onnx_runner.opened(model, replace(right, outputs=outputs))


def test_a_file_in_any_order_of_nodes_is_cut_at_its_inputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["y"], kernel_shape=[2, 2]),
    ]
    found = []
    for order in (nodes, nodes[::-1]):
        network = Network(order, {"x": SAMPLES[:1].transpose(0, 3, 1, 2)}, {}, 18)
        path = network.write(tmp_path / "net.onnx", ["y"])
        frontend = recognize(path)
        assert frontend is not None
        model = Model(frontend, path, path, inputs=("s",))
        found.append(onnx_runner.opened(model, model.read().require_complete())(model, {"s": SAMPLES}, None).outputs[0])
    np.testing.assert_array_equal(found[0], found[1])


def test_a_node_without_results_has_no_integers(tmp_path: Path) -> None:
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale"], []), helper.make_node("Relu", ["x"], ["y"])]
    network = Network(nodes, {"x": SAMPLES[:1].transpose(0, 3, 1, 2)}, {"scale": np.float32(0.5)})
    assert integers_of(read_model(network.write(tmp_path / "net.onnx", ["y"]))) == {}


def test_keras_outputs_are_as_many_as_those_of_the_conversion(tmp_path: Path) -> None:
    path = SMALL.write(tmp_path / "net.onnx", ["y"])
    frontend, graph = recognize(path), load(path)
    assert frontend is not None
    opened = _OpenModel(
        "Keras", graph, [(None, 6, 5, 4)], lambda _: lambda maps: ([*maps, *maps], []), {"x": Order.HWC}, {}
    )
    with pytest.raises(ConvertorError, match="DV734: there are 1 outputs in the conversion, and 2 in Keras"):
        opened.run(Model(frontend, path, path), {"x": SAMPLES}, None)
