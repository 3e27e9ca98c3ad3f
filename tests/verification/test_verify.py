"""verify finds whether a network is right, and the first wrong layer; run shows the outputs for an image."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.devices.settings import Override, Quantization
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.trials.labels import check_labels, read_labels
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification import framework_maps, frameworks
from cnn_convertor.verification.framework_maps import blobs_as_maps
from cnn_convertor.verification.results import Cause
from frontends.loading import load_caffe
from verification.trials import change_files, config

pytestmark = pytest.mark.usefixtures("compiler")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CAFFE_INI = EXAMPLES / "digits_caffe" / "net.ini"
SAMPLES = EXAMPLES / "digits_samples"
FILES = {"definition": "digits.prototxt", "data": "digits.caffemodel"}


@pytest.fixture
def digits() -> Config:
    """Without fusion: there are more maps to compare."""
    return replace(Config.read(CAFFE_INI), quantization=False, fusion="none", output_folder=Path("unconverted"))


def in_source(change: Callable[[str], str]) -> Callable[[Path], None]:
    """Change the generated source of a folder."""

    def change_folder(folder: Path) -> None:
        (source,) = folder.glob("*_gen.cpp")
        before = source.read_text()
        source.write_text(change(before))
        assert source.read_text() != before

    return change_folder


def test_a_good_network_passes(digits: Config) -> None:
    stages: dict[str, None] = {}
    result = verify(digits, layers=True, progress=lambda stage, *_: stages.update({stage: None}))
    assert list(stages) == [
        "read",
        "compile",
        "run",
        "compare",
        "run the program in memory",
        "judge maps",
        "compare layers",
    ]
    assert result.passed and result.first_jump is None and result.samples == 4
    assert [output.name for output in result.outputs] == ["prob", "prob before softmax"]
    names = [layer.comparison.name for layer in result.layers]
    assert {"relu1", "pool2", "concat4", "ip6", "prob"} <= set(names)
    assert "conv1" not in names, "what lies between two fused layers is nowhere"
    assert all(layer.comparison.sqnr > 45 for layer in result.layers)


def test_the_error_of_a_layer_alone_is_without_those_before_it(digits: Config) -> None:
    chosen = replace(digits, overrides=(Override("ip5", palette=True, where=Origin("net.ini")),))
    rows = {layer.comparison.name: layer for layer in verify(chosen, layers=True).layers}
    alone = {name: row.alone for name, row in rows.items() if row.alone is not None}
    assert alone.keys() == rows.keys()
    assert alone["relu1"] == pytest.approx(rows["relu1"].comparison.sqnr), "it reads the input"
    assert alone.pop("relu5") < 55 and rows["ip6"].comparison.sqnr < 55
    assert min(alone.values()) > 60


@pytest.mark.slow
def test_maps_inside_a_command_are_compared_without_fusion(digits: Config) -> None:
    """Several runs leave one map in memory: that of the last layer."""
    fused, unfused = (
        verify(replace(digits, fusion=fusion), layers=True, attribute=True) for fusion in ("full", "none")
    )
    assert fused.passed
    names = [[layer.comparison.name for layer in result.layers] for result in (fused, unfused)]
    assert names[0] == names[1]
    assert {layer.unfused for layer in fused.layers} == {True, False}
    assert not any(layer.unfused for layer in unfused.layers)
    assert all(layer.comparison.sqnr > 45 and layer.causes for layer in fused.layers)


def test_the_first_layer_that_is_wrong_is_named(digits: Config) -> None:
    def pads_wrongly(source: str) -> str:
        before, layer = source.split("::Layer_3() {")
        return f"{before}::Layer_3() {{" + layer.replace("conv_pad = 0x01010101", "conv_pad = 0x02000101", 1)

    with pytest.MonkeyPatch.context() as patch:
        change_files(patch, in_source(pads_wrongly))
        result = verify(digits)
    assert not result.passed
    worst = [layer.comparison.name for layer in result.layers if layer.comparison.sqnr < 40]
    assert result.first_jump == worst[0] and result.layers[0].comparison.name != worst[0]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_errors_are_split_into_their_causes(digits: Config) -> None:
    result = verify(replace(digits, quantization=True), attribute=True)
    by_name = {layer.comparison.name: {c.cause: c.sqnr for c in layer.causes} for layer in result.layers}
    tail = by_name["ip6"]
    assert set(tail) == set(Cause) and set(by_name["pool2"]) == set(Cause) - {Cause.PALETTE}
    assert tail[Cause.ARITHMETIC] > 110
    assert 50 < tail[Cause.MAPS] < 90 and 50 < tail[Cause.INPUTS_AND_WEIGHTS] < 90
    assert tail[Cause.PALETTE] < min(tail[Cause.MAPS], tail[Cause.INPUTS_AND_WEIGHTS]), "the other palettes cost most"
    plain = verify(digits, attribute=True)
    assert {c.cause for layer in plain.layers for c in layer.causes} == set(Cause) - {Cause.PALETTE}


def test_the_same_samples_give_the_same_report(digits: Config) -> None:
    first, again = (verify(digits, layers=True, seed=3).to_json() for _ in range(2))
    assert first == again
    assert first != verify(digits, layers=True, seed=4).to_json()


def test_many_samples_are_compared_though_layers_are_kept_of_a_few_only(digits: Config) -> None:
    few, many = (verify(digits, samples=n, layers=True) for n in (framework_maps.KEPT, 20))
    assert many.samples == 20 and many.passed
    assert [layer.comparison for layer in many.layers] == [layer.comparison for layer in few.layers]
    assert many.outputs[0] != few.outputs[0] and many.outputs[1] == few.outputs[1]


def test_results_that_are_known_stand_for_the_framework(
    digits: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load_caffe(digits.definition, digits.data)
    images = np.random.default_rng(0).random((2, 8, 8, 1), np.float32)
    reference = frameworks.run(digits.model, graph, {"data": images})
    given = tmp_path / "given.npz"
    np.savez(given, data=images, expected_prob=reference.outputs[0].reshape(2, 10))
    monkeypatch.setattr(frameworks, "opened", None)
    result = verify(digits, inputs=given)
    assert result.passed and result.framework == "given results"


def test_results_of_another_size_than_the_outputs_are_refused(digits: Config, tmp_path: Path) -> None:
    np.savez(tmp_path / "given.npz", data=np.ones((2, 8, 8, 1)), expected_prob=np.ones((2, 9)))
    with pytest.raises(UsageError, match="DV707: expected_prob holds 9 numbers for each sample, not 10"):
        verify(digits, inputs=tmp_path / "given.npz")


def test_results_of_an_unknown_layer_are_refused_with_near_names(digits: Config, tmp_path: Path) -> None:
    result = np.ones((2, 10))
    np.savez(tmp_path / "given.npz", data=np.ones((2, 8, 8, 1)), expected_prob=result, expected_porb=result)
    with pytest.raises(UsageError) as caught:
        verify(digits, inputs=tmp_path / "given.npz")
    (problem,) = caught.value.problems
    assert problem.code == "DV722" and problem.message == 'expected_porb: there is no layer "porb"'
    assert problem.hint == "the name of a layer, like expected_prob"


def test_names_of_classes_are_a_text(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("zero\nÄpfel\n", encoding="utf-8")
    assert read_labels(tmp_path / "names") == ("zero", "Äpfel")
    (tmp_path / "no").write_bytes(b"\xff\xfe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("no", "nowhere", "endless"):
        with pytest.raises(UsageError, match=r"DV707: the (file of )?class names"):
            read_labels(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        '["zero", "Äpfel"]',
        '{"1": "Äpfel", "0": "zero"}',
        '{"0": ["n01", "zero"], "1": ["n02", "Äpfel"]}',
        '{"Äpfel": 1, "zero": 0}',
    ],
)
def test_names_of_classes_in_json(text: str, tmp_path: Path) -> None:
    for name in ("names.json", "names.txt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_labels(tmp_path / name) == ("zero", "Äpfel")


@pytest.mark.parametrize(
    "text",
    ['["a", null]', '[["a", "b"]]', '{"1": "a"}', '{"0": "a", "00": "b"}', '{"x": "a"}', '{"0": []}', '"a"', "3", "a\nb", "[1"],
)  # fmt: skip
def test_other_forms_of_json_are_no_names_of_classes(text: str, tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text(text)
    with pytest.raises(UsageError, match=r"DV707: the class names are in JSON(.|\n)*one name per line"):
        read_labels(tmp_path / "names.json")
    (tmp_path / "names").write_text(text)
    assert read_labels(tmp_path / "names") == tuple(text.splitlines())


def test_in_place_layers_are_told_apart(shared: Path) -> None:
    case = shared / "vectors" / "caffe" / "bn_scale_inplace_chain"
    chosen = config(case / "deploy.prototxt", case / "weights.caffemodel")
    maps = blobs_as_maps(np.load(case / "input.npy"))
    layers = frameworks.run(chosen.model, load_caffe(chosen.definition, chosen.data), {"data": maps}).layers
    for number, name in enumerate(["conv1", "bn1", "scale1", "relu1"], start=1):
        expected = blobs_as_maps(np.load(case / f"stage_{number:02}_{name}__conv1.npy"))
        np.testing.assert_allclose(layers[name], expected, rtol=1e-4, atol=1e-4)


def test_outputs_of_a_caffe_network_that_the_ini_file_names(tmp_path: Path) -> None:
    definition = tmp_path / "net.prototxt"
    definition.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 8 dim: 4 dim: 6 } } }\n'
        'layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }\n'
        'layer { name: "abs" type: "AbsVal" bottom: "data" top: "abs" }\n'
        'layer { name: "prob" type: "Softmax" bottom: "relu" top: "prob" }\n'
    )
    result = verify(config(definition, outputs=("abs", "relu")))
    assert result.passed and [output.name for output in result.outputs] == ["abs", "relu"]


# --- command line --------------------------------------------------------------------------------------------------------


def test_run_shows_the_best_classes(digits: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, output = tmp_path / "labels.txt", tmp_path / "out.npz"
    labels.write_text("zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n")
    for label, word in enumerate(labels.read_text().split()):
        image = str(SAMPLES / f"digit_{label}.png")
        code = main(
            ["run", str(CAFFE_INI), "--inputs", image, "--top", "2", "--labels", str(labels), "-o", str(output)]
        )
        lines = capsys.readouterr().out.splitlines()
        assert code == 0 and lines[0] == "prob" and lines[1].split()[0] == word and len(lines) == 3
        with np.load(output) as saved:
            assert saved["prob"].shape == (1, 1, 1, 10) and saved["prob"].argmax() == label


def test_run_says_what_the_size_of_a_map_means(
    digits: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = "\n".join(f"{key} = {CAFFE_INI.with_name(name)}" for key, name in FILES.items())
    ini = tmp_path / "net.ini"
    ini.write_text(f"[INPUT]\nname = cut\n{files}\n[OUTPUT]\noutput_folder = out\noutputs = concat4\n")
    assert main(["run", str(ini), "--inputs", str(SAMPLES / "digit_1.png")]) == 0
    title, values = capsys.readouterr().out.splitlines()
    assert title == "concat4: 4x4x32 (height x width x channels)" and values.split()[0] == "range"


@pytest.mark.parametrize(("names", "warns"), [(9, True), (10, False), (11, True)])
def test_run_warns_of_another_number_of_names_than_classes(tmp_path: Path, names: int, warns: bool) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("name\n" * names + "\n")
    results = {"prob": np.zeros((1, 1, 1, 10), np.float32), "map": np.zeros((1, 2, 2, 4), np.float32)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_labels(labels, read_labels(labels), results)
    assert [str(warning.message).splitlines()[0] for warning in caught] == [
        f'DV720: the file has {names} names, but the output "prob" has 10 classes'
    ] * warns


def test_verify_ends_with_1_below_the_threshold(
    digits: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main(["verify", str(CAFFE_INI), "--layers", "--json", str(report), "--samples", "2"]) == 0
    said = capsys.readouterr().out
    assert "pass: every output has 40 dB or more" in said and "concat4 (Concat)" in said
    assert json.loads(report.read_text())["samples"] == 2
    assert main(["verify", str(CAFFE_INI), "--inputs", str(SAMPLES), "--min-sqnr", "300"]) == 1
    out = capsys.readouterr().out
    assert 'fail: "prob"' in out and "--attribute" in out


def test_usage_errors_end_with_2(digits: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(CAFFE_INI), "--inputs", str(tmp_path / "none.png")]) == 2
    assert "DV707" in capsys.readouterr().err
    assert main(["run", str(CAFFE_INI)]) == 2


def test_nothing_heavy_is_imported_for_a_failure_that_needs_none_of_it(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["verify", str(tmp_path / "none.ini")]) == 2


def test_palettes_are_shown_beside_fp16(digits: Config, capsys: pytest.CaptureFixture[str]) -> None:
    result = verify(replace(digits, quantization=True), samples=20)
    alone = verify(digits, samples=20)
    assert [b.palette for b in result.beside] == list(result.outputs)
    assert [b.fp16 for b in result.beside] == list(alone.outputs)
    assert alone.beside == () and not alone.palette and result.palette
    probabilities, logits = result.beside
    assert probabilities.same_class == 1.0 and logits.same_class is None
    assert logits.palette.sqnr < logits.fp16.sqnr - 5
    assert [b["palette"]["name"] for b in json.loads(result.to_json())["beside"]] == ["prob", "prob before softmax"]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_what_one_palette_does_counts_as_palettes(digits: Config) -> None:
    """An override, not the key, says what the network has."""
    override = Override("ip6", palette=True, where=Origin("net.ini"))
    result = verify(replace(digits, overrides=(override,)))
    assert result.palette and result.min_sqnr == 20 and len(result.beside) == 2
    none = verify(replace(digits, quantization=Quantization.AUTO, quantization_threshold=999))
    kept = [layer for layer in none.beside if layer.same_class is not None]
    assert none.palette and kept[0].same_class == 1.0, "layers that lose nothing have palettes all the same"


def test_the_command_line_shows_both(digits: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "net.ini"
    ini.write_text(
        CAFFE_INI.read_text()
        .replace("quantization = 0", "quantization = 1")
        .replace("digits.", f"{EXAMPLES}/digits_caffe/digits.")
    )
    assert main(["verify", str(ini), "--samples", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("digits_caffe against Caffe's formulas, palette weights: 2 samples")
    rows = [line.split() for line in out.splitlines()]
    start = rows.index(
        ["weights", "FP16", "dB", "palette", "dB", "FP16", "agreement", "palette", "agreement", "same", "class"]
    )
    assert rows[start + 1][0] == "prob" and rows[start + 1][3:] == ["100.0%"] * 3
