"""verify finds the files of a faulty convertor, damages with renewed hashes, and faults that both of its sides share."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.codegen import kernels
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.checking import what_runs
from cnn_convertor.conversion.convert import convert
from cnn_convertor.conversion.manifest import listed_digests
from cnn_convertor.devices import half_check
from cnn_convertor.devices.cpu_functions import CpuKernelCall, kernel_call
from cnn_convertor.devices.dv700.encode import registers
from cnn_convertor.devices.dv700.weights import encoding, streams
from cnn_convertor.devices.target import Quantized
from cnn_convertor.emulation import feature_maps
from cnn_convertor.errors import ConvertorError
from cnn_convertor.files.integrity import digest_of
from cnn_convertor.ir import ops
from cnn_convertor.passes import canonicalize
from cnn_convertor.pipeline import quantize, read_whole
from cnn_convertor.trials.verify import verify
from development.faults.networks import NETWORKS
from development.faults.rows import FAULTS, ROOT
from devices.dv700.encode import test_registers
from devices.dv700.weights import test_streams
from frontends.onnx.networks import Network, helper
from verification.trials import change_files

needs_compiler = pytest.mark.usefixtures("compiler")


def test_every_row_of_faults_fits_the_source() -> None:
    """A row whose text has moved or changed is to be adapted."""
    assert len(set(FAULTS)) >= 100
    for fault in FAULTS:
        changed = fault.applied((ROOT / fault.path).read_text(encoding="utf-8"))
        assert fault.old != fault.new and changed and fault.network in NETWORKS and fault.room


# --- files on disk -------------------------------------------------------------------------------------------------------


class Converted(NamedTuple):
    """A network, its program, and the folder of its files as they should be."""

    config: Config
    quantized: Quantized
    folder: Path

    def differences(self, folder: Path) -> list[str]:
        """The files of a folder that verify --disk finds, of which it says what differs."""
        fresh = {path.name: path for path in self.folder.iterdir() if path.suffix != ".json"}
        request = replace(Request.of(self.config), folder=folder)
        found = what_runs(request, self.quantized, fresh)
        assert all(difference.lines for difference in found)
        return [difference.file.name for difference in found]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """A convolution of bytes with a batch norm, functions of the CPU, an average pool and two outputs of the same size."""
    folder, random = tmp_path_factory.mktemp("faults"), np.random.default_rng(0)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w", "b"], ["conv"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["conv", "ones", "b", "b", "ones"], ["norm"]),
        node("HardSwish", ["norm"], ["swish"]),
        node("LRN", ["swish"], ["lrn"], size=5, alpha=0.5),
        node("AveragePool", ["lrn"], ["mean"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["mean", "v"], ["scores"]),
        node("Softmax", ["scores"], ["classes"], axis=1),
    ]
    arrays = {"w": random.normal(0, 0.3, (12, 3, 3, 3)), "b": random.normal(0, 0.3, 12), "ones": np.ones(12)}
    arrays["v"] = random.normal(0, 0.3, (12, 12, 1, 1))
    constants = {name: values.astype(np.float32) for name, values in arrays.items()}
    Network(nodes, {"x": np.zeros((1, 3, 8, 10), np.float32)}, constants).write(
        folder / "net.onnx", ["classes", "mean"]
    )
    (folder / "net.ini").write_text(
        "[INPUT]\nname = net\ndefinition = net.onnx\nmean = 110, 120, 130\nscale = 1/60\n"
        "[OUTPUT]\noutput_folder = whole\nquantization = 0\ngenerate_source = 1\ninput = u8\n"
    )
    config = Config.of(folder / "net.ini")
    convert(config)
    request = Request.of(config)
    return Converted(config, quantize(read_whole(request), request), folder / "whole" / "net")


def _of_headers(old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Another text in the C++ of the CPU's functions."""

    def change(patch: pytest.MonkeyPatch) -> None:
        read = kernels._read  # noqa: SLF001  # the only place where headers are read

        def changed(name: str) -> kernels.KernelHeader:
            header = read(name)
            return header._replace(body=header.body.replace(old, new))

        patch.setattr(kernels, "_read", changed)

    return change


def _of_alpha(patch: pytest.MonkeyPatch) -> None:
    def changed(op: Any) -> CpuKernelCall:
        right = kernel_call(op)
        if right.function != "LocalResponseNorm":
            return right
        size, alpha, *rest = right.arguments
        assert isinstance(alpha, float)
        return CpuKernelCall(right.function, (size, 1.02 * alpha, *rest))

    patch.setattr(kernels, "kernel_call", changed)


def _of_epsilon(patch: pytest.MonkeyPatch) -> None:
    as_scale = canonicalize.as_scale
    patch.setattr(canonicalize, "as_scale", lambda norm: as_scale(replace(norm, epsilon=10 * norm.epsilon)))


def _of_averages(patch: pytest.MonkeyPatch) -> None:
    half_bits = registers.half_bits
    patch.setattr(registers, "half_bits", lambda value: half_bits(value) + 2 * (value == 0.25))


def truncated(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """FP16 numbers towards zero."""
    half = values.astype(np.float16)
    return np.where(np.abs(half) > np.abs(values), np.nextafter(half, np.float16(0)), half)


def _of_weights(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(half_check, "to_half", truncated)
    patch.setattr(encoding, "to_half", truncated)
    patch.setattr(streams, "to_half", truncated)


FAULTY: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "a hard swish that divides by 7.5": (_of_headers("/ Each<V>(6.0f)", "/ Each<V>(7.5f)"), "net_cpu.h"),
    "another epsilon of a batch norm": (_of_epsilon, "net_weights.bin"),
    "an LRN with 1.02 alpha": (_of_alpha, "net_cpu.h"),
    "averages by 2 ulp": (_of_averages, "net_gen.cpp"),
    "weights that are truncated": (_of_weights, "net_weights.bin"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_files_of_a_faulty_convertor_are_found(name: str, converted: Converted, tmp_path: Path) -> None:
    fault, file = FAULTY[name]
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        convert(replace(converted.config, output_folder=tmp_path))
    assert converted.differences(tmp_path / "net") == [file]


@pytest.mark.slow
@needs_compiler
def test_what_such_files_compute_is_found_without_any_list_of_files(converted: Converted, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _of_averages(patch)
        convert(replace(converted.config, output_folder=tmp_path))
    (tmp_path / "net" / "net.json").unlink()
    result = verify(replace(converted.config, output_folder=tmp_path), samples=1, disk=True)
    assert not result.passed and "mean" in result.different_layers, result.different_layers


def _largest_weight(data: bytearray) -> None:
    """Its sign, of a weight of the first layer: behind eight biases."""
    numbers = np.frombuffer(data[16:160], "<f2").astype(np.float32)
    data[17 + 2 * int(np.abs(numbers).argmax())] ^= 0x80


def _bit(at: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 1

    return change


DAMAGES: dict[str, tuple[str, Callable[[bytearray], None] | tuple[str, str]]] = {
    "a weight's sign": ("net_weights.bin", _largest_weight),
    "a weight's last bit": ("net_weights.bin", _bit(18)),
    "a bias's last bit": ("net_weights.bin", _bit(0)),
    "log2 of e by 1 %": ("net_cpu.h", (r"kLog2OfE = 1\.44\d+f", "kLog2OfE = 1.4571f")),
    "the 3 of a hard swish": ("net_cpu.h", (r"x \+ Each<V>\(3\.0f\)", "x + Each<V>(3.001f)")),
    "rounding to FP16": ("net_cpu.h", (r"0x0FFFu \+ \(\(rest", "0x0000u + ((rest")),
    "a value of the table of bytes": ("net_gen.cpp", ("0xBF55, 0xC000", "0xBF54, 0xC000")),
    "the factor of an average": ("net_gen.cpp", ("pool_avg_param = 0x3400", "pool_avg_param = 0x3401")),
    "the beta of an LRN": ("net_cpu.h", (r", 0\.75f", ", 0.7501f")),
    "an offset": ("net_gen.cpp", (r"cmd\.output_buf\.offs = \d+", "cmd.output_buf.offs = 16")),
    "the order of outputs": ("net_gen.cpp", (r"output_layers_\[0\]", "output_layers_[1]")),
    "the memory order": ("net_gen.cpp", ("is_weight_transposed = true", "is_weight_transposed = false")),
    # What applications read.
    "outputs exchanged": ("net_gen.h", (r'(    \{"classes".*\n)(    \{"mean".*\n)', r"\2\1")),
    "positions of outputs": ("net_gen.h", (r"kOutput_classes = 0,(.*)\n    kOutput_mean = 1,", r"kOutput_classes = 1,\1\n    kOutput_mean = 0,")),
    "the layout of an output": ("net_gen.h", (r'2, "HWC"\}', '2, "hwc8"}')),
    "the size of the input": ("net_gen.h", (r'\{"x", 0, 240, 8, 10', '{"x", 0, 240, 10, 8')),
    "means exchanged": ("net_gen.h", (r"110\.0f, 120\.0f, 130\.0f", "130.0f, 120.0f, 110.0f")),
    "the scale": ("net_gen.h", (r"kScale = 0\.0166\d+f", "kScale = 0.0167f")),
    "the order of channels": ("net_gen.h", ('"RGB"', '"BGR"')),
    "rounding of the input": ("net_gen.h", (r"0x0FFFu \+ \(\(rest", "0x0000u + ((rest")),
}  # fmt: skip


@pytest.fixture
def damaged(converted: Converted, tmp_path: Path) -> Path:
    """A copy of the files."""
    return shutil.copytree(converted.folder, tmp_path / "net")


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_whose_hash_is_renewed_is_found(name: str, converted: Converted, damaged: Path) -> None:
    file, change = DAMAGES[name]
    path = damaged / file
    if callable(change):
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)
    else:
        text, count = re.subn(change[0], change[1], path.read_text(), count=1)
        assert count == 1
        path.write_text(text)
    digest = digest_of(path)
    manifest = damaged / "net.json"
    values = json.loads(manifest.read_text())
    values["files"][file] |= {"bytes": digest.bytes, "sha256": digest.sha256}
    manifest.write_text(json.dumps(values))
    assert listed_digests(damaged, "net")[file] == digest, "the manifest knows nothing of the damage"
    assert converted.differences(damaged) == [file]


def test_files_without_a_damage_are_right(converted: Converted, damaged: Path) -> None:
    assert converted.differences(damaged) == []


@pytest.mark.slow
@needs_compiler
def test_a_table_of_bytes_that_is_off_by_one_ulp_is_found(converted: Converted) -> None:
    """Only the generated source has the table: the default verify runs it, and the program in memory has another one."""

    def change(folder: Path) -> None:
        path = folder / "net_gen.cpp"
        text = path.read_text()
        table = re.search(r"table\[768\] = \{[^}]*\}", text)
        assert table
        other = re.sub(r"0x[0-9A-F]{4}", lambda each: f"0x{int(each[0], 16) + 1:04X}", table[0])
        path.write_text(text.replace(table[0], other))

    with pytest.MonkeyPatch.context() as patch:
        change_files(patch, change)
        result = verify(converted.config, samples=1, overridden=True)
    assert not result.passed and "norm" in result.different_layers and not result.failed


# --- faults that both sides share ----------------------------------------------------------------------------------------


def _of_inputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(feature_maps, "to_half", truncated)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@needs_compiler
@pytest.mark.parametrize("fault", [_of_weights, _of_inputs, _of_averages], ids=["weights", "inputs", "registers"])
def test_numbers_that_are_rounded_wrongly_are_found(
    fault: Callable[[pytest.MonkeyPatch], None], tmp_path: Path
) -> None:
    """Both runs pack them with the same code, and numpy rounds those of the judge."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["sums"]),
        helper.make_node("AveragePool", ["sums"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    weights = np.random.default_rng(0).normal(size=(8, 8, 3, 3)).astype(np.float32)
    network = Network(nodes, {"x": np.zeros((1, 8, 8, 6), np.float32)}, {"w": weights})
    config = Config.of(network.write(tmp_path / "net.onnx"), quantization=0, output_folder=tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        if fault is _of_inputs:  # an application writes others by the header
            with pytest.raises(ConvertorError, match="DV709: the header does not describe the network: kInputs"):
                verify(config, samples=1)
            return
        result = verify(config, samples=1)
    assert not result.passed and not result.failed
    assert "y" in result.different_layers


def _tiles(change: Callable[[int, int, int, int], tuple[int, int, int, int]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Elements of a kernel at the places of others. change: of (kernel, channel, y, x)."""
    position = streams._position  # noqa: SLF001  # the packer's only table of places

    def patched(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(streams, "_position", lambda *at: position(*change(*at)))
        streams._layout.cache_clear()  # noqa: SLF001

    return patched


def _seventh_column(p: int, c: int, y: int, x: int) -> tuple[int, int, int, int]:
    return (p, c, 6 - y, x) if p == 7 and x == 6 else (p, c, y, x)


def _turned(p: int, c: int, y: int, x: int) -> tuple[int, int, int, int]:
    return (p, c, x, y) if p == 3 else (p, c, y, x)


def _channels(p: int, c: int, y: int, x: int) -> tuple[int, int, int, int]:
    return (p, c ^ 1, y, x) if p in (1, 5) else (p, c, y, x)


_header = streams._header  # noqa: SLF001


def _slopes_first(bias: NDArray[np.float16], slopes: NDArray[np.float16] | None) -> NDArray[np.uint8]:
    return _header(bias, None) if slopes is None else _header(slopes, bias)


def _in_streams(name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(streams, name, value)


def _in_registers(name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(registers, name, value)


def _vendors_bytes() -> None:
    for row in test_streams.BY_FORMULA:
        test_streams.test_bytes_are_the_vendors(*row)


def _values_by_hand() -> None:
    test_registers.test_a_run_with_everything()
    test_registers.test_a_run_without_convolution()


def _activations_by_hand() -> None:
    for function, number in ((ops.Tanh(), 1), (ops.Sigmoid(), 3)):
        test_registers.test_activations(function, number, 0)


# A fault that the emulated device may share, and what holds the convertor to the device's own form.
SHARED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "a tile of 7x7": (_tiles(_seventh_column), _vendors_bytes),
    "tiles of 3x3 turned": (_tiles(_turned), _vendors_bytes),
    "channels of a tile exchanged": (_tiles(_channels), _vendors_bytes),
    "longer chunks of channels": (_in_streams("_CHUNK", {1: 64, 3: 16, 5: 16, 7: 16}), _vendors_bytes),
    "slopes before biases": (_in_streams("_header", _slopes_first), _vendors_bytes),
    "pads exchanged": (_in_registers("_padding", lambda p: p.right | p.left << 8 | p.bottom << 16 | p.top << 24), _values_by_hand),
    "x and y exchanged": (_in_registers("_pair", lambda pair: pair.height | pair.width << 8), _values_by_hand),
    "functions exchanged": (
        _in_registers("ACTFUNC", {**registers.ACTFUNC, ops.Tanh: 3, ops.Sigmoid: 1}),
        _activations_by_hand,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_a_form_that_only_the_emulated_device_has_too_is_found(name: str) -> None:
    fault, check = SHARED[name]
    check()
    try:
        with pytest.MonkeyPatch.context() as patch:
            fault(patch)
            with pytest.raises(AssertionError):
                check()
    finally:
        streams._layout.cache_clear()  # noqa: SLF001
