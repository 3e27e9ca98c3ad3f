"""What is known of a network before it is converted: every layer, every reason, in network order."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import h5py
import numpy as np
import pytest

from cnn_convertor import cli
from cnn_convertor.config import Config
from cnn_convertor.conversion.inspection import inspect, inspection_as_json
from cnn_convertor.devices.dv700.device_file import NAMES, read_profile
from cnn_convertor.devices.dv700.estimate import provenance
from cnn_convertor.errors import ConvertorError, ModelError, UsageError
from cnn_convertor.frontends.caffe.parameters import WeightsFile
from cnn_convertor.ir.constant import Constant
from cnn_convertor.pipeline import load
from cnn_convertor.report.collecting import message_of
from cnn_convertor.report.rows import Runs
from cnn_convertor.report.values import Message, ModelLayer, Report
from examples.caffemodel import write

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CNN_CONVERTOR_SHARED", ROOT.parent / "shared"))
Look: TypeAlias = Callable[..., Report]


def net(*layers: str, shape: str = "dim: 1 dim: 3 dim: 16 dim: 16") -> str:
    """A chain of layers: `NAME TYPE settings`; those that name their bottoms or tops are left as they are."""
    text = [f'name: "net" layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ {shape} }} }} }}']
    before = "x"
    for layer in layers:
        name, type, settings = (*layer.split(maxsplit=2), "")[:3]
        bottom = "" if "bottom:" in settings else f'bottom: "{before}"'
        text.append(f'layer {{ name: "{name}" type: "{type}" {bottom} top: "{name}" {settings} }}')
        before = name
    return "\n".join(text)


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Inspects a chain of layers, without weights."""

    def look(*layers: str, **options: str) -> Report:
        path = tmp_path / "net.prototxt"
        path.write_text(net(*layers, **options))
        return inspect(path)

    return look


def convolution(outputs: int, kernel: int, more: str = "") -> str:
    return f"convolution_param {{ num_output: {outputs} kernel_size: {kernel} {more} }}"


def row(result: Report, layer: str) -> ModelLayer:
    (found,) = (row for row in result.layers if row.name == layer)
    return found


def test_a_definition_without_weights_is_enough(look: Look) -> None:
    result = look(
        f"conv Convolution {convolution(20, 5)}",
        "norm BatchNorm",
        "scale Scale scale_param { bias_term: true }",
        "relu ReLU",
        "pool Pooling pooling_param { pool: MAX kernel_size: 2 stride: 2 }",
        "drop Dropout",
        "fc InnerProduct inner_product_param { num_output: 10 }",
        "prob Softmax",
    )
    assert [
        (r.name, *("x".join(map(str, shape)) for shape in r.outputs), r.parameters, r.macs, r.runs)
        for r in result.layers
    ] == [
        ("x", "16x16x3", 0, 0, "none"),
        ("conv", "12x12x20", 1520, 12 * 12 * 20 * 5 * 5 * 3, "device"),
        ("norm", "12x12x20", 41, 0, "device"),
        ("scale", "12x12x20", 40, 0, "device"),
        ("relu", "12x12x20", 0, 0, "device"),
        ("pool", "6x6x20", 0, 0, "device"),
        ("drop", "6x6x20", 0, 0, "none"),
        ("fc", "1x1x10", 7210, 7200, "device"),
        ("prob", "1x1x10", 0, 0, "cpu"),
    ]
    assert [r.how for r in result.layers[1:6]] == [
        "convolution 5x5",
        *['within "conv"'] * 3,
        'max pool 2x2, in the command of "conv"',
    ]
    assert result.work is not None and (result.work[:2], result.problems) == ((2, 1), ())
    assert (result.parameters, result.macs) == (8811, 223200)


@pytest.mark.parametrize(
    ("layers", "how"),
    [
        (["a Sigmoid"], "average pool 1x1"),
        (["a BatchNorm"], "depthwise convolution 1x1"),
        (["a PReLU"], "depthwise convolution 1x1"),
        (["a Upsample upsample_param { scale: 4 }"], "2 times upsampling by 2x2"),
        (["a Pooling pooling_param { pool: MAX kernel_size: 5 pad: 2 }"], "2 times max pool 3x3"),
    ],
)
def test_what_runs_as_something_else_says_as_what(look: Look, layers: list[str], how: str) -> None:
    (_, found) = look(*layers).layers
    assert (found.runs, found.how) == ("rewritten", how)


def test_an_output_that_the_cpu_flattens_is_told(look: Look) -> None:
    result = look(f"conv Convolution {convolution(20, 5)}", "relu ReLU")
    assert [(r.runs, r.how) for r in result.layers[1:]] == [
        ("device", "convolution 5x5"),
        ("device+cpu", 'within "conv"; flattened for the output'),
    ]
    assert result.work is not None and result.work[:2] == (1, 1)


WIDE = "dim: 1 dim: 3 dim: 16 dim: 3000"
EVERYTHING = (
    "first Pooling pooling_param { pool: MAX kernel_size: 2 stride: 2 pad: 2 }",  # more padding than Caffe allows: DV206
    "odd Foo",  # unknown: DV301
    "bad Pooling pooling_param { pool: STOCHASTIC kernel_size: 2 }",  # not the same each time: DV302
    "far ReLU relu_param { negative_slope: 1e6 }",  # DV503 for any size
    "last Bar",
)


def codes(problems: Sequence[Message]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((problem.code, problem.layer) for problem in problems))


REASONS = [("DV206", "first"), ("DV301", "odd"), ("DV302", "bad"), ("DV503", "far"), ("DV301", "last")]


def test_all_reasons_come_at_once_in_network_order(look: Look) -> None:
    result = look(*EVERYTHING, shape=WIDE)
    assert codes(result.problems) == REASONS
    assert [r.runs for r in result.layers] == ["none", *["refused"] * 5]
    assert result.changes[1].layers == ("odd", "last")


def test_settings_that_contradict_each_other_are_reported_for_any_size(look: Look) -> None:
    layers = (f"bad Convolution {convolution(8, 3, 'pad: 1 pad_h: 1')}", "worse Convolution", "pool Pooling")
    assert codes(look("odd Foo", *layers).problems) == [
        ("DV301", "odd"),
        ("DV206", "bad"),
        ("DV206", "worse"),
        ("DV206", "pool"),
    ]


def test_a_conversion_tells_the_same_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.prototxt").write_text(net(*EVERYTHING, shape=WIDE))
    write(tmp_path / "net.caffemodel", [("far", "", [np.ones((8, 8, 1, 1)), np.ones(8)])])
    ini = "[INPUT]\nname=n\ndefinition=net.prototxt\ndata=net.caffemodel\n[OUTPUT]\noutput_folder=.\n"
    (tmp_path / "net.ini").write_text(ini)
    with pytest.raises(ConvertorError) as caught:
        load(Config.read(tmp_path / "net.ini"))
    assert codes([*map(message_of, caught.value.problems)]) == REASONS == codes(inspect(tmp_path / "net.ini").problems)
    assert cli.main([str(tmp_path / "net.ini")]) == 1
    told = re.findall(r"^error (DV\d+)", capsys.readouterr().err, re.MULTILINE)
    assert list(dict.fromkeys(told)) == ["DV206", "DV301", "DV302", "DV503"]


def test_what_may_follow_from_a_guess_is_not_told(look: Look) -> None:
    layers = ("odd Foo", f"conv Convolution {convolution(8, 1)}")
    result = look(*layers, shape=WIDE)
    assert codes(result.problems) == [("DV301", "odd")]
    assert [(r.guessed, r.runs) for r in result.layers[1:]] == [(True, "refused"), (True, "device")]


def test_what_does_not_fit_a_guess_is_not_known(look: Look) -> None:
    result = look("odd Foo", f"conv Convolution {convolution(8, 17)}")
    assert codes(result.problems) == [("DV301", "odd")]
    assert row(result, "conv").runs == "unknown"
    assert row(result, "conv").macs is row(result, "conv").parameters is None


def test_a_layer_that_is_cut_out_costs_nothing(look: Look) -> None:
    result = look(f"conv Convolution {convolution(16, 3)}", "odd Foo", "relu ReLU")
    assert result.work is not None and result.work[:2] == (
        2,
        1,
    )  # the output's flattening, and none before the layer cut out
    assert row(result, "conv").runs == "device"
    assert row(result, "odd").steps == ()


def test_an_input_of_unknown_size_does_not_hide_the_rest(look: Look) -> None:
    steep = "steep ReLU relu_param { negative_slope: 1e6 }"
    result = look(f"conv Convolution {convolution(8, 3)}", steep, "odd Foo", shape="dim: 1 dim: 3 dim: 0 dim: 0")
    assert codes(result.problems) == [("DV206", "x"), ("DV503", "steep"), ("DV301", "odd")]


def test_weights_that_are_named_and_missing_are_reasons(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(
        net(f"conv Convolution {convolution(8, 3)}", "steep ReLU relu_param { negative_slope: 1e6 }")
    )
    (tmp_path / "net.ini").write_text(
        "[INPUT]\nname=n\ndefinition=net.prototxt\ndata=w.caffemodel\n[OUTPUT]\noutput_folder=.\n"
    )
    write(tmp_path / "w.caffemodel", [("other", "", [np.ones(3)])])
    assert codes(inspect(tmp_path / "net.ini").problems) == [("DV204", "conv"), ("DV503", "steep")]
    (tmp_path / "w.caffemodel").write_bytes(b"\xff" * 20)
    assert codes(inspect(tmp_path / "net.ini").problems) == [("DV201", ""), ("DV503", "steep")]


def test_no_array_is_as_large_as_the_weights(look: Look) -> None:
    tracemalloc.start()
    try:
        result = look(
            f"conv Convolution {convolution(512, 3)}",
            "norm BatchNorm",
            "fc InnerProduct inner_product_param { num_output: 16384 }",  # 1.6 GB
            "scale Scale",
            "fc2 InnerProduct inner_product_param { num_output: 16384 }",
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.parameters > 1_900_000_000
    assert peak < 50_000_000


def test_absent_numbers_are_positive_and_differ_from_row_to_row() -> None:
    absent = Constant.absent((4, 2, 3))
    values = absent.load()
    assert values.shape == (4, 2, 3)
    assert np.all((values > 0.5) & (values <= 1))
    assert len(set(values[:, 0, 0])) == 4
    assert np.array_equal(values[1:3], absent.load(slice(1, 3)))
    assert not np.isin(values, Constant.absent((4, 2, 3)).load()).any()


# --- whole networks ------------------------------------------------------------------------------------------------------


def numbers_in(path: Path) -> int:
    """How many numbers a Keras 2 file holds for its layers."""
    found: list[int] = []
    with h5py.File(path) as file:
        file["model_weights"].visititems(lambda _, item: found.append(getattr(item, "size", 0)))
    return sum(found)


def test_the_parameters_are_those_in_the_file() -> None:
    example = ROOT / "examples/digits_keras"
    assert inspect(example / "digits_keras2.h5").parameters == numbers_in(example / "digits_keras2.h5") > 1000
    assert inspect(example / "digits.keras").parameters == numbers_in(example / "digits_keras2.h5")


def test_the_parameters_of_real_networks_are_those_in_their_files(shared: Path) -> None:
    for path in (shared / "models").glob("*keras2/*.h*5"):
        assert inspect(path).parameters == numbers_in(path), path.name
    for path in (shared / "models").glob("*/*.caffemodel"):
        weights = WeightsFile.open(path)
        (definition,) = path.parent.glob(f"{path.stem[:4]}*.prototxt" if "mtcnn" in str(path) else "*.prototxt")
        result = inspect(definition)
        layers = {found.name for found in result.layers}  # some files hold what only training needed, too
        held = sum(math.prod(blob.shape) for layer in layers for blob in weights.blobs(layer))
        assert result.parameters == held > 1000, path.name


@pytest.mark.parametrize("example", ["digits_keras", "digits_caffe"])
def test_the_json_of_an_inspection_is_a_part_of_that_of_a_report(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With FP16 weights: an inspection chooses no palettes."""
    ini, report = ROOT / "examples" / example / "net.ini", tmp_path / "report.json"
    assert cli.main(["report", str(ini), "--json", str(report)]) == 0
    capsys.readouterr()
    assert cli.main(["inspect", str(ini), "--json"]) == 0
    part, whole = json.loads(capsys.readouterr().out), json.loads(report.read_text())
    assert part == {name: whole[name] for name in part}
    assert {"layers", "work", "boundaries", "steps", "problems"} <= part.keys() < whole.keys()


def test_the_page_describes_every_entry_of_the_json(look: Look) -> None:
    page = (ROOT / "docs/report.md").read_text(encoding="utf-8")
    found = json.loads(inspection_as_json(look("odd Foo")))
    cost = json.loads(inspection_as_json(look(f"conv Convolution {convolution(8, 7)}")))["steps"][0]["cost"]
    names = {*found, *found["work"], *found["layers"][1], *found["problems"][0], *cost}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
    assert [runs.value for runs in Runs if f"`{runs.value}`" not in page] == []


def test_inspect_is_a_public_name() -> None:
    package = importlib.import_module("cnn_convertor")
    public = package.inspect
    importlib.import_module("cnn_convertor.conversion.inspection")
    assert package.inspect is public is importlib.import_module("cnn_convertor.api.entry_points").inspect


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.ini", "a.prototxt", "a.h5", "a.keras"):
        assert cli.main(["inspect", str(tmp_path / name)]) == 2
        assert f'there is no file "{tmp_path / name}"' in capsys.readouterr().err


def test_a_model_is_known_by_its_beginning_too(tmp_path: Path) -> None:
    for name in ("digits.keras", "digits_keras2.h5"):
        (tmp_path / "net").write_bytes((ROOT / "examples/digits_keras" / name).read_bytes())
        result = inspect(tmp_path / "net")
        same = inspect(ROOT / "examples/digits_keras" / name)
        assert (result.network, result.framework, result.work) == ("net", "Keras", same.work)
    with pytest.raises(UsageError, match="DV101: this is a model"):
        Config.read(tmp_path / "net")


def test_costs_add_up_in_the_totals(look: Look) -> None:
    result = look(f"conv Convolution {convolution(8, 7)}")
    found = json.loads(inspection_as_json(result))
    (command,) = [step for step in found["steps"] if step["cost"] is not None]
    assert (command["layers"], len(command["runs"]), len(result.commands)) == (["conv"], 1, 1)
    cost = command["cost"]
    assert found["work"]["traffic_bytes"] == cost["bytes"] > 0
    assert 0 < found["work"]["least_map_bytes"] == found["work"]["map_bytes"] <= cost["bytes"]
    assert found["work"]["device_usec"] == cost["usec"] and found["work"]["cpu_usec"] == {"low": 0, "high": 0}
    parts = [found["work"][f"{part}_usec"] for part in ("device", "cpu", "between")]
    assert found["work"]["usec"] == pytest.approx({end: sum(part[end] for part in parts) for end in ("low", "high")})
    assert found["work"]["between_usec"] == found["between"]["usec"] and found["between"]["lists"] == 1
    assert found["between"]["overlap"] == {"low": 0, "high": 0}
    assert 0 < cost["command_usec"]["low"] < cost["usec"]["low"] < cost["usec"]["high"]
    assert found["device"]["provenance"] == provenance(read_profile("dv700", Path()))


NET = "examples/digits_keras/net.ini"


def test_a_table_shows_what_each_command_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", "--cost", str(ROOT / NET)]) == 0
    out = capsys.readouterr().out
    header, first = (re.search(f"^  {name} .*$", out, re.MULTILINE) for name in ("command", "stem, stem_norm,"))
    assert header is not None and header[0].split()[1:] == [
        "step", "runs", "cycles", "input", "operand", "output", "weights", "bound", "us",
    ]  # fmt: skip
    assert first is not None and first[0].split()[3:] == [
        "0",
        "1",
        "128",
        "128",
        "2,048",
        "2,336",
        "memory",
        *["2.4", "to", "21.4"],
    ]
    times, other, total, *explained = out.splitlines()[-5:]
    parts = r"0\.0169 to 0\.131 ms on the device, [\d.]+ to [\d.]+ ms on the CPU, 0\.0207 to 0\.103 ms between them"
    assert re.fullmatch(parts, times)
    assert other == "with runtime = generated, 0.02 to 0.1 ms between them"
    assert total == "the commands on dv700 move 0.03 MB; 0.006 to 0.12 ms to start and end them"
    assert "; ".join(explained) == provenance(read_profile("dv700", Path()))


@pytest.mark.slow
def test_devices_and_levels_of_fusion_are_shown_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", "--device", "all", "--fusion", "all", str(ROOT / NET)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:18]]
    levels = ["none", "proven", "documented", "full"]
    assert [row[:2] for row in rows] == [[device, level] for device in NAMES for level in levels]
    assert [row[2] for row in rows[:4]] == ["10", "8", "6", "6"]
    assert cli.main(["inspect", "--device", "zia-c2", "--fusion", "all", "--json", str(ROOT / NET)]) == 0
    found = json.loads(capsys.readouterr().out)["inspections"]
    assert [(one["device"]["name"], one["device"]["fusion"]) for one in found] == [
        ("zia-c2", level) for level in levels
    ]


def test_a_network_that_one_device_runs_otherwise(
    look: Look, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look("up Deconvolution convolution_param { num_output: 3 kernel_size: 2 stride: 2 bias_term: false }")
    assert cli.main(["inspect", "--device", "all", str(tmp_path / "net.prototxt")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:6]]
    assert [row[0] for row in rows if row[3] == "1"] == ["zia-c2"], "it has no deconvolution: the CPU moves values"


def test_weights_alone_are_no_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(ROOT / "examples/digits_caffe/digits.caffemodel")]) == 1
    assert "error DV201: the definition is a binary file, not text" in capsys.readouterr().err


def test_a_model_in_another_format_is_no_misuse_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="DV208"):
        inspect(tmp_path)


def test_an_input_of_bytes_that_the_device_refuses_is_a_problem() -> None:
    result = inspect(Config.read(ROOT / NET, input="u8"))  # the table of bytes has 3 channels, the digits have 1
    assert codes(result.problems)[0][0] == "DV431"
    assert result.steps == ()


def test_device_options_are_heard(look: Look, tmp_path: Path) -> None:
    assert len(look(f"conv Convolution {convolution(8, 7)}").commands) == 1
    assert len(inspect(tmp_path / "net.prototxt", max_kernel_size=5).commands) > 1
    with pytest.raises(UsageError):
        inspect(tmp_path / "net.prototxt", max_kernel_size=9)


def test_why_a_command_ends_is_told(look: Look) -> None:
    result = look(f"one Convolution {convolution(8, 3)}", f"two Convolution {convolution(8, 3, 'dilation: 2 pad: 2')}")
    (boundary,) = result.boundaries
    assert (boundary.before, boundary.after) == ("one", "two") and "dilat" in boundary.reason
    assert json.loads(inspection_as_json(result))["boundaries"] == [boundary._asdict()]


def test_maps_beyond_all_memory_are_refused_by_a_rule(tmp_path: Path) -> None:
    """What depends on their size is not worked out. An input of more than 33,554,432 numbers does not come so far."""
    definition = tmp_path / "net.prototxt"
    definition.write_text(
        'input: "x" input_shape { dim: 1 dim: 1 dim: 5000 dim: 5000 }\n'
        'layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 8 kernel_size: 3 } }\n'
        'layer { name: "d" type: "InnerProduct" bottom: "c" top: "d" inner_product_param { num_output: 8 } }\n'
        'layer { name: "e" type: "InnerProduct" bottom: "d" top: "e" inner_product_param { num_output: 16000000 } }\n'
        'layer { name: "r" type: "Reshape" bottom: "e" top: "r" reshape_param { shape { dim: 0 dim: 4000 dim: 4000 } } }\n'
    )
    assert {problem.code for problem in inspect(definition).problems} >= {"DV404"}
