"""What the framework cannot compute is listed, and the rest is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.cli import verdicts
from cnn_convertor.frontends.keras.model_files import open_model
from cnn_convertor.ir.ops import Shape
from cnn_convertor.samples import Preparation, random_samples, shapes_of
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import frameworks, keras_models
from cnn_convertor.verification.formulas import FORMULAS
from cnn_convertor.verification.results import Unjudged
from frontends.keras import networks
from frontends.loading import load_keras as load
from reference import ir_reference
from verification.trials import NAME, config

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]


@pytest.fixture(scope="module")
def keras() -> Any:
    return networks.imported()


# --- custom layers -------------------------------------------------------------------------------------------------------

CALLBACK = f"""
#include "{NAME}_gen.h"

void custom_callback_Twice(fpga_layer &layer, void *, uint8_t *io_ptr) {{
  std::vector<float> values;
  get_layer_input(layer, values, io_ptr, false);
  for (float &value : values) value *= 2;
  put_layer_output(layer, values, io_ptr);
}}
"""


TWICE = keras_models.CustomLayer("twice", "Twice", Shape(4, 3, 4))


def doubling(keras: Any) -> Any:
    """The custom layer "twice"."""

    @keras.saving.register_keras_serializable()
    class Twice(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, inputs: Any) -> Any:
            return inputs * 2

    return Twice(name="twice")


def saved(keras: Any, model: Any, folder: Path) -> Any:
    model.save(folder / "m.keras")
    keras.saving.get_custom_objects().clear()
    (folder / "custom.py").write_text("custom_layer = {'Twice': ((), lambda config, shape: shape)}\n")
    (folder / "twice.cpp").write_text(CALLBACK)
    return config(folder / "m.keras", custom_layer=folder / "custom.py")


def custom_network(keras: Any, folder: Path) -> Any:
    """A convolution, then a custom layer "twice" and a global pool "pool", which are outputs."""
    source = keras.Input((6, 5, 3))
    x = keras.layers.Conv2D(4, 3, activation="relu", name="conv")(source)
    outputs = [doubling(keras)(x), keras.layers.GlobalAveragePooling2D(name="pool")(x)]
    return saved(keras, keras.Model(source, outputs), folder)


def test_what_a_custom_layer_reads_is_compared(keras: Any, tmp_path: Path) -> None:
    result = verify(custom_network(keras, tmp_path), sources=[tmp_path / "twice.cpp"])
    reason = "Keras does not have the code of this custom layer"
    assert result.unjudged == (Unjudged("twice", reason, is_verified=True),)
    assert [output.name for output in result.outputs] == ["conv, before twice", "pool"]
    assert result.passed and f'not compared: "twice": {reason}' in verdicts.verification(result)
    assert json.loads(result.to_json())["unjudged"] == [{"layer": "twice", "reason": reason, "is_verified": True}]


def nested_network(keras: Any, folder: Path, *, sequential: bool) -> Any:
    """A model "inner" whose convolution "conv" goes to a custom layer "twice" and, unless sequential, to an output "relu"."""
    source, inner = keras.Input((6, 5, 3)), keras.Input((6, 5, 3))
    conv = keras.layers.Conv2D(4, 3, name="conv")
    if sequential:
        outputs = [keras.Sequential([inner, conv, doubling(keras)], name="inner")(source)]
    else:
        y = conv(inner)
        x, y = keras.Model(inner, [doubling(keras)(y), keras.layers.ReLU(name="relu")(y)], name="inner")(source)
        outputs = [x, keras.layers.MaxPooling2D(name="pool")(y)]
    return saved(keras, keras.Model(source, outputs), folder)


@pytest.mark.parametrize("sequential", [False, True])
def test_what_a_nested_model_computes_apart_from_a_custom_layer_is_compared(
    keras: Any, tmp_path: Path, sequential: bool
) -> None:
    result = verify(nested_network(keras, tmp_path, sequential=sequential), sources=[tmp_path / "twice.cpp"])
    assert [layer.layer for layer in result.unjudged] == ["inner/twice"]
    assert [output.name for output in result.outputs] == ["inner/conv, before inner/twice"] + ["pool"] * (
        not sequential
    )
    assert result.passed


def test_a_wrong_map_before_a_custom_layer_fails(keras: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = custom_network(keras, tmp_path)
    opened = frameworks.opened

    def wrong(*network: Any) -> Any:
        def run(*arguments: Any) -> Any:
            reference = right(*arguments)
            reference.layers["conv"][...] += 1
            return reference

        right = opened(*network)
        return run

    monkeypatch.setattr(frameworks, "opened", wrong)
    result = verify(chosen, sources=[tmp_path / "twice.cpp"])
    assert not result.passed and [output.name for output in result.failed] == ["conv, before twice"]


def test_given_results_stand_for_what_the_framework_cannot_compute(keras: Any, tmp_path: Path) -> None:
    chosen = custom_network(keras, tmp_path)
    images = np.random.default_rng(0).random((2, 6, 5, 3)).astype(np.float32)
    model = keras_models.load_model(open_model(chosen.definition), chosen.definition, None, [TWICE]).model
    doubled = 2 * np.asarray(model.get_layer("conv")(images))
    for values, passes in ((doubled, True), (doubled + 1, False)):
        np.savez(tmp_path / "given.npz", images, expected_twice=values)
        result = verify(chosen, inputs=tmp_path / "given.npz", sources=[tmp_path / "twice.cpp"])
        assert [output.name for output in result.outputs] == ["twice", "pool"] and not result.unjudged
        assert result.passed == passes and result.framework == "Keras"


# --- layers without a formula --------------------------------------------------------------------------------------------


def test_an_output_without_a_result_is_not_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FORMULAS, "AbsVal")
    definition = tmp_path / "net.prototxt"
    definition.write_text(
        """input: "data" input_shape { dim: [1, 8, 4, 6] }
        layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
        layer { name: "abs" type: "AbsVal" bottom: "data" top: "abs" }
        layer { name: "sum" type: "Eltwise" bottom: "abs" bottom: "abs" top: "sum" }"""
    )
    result = verify(config(definition))
    assert [output.name for output in result.outputs] == ["relu"] and not result.failed
    assert result.unjudged == (
        Unjudged("abs", "there is no formula for AbsVal", is_verified=True),
        Unjudged("sum", "it reads abs, which has no result", is_verified=False),
    )
    assert not result.passed
    lines = verdicts.verification(result)
    assert str(lines[-1]).startswith('not verified: "sum" cannot be compared; give the expected outputs')


# --- layers without a single map -----------------------------------------------------------------------------------------


def test_layers_that_are_called_twice_are_listed(keras: Any, tmp_path: Path) -> None:
    source = keras.Input((6, 5, 3))
    twice, x = keras.layers.Conv2D(4, 3, padding="same", name="twice"), keras.layers.Conv2D(3, 1, name="first")(source)
    x = keras.layers.Add(name="sum")([twice(source), twice(x)])
    keras.Model(source, keras.layers.ReLU(name="last")(x)).save(tmp_path / "m.keras")
    result = verify(config(tmp_path / "m.keras"), samples=1, layers=True)
    assert result.passed and [layer.layer for layer in result.unjudged] == ["twice"]
    assert "several outputs or calls" in result.unjudged[0].reason


def test_an_input_that_is_an_output_is_no_layer(keras: Any, tmp_path: Path) -> None:
    source = keras.Input((6, 5, 3), name="image")
    keras.Model(source, [source, keras.layers.Conv2D(4, 3, name="last")(source)]).save(tmp_path / "m.keras")
    result = verify(config(tmp_path / "m.keras"), samples=1, layers=True)
    assert result.passed and len(result.outputs) == 2 and not result.unjudged


def test_operations_that_are_no_layers_are_compared(keras: Any, tmp_path: Path) -> None:
    source = keras.Input((6, 5, 3))
    x = keras.layers.Conv2D(4, 3, name="first")(source)
    x = keras.ops.multiply(x, keras.ops.sigmoid(x))
    keras.Model(source, keras.layers.Conv2D(3, 1, name="last")(x)).save(tmp_path / "m.keras")
    result = verify(config(tmp_path / "m.keras"), samples=1, layers=True)
    assert result.passed and not result.unjudged
    assert {"sigmoid", "multiply"} <= {layer.comparison.name.rstrip("_0123456789") for layer in result.layers}


# --- the order of axes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(10, 6), (8, 8), (5, 6, 7), (8, 8, 8)], ids=str)
def test_inputs_whose_channels_an_axis_puts_first_are_verified(
    keras: Any, dims: tuple[int, ...], tmp_path: Path
) -> None:
    source = keras.Input(dims)
    x = keras.layers.BatchNormalization(axis=1)(source)
    model = keras.Model(source, [x, keras.layers.Flatten()(x)])
    networks.randomize(model)
    model.save(tmp_path / "m.keras")
    graph = load(tmp_path / "m.keras", tmp_path / "m.keras")
    inputs = random_samples(shapes_of(graph), Preparation(), samples=1, seed=0).inputs
    reference = frameworks.run(config(tmp_path / "m.keras").model, graph, inputs)
    values = ir_reference.run(graph, {name: maps[0] for name, maps in inputs.items()})
    for place, output in enumerate(graph.outputs):
        np.testing.assert_allclose(reference.outputs[place][0], values[output], atol=1e-5)
