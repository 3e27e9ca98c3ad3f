"""verify finds any change of the generated sources or weights, so a pass proves something."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.errors import ConvertorError, Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Order, Padding, Pair, Shape, Window
from cnn_convertor.pipeline import build
from cnn_convertor.trials.verify import verify
from reference import ir_reference
from verification.trials import change_files, config, samples

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]


class Maker:
    """A chain of layers in the making."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Node] = []

    def weights(self, *shape: int) -> Constant:
        fan_in = np.prod(shape[1:]) if len(shape) > 1 else 4
        return Constant.of(self.random.normal(size=shape) / np.sqrt(fan_in))

    def add(self, name: str, op: ops.Op, *inputs: str) -> str:
        reads = inputs or ((self.nodes[-1].name,) if self.nodes else ())
        self.nodes.append(Node(name, op, reads, (Origin("net", name, type(op).__name__),)))
        return name


def graph() -> Graph:
    """One of everything that registers tell apart."""
    make = Maker()
    odd = Window(Pair(3, 2), padding=Padding(2, 0, 0, 1))
    same = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))
    make.add("image", ops.Input(Shape(11, 10, 3)))
    make.add("conv", ops.Conv2d(make.weights(16, 3, 3, 2), make.weights(16), odd, activation=ops.Relu(0.25)))
    make.add(
        "depthwise", ops.Conv2d(make.weights(16, 1, 3, 3), make.weights(16), same, groups=16, activation=ops.Tanh())
    )
    slopes = ops.PRelu(Constant.of(make.random.uniform(0.1, 0.9, 20)))
    make.add("prelu", ops.Conv2d(make.weights(20, 16, 1, 1), make.weights(20), Window(Pair(1, 1)), activation=slopes))
    make.add("pool", ops.MaxPool2d(Window(Pair(2, 3), Pair(2, 1), padding=Padding(0, 0, 1, 1))))
    dilated = Window(Pair(3, 3), dilation=Pair(2, 2), padding=Padding(2, 2, 2, 2))
    make.add("dilated", ops.Conv2d(make.weights(20, 20, 3, 3), make.weights(20), dilated))
    make.add("sum", ops.Add(activation=ops.Relu6()), "pool", "dilated")
    strided = Window(Pair(5, 5), Pair(2, 1), padding=Padding(2, 2, 2, 2))
    make.add("left", ops.Conv2d(make.weights(8, 20, 5, 5), make.weights(8), strided, activation=ops.Elu()), "sum")
    deconv = Window(Pair(4, 3), Pair(2, 1), padding=Padding(1, 1, 1, 1))
    up = make.add("up", ops.ConvTranspose2d(make.weights(12, 8, 4, 3), make.weights(12), deconv), "left")
    average = make.add("average", ops.AveragePool2d(Window(Pair(2, 1), Pair(2, 1)), activation=ops.Sigmoid()), up)
    make.add("join", ops.Concat(), "left", average)
    make.add("twice", ops.Upsample(Pair(2, 2)))
    large = Window(Pair(7, 7), Pair(3, 3), padding=Padding(2, 2, 0, 0))
    make.add("narrow", ops.Conv2d(make.weights(7, 20, 7, 7), make.weights(7), large))
    height, width, channels = Graph(tuple(make.nodes), ("narrow",)).shape("narrow")
    make.add("flat", ops.Reshape(Shape(1, 1, height * width * channels), Order.HWC))
    make.add("dense", ops.Dense(make.weights(9, height * width * channels, 1, 1), make.weights(9)))
    return Graph(tuple(make.nodes), ("dense", "up"))


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs, with the results that the unchanged network has."""
    network, random = graph(), np.random.default_rng(1)
    inputs = samples(*({"image": random.normal(size=network.shape("image"))} for _ in range(2)))
    results = [ir_reference.run(network, {"image": image}) for image in inputs["image"]]
    expected = {f"expected_{name}": np.stack([r[name] for r in results]) for name in network.outputs}
    path = tmp_path_factory.mktemp("mutations") / "given.npz"
    np.savez(path, **inputs, **expected)  # type: ignore[arg-type]  # names are no keywords of numpy's
    return path


def is_found(given: Path, change: Callable[[Path], None], *, palette: bool = False, fusion: str = "proven") -> bool:
    """Whether verify fails when the converted network's files are changed. Unchanged it has 64 dB, 41 with a palette.

    fusion: with "proven", every layer of the list has a command.
    """
    chosen = config(Path("graph.keras"), quantization=palette, fusion=fusion)
    with pytest.MonkeyPatch.context() as patch:
        change_files(patch, change)
        try:
            return not verify(chosen, graph=graph(), inputs=given, min_sqnr=38 if palette else 40).passed
        except ConvertorError:
            return True


@pytest.mark.parametrize("palette", [False, True], ids=["fp16", "palette"])
def test_the_unchanged_network_passes(palette: bool, given: Path) -> None:
    assert not is_found(given, lambda _: None, palette=palette)


# --- registers -----------------------------------------------------------------------------------------------------------

REGISTERS = [
    ("conv", "cmd.w", "9"),
    ("conv", "cmd.h", "10"),
    ("conv", "cmd.c", "2"),
    ("conv", "cmd.input_circular_offset", "0x0000"),
    ("conv", "cmd.input_buf.offs", "3536"),
    ("conv", "cmd.output_buf.offs", "16"),
    ("conv", "cmd.run[0].p", "0x0203"),  # transposed
    ("conv", "cmd.run[0].conv_pad", "0x02000100"),  # top and bottom swapped
    ("conv", "cmd.run[0].conv_pad", "0x00020001"),  # left and right swapped
    ("conv", "cmd.run[0].actfunc", "0"),
    ("conv", "cmd.run[0].actfunc_param", "0x3800"),
    ("conv", "cmd.run[0].weight_buf.offs", "16"),
    ("depthwise", "cmd.run[0].conv_enable", "1"),
    ("depthwise", "cmd.run[0].actfunc", "3"),
    ("depthwise", "cmd.run[0].rectifi_en", "1"),
    ("depthwise", "cmd.run[0].conv_pad", "0x02000101"),
    ("pool", "cmd.run[0].m", "19"),
    ("pool", "cmd.run[0].actfunc", "2"),
    ("pool", "cmd.run[0].pool_enable", "2"),
    ("pool", "cmd.run[0].pool_size", "0x0202"),
    ("pool", "cmd.run[0].pool_stride", "0x0102"),
    ("pool", "cmd.run[0].pool_pad", "0x00010100"),
    ("dilated", "cmd.run[0].conv_dilation", "0x0102"),
    ("dilated", "cmd.run[0].weight_fmt", "3"),
    ("sum", "cmd.output_mode", "0"),
    ("sum", "cmd.eltwise_buf.offs", "0x10"),
    ("sum", "cmd.run[0].pool_avg_param", "0x3800"),
    ("sum", "cmd.run[0].actfunc", "3"),
    ("left", "cmd.run[0].conv_stride", "0x0102"),
    ("left", "cmd.run[0].actfunc", "1"),
    ("up", "cmd.run[0].conv_enable", "1"),
    ("up", "cmd.run[0].conv_pad", "0x01020201"),
    ("average", "cmd.run[0].pool_avg_param", "0x3C00"),
    ("twice", "cmd.run[0].pool_enable", "1"),
    ("narrow", "cmd.run[0].p", "0x0705"),
    ("dense", "cmd.c", "64"),
    ("dense", "cmd.run[0].m", "8"),
]


IN_CHAINS = [  # conv, depthwise, prelu with pool
    ("pool", "cmd.topo", "0x00000007"),
    ("pool", "cmd.topo", "0x00000005"),
    ("pool", "cmd.run[1].actfunc", "3"),
    ("pool", "cmd.run[1].conv_pad", "0x02000101"),
    ("pool", "cmd.run[2].pool_pad", "0x00010100"),
]


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("layer", "field", "value", "fusion"),
    [*((*row, "proven") for row in REGISTERS), *((*row, "full") for row in IN_CHAINS)],
)
def test_a_changed_register_is_found(layer: str, field: str, value: str, fusion: str, given: Path) -> None:
    def change(folder: Path) -> None:
        path = folder / "net_gen.cpp"
        functions = re.split(r"(?=^void Cnet::Layer_)", path.read_text(), flags=re.MULTILINE)
        (number,) = (i for i, function in enumerate(functions) if f'layer.name = "{layer}";' in function)
        changed, count = re.subn(rf"({re.escape(field)} = )\w+;", rf"\g<1>{value};", functions[number])
        assert count == 1 and changed != functions[number]
        path.write_text("".join([*functions[:number], changed, *functions[number + 1 :]]))

    assert is_found(given, change, fusion=fusion)


def test_two_layers_in_the_wrong_order_are_found(given: Path) -> None:
    def change(folder: Path) -> None:
        path = folder / "net_gen.cpp"
        text = path.read_text()
        path.write_text(
            text.replace("get_layer(5)", "get_layer(x)").replace("get_layer(6)", "get_layer(5)").replace("(x)", "(6)")
        )

    assert is_found(given, change)


# --- weights -------------------------------------------------------------------------------------------------------------


def halves(data: bytearray) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    return np.frombuffer(data, "<f2")


def streams(folder: Path) -> dict[str, tuple[int, int]]:
    """Layer -> the first byte of its weights, and how many there are, from the comments of the source."""
    pattern = r"weight_buf\.offs = (\d+); +// (\d+) bytes[\s\S]*?layer\.name = \"([^\"]+)\""
    text = (folder / "net_gen.cpp").read_text()
    return {name: (int(start), int(size)) for start, size, name in re.findall(pattern, text)}


LAYERS = ["conv", "depthwise", "pool", "dilated", "left", "up", "narrow", "dense"]


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("palette", [False, True], ids=["fp16", "palette"])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_changed_weight_is_found(layer: str, palette: bool, given: Path) -> None:
    """The largest weight of the layer, or the largest entry of its palette, changes its sign."""

    def change(folder: Path) -> None:
        path, (start, size) = folder / "net_weights.bin", streams(folder)[layer]
        data = bytearray(path.read_bytes())
        stream = data[start : start + size]
        has_palette = palette and layer != "pool"  # PReLU slopes never stand beside a palette
        numbers = halves(stream[:512] if has_palette else stream).astype(np.float32)
        stream[2 * int(np.abs(numbers).argmax()) + 1] ^= 0x80
        data[start : start + size] = stream
        path.write_bytes(data)

    assert is_found(given, change, palette=palette)


def test_a_swapped_pair_of_channels_is_found(given: Path) -> None:
    def change(folder: Path) -> None:
        path, (start, _) = folder / "net_weights.bin", streams(folder)["depthwise"]
        data = bytearray(path.read_bytes())
        first, second = start + 16, start + 16 + 144  # behind eight biases: a tile for each channel
        data[first : first + 144], data[second : second + 144] = data[second : second + 144], data[first : first + 144]
        path.write_bytes(data)

    assert is_found(given, change)


def test_kernels_that_are_transposed_are_found(given: Path) -> None:
    """The weights of the other memory order under the sources of this one."""

    def change(folder: Path) -> None:
        program = build(graph(), config(Path("graph.keras"), transpose_weight=False))
        weights = b"".join(piece.tobytes() for piece in encode_all(program.weights, transposed=False))
        assert len(weights) == (folder / "net_weights.bin").stat().st_size
        (folder / "net_weights.bin").write_bytes(weights)

    assert is_found(given, change)


@pytest.mark.parametrize("change", [lambda data: data[:-16], lambda data: data + bytes(16)], ids=["short", "long"])
def test_weights_of_the_wrong_length_are_found(change: Callable[[bytes], bytes], given: Path) -> None:
    def write(folder: Path) -> None:
        path = folder / "net_weights.bin"
        path.write_bytes(change(path.read_bytes()))

    assert is_found(given, write)
