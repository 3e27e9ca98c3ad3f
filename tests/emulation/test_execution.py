"""Networks are compiled once and run on the emulated device; maps go in and come out in (N, H, W, C)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.audit import audit
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.emulating import Twin
from cnn_convertor.devices.dv700.estimate import changes
from cnn_convertor.devices.dv700.memory.memory_layout import memory_order
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.program import ElementType, LayerType, Tensor
from cnn_convertor.devices.settings import Runtime
from cnn_convertor.emulation import build as building
from cnn_convertor.emulation.feature_maps import from_memory, given_layers, layers_of, outputs_of, to_memory
from cnn_convertor.errors import ConvertorError, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Padding, Pair, Shape, Window
from cnn_convertor.layouts.dv700 import feature_map
from cnn_convertor.layouts.notation import parse
from cnn_convertor.pipeline import build
from cnn_convertor.verification.compare import sqnr
from emulation.small_networks import dense_blocks, needs_compiler, random, small_graph, with_limits
from reference import ir_reference
from verification.trials import config, network, samples


@needs_compiler
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_the_device_gives_what_the_graph_means(transposed: bool, tmp_path: Path) -> None:
    graph = small_graph()
    inputs = samples(*({n.name: random(*graph.shape(n.name), seed=s) for n in graph.inputs} for s in (3, 4)))
    results = network(graph, tmp_path, transpose_weight=transposed).run(inputs)
    for number in range(2):
        expected = ir_reference.run(graph, {name: values[number] for name, values in inputs.items()})
        for output, values in zip(graph.outputs, results.outputs, strict=True):
            assert values.shape[1:] == graph.shape(output)
            assert sqnr(values[number], expected[output]) > 60, output


@pytest.mark.rotating
@pytest.mark.slow
@needs_compiler
@pytest.mark.skipif(shutil.which("clang++") is None, reason="no clang++")
def test_clang_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes seconds, because clang++ compiles the device; its code once crashed in activations."""
    slopes = Constant.of(random(20, seed=3) / 4)
    depthwise = ops.Conv2d(Constant.of(random(20, 1, 3, 3, seed=4)), None, Window(Pair(3, 3)), groups=20)
    nodes = (
        *small_graph().nodes,
        Node("leaky", ops.Activation(ops.Relu(0.25)), ("sum",)),
        Node("prelu", ops.Activation(ops.PRelu(slopes)), ("sum",)),
        Node("depthwise", depthwise, ("prelu",)),
        Node("relu6", ops.Activation(ops.Relu6()), ("depthwise",)),
        Node("softmax", ops.Softmax(), ("leaky",)),
    )
    graph = Graph(nodes, ("map", "narrow", "softmax", "relu6"))
    inputs = samples({n.name: random(*graph.shape(n.name), seed=5) for n in graph.inputs})
    of_gcc = network(graph, tmp_path / "gcc").run(inputs, layers=True)
    monkeypatch.setenv("CXX", "clang++")
    of_clang = network(graph, tmp_path / "clang").run(inputs, layers=True)
    for one, other in zip((*of_gcc.outputs, *of_gcc.layers), (*of_clang.outputs, *of_clang.layers), strict=True):
        np.testing.assert_array_equal(one, other)


@needs_compiler
def test_exact_mode_keeps_what_fp16_loses(tmp_path: Path) -> None:
    graph = small_graph()
    inputs = samples({n.name: random(*graph.shape(n.name)) for n in graph.inputs})
    trial = network(graph, tmp_path)
    rounded, exact = trial.run(inputs), trial.run(inputs, exact=True)
    assert 60 < sqnr(rounded.outputs[0], exact.outputs[0]) < 90
    expected = ir_reference.run(graph, {name: values[0] for name, values in inputs.items()})
    assert sqnr(exact.outputs[0][0], expected["sum"]) > sqnr(rounded.outputs[0][0], expected["sum"])


@needs_compiler
def test_every_layer_can_be_looked_at(tmp_path: Path) -> None:
    trial = network(small_graph(), tmp_path, fusion="none")
    inputs = samples({n.name: random(*trial.graph.shape(n.name)) for n in trial.graph.inputs})
    layers = trial.run(inputs, layers=True).layers
    assert [maps.shape for maps in layers] == [(1, layer.output.shape.size) for layer in trial.program.layers]
    index = [layer.name for layer in trial.program.layers].index("conv")
    expected = ir_reference.run(trial.graph, {name: values[0] for name, values in inputs.items()})["conv"]
    assert sqnr(from_memory(layers[index], Shape(5, 4, 20), feature_map(transposed=True))[0], expected) > 60

    (behind,) = (index for index, layer in enumerate(trial.program.layers) if layer.name == "sum")
    replaced = given_layers(trial.program, {index: np.zeros_like(layers[index])})
    follows = trial.run(inputs, layers=True, replaced=replaced).layers[behind]
    more = from_memory(follows, Shape(5, 4, 20), feature_map(transposed=True))
    np.testing.assert_array_equal(more, inputs["more"].astype(np.float16))


@needs_compiler
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "data"])
def test_concatenations_in_place_come_last_and_their_maps_are_right(compiled: bool, tmp_path: Path) -> None:
    """The commands are in one list. Nothing reads a concatenation at its number, so other maps may lie there by then."""
    graph = dense_blocks()
    inputs = samples(*({"image": random(8, 6, 8, seed=seed)} for seed in (3, 4)))
    trial = network(graph, tmp_path, compiled=compiled)
    types = [layer.type for layer in trial.program.layers]
    joined = [index for index, type in enumerate(types) if type is LayerType.CONCAT]
    numbered = re.findall(r"layer\.type = (\w+);", (tmp_path / "net_gen.cpp").read_text())
    assert len(joined) > 3 and numbered[-len(joined) :] == ["LT_CONCAT"] * len(joined)
    assert (
        len(list(groupby(types))) > 3 and changes(trial.program, read_profile("dv700", Path()), Runtime.SDK).lists == 1
    )
    assert numbered[: -len(joined)].count("LT_CONV") == types.count(LayerType.CONV)

    first = trial.program.layers[joined[0]].output
    written = [layer.output for layer in trial.program.layers[joined[0] :] if layer.runs]
    assert any(
        later.offset < first.offset + first.nbytes and first.offset < later.offset + later.nbytes for later in written
    )

    results = trial.run(inputs, layers=True)
    for number in range(2):
        expected = ir_reference.run(graph, {"image": inputs["image"][number]})
        for index, layer in enumerate(trial.program.layers):
            values = from_memory(results.layers[index], layer.output.shape, feature_map(transposed=True))[number]
            assert sqnr(values, expected[layer.name]) > 55, layer.name
    together = trial.run(inputs)  # all commands in one list
    np.testing.assert_array_equal(together.outputs[0], results.outputs[0])

    replaced = given_layers(trial.program, {joined[-1]: 0 * results.layers[joined[-1]], 0: results.layers[0]})
    follows = trial.run(inputs, layers=True, replaced=replaced)
    assert results.outputs[0].any() and not follows.outputs[0].any()


@needs_compiler
def test_a_concatenation_in_place_may_be_an_output(tmp_path: Path) -> None:
    graph = dense_blocks()
    graph = Graph(graph.nodes, ("joined0_2", "out"))
    inputs = samples({"image": random(8, 6, 8)})
    results = network(graph, tmp_path, compiled=True).run(inputs)
    expected = ir_reference.run(graph, {"image": inputs["image"][0]})
    for name, values in zip(graph.outputs, results.outputs, strict=True):
        assert sqnr(values[0], expected[name]) > 55, name
    assert not [finding for finding in audit(tmp_path / "net_gen.cpp").findings if finding.code != "DV671"]


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("shape", [Shape(2, 3, 4), Shape(3, 5, 20), Shape(1, 1, 30), Shape(4, 4, 16)])
def test_memory_holds_every_element_once(shape: Shape, transposed: bool) -> None:
    values = np.arange(2 * shape.size, dtype=np.float32).reshape(2, *shape)
    memory = to_memory(values, feature_map(transposed=transposed))
    assert np.array_equal(from_memory(memory, shape, feature_map(transposed=transposed)), values)
    order = memory_order(shape, transposed=transposed, order=Order.HWC)
    assert np.array_equal(memory[0], order.astype(np.float32))


ATOMS = parse("hwc: c/16 h w c%16")


@pytest.mark.parametrize("shape", [Shape(2, 3, 5), Shape(3, 5, 40), Shape(1, 1, 17), Shape(4, 4, 16)])
def test_memory_in_whole_atoms_holds_zeros_beyond_the_last_channel(shape: Shape) -> None:
    tensor = Tensor(shape, ElementType.HALF, 0, ATOMS)
    values = np.arange(1, 2 * shape.size + 1, dtype=np.float32).reshape(2, *shape)
    memory = to_memory(values, ATOMS)
    height, width, channels = shape
    expected = np.zeros((2, -(-channels // 16) * 16 * height * width), np.float32)
    for y, x, c in np.ndindex(*shape):
        expected[:, ((c // 16 * height + y) * width + x) * 16 + c % 16] = values[:, y, x, c]
    assert np.array_equal(memory, expected)
    assert np.array_equal(from_memory(memory, shape, ATOMS), values)
    assert (tensor.elements, tensor.nbytes) == (expected.shape[1], 2 * expected.shape[1])


def test_maps_in_whole_atoms_come_apart() -> None:
    """A program of maps with 4, 20 and other numbers of channels."""
    program = build(small_graph(), config(Path("graph.keras")))
    layers = tuple(replace(layer, output=layer.output._replace(layout=ATOMS)) for layer in program.layers)
    program = replace(program, layers=layers)
    given = [random(2, *layer.output.shape) for layer in layers]
    memory = [to_memory(values, ATOMS) for values in given]
    order = [memory[index] for index in program.order]
    apart = layers_of(program, np.concatenate(order, axis=1), [values.shape[1] for values in order])
    assert all(np.array_equal(*pair) for pair in zip(apart, memory, strict=True))
    flat = np.concatenate([memory[index] for index in program.outputs], axis=1)
    outputs = outputs_of(program, flat, None)
    expected = [given[index] for index in program.outputs]
    assert all(np.array_equal(*pair) for pair in zip(outputs, expected, strict=True))


# --- errors --------------------------------------------------------------------------------------------------------------


@needs_compiler
def test_inputs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    trial = network(small_graph(), tmp_path)
    good = {n.name: np.zeros((1, *trial.graph.shape(n.name)), np.float32) for n in trial.graph.inputs}
    for wrong, message in (
        ({"image": good["image"]}, 'DV705: the network.s inputs are "image", "more"'),
        ({**good, "image": np.zeros((1, 4, 5, 3), np.float32)}, "5x4x3"),
        ({**good, "image": np.zeros((2, 5, 4, 3), np.float32)}, "samples"),
    ):
        with pytest.raises(UsageError, match=message):
            trial.run(wrong)


def test_results_of_another_network_are_refused() -> None:
    program = build(small_graph(), config(Path("graph.keras")))
    with pytest.raises(ConvertorError, match="DV709: the compiled network has other layers or outputs"):
        outputs_of(program, np.zeros((1, 3), np.float32), None)


@needs_compiler
def test_what_the_device_refuses_is_said(tmp_path: Path) -> None:
    trial = network(small_graph(), tmp_path)
    trial.weights.write_bytes(trial.weights.read_bytes() + b"\0")
    with pytest.raises(ConvertorError, match="more than"):
        trial.run(samples({n.name: random(*trial.graph.shape(n.name)) for n in trial.graph.inputs}))


@needs_compiler
def test_the_same_network_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = network(small_graph(), tmp_path / "a", compiled=True).executable

    def run_all(commands: Sequence[Sequence[str]], **_: object) -> list[object]:
        assert not commands
        return []

    monkeypatch.setattr(building, "run_all", run_all)
    assert network(small_graph(), tmp_path / "b", compiled=True).executable == first


CALLBACK = """
#include <cstring>
#include "net_gen.h"

// Repeats the first input value, an FP16 power of two, in FP32, plus the parameter.
void custom_callback_Mine(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) {
  const float more = static_cast<custom_param_Mine *>(custom_param)->more;
  uint16_t bits;
  std::memcpy(&bits, io_ptr + layer.input_offs, sizeof(bits));
  uint32_t wide = (static_cast<uint32_t>(bits) << 13) + (112u << 23);
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  value += more;
  for (std::size_t i = 0; i < layer.output_size; i += 4) std::memcpy(io_ptr + layer.output_offs + i, &value, 4);
}
"""


@needs_compiler
def test_custom_layers_run_the_firmwares_code(tmp_path: Path) -> None:
    custom = ops.Custom("Mine", (("more", 0.5),), Shape(2, 1, 3))
    graph = Graph((Node("in", ops.Input(Shape(1, 1, 8))), Node("mine", custom, ("in",))), ("mine",))
    with pytest.raises(ConvertorError, match=r"custom_callback_Mine[\s\S]*--source"):
        network(graph, tmp_path / "without")
    (tmp_path / "mine.cpp").write_text(CALLBACK)
    trial = network(graph, tmp_path / "with", sources=[tmp_path / "mine.cpp"])
    assert np.array_equal(trial.run(samples({"in": np.full((1, 1, 8), 4.0)})).outputs[0], np.full((1, 2, 1, 3), 4.5))


RAMP = """
#include "net_gen.h"

// Adds to each value its place in the order H, W, C, with the SDK's functions for callbacks.
void custom_callback_Ramp(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) {
  const bool need_transpose = !static_cast<custom_param_Ramp *>(custom_param)->transposed;
  std::vector<float> values;
  get_layer_input(layer, values, io_ptr, need_transpose);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(i);
  put_layer_output(layer, values, io_ptr);
}
"""


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@needs_compiler
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("channels", [3, 11])
def test_custom_layers_take_and_give_maps_as_the_sdk_does(channels: int, transposed: bool, tmp_path: Path) -> None:
    shape = Shape(4, 5, channels)
    nodes = (
        Node("in", ops.Input(shape)),
        Node("relu", ops.Activation(ops.Relu()), ("in",)),
        Node("ramp", ops.Custom("Ramp", (("transposed", transposed),), shape), ("relu",)),
        Node("last", ops.Unary(ops.Absolute()), ("ramp",)),
    )
    (tmp_path / "ramp.cpp").write_text(RAMP)
    graph = Graph(nodes, ("ramp", "last"))
    trial = network(graph, tmp_path, sources=[tmp_path / "ramp.cpp"], transpose_weight=transposed)
    values = np.arange(shape.size).reshape(1, *shape) % 7.0
    for result in trial.run(samples({"in": values[0]})).outputs:
        np.testing.assert_array_equal(result, values + np.arange(shape.size).reshape(values.shape))
    assert audit(tmp_path / "net_gen.cpp", None).findings == ()


def restricted() -> dict[str, tuple[str, Graph]]:
    """What old revisions lack, with a network that needs it."""

    pool = Window(Pair(2, 2), Pair(2, 2))
    small = Node("in", ops.Input(Shape(2, 4, 8)))
    conv = ops.Conv2d(Constant.of(random(8, 8, 5, 5)), None, Window(Pair(5, 5), padding=Padding(4, 4, 4, 4)))
    deconvolution = ops.ConvTranspose2d(Constant.of(random(8, 8, 2, 2)), None, pool)
    return {
        "a deconvolution": ("deconvolves", Graph((small, Node("out", deconvolution, ("in",))), ("out",))),
        "a wide pool": (
            "pools_unevenly", Graph((small, Node("out", ops.AveragePool2d(Window(Pair(1, 2))), ("in",))), ("out",)),
        ),
        "wide padding": ("pads_beyond_map", Graph((small, Node("out", conv, ("in",))), ("out",))),
    }  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("name", restricted())
def test_the_emulated_device_refuses_what_old_revisions_refuse(name: str, tmp_path: Path) -> None:
    lacks, graph = restricted()[name]
    installed = network(graph, tmp_path)
    inputs = samples({"in": random(*graph.shape("in"))})
    assert np.isfinite(installed.run(inputs).outputs[0]).all()
    with pytest.raises(ConvertorError, match="DV704"):
        installed._replace(device=Twin(with_limits(**{lacks: False}))).run(inputs)


@needs_compiler
def test_the_emulated_device_pools_in_several_tiles_with_a_late_driver_and_late_hardware(tmp_path: Path) -> None:
    same = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))
    convolution = Node("conv", ops.Conv2d(Constant.of(random(64, 64, 3, 3)), None, same), ("in",))
    pool = Node("out", ops.MaxPool2d(Window(Pair(2, 2), Pair(2, 2))), ("conv",))
    graph = Graph((Node("in", ops.Input(Shape(100, 100, 64))), convolution, pool), ("out",))
    figures: dict[str, Figure[Any]] = {
        "driver": Figure("7.2.20201106", "test"),
        "hardware": Figure(date(2019, 7, 29), "test"),
    }
    late = read_profile("dv700", Path()).with_figures(figures)
    inputs = samples({"in": random(*graph.shape("in"))})
    together = network(graph, tmp_path / "late", device=late)
    apart = network(graph, tmp_path / "pinned")
    np.testing.assert_array_equal(together.run(inputs).outputs[0], apart.run(inputs).outputs[0])
    message = r"DV704[\s\S]*needs a user driver from 7\.2\.20201106 on and hardware from 2019-07-29 on"
    with pytest.raises(ConvertorError, match=message):
        together._replace(device=Twin(DV700)).run(inputs)


CALLBACK_OF_BLOCKS = """
#include <cstring>
#include "dmp_dv_cmdraw_v0.h"
#include "net_gen.h"

// Writes for each block whether the device has it: convolution, image unit, maximizer.
void custom_callback_Blocks(fpga_layer &layer, void *, uint8_t *io_ptr) {
  const dmp_dv_context context = dmp_dv_context_create();
  float found[3];
  const int types[3] = {DMP_DV_DEV_CONV, DMP_DV_DEV_IPU, DMP_DV_DEV_MAXIMIZER};
  for (int i = 0; i < 3; ++i) found[i] = static_cast<float>(dmp_dv_device_exists(context, types[i]));
  dmp_dv_context_release(context);
  std::memcpy(io_ptr + layer.output_offs, found, sizeof(found));
}
"""


@needs_compiler
@pytest.mark.parametrize(("device", "blocks"), [("dv700", [1, 0, 0]), ("zia-c3", [1, 1, 1])])
def test_the_emulated_device_has_the_blocks_of_the_profile(device: str, blocks: list[int], tmp_path: Path) -> None:
    custom = ops.Custom("Blocks", (("unused", 1),), Shape(1, 1, 3))
    graph = Graph((Node("in", ops.Input(Shape(1, 1, 8))), Node("blocks", custom, ("in",))), ("blocks",))
    (tmp_path / "blocks.cpp").write_text(CALLBACK_OF_BLOCKS)
    profile = read_profile(device, Path())
    trial = network(graph, tmp_path / "with", sources=[tmp_path / "blocks.cpp"], device=profile)
    assert trial.run(samples({"in": np.ones((1, 1, 8))})).outputs[0].ravel().tolist() == blocks


@needs_compiler
def test_each_layer_has_the_bytes_that_it_moves(tmp_path: Path) -> None:
    graph = small_graph()
    inputs = samples(*({n.name: random(*graph.shape(n.name), seed=s) for n in graph.inputs} for s in (3, 4)))
    results = network(graph, tmp_path).run(inputs, layers=True)
    moved = [tuple(traffic) for traffic in results.traffic if traffic.commands]
    image, added = 5 * 4 * 3 * 2, 5 * 4 * 20 * 2
    assert moved == [
        (1, image, added, added, 144 * 20 + 16 * 3),
        (1, added, 0, 5 * 3 * 5 * 2, 144 * 5 * 3 + 16),
        (1, added, 0, 24 * 2, 144 * 24 * 7 + 16 * 3),
    ]


@pytest.mark.parametrize(
    ("flags", "options"),
    [("fpu avx2 f16c fma", ("-mavx2", "-mf16c")), ("fpu avx2", ()), ("Features : fp asimd fphp", ()), ("", ())],
)
def test_programs_are_compiled_for_the_vectors_of_this_processor(
    flags: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(building, "CPU_INFO", info)
    assert building.vector_flags() == ()  # where there is no such file
    info.write_text(f"processor : 0\nflags : {flags}\n")
    assert building.vector_flags() == options
