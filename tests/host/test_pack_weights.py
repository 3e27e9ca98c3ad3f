"""The driver's functions that pack weights give the vendor's bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from host.device import Device, DeviceError
from host.reference import Weights, pack

if TYPE_CHECKING:
    from pathlib import Path


def test_packed_weights_equal_the_vendors(device: Device, shared: Path) -> None:
    folder = shared / "vectors" / "dv700"
    cases = json.loads((folder / "index.json").read_text(encoding="utf-8"))["cases"]
    wrong = []
    for case in cases:
        with np.load(folder / case["file"]) as arrays:
            parts = [
                arrays[name].tobytes() if name in arrays else b"" for name in ("quant_map", "weights", "bias", "prelu")
            ]
            expected = arrays["packed"].tobytes()
        fields = "c_in h_in w_in c_out h_out w_out" if case["kind"] == "fc" else "n_channels kx ky n_kernels"
        if device.pack(case["kind"], [case[name] for name in fields.split()], *parts) != expected:
            wrong.append(case["name"])
    assert len(cases) > 70
    assert wrong == []


@pytest.mark.parametrize("kind", ["conv", "dil"])
@pytest.mark.parametrize("palette", [False, True])
@pytest.mark.parametrize(
    ("channels", "rows", "columns", "outputs"), [(9, 3, 3, 9), (65, 1, 1, 3), (3, 5, 2, 8), (2, 7, 7, 10)]
)
def test_packed_weights_equal_the_reference(
    device: Device, kind: str, palette: bool, channels: int, rows: int, columns: int, outputs: int
) -> None:
    random = np.random.default_rng(outputs)
    shape = (outputs, channels, rows, columns)
    bias = random.normal(size=outputs).astype(np.float16)
    if palette:
        centers = np.concatenate([[0.0], random.normal(size=255)]).astype(np.float16)
        indices = random.integers(0, 256, shape).astype(np.uint8)
        weights = Weights(indices, bias.astype(np.float64), centers.astype(np.float64))
        parts = [centers.tobytes(), indices.tobytes()]
    else:
        kernel = random.normal(size=shape).astype(np.float16)
        weights = Weights(kernel.astype(np.float64), bias.astype(np.float64))
        parts = [b"", kernel.tobytes()]
    expected = pack(weights, transposed=False, dilated=kind == "dil")
    assert device.pack(kind, (channels, columns, rows, outputs), *parts, bias.tobytes(), b"") == expected


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 3, 3, 8), "n_channels = 0: it is at least 1"),
        ((8, 3, 3, 0), "n_kernels = 0: it is at least 1"),
        ((8, 8, 3, 8), "a kernel of 8x3: 1 to 7 in each direction is possible"),
    ],
)
def test_weights_that_cannot_be_packed(device: Device, sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        device.pack("conv", sizes, b"", b"", b"", b"")
