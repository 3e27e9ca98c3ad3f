"""Calibration measures the inputs of layers correctly, improves the outputs, and changes nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor import cli
from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.device_file import DEFAULT_DEVICE, read_profile
from cnn_convertor.devices.dv700.emulating import install
from cnn_convertor.devices.dv700.fitting import calibration, layer_inputs
from cnn_convertor.devices.dv700.fitting.calibration import Calibrated, calibrate, fitting_and_judging
from cnn_convertor.devices.dv700.fitting.layer_inputs import Moments, measure
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program, Weights
from cnn_convertor.devices.dv700.sources.rendering import emit
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.palettes import without_palettes
from cnn_convertor.devices.facts import Gain, Reason
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.program import LayerType
from cnn_convertor.devices.settings import Fusion, Quantization
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorWarning, Origin, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.pipeline import build, plan
from cnn_convertor.samples import Samples
from verification.trials import config, network

pytestmark = pytest.mark.usefixtures("compiler")

ROOT = Path(__file__).resolve().parents[2]
Real = NDArray[np.float64]
SHAPE = Shape(11, 9, 16)
INF, NAN = float("inf"), float("nan")


def normal(*shape: int) -> Constant:
    """What FP16 holds exactly, so that palettes are all that is lost."""
    return Constant.of((np.random.default_rng(0).normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float16))


def window(kernel: tuple[int, int], stride: tuple[int, int] = (1, 1), dilation: int = 1, pad: int = 0) -> Window:
    return Window(Pair(*kernel), Pair(*stride), Pair(dilation, dilation), Padding(pad, pad, pad, pad))


KINDS: dict[str, ops.Op] = {
    "1x1": ops.Conv2d(normal(40, 16, 1, 1), None, window((1, 1))),
    "3x3 padded": ops.Conv2d(normal(24, 16, 3, 3), normal(24), window((3, 3), pad=1)),
    "strided": ops.Conv2d(normal(24, 16, 3, 5), None, window((3, 5), (2, 3), pad=2)),
    "dilated": ops.Conv2d(normal(24, 16, 3, 3), normal(24), window((3, 3), dilation=2, pad=2)),
    "depthwise": ops.Conv2d(normal(16, 1, 7, 6), normal(16), window((7, 6), (2, 2), pad=3), 16),
    "transposed": ops.ConvTranspose2d(normal(24, 16, 4, 4), None, window((4, 4), (2, 2), pad=1)),
    "dense": ops.Dense(normal(10, 16, 11, 9), normal(10)),
}


def graph_of(op: ops.Op, then: ops.Op | None = None) -> Graph:
    nodes = [Node("x", ops.Input(SHAPE)), Node("y", op, ("x",), (Origin("net", "y"),))]
    if then is not None:
        nodes.append(Node("z", then, ("y",), (Origin("net", "z"),)))
    return Graph(tuple(nodes), (nodes[-1].name,))


def every_kind() -> Graph:
    """All of them read the input, and are outputs."""
    nodes = [Node(name, op, ("x",), (Origin("net", name),)) for name, op in KINDS.items()]
    return Graph((Node("x", ops.Input(SHAPE)), *nodes), tuple(KINDS))


def images(count: int) -> Maps:
    """Channels of very different size and mean, and more at the top than at the bottom."""
    random = np.random.default_rng(1)
    sizes, means = np.exp(random.normal(size=SHAPE.channels)), random.normal(size=SHAPE.channels)
    slope = np.linspace(1, -1, SHAPE.height)[:, None, None]
    values = sizes * (random.normal(size=(count, *SHAPE)) + means + slope)
    return values.astype(np.float16).astype(np.float32)


def calibrated(
    graph: Graph,
    inputs: Maps,
    folder: Path,
    transposed: bool = True,
    quantization: Quantization = Quantization.PALETTE,
    fusion: str = "proven",
    device: Profile | None = None,
    all_stay: bool = True,
) -> tuple[Program, Calibrated | None]:
    """The program before, and what calibrating it gave."""
    device = device or read_profile(DEFAULT_DEVICE, folder)
    chosen = config(
        Path("graph.keras"), transpose_weight=transposed, quantization=quantization, fusion=fusion, device=device
    )
    program, options = build(graph, chosen), Dv700.of(chosen.hardware, chosen.settings)
    unfused = plan(graph, chosen.name, options._replace(fusion=Fusion.NONE))
    samples = Samples({"x": inputs}, "samples", {})
    return program, calibrate(graph, program, samples, unfused=unfused, device=options.device, all_stay=all_stay)


def measured(network: EmulatedNetwork, samples: Samples, folder: Path) -> dict[int, Moments]:
    return {i: inputs.moments for i, inputs in measure(network, samples, folder).items()}


def has_own_bias(weights: Weights) -> bool:
    """Whether the weights have a bias that belongs to their palette."""
    return weights.choice is not None and weights.choice.bias is not None


def outputs_of(graph: Graph, program: Program, inputs: Maps, folder: Path) -> list[Real]:
    """What the program gives with its maps in FP32."""
    files = emit(program, RenderOptions("a graph"))
    outputs = install(graph, program, files, folder, device=DV700).run({"x": inputs}, exact=True).outputs
    return [values.astype(np.float64) for values in outputs]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_the_mean_error_of_each_channel_leaves(transposed: bool, tmp_path: Path) -> None:
    """This needs the right mean of the inputs at each element of the kernel, for every kind of window."""
    graph, inputs = every_kind(), images(6)
    before, result = calibrated(graph, inputs, tmp_path, transposed)
    assert result is not None and (result.effect.samples, result.effect.judges) == (4, 2)
    inputs = fitting_and_judging(Samples({"x": inputs}, "", {}))[0].inputs["x"]
    plain = without_palettes(before)
    made = {"plain": plain, "before": before, "after": result.program}
    outputs = {name: outputs_of(graph, program, inputs, tmp_path / name) for name, program in made.items()}
    for i, (kind, improvement) in enumerate(zip(KINDS, result.effect.outputs, strict=True)):
        right = outputs["plain"][i]
        errors = {name: np.abs((outputs[name][i] - right).mean(axis=(0, 1, 2))).max() for name in ("before", "after")}
        (bias,) = (w.stored_bias for w in result.program.weights if w.where is not None and w.where.layer == kind)
        assert bias is not None
        rounding = float(np.abs(bias.load()).max()) * 2**-11  # in FP16
        assert errors["after"] < 0.02 * errors["before"] + rounding < 0.4 * errors["before"], kind
        assert improvement.name == kind and improvement.after > improvement.before + 0.5


@pytest.mark.parametrize("at_a_time", [1, 3 * 11 * 9 * 40, 1 << 24])
def test_variances_and_means_are_those_of_the_channels(
    at_a_time: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of samples in a batch does not change the result."""
    monkeypatch.setattr(layer_inputs, "_AT_A_TIME", at_a_time)
    graph, inputs = graph_of(KINDS["1x1"]), images(10)
    samples = Samples({"x": inputs}, "", {})
    moments = measured(network(graph, tmp_path), samples, tmp_path)
    assert set(moments) == {0}
    flat = inputs.astype(np.float64).reshape(-1, 16)
    np.testing.assert_allclose(moments[0].mean[:, 0, 0], flat.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(moments[0].variance[:, 0, 0], flat.var(axis=0), rtol=1e-4)


def test_what_a_later_layer_reads_is_measured_behind_the_activation(tmp_path: Path) -> None:
    first = ops.Conv2d(normal(40, 16, 1, 1), None, window((1, 1)), activation=ops.Relu())
    graph, inputs = graph_of(first, then=ops.Conv2d(normal(24, 40, 3, 3), None, window((3, 3)))), images(5)
    made = network(graph, tmp_path, fusion="none")
    moments = measured(made, Samples({"x": inputs}, "", {}), tmp_path)
    kernels = normal(40, 16, 1, 1).load()[:, :, 0, 0].astype(np.float16).astype(np.float64)
    maps = np.maximum(inputs @ kernels.T, 0)
    for y, x in np.ndindex(3, 3):
        seen = maps[:, y : y + 9, x : x + 7].reshape(-1, 40)
        np.testing.assert_allclose(moments[1].mean[:, y, x], seen.mean(axis=0), rtol=1e-3)
        np.testing.assert_allclose(moments[1].variance[:, y, x], seen.var(axis=0), rtol=1e-3)


@pytest.mark.slow
def test_what_convolutions_of_one_command_read_is_known(tmp_path: Path) -> None:
    """A chain whose second run reads from the unified buffer, where its input cannot be observed."""
    first = ops.Conv2d(normal(40, 16, 1, 1), None, window((1, 1)), activation=ops.Relu())
    graph = graph_of(first, then=ops.Conv2d(normal(24, 40, 3, 3), None, window((3, 3))))
    before, result = calibrated(graph, images(4), tmp_path, fusion="full")
    assert result is not None
    assert any(not run.external for layer in before.layers for run in layer.runs), "the case is one command"
    assert [has_own_bias(weights) for weights in result.program.weights] == [True, True]
    assert result.effect.outputs[0].after > result.effect.outputs[0].before + 1


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_slices_of_channels_are_calibrated(transposed: bool, tmp_path: Path) -> None:
    """Each has its own palette, and a bias for what its own channels read."""
    small = read_profile(DEFAULT_DEVICE, tmp_path).overridden(ub_size=16384)
    first = ops.Conv2d(normal(62, 16, 1, 1), None, window((1, 1)), activation=ops.Relu())
    then = ops.Conv2d(normal(62, 1, 3, 3), normal(62), window((3, 3), pad=1), 62)
    graph, inputs = graph_of(first, then=then), images(6)
    before, result = calibrated(graph, inputs, tmp_path, transposed, fusion="full", device=small)
    parts = [(weights.layer, weights.first, weights.packed.kernels) for weights in before.weights]
    assert parts == [("y", 0, 32), ("z", 0, 32), ("y", 32, 30), ("z", 32, 30)]
    assert result is not None
    assert [has_own_bias(weights) for weights in result.program.weights] == [True] * 4
    fitting = fitting_and_judging(Samples({"x": inputs}, "", {}))[0].inputs["x"]
    made = {"plain": without_palettes(before), "before": before, "after": result.program}
    outputs = {name: outputs_of(graph, program, fitting, tmp_path / name)[0] for name, program in made.items()}
    errors = {name: np.abs((outputs[name] - outputs["plain"]).mean(axis=(0, 1, 2))) for name in made}
    assert (errors["after"] < 0.5 * errors["before"] + 0.002).all()
    assert result.effect.outputs[0].after > result.effect.outputs[0].before + 1


def test_inputs_that_the_firmware_is_told_of_are_known(tmp_path: Path) -> None:
    """A concatenation lists all that it reads, so that inputs are layers of the program."""
    nodes = (
        Node("x", ops.Input(SHAPE)),
        Node("y", KINDS["1x1"], ("x",), (Origin("net", "y"),)),
        Node("z", ops.Concat(), ("x", "y"), (Origin("net", "z"),)),
    )
    before, result = calibrated(Graph(nodes, ("z",)), images(3), tmp_path)
    assert before.layers[0].type is LayerType.INPUT
    assert result is not None
    assert [has_own_bias(weights) for weights in result.program.weights] == [True]


@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "plain"])
def test_convolutions_of_groups_are_measured_on_their_channels(transposed: bool, tmp_path: Path) -> None:
    """Each group is a command that reads a part of the map: of the network's input, and of what a layer wrote.

    With few multipliers, the zeros in a kernel of both groups would take longer than another command.
    """
    slow = read_profile(DEFAULT_DEVICE, tmp_path).with_figures({"multipliers": Figure(1, "a test")})
    weight, origin = normal(128, 64, 1, 1), Origin("net", "y")
    both = ops.Conv2d(weight, None, window((1, 1)), groups=2)
    x = Node("x", ops.Input(SHAPE._replace(channels=128)))
    graph = Graph((x, Node("y", both, ("x",), (origin,)), Node("z", both, ("y",), (origin,))), ("z",))
    inputs = (np.tile(images(5), 8) * np.linspace(0.5, 1, 128)).astype(np.float16).astype(np.float32)
    made = network(graph, tmp_path, transpose_weight=transposed, fusion="none", device=slow)
    commands = [layer for layer in made.program.layers if layer.runs]
    assert len(commands) == 4, "the case has a command for each group"
    moments = measured(made, Samples({"x": inputs}, "", {}), tmp_path)
    kernels = weight.load()[:, :, 0, 0].astype(np.float64)
    middle = np.concatenate([inputs[..., :64] @ kernels[:64].T, inputs[..., 64:] @ kernels[64:].T], axis=3)
    parts = [inputs[..., :64], inputs[..., 64:], middle[..., :64], middle[..., 64:]]
    for index, part in enumerate(parts):
        flat = part.reshape(-1, part.shape[3])
        np.testing.assert_allclose(moments[index].mean[:, 0, 0], flat.mean(axis=0), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(moments[index].variance[:, 0, 0], flat.var(axis=0), rtol=1e-3)


@pytest.mark.slow
def test_formats_sizes_and_reasons_stay(tmp_path: Path) -> None:
    before, result = calibrated(graph_of(KINDS["3x3 padded"]), images(3), tmp_path)
    assert result is not None
    assert result.program.weight_bytes == before.weight_bytes
    choices = [weights.choice for weights in (*before.weights, *result.program.weights)]
    assert [c and (c.reason, c.bias is not None) for c in choices] == [(Reason.ASKED, False), (Reason.ASKED, True)]
    assert without_palettes(result.program) == without_palettes(before), "FP16 weights have the bias of the layer"


@pytest.mark.slow
def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    streams = []
    for _ in range(2):
        _, result = calibrated(graph_of(KINDS["3x3 padded"]), images(5), tmp_path)
        assert result is not None
        streams.append(b"".join(p.tobytes() for p in encode_all(result.program.weights, transposed=True)))
    assert streams[0] == streams[1]


def test_palettes_that_lose_nothing_are_left_alone(tmp_path: Path) -> None:
    few = Constant.of(np.round(normal(24, 16, 3, 3).load() * 20) / 7)
    with pytest.warns(ConvertorWarning, match="DV716: there is nothing to calibrate: the palettes hold all weights"):
        _, result = calibrated(graph_of(ops.Conv2d(few, None, window((3, 3)))), images(3), tmp_path)
    assert result is None


@pytest.mark.parametrize("kind", ["1x1", "strided", "depthwise"])
def test_gradients_predict_what_the_palette_of_a_layer_costs(kind: str, tmp_path: Path) -> None:
    """Of the only layer: nothing else is lost at the outputs, but for the mean error."""
    _, result = calibrated(graph_of(KINDS[kind]), images(8), tmp_path)
    assert result is not None
    (output,), (layer,) = result.effect.outputs, result.effect.layers
    assert layer.after == pytest.approx(output.after, abs=0.7)
    assert layer.after > layer.before


@pytest.mark.parametrize(("count", "judges"), [(1, 0), (2, 1), (3, 1), (4, 1), (5, 2), (8, 2), (64, 16)])
def test_a_quarter_of_the_samples_judges(count: int, judges: int) -> None:
    numbers = np.arange(count, dtype=np.float32).reshape(-1, 1, 1, 1)
    fitting, judging = (s.inputs["x"].reshape(-1) for s in fitting_and_judging(Samples({"x": numbers}, "", {})))
    assert len(judging) == (judges or 1) and judging[-1] == count - 1
    assert not judges or sorted([*fitting, *judging]) == list(range(count))


@pytest.mark.slow
def test_one_sample_that_judges_is_enough_for_a_dense_layer(tmp_path: Path) -> None:
    _, result = calibrated(graph_of(KINDS["dense"]), images(4), tmp_path)
    assert result is not None and [has_own_bias(weights) for weights in result.program.weights] == [True]


def test_inputs_that_never_change_tell_nothing(tmp_path: Path) -> None:
    with pytest.warns(ConvertorWarning, match="DV727: the samples that fit palettes are all the same"):
        before, result = calibrated(graph_of(KINDS["1x1"]), np.ones((3, *SHAPE), np.float32), tmp_path)
    assert result is not None and result.program == before


def test_without_palettes_there_is_nothing_to_do(tmp_path: Path) -> None:
    with pytest.warns(ConvertorWarning, match="DV716: there is nothing to calibrate"):
        _, result = calibrated(graph_of(KINDS["3x3 padded"]), images(1), tmp_path, quantization=Quantization.FP16)
    assert result is None


def test_palettes_that_are_not_better_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = calibration._bias  # noqa: SLF001
    monkeypatch.setattr(calibration, "_bias", lambda weights: own(weights) + 1)
    with pytest.warns(ConvertorWarning, match="DV717: calibration does not improve the outputs"):
        before, result = calibrated(graph_of(KINDS["3x3 padded"]), images(2), tmp_path)
    assert result is not None and result.program is before
    assert result.effect.outputs[0].after < result.effect.outputs[0].before


@pytest.mark.parametrize(
    ("before", "after", "gain"),
    [(40, 42, 2), (40, 30, -10), (INF, INF, 0), (INF, 80, -1000), (80, INF, 1000), (NAN, NAN, -1000), (40, NAN, -1000)],
)
def test_outputs_that_are_exact_or_not_numbers_can_be_compared(before: float, after: float, gain: float) -> None:
    assert Gain("z", before, after).gain == gain


@pytest.mark.parametrize("kinds", [("1x1",), ("1x1", "exact")])
def test_an_exact_output_hides_no_other(
    kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = calibration._bias  # noqa: SLF001
    monkeypatch.setattr(calibration, "_bias", lambda weights: own(weights) + 1)
    few = ops.Conv2d(Constant.of(np.round(normal(24, 16, 1, 1).load() * 20) / 8), None, window((1, 1)))
    operators = {"1x1": KINDS["1x1"], "exact": few}
    nodes = (
        Node("x", ops.Input(SHAPE)),
        *(Node(kind, operators[kind], ("x",), (Origin("net", kind),)) for kind in kinds),
    )
    with pytest.warns(ConvertorWarning, match="DV717: calibration does not improve the outputs"):
        before, result = calibrated(Graph(nodes, kinds), images(2), tmp_path)
    assert result is not None and result.program is before


def test_an_output_that_gets_worse_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = Gain("a", 40.0, 49.0), Gain("b", 51.4, 46.7)
    monkeypatch.setattr(calibration, "compare_outputs", lambda _, others, *__, **___: [outputs] * (len(others) - 1))
    with pytest.warns(ConvertorWarning, match=r'DV717: .* but not "b" 51\.4 -> 46\.7 dB'):
        before, result = calibrated(graph_of(KINDS["1x1"]), images(4), tmp_path)
    assert result is not None and result.program != before


def test_layers_rely_on_no_palette_that_may_be_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "compensated", None)
    monkeypatch.setattr(calibration, "mean_errors", None)
    _, result = calibrated(graph_of(KINDS["1x1"]), images(4), tmp_path, all_stay=False)
    assert result is not None and result.effect.outputs[0].gain > 1


def test_last_biases_that_judge_worse_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    biases = []
    for i, shifts in enumerate(({}, {0: np.full(40, 9.0)})):
        monkeypatch.setattr(calibration, "mean_errors", lambda *_, it=shifts, **__: it)
        _, result = calibrated(graph_of(KINDS["1x1"]), images(4), tmp_path / str(i))
        assert result is not None
        (weights,) = result.program.weights
        assert weights.stored_bias is not None
        biases.append(weights.stored_bias.load())
    np.testing.assert_array_equal(biases[0], biases[1])


def test_layers_make_up_for_the_palettes_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many channels of few: what the palette of "y" changes goes with what "z" reads."""
    wide = normal(300, 16, 1, 1)
    narrow = Constant.of(np.random.default_rng(1).normal(size=(24, 300, 1, 1)).astype(np.float16))
    graph = graph_of(ops.Conv2d(wide, None, window((1, 1))), ops.Conv2d(narrow, None, window((1, 1))))
    _, with_it = calibrated(graph, images(24), tmp_path)
    monkeypatch.setattr(calibration, "compensated", lambda _, layers, *__: layers)
    _, without = calibrated(graph, images(24), tmp_path)
    assert with_it is not None and without is not None
    assert with_it.effect.outputs[0].after > without.effect.outputs[0].after + 1


def test_a_single_sample_makes_up_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "compensated", lambda *_: pytest.fail("it fits and judges itself"))
    _, result = calibrated(graph_of(KINDS["3x3 padded"]), images(1), tmp_path)
    assert result is not None and result.effect.judges == 0


def test_custom_layers_are_refused(tmp_path: Path) -> None:
    custom = ops.Custom("Twice", (), SHAPE._replace(channels=40))
    with pytest.raises(UsageError) as caught:
        calibrated(graph_of(KINDS["3x3 padded"], then=custom), images(1), tmp_path)
    (problem,) = caught.value.problems
    assert problem.code == "DV715" and problem.where == Origin("net", "z")


def test_samples_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "samples.npy", images(1)[:, :5])
    chosen = config(Path("graph.keras"), quantization=Quantization.PALETTE, calibrate=tmp_path / "samples.npy")
    with pytest.raises(UsageError, match="DV707"):
        build(graph_of(KINDS["3x3 padded"]), chosen)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_command_line_calibrates_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ROOT / "examples" / "digits_caffe"
    ini = tmp_path / "net.ini"
    ini.write_text(
        f"[INPUT]\nname = d\ndefinition = {folder / 'digits.prototxt'}\ndata = {folder / 'digits.caffemodel'}\n"
        "scale = 1/240\n[OUTPUT]\noutput_folder = out\n"
    )
    images = ROOT / "examples" / "digits_samples"
    weights = []
    for options in ([], ["--calibrate", str(images)], ["--calibrate", str(images)]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert cli.main(["-v", str(ini), *options]) == 0
        weights.append((tmp_path / "out/d/d_weights.bin").read_bytes())
        said = capsys.readouterr().out
        assert (
            "d: palettes calibrated with 7 samples (10 files of digits_samples), against FP16 weights on 3 others"
            in said
        ) == bool(options)
        assert "d: weights\n" in said
    assert weights[0] != weights[1] == weights[2] and len(weights[0]) == len(weights[1])
    assert cli.main([str(ini), "--calibrate", str(tmp_path / "nowhere")]) == 2
    assert "DV707" in capsys.readouterr().err
