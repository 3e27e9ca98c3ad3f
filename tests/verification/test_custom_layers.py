"""A custom layer with two inputs computes what Keras does, in both memory orders, with the generated reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.conversion.convert import convert
from cnn_convertor.trials.verify import verify
from verification.trials import config

CALLBACK = """
#include "net_gen.h"

void custom_callback_Blend(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) {
  const custom_param_Blend &param = *static_cast<const custom_param_Blend *>(custom_param);
  std::vector<float> values = Read(param.inputs[0], io_ptr);
  const std::vector<float> others = Read(param.inputs[1], io_ptr);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= param.factor * others[i];
  put_layer_output(layer, values, io_ptr);
}
"""
SHAPES = "custom_layer = {'Blend': (('factor',), lambda config, shapes: shapes[0])}\n"


@pytest.fixture(scope="module")
def keras() -> Any:
    return pytest.importorskip("keras")


def blend(keras: Any, channels: int, other: str) -> Any:
    """A model whose layer "blend" reads a convolution and `other`."""

    @keras.saving.register_keras_serializable()
    class Blend(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        factor = 0.5

        def call(self, inputs: Any) -> Any:
            return inputs[0] - self.factor * inputs[1]

        def get_config(self) -> Any:
            return {**super().get_config(), "factor": self.factor}

    keras.utils.set_random_seed(1)
    image = keras.Input((6, 5, 3), name="image")
    first = keras.layers.Conv2D(channels, 3, padding="same", name="first")(image)
    second = keras.layers.Conv2D(channels, 3, padding="same", activation="tanh", name="second")(image)
    if other == "CPU":
        second = keras.layers.Multiply(name="product")([first, second])
    elif other == "network's input":
        second = image
    model = keras.Model(image, Blend(name="blend")([first, second]))
    keras.saving.get_custom_objects().clear()
    return model


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("transposed", [True, False], ids=["row by row", "column by column"])
@pytest.mark.parametrize(("channels", "other"), [(11, "device"), (11, "CPU"), (3, "network's input")])
def test_a_callback_reads_its_inputs_wherever_they_lie(
    keras: Any, channels: int, other: str, transposed: bool, tmp_path: Path
) -> None:
    model = blend(keras, channels, other)
    model.save(tmp_path / "m.keras")
    images = np.random.default_rng(0).normal(size=(2, 6, 5, 3)).astype(np.float32)
    np.savez(tmp_path / "known.npz", images, expected_blend=model(images))
    (tmp_path / "custom.py").write_text(SHAPES)
    (tmp_path / "blend.cpp").write_text(CALLBACK)
    chosen = config(tmp_path / "m.keras", custom_layer=tmp_path / "custom.py", transpose_weight=transposed)
    result = verify(chosen, inputs=tmp_path / "known.npz", sources=[tmp_path / "blend.cpp"])
    assert [output.name for output in result.outputs] == ["blend"] and not result.unjudged
    assert result.passed
    convert(replace(chosen, output_folder=tmp_path))
    (source,) = tmp_path.rglob("net_gen.cpp")
    found = audit(source, source.with_name("net_weights.bin"))
    assert found.findings == ()
