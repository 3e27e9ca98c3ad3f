"""The image unit draws a camera's frame as the same input that the application would write."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.audit import audit
from cnn_convertor.config.request import Request, preparation_of
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.emulation.build import INCLUDE, device_library
from cnn_convertor.emulation.feature_maps import input_bytes
from cnn_convertor.files.replacing import replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import build, render
from cnn_convertor.workers.compiler import find_compiler
from verification.trials import config

needs_compiler = pytest.mark.usefixtures("compiler")
PATH = Path("graph.keras")
ZIA_C3 = read_profile("zia-c3", Path())
FRAME = Shape(6, 9, 3)

# Draws frame.bin and prints how often the image unit worked and what it read. Saves the network's input and output.
APPLICATION = """\
#include <cstdio>

#include "dmp_dv_host.h"
#include "net_frame.h"

int main(int, char **argv) {
  Cnet network;
  if (!network.Initialize() || !network.LoadWeights("net_weights.bin") || !network.Commit()) return 1;
  Cnet_io::Frame frame(network);
  if (frame.Draw() || frame.Reserve(0, 9, Cnet_io::kRGB) || frame.Reserve(6, 4096, Cnet_io::kRGB)) return 2;
  const int height = std::atoi(argv[1]), width = std::atoi(argv[2]);
  if (!frame.Reserve(height, width, static_cast<Cnet_io::Pixels>(std::atoi(argv[3])), false)) return 3;
  std::FILE *file = std::fopen("frame.bin", "rb");
  const bool is_read = file && std::fread(frame.data(), 1, frame.size(), file) == frame.size();
  if (file) std::fclose(file);
  if (!is_read || !frame.Draw()) return 4;
  file = std::fopen("input.bin", "wb");
  std::fwrite(network.get_io_ptr() + Cnet_io::kInputs[0].offset, 1, Cnet_io::kInputs[0].bytes, file);
  std::fclose(file);
  if (!network.RunNetwork()) return 5;
  std::vector<float> output;
  network.get_final_output(output);
  file = std::fopen("output.bin", "wb");
  std::fwrite(output.data(), sizeof(float), output.size(), file);
  std::fclose(file);
  dmp_dv_host_counters counters;
  dmp_dv_host_get_counters(DMP_DV_DEV_IPU, &counters);
  std::printf("%d %d\\n", static_cast<int>(counters.commands), static_cast<int>(counters.input_bytes));
}
"""


def camera(shape: Shape = FRAME) -> Graph:
    weights = np.random.default_rng(0).normal(size=(5, shape.channels, 3, 3)) / 8
    conv = ops.Conv2d(Constant.of(weights), None, Window(Pair(3, 3), padding=Padding(1, 1, 1, 1)))
    return Graph((Node("image", ops.Input(shape)), Node("out", conv, ("image",))), ("out",))


def made(folder: Path, graph: Graph, **fields: Any) -> bool:
    """Whether the conversion writes the class for frames. folder: gets the files."""
    configuration = config(PATH, device=ZIA_C3, **fields)
    replace_all(folder, render(graph, build(graph, configuration), Request.of(configuration)))
    return (folder / "net_frame.h").exists()


def draw(folder: Path, frame: NDArray[np.uint8], pixels: int) -> tuple[bytes, NDArray[np.float32], str]:
    """The network's input and output, and what the image unit counted. frame: (height, width, bytes of a pixel)."""
    (folder / "application.cpp").write_text(APPLICATION, encoding="utf-8")
    compiler = find_compiler()
    files = ["application.cpp", "net_gen.cpp", str(device_library(compiler))]
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pthread", f"-I{INCLUDE}"]
    subprocess.run([*compiler.command, *flags, *files, "-o", "application"], cwd=folder, check=True)
    (folder / "frame.bin").write_bytes(frame.tobytes())
    sizes = [str(size) for size in frame.shape[:2]]
    command = ["./application", *sizes, str(pixels)]
    checks = {**os.environ, "DMP_DV_STRICT": "1", "DMP_DV_CHECK_UNINITIALIZED": "1"}
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=checks)
    assert result.stderr == ""
    return (folder / "input.bin").read_bytes(), np.fromfile(folder / "output.bin", "<f4"), result.stdout.strip()


PREPARATIONS: dict[str, dict[str, Any]] = {
    "by 255": {"scale": 1 / 255},
    "minus 128": {"mean": (128.0,)},
    "minus a mean for each channel": {"mean": (104.0, 117.0, 123.0)},
    "BGR": {"mean": (104.0, 117.0, 123.0), "channel_order": "BGR"},
    "bytes": {"mean": (103.9, 116.8, 123.7), "scale": 0.017, "channel_order": "BGR", "input": "u8"},
    "bytes by deviations": {"mean": (123.6, 116.2, 103.5), "std": (58.3, 57.1, 57.4), "input": "u8_bgr"},
    "bytes in RGB": {"mean": (103.9, 116.8, 123.7), "scale": 0.017, "channel_order": "BGR", "input": "u8_rgb"},
}
PIXELS = {"RGB": (0, [0, 1, 2]), "BGR": (1, [2, 1, 0]), "RGBA": (2, [0, 1, 2, 3]), "BGRA": (3, [2, 1, 0, 3])}


@pytest.mark.rotating
@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("name", "pixels", "transposed"),
    [
        ("by 255", "RGB", True),
        ("minus 128", "BGRA", False),
        ("minus a mean for each channel", "BGR", False),
        ("BGR", "RGBA", True),
        ("bytes", "RGB", False),
        ("bytes in RGB", "BGR", True),
        ("bytes by deviations", "RGB", True),
    ],
)
def test_a_frame_becomes_the_input_that_the_application_would_write(
    name: str, pixels: str, transposed: bool, tmp_path: Path
) -> None:
    fields = {"transpose_weight": transposed, **PREPARATIONS[name]}
    assert made(tmp_path, camera(), **fields)
    number, order = PIXELS[pixels]
    rgba = np.random.default_rng(1).integers(0, 256, (6, 9, 4)).astype(np.uint8)
    given, _, counted = draw(tmp_path, rgba[:, :, order], number)
    configuration = config(PATH, device=ZIA_C3, **fields)
    preparation = preparation_of(configuration)
    channels = [2, 1, 0] if preparation.channel_order == "BGR" else [0, 1, 2]
    values = preparation.apply(rgba[:, :, channels].astype(np.float64))
    assert given == input_bytes(build(camera(), configuration), {"image": values[None]})
    assert counted == f"1 {6 * 9 * len(order)}"
    assert audit(tmp_path / "net_gen.cpp", tmp_path / "net_weights.bin").findings == ()


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@needs_compiler
def test_a_large_frame_is_scaled(tmp_path: Path) -> None:
    assert made(tmp_path, camera(), mean=(128.0,))
    small = np.random.default_rng(2).integers(0, 256, FRAME).astype(np.uint8)
    large, output, _ = draw(tmp_path, small.repeat(2, axis=0).repeat(3, axis=1), 0)
    same, expected, _ = draw(tmp_path, small, 0)
    assert large == same
    np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize(
    ("graph", "fields"),
    [
        (camera(), {}),
        (camera(), {"mean": (127.5,)}),
        (camera(), {"mean": (128.0,), "scale": 1 / 128}),
        (camera(), {"mean": (256.0,)}),
        (camera(), {"std": (255.0, 255.0, 254.0)}),
        (camera(Shape(6, 9, 1)), {"scale": 1 / 255}),
    ],
    ids=["nothing said", "a half", "another scale", "no byte", "deviations", "gray"],
)
def test_what_the_image_unit_cannot_make_stays_to_the_application(
    graph: Graph, fields: dict[str, Any], tmp_path: Path
) -> None:
    assert not made(tmp_path, graph, **fields)


def test_a_device_without_the_block_has_no_class(tmp_path: Path) -> None:
    graph, configuration = camera(), config(PATH, scale=1 / 255)
    assert "net_frame.h" not in render(graph, build(graph, configuration), Request.of(configuration))
