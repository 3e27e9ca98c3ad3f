"""The loadable of a network computes what its generated sources compute; a network without one is told why."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor import Config
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config.request import Request
from cnn_convertor.devices.nvdla.accelerator import NvdlaAccelerator
from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.devices.nvdla.loadable import loadable_writing
from cnn_convertor.devices.nvdla.loadable import network_loadable as making
from cnn_convertor.devices.nvdla.loadable.loadable_file import Loadable, read_loadable
from cnn_convertor.devices.nvdla.loadable.playback import memory_after
from cnn_convertor.devices.nvdla.network_program import FIRST_EXTERNAL, IO, NvdlaProgram, external_maps
from cnn_convertor.devices.program import LayerType, Tensor
from cnn_convertor.emulation.feature_maps import Maps, Outputs
from cnn_convertor.errors import ConvertorWarning, UnsupportedError
from cnn_convertor.files.replacing import write
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Padding, Pair, Shape, Window
from cnn_convertor.pipeline import plan, read_whole
from cnn_convertor.samples import samples_of
from examples import zoo

VERSIONS = ("0.12", "0.11")
FULL = NvdlaAccelerator(NvdlaHardware("nvdla-full"))
STEP = 2.0**-10  # of FP16, relative


def conv(kernels: int, channels: int, seed: int, size: int = 3) -> ops.Conv2d:
    values = np.random.default_rng(seed).normal(0, 0.3, (kernels, channels, size, size)).astype(np.float32)
    pad = size // 2
    return ops.Conv2d(Constant.of(values), None, Window(Pair(size, size), padding=Padding(pad, pad, pad, pad)))


def graph(*nodes: tuple[str, ops.Op, Sequence[str]], outputs: Sequence[str], shape: Shape = Shape(6, 5, 20)) -> Graph:
    all_nodes = [Node("x", ops.Input(shape)), *(Node(name, op, tuple(inputs)) for name, op, inputs in nodes)]
    return Graph(tuple(all_nodes), tuple(outputs))


def program_of(network: Graph) -> NvdlaProgram:
    program = plan(network, "net", FULL)
    assert isinstance(program, NvdlaProgram)
    return program


def written(program: NvdlaProgram, version: str, folder: Path) -> Loadable:
    write(folder / "net.nvdla", making.network_loadable(program, NV_FULL, version))
    return read_loadable(folder / "net.nvdla")


def assert_same(network: Graph, program: NvdlaProgram, folder: Path, inputs: dict[str, Maps] | None = None) -> None:
    """Outputs have the same bits in both versions, and so has each map that the I/O memory has at the end."""
    if inputs is None:
        random = np.random.default_rng(3)
        inputs = {
            node.name: random.normal(size=(1, *network.shape(node.name))).astype(np.float32) for node in network.inputs
        }
    halves = {name: values.astype(np.float16) for name, values in inputs.items()}
    files = FULL.emit(program, RenderOptions(program.name))
    ran = FULL.install(network, program, files, folder / "sources").run(
        {name: values.astype(np.float32) for name, values in halves.items()}, layers=True
    )
    for version in VERSIONS:
        compiled = written(program, version, folder)
        assert compiled.findings("nvdla-full") == ()
        given = {name: values[0] for name, values in halves.items()}
        results = compiled.run("nvdla-full", given)
        for (name, tensor), index, values in zip(program.results, program.outputs, ran.outputs, strict=True):
            expected = values[0].reshape(tensor.shape)
            if program.layers[index].type is LayerType.CUSTOM:  # this processor's exponential function, then FP16
                np.testing.assert_allclose(results[name].astype(np.float32), expected, rtol=STEP, atol=2.0**-24)
            else:
                np.testing.assert_array_equal(results[name], expected)
        assert_same_memory(program, compiled, given, ran)


def assert_same_memory(program: NvdlaProgram, compiled: Loadable, given: dict[str, Any], ran: Outputs) -> None:
    memory = memory_after(compiled.contents, NV_FULL, given)
    own = [tensor.offset for tensor in external_maps(program)]
    compared = 0
    for index, layer in enumerate(program.layers):
        later = [each.output for each in program.layers[index + 1 :]]
        if layer.type is not LayerType.CONV or any(overlap(layer.output, other) for other in later):
            continue
        cube = layer.runs[-1].operation.surfaces.dst_data
        placed = compiled.contents.memories[IO]
        start = layer.output.offset
        if cube.address >= FIRST_EXTERNAL:
            placed = compiled.contents.memories[cube.address]
            start -= own[cube.address - FIRST_EXTERNAL]
        there = memory[placed.address][start : start + layer.output.nbytes].view(np.float16)
        np.testing.assert_array_equal(there, ran.layers[index][0], layer.name)
        compared += 1
    assert compared, "nothing of the memory is left at the end"


def overlap(one: Tensor, other: Tensor) -> bool:
    return one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes


def classifier() -> Graph:
    """Two outputs: one after ReLU, which goes on, and a softmax behind a pool."""
    return graph(
        ("first", conv(32, 20, 1), ["x"]),
        ("relu", ops.Activation(ops.Relu()), ["first"]),
        ("pool", ops.AveragePool2d(Window(Pair(6, 5), Pair(6, 5))), ["relu"]),
        ("classes", conv(11, 32, 2, size=1), ["pool"]),
        ("chances", ops.Softmax(), ["classes"]),
        outputs=["relu", "chances"],
    )


def joined() -> Graph:
    """A concatenation in place is an output; a view of another map, too."""
    return graph(
        ("left", conv(16, 20, 1), ["x"]),
        ("right", conv(24, 20, 2, size=1), ["x"]),
        ("both", ops.Concat(ops.Axis.CHANNELS), ["left", "right"]),
        ("last", conv(8, 40, 3), ["both"]),
        ("flat", ops.Reshape(Shape(1, 30, 8), Order.HWC), ["last"]),
        outputs=["both", "flat"],
    )


NETWORKS = {"classifier": classifier, "joined": joined}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_what_its_sources_give(name: str, tmp_path: Path, compiler: None) -> None:
    network = NETWORKS[name]()
    program = program_of(network)
    assert making.why_no_loadable(program, NV_FULL) is None
    assert_same(network, program, tmp_path)


def of_config(config: Config, folder: Path) -> None:
    request = Request.of(config)
    network = read_whole(request)
    program = plan(network, config.name, FULL)
    assert isinstance(program, NvdlaProgram)
    samples = samples_of(None, network, request.preparation, samples=1)
    assert_same(network, program, folder, {name: np.asarray(values) for name, values in samples.inputs.items()})


@pytest.mark.rotating
@pytest.mark.parametrize(("name", "size"), [("onnx_unet", 32), ("caffe_squeezenet_1_1", 48)])
def test_a_known_network_gives_what_its_sources_give(name: str, size: int, tmp_path: Path, compiler: None) -> None:
    of_config(Config.read(zoo.build(name, tmp_path, size=size)), tmp_path)


@pytest.mark.rotating(turns=4)
def test_lenet_gives_what_its_sources_give(shared: Path, tmp_path: Path, compiler: None) -> None:
    folder = shared / "models" / "lenet_mnist_caffe"
    of_config(
        Config(definition=folder / "lenet.prototxt", data=folder / "lenet_iter_10000.caffemodel", name="lenet"),
        tmp_path,
    )


SOFTMAX = ops.Softmax()
LEFT = {
    "a softmax of several pixels": (
        graph(("n", SOFTMAX, ["x"]), outputs=["n"]),
        '"n" (softmax) needs the CPU',
    ),
    "a softmax that the device reads": (
        graph(("n", SOFTMAX, ["x"]), ("m", conv(8, 20, 1, size=1), ["n"]), outputs=["m"], shape=Shape(1, 1, 20)),
        '"n" (softmax) needs the CPU',
    ),
    "a softmax of what the CPU computes": (
        graph(("n", SOFTMAX, ["x"]), ("m", SOFTMAX, ["n"]), outputs=["m"], shape=Shape(1, 1, 20)),
        '"m" (softmax) needs the CPU',
    ),
    "two outputs in one memory": (
        graph(("n", conv(8, 20, 1), ["x"]), ("m", ops.Reshape(Shape(1, 30, 8), Order.HWC), ["n"]), outputs=["n", "m"]),
        '"m" is a part of another map',
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_a_network_without_a_loadable_is_told_why(name: str) -> None:
    network, reason = LEFT[name]
    program = program_of(network)
    options = RenderOptions("net", loadable="0.12")
    with pytest.warns(ConvertorWarning) as warned:
        files = FULL.emit(program, options)
    ((problem,),) = [each.message.problems for each in warned if isinstance(each.message, ConvertorWarning)]
    assert problem.code == "DV932" and reason in problem.message and "loadable = none" in problem.hint
    assert set(files) == FULL.names_of(program, options)


def test_none_is_written_where_none_is_wanted() -> None:
    network, _ = LEFT["a softmax of several pixels"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "net.nvdla" not in FULL.emit(program_of(network), RenderOptions("net", loadable="none"))


def test_a_network_of_too_many_addresses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0.11 needs one for every place."""
    monkeypatch.setattr(loadable_writing, "MOST_ADDRESSES", 12)
    program = program_of(joined())
    assert list(making.network_loadable(program, NV_FULL, "0.12"))
    with pytest.raises(UnsupportedError) as refused:
        list(making.network_loadable(program, NV_FULL, "0.11"))
    (problem,) = refused.value.problems
    assert problem.code == "DV933" and "addresses" in problem.message and "loadable = 0.12" in problem.hint
