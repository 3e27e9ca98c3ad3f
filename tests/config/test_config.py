from __future__ import annotations

import dataclasses
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from cnn_convertor.config import KEYS, LONGEST_NAME, SECTIONS, Config
from cnn_convertor.config.keys import Key
from cnn_convertor.config.kinds import FLAG
from cnn_convertor.config.python_values import field_value
from cnn_convertor.devices.dv700 import device_file
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.settings import Quantization, Runtime
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.frontend import Frontend
from cnn_convertor.frontends.keras import KERAS
from config.ini_texts import SMALLEST, complaint, problem, problems, read, said


def test_the_smallest_file_has_the_defaults_of_the_contract(folder: Path) -> None:
    config = read(folder, SMALLEST)
    assert config == Config(definition=folder / "net.h5", output_folder=folder / "out")
    assert (config.name, config.data, config.origin) == ("net", folder / "net.h5", KERAS)
    flags = (config.generate_source, config.generate_doxy, config.generate_dot, config.selftest, config.report)
    assert flags == (False,) * 5
    assert (config.quantization, config.transpose_weight) == (Quantization.PALETTE, True)
    assert (config.width_override, config.height_override, config.custom_layer) == (None, None, None)
    assert (config.python_module, config.verbose, config.graphviz_path) == ("", False, "")
    assert (config.max_kernel_size, config.ub_size) == (None, None)
    assert (config.device.name, config.fusion, config.softmax, config.input) == ("dv700", "documented", "cpu", "fp16")


def test_a_definition_alone_gives_a_configuration(folder: Path) -> None:
    config = Config(definition=folder / "net.prototxt")
    assert (config.name, config.data, config.origin) == ("net", folder / "net.prototxt", CAFFE)
    assert config.output_folder == folder
    assert Config(definition=folder / "24-net.v2.h5").name == "24_net"
    with pytest.raises(UsageError, match="neither the name nor the content shows the framework"):
        Config(definition=folder / "net.xyz")


def test_every_key_is_read(folder: Path) -> None:
    text = """
    [INPUT]
    name = net_2
    definition = net.prototxt
    data = net.caffemodel
    origin = Caffe
    custom_layer = layers.py
    width_override = 320
    height_override = 240
    [OUTPUT]
    output_folder = out/deep
    generate_source = 1
    generate_doxy = 1
    generate_dot = 1
    quantization = 0
    transpose_weight = 0
    python_module = net_module
    [OPTIONAL]
    device = ZIA-C3
    fusion = Conservative
    verbose = 1
    graphviz_path = /usr/bin
    """
    config = read(folder, text, max_kernel_size=5, ub_size=131072)
    assert config == Config(
        name="net_2",
        definition=folder / "net.prototxt",
        data=folder / "net.caffemodel",
        origin=CAFFE,
        custom_layer=folder / "layers.py",
        width_override=320,
        height_override=240,
        output_folder=folder / "out/deep",
        generate_source=True,
        generate_doxy=True,
        generate_dot=True,
        quantization=False,
        transpose_weight=False,
        python_module="net_module",
        device=read_profile("zia-c3", folder),
        fusion="proven",
        verbose=True,
        graphviz_path="/usr/bin",
        max_kernel_size=5,
        ub_size=131072,
    )
    assert config.model.options.size == (240, 320)


def test_every_field_has_a_key_or_an_option() -> None:
    options = {"max_kernel_size", "ub_size", "overrides", "calibrate", "no_custom_code", "lines"}
    assert {key.name for key in KEYS} == {field.name for field in dataclasses.fields(Config)} - options
    assert SECTIONS == ("INPUT", "OUTPUT", "OPTIONAL", "QUANTIZATION")


def test_the_device_has_one_default_size(folder: Path) -> None:
    config, limits = read(folder, SMALLEST), Limits()
    assert Dv700.of(config.hardware, config.settings).device.limits == limits


def test_a_device_of_the_command_line_wins_over_the_ini_file(folder: Path) -> None:
    (folder / "ours.toml").write_text("[device]\nub_size = 4096\n")
    text = f"{SMALLEST}[OPTIONAL]\ndevice = ours.toml\n"
    assert read(folder, text).hardware.figures["ub_size"].value == 4096
    (folder / "net.ini").write_text(text)
    assert Config.read(folder / "net.ini", device="zia-c2").hardware.figures["ub_size"].value == 524_288
    assert Config.read(folder / "net.ini", device=None, ub_size=8192).hardware.figures["ub_size"].value == 8192


def test_an_unknown_device_is_named(folder: Path) -> None:
    found = problem(folder, f"{SMALLEST}[OPTIONAL]\ndevice = zia\n")
    assert (found.code, found.message) == ("DV150", 'there is no device "zia"; did you mean "zia-c3"?')


def test_paths_stay_relative_to_where_the_user_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    Path("net.ini").write_text(SMALLEST)
    assert Config.read("net.ini").output_folder == Path("out")
    Path("subfolder/net.ini").write_text(SMALLEST.replace("net.h5", "../net.h5"))
    assert Config.read(Path("subfolder/net.ini")).output_folder == Path("subfolder/out")


def test_absolute_paths_are_kept(folder: Path) -> None:
    assert read(folder, SMALLEST.replace("= out", f"= {folder}/x")).output_folder == folder / "x"


@pytest.mark.parametrize(
    ("lines", "beginning", "origin"),
    [
        ("definition = net.prototxt\ndata = net.caffemodel", b"", CAFFE),
        ("definition = model\ndata = net.caffemodel", b"", CAFFE),
        ("definition = net.h5", b"", KERAS),
        ("definition = net.h5\norigin =", b"", KERAS),
        ("definition = model\ndata = weights.h5", b"", KERAS),
        ("definition = model", b"\x89HDF\r\n\x1a\n", KERAS),
        ("definition = model", b"PK\x03\x04", KERAS),
        ("definition = model\norigin = keras", b"", KERAS),
        ("definition = net.h5\norigin = CAFFE", b"", CAFFE),
    ],
)
def test_the_origin_is_given_or_guessed(folder: Path, lines: str, beginning: bytes, origin: Frontend) -> None:
    (folder / "model").write_bytes(beginning)
    assert read(folder, SMALLEST.replace("definition = net.h5", lines)).origin is origin


def test_stage_and_level_are_read(folder: Path) -> None:
    (folder / "net.prototxt").touch()
    text = SMALLEST.replace("definition = net.h5", "definition = net.prototxt\nstage = deploy, small\nlevel = 2")
    options = read(folder, text).model.options
    assert (options.stages, options.level) == (("deploy", "small"), 2)


@pytest.mark.parametrize("line", ["stage = a, a", "stage = a,", "level = high"])
def test_a_stage_or_level_that_makes_no_sense_is_an_error(folder: Path, line: str) -> None:
    text = SMALLEST.replace("definition = net.h5", f"definition = net.h5\n{line}")
    assert said(problem(folder, text)) == ("DV106", 4)


def test_a_key_of_another_framework_is_a_warning(folder: Path) -> None:
    text = SMALLEST.replace("definition = net.h5", "definition = net.h5\nstage = deploy")
    assert "[INPUT] stage is for Caffe and is ignored" in complaint(folder, text)


def test_weights_beside_a_model_that_names_its_own_are_an_error(folder: Path) -> None:
    for name in ("net.onnx", "net.data"):
        (folder / name).touch()
    text = SMALLEST.replace("definition = net.h5", "definition = net.onnx\ndata = net.data")
    assert said(problem(folder, text)) == ("DV106", 4)


def test_an_origin_that_cannot_be_guessed_is_asked_for(folder: Path) -> None:
    (folder / "model.bin").write_bytes(b"\x18\x07")
    found = problem(folder, SMALLEST.replace("net.h5", "model.bin"))
    assert said(found) == ("DV108", 3)
    assert "model.bin" in found.message
    assert "origin = CAFFE or origin = KERAS or origin = ONNX" in found.hint


@pytest.mark.parametrize(
    "line", ["[INPUT]\ndata =", '[INPUT]\ncustom_layer = ""', "[INPUT]\norigin =", "[OUTPUT]\npython_module ="]
)
def test_an_empty_value_is_the_default_where_the_default_is_empty(folder: Path, line: str) -> None:
    assert read(folder, SMALLEST.replace(line.partition("\n")[0], line)) == read(folder, SMALLEST)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("cpu_threads", "0", "auto, or a number of threads from 1 to 64"),
        *(("name", bad, "letters, digits") for bad in ("my-net", "a b", "größe", "net.h5")),
        ("origin", "PYTORCH", "CAFFE, KERAS or ONNX"),
        *(("quantization", bad, "0, 1 or auto") for bad in ("2", "", "01", "1 2", "-1", "\uff11", "yes")),
        ("generate_source", "true", "0 or 1"),
        *(("width_override", bad, "pixels") for bad in ("0", "-2", "3.5", "1e3", "wide", "", "1_0", "٣")),
        *(("mean", bad, "a number") for bad in ("gray", "nan", "1 inf")),
        *(
            (key, bad, "a number other than 0")
            for key in ("scale", "std")
            for bad in ("0", "1/0", "nan", "x", "1,,2", "1, 0")
        ),
        ("channel_order", "GRB", "RGB or BGR"),
        ("selftest", "2", "0 or 1"),
        *(("fusion", bad, "proven, documented, full or none") for bad in ("1", "", "fuller")),
        *(("python_module", bad, "Python module") for bad in ("a.b", "lambda", "int", "1st")),
    ],
)
def test_a_malformed_value_names_key_value_and_what_is_expected(
    folder: Path, key: str, value: str, expected: str
) -> None:
    section = next(k.section for k in KEYS if k.name == key)
    line = f"{key} = {value}\n"
    if key == "name":
        text = SMALLEST.replace("name = net\n", line)
    elif f"[{section}]" in SMALLEST:
        text = SMALLEST.replace(f"[{section}]\n", f"[{section}]\n{line}")
    else:
        text = f"{SMALLEST}[{section}]\n{line}"
    found = problem(folder, text)
    assert said(found) == ("DV106", text[: text.index(line)].count("\n") + 1)
    assert found.where is not None and found.where.file == str(folder / "net.ini")
    assert found.message.startswith(f"[{section}] {key}: expected ")
    assert expected in found.message
    assert found.message.endswith(f'not "{value}"' if value else "found nothing")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("mean = 104, 117,123.5", (104, 117, 123.5)),
        ("mean = 127.5", (127.5,)),
        ("scale = 1/256", 1 / 256),
        ("scale = 0.5", 0.5),
        ("scale = 1/2, 0.25 ,-4", (0.5, 0.25, -4)),
        ("std = 58.395, 57.12, 57.375", (58.395, 57.12, 57.375)),
        ("std = 128", 128),
        ("channel_order = bgr", "BGR"),
    ],
)
def test_how_images_become_inputs(folder: Path, line: str, value: object) -> None:
    config = read(folder, SMALLEST.replace("[OUTPUT]", f"{line}\n[OUTPUT]"))
    assert getattr(config, line.partition(" ")[0]) == value


def test_scale_and_std_exclude_each_other(folder: Path) -> None:
    text = SMALLEST.replace("[OUTPUT]", "scale = 0.5\nstd = 2\n[OUTPUT]")
    found = problem(folder, text)
    assert said(found) == ("DV129", text[: text.index("std")].count("\n") + 1)
    with pytest.raises(UsageError, match="DV129"):
        Config(definition=folder / "net.h5", scale=(1.0, 2.0), std=3.0)


def test_a_generated_runtime_has_no_softmax_of_the_sdk(folder: Path) -> None:
    text = SMALLEST + "runtime = generated\n[OPTIONAL]\nsoftmax = sdk\n"
    assert said(problem(folder, text)) == ("DV875", text[: text.index("softmax")].count("\n") + 1)
    assert read(folder, SMALLEST + "runtime = generated\n").settings.runtime is Runtime.GENERATED


QUANTIZED = SMALLEST + "{}\n[QUANTIZATION]\nConv1/1x1 = fp16\nconv1/1X1 = Palette ; that one\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quantization = 0", Quantization.FP16),
        ("quantization = 1", Quantization.PALETTE),
        ("quantization = auto", Quantization.AUTO),
        ("quantization = AUTO", Quantization.AUTO),
        ("", Quantization.PALETTE),
    ],
)
def test_how_weights_are_stored(folder: Path, text: str, expected: Quantization) -> None:
    config = read(folder, QUANTIZED.format(text))
    assert config.quantization is expected
    assert config.quantization_threshold == 40.0
    ini = str(folder / "net.ini")
    assert [(o.layer, o.palette, o.where.file) for o in config.overrides] == [
        ("Conv1/1x1", False, ini),
        ("conv1/1X1", True, ini),
    ], "names of layers are told apart by their case"
    assert [o.where.line for o in config.overrides] == [8, 9]
    fp16 = config.in_fp16
    assert (fp16.quantization, fp16.overrides) == (Quantization.FP16, ())


def test_a_threshold_is_a_number_of_decibels(folder: Path) -> None:
    assert (
        read(folder, SMALLEST + "quantization = auto\nquantization_threshold = -3.5\n").quantization_threshold == -3.5
    )
    for bad in ("", "40 dB", "nan", "inf"):
        found = problem(folder, SMALLEST + f"quantization_threshold = {bad}\n")
        assert found.code == "DV106" and "a number of decibels" in found.message


def test_the_outputs_decide_where_their_sqnr_is_given(folder: Path) -> None:
    text = SMALLEST + "quantization = auto\nquantization_output_sqnr = 42\n"
    config = read(folder, text)
    assert config.output_sqnr == 42.0 and config.in_fp16.output_sqnr is None
    assert read(folder, SMALLEST + "quantization_output_sqnr =\n").output_sqnr is None
    assert problem(folder, SMALLEST + "quantization_output_sqnr = much\n").code == "DV106"


@pytest.mark.parametrize(
    ("keys", "ignored"),
    [
        ("quantization_output_sqnr = 42", "quantization_output_sqnr is ignored: it needs quantization = auto"),
        ("quantization_threshold = 30", "quantization_threshold is ignored: it needs quantization = auto"),
        (
            "quantization = 0\nquantization_threshold = 30",
            "quantization_threshold is ignored: it needs quantization = auto",
        ),
        (
            "quantization = auto\nquantization_threshold = 40\nquantization_output_sqnr = 42",
            "quantization_threshold is ignored: quantization_output_sqnr decides",
        ),
    ],
)
def test_a_precision_that_does_not_decide_is_a_warning(folder: Path, keys: str, ignored: str) -> None:
    assert ignored in complaint(folder, SMALLEST + keys + "\n")


@pytest.mark.parametrize("value", ["103;116;123", "1 ; -2.5 ;3", "6;4"])
def test_numbers_that_a_comment_cuts_off_are_a_warning(folder: Path, value: str) -> None:
    numbers = ", ".join(map(str.strip, value.split(";")))
    assert f"(several numbers: {numbers})" in complaint(folder, SMALLEST + f"quantization_output_sqnr = {value}\n")


@pytest.mark.parametrize("value", ["30 ; was 28", "30 ;28 before", "30 # 1; 2", "30 ;"])
def test_a_comment_behind_a_number_is_none(folder: Path, value: str) -> None:
    text = SMALLEST + f"quantization = auto\nquantization_output_sqnr = {value}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(folder, text).output_sqnr == 30


def test_layers_have_fp16_or_palette(folder: Path) -> None:
    text = SMALLEST + "[QUANTIZATION]\na = 1\nb =\nc = fp16\nc = palette\nd = fp16\n"
    assert [(said(found), found.message) for found in problems(folder, text)] == [
        (("DV103", 10), "[QUANTIZATION] c is set twice, here and in line 9"),
        (("DV106", 7), '[QUANTIZATION] a: expected fp16 or palette, not "1"'),
        (("DV106", 8), "[QUANTIZATION] b: expected fp16 or palette, found nothing"),
    ]


@pytest.mark.parametrize("key", ["width_override", "height_override"])
def test_one_override_alone_is_refused(folder: Path, key: str) -> None:
    other = {"width_override": "height_override", "height_override": "width_override"}[key]
    for text in (f"{key} = 8\n", f"{key} = 8\n{other} = -1\n"):
        found = problem(folder, SMALLEST.replace("[OUTPUT]", f"{text}[OUTPUT]"))
        assert said(found) == ("DV104", 4)
        assert key in found.message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nte.h5", 'did you mean "net.h5"?'),
        ("NET.H5", 'did you mean "net.h5"?'),
        ("cat.h5", 'cat.h5"'),  # the ending alone is no likeness
        ("subfolder/net.h5", "there is no file"),
        ("elsewhere/net.h5", "since there is no folder"),
        ("subfolder", "is a folder, not a file"),
        ("net.h5/x", "since there is no folder"),
    ],
)
@pytest.mark.parametrize("key", ["definition", "data", "custom_layer"])
def test_a_missing_file_is_named_with_its_key(folder: Path, key: str, value: str, message: str) -> None:
    if key == "definition":
        text = SMALLEST.replace("net.h5", value)
    else:
        text = SMALLEST.replace("[OUTPUT]", f"{key} = {value}\n[OUTPUT]")
    found = problem(folder, text)
    assert said(found) == ("DV107", 3 + (key != "definition"))
    assert found.message.startswith(f"[INPUT] {key}: ")
    assert str(folder / value) in found.message and message in found.message
    assert ("did you mean" in found.message) == ("did you mean" in message)


def test_an_output_folder_below_a_file_is_refused(folder: Path) -> None:
    found = problem(folder, SMALLEST.replace("= out", "= net.h5/out"))
    assert said(found) == ("DV107", 5)
    assert "is a file, not a folder" in found.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_kernel_size": 8}, "--max-kernel-size: expected 1 to 7, not 8"),
        ({"max_kernel_size": 0}, "--max-kernel-size: expected 1 to 7, not 0"),
        ({"ub_size": 1}, "--ub-size: expected 1024 to 2147483647, not 1"),
    ],
)
def test_sizes_that_no_device_has(folder: Path, options: dict[str, int], message: str) -> None:
    found = problem(folder, SMALLEST, **options)
    assert (found.code, found.message) == ("DV109", message)


def test_a_config_never_changes(folder: Path) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        read(folder, SMALLEST).name = "other"  # type: ignore[misc]  # what the test is about


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("name = DMP_Network", "letters, digits"),
        ("name = n\n[OUTPUT]\npython_module = n_gen", "would replace the network's own file"),
        ("name = n\n[OUTPUT]\npython_module = n_selftest", "would replace the network's own file"),
        ("name = n\0", "it holds a zero byte"),
    ],
)
def test_names_that_would_break_or_replace_what_is_generated(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "net.h5").touch()
    output = "output_folder = out\n" if "[OUTPUT]" in lines else "[OUTPUT]\noutput_folder = out\n"
    (tmp_path / "net.ini").write_text(f"[INPUT]\ndefinition = net.h5\n{lines}\n{output}")
    with pytest.raises(UsageError, match=message):
        Config.read(tmp_path / "net.ini")


@pytest.mark.parametrize("key", ["name", "python_module"])
def test_names_are_short_enough_for_files(folder: Path, key: str) -> None:
    text = SMALLEST.replace("name = net", "name = n") if key == "name" else f"{SMALLEST}python_module = n\n"
    longest = "a" * LONGEST_NAME
    read(folder, text.replace(f"{key} = n\n", f"{key} = {longest}\n"))
    found = problem(folder, text.replace(f"{key} = n\n", f"{key} = {longest}a\n"))
    assert found.code == "DV106"


def test_a_path_that_is_too_long_is_told_shortly(folder: Path) -> None:
    found = problems(folder, SMALLEST.replace("net.h5", f"{'a' * 300}.h5").replace("= out", f"= {'b' * 300}"))
    assert [p.code for p in found] == ["DV107", "DV107"]
    for p in found:
        assert "cannot be used, the system says: File name too long" in p.message
        assert "Errno" not in p.message and len(p.message) < 200


@pytest.mark.parametrize("key", ["definition", "data"])
@pytest.mark.parametrize("name", ["model.PT", "model.tflite", "frozen.pb", "saved"])
def test_a_model_of_another_framework_says_how_to_export_it(folder: Path, key: str, name: str) -> None:
    (folder / name).mkdir() if name == "saved" else (folder / name).write_bytes(b"\x08\x07")
    if name == "saved":
        (folder / name / "saved_model.pb").touch()
    given = f"definition = {name}" if key == "definition" else f"definition = net.h5\ndata = {name}"
    found = problem(folder, SMALLEST.replace("definition = net.h5", given))
    assert found.code == "DV208" and found.where is not None and found.where.file.endswith(name)
    assert "model.onnx" in found.remedy or '.save("model.h5")' in found.remedy
    with pytest.raises(UsageError, match="DV208"):
        Config.read(folder / name)


# Of each key, every value that docs/net-ini.md names, and one of each form that it describes.
DOCUMENTED = {
    "name": "net 3_nets class",
    "definition": "net.h5",
    "data": "net.h5 weights.h5",
    "origin": "KERAS keras",
    "custom_layer": "layers.py",
    "inputs": "conv conv,other",
    "width_override": "-1 64",
    "height_override": "-1 64",
    "mean": "127.5 104,117,123",
    "scale": "1/127.5 0.5 1,2,3",
    "std": "58.4 1,2,3",
    "channel_order": "RGB BGR rgb",
    "stage": "deploy deploy,fast",
    "level": "0 -1 3",
    "output_folder": "out /tmp .",
    "outputs": "dense dense,other",
    "input": "fp16 u8 u8_rgb u8_bgr",
    "quantization": "0 1 auto AUTO",
    "quantization_threshold": "40 -3.5",
    "quantization_output_sqnr": "30",
    "cpu_threads": "auto 1 64 Auto",
    "runtime": "sdk generated Generated",
    "python_module": "net_module",
    "loadable": "0.12 0.11 none None",
    "device": "dv700 zia-c2 zia-c3 dv740 board.toml",
    "fusion": "proven documented full none conservative",
    "softmax": "cpu sdk",
    "graphviz_path": "/usr/bin",
}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_documented_value_is_read_and_read_again(key: Key, folder: Path) -> None:
    """A value of the ini file is also one of the field, which checks what it gets each time that a configuration changes."""
    for name in ("weights.h5", "layers.py"):
        (folder / name).touch()
    device = Path(device_file.__file__).with_name("boards") / "dv740.toml"
    (folder / "board.toml").write_text(device.read_text())
    texts = DOCUMENTED[key.name].split() if key.kind is not FLAG else ["0", "1"]
    for text in texts:
        value = key.kind.parse(text, folder)
        assert field_value(key, value, Origin("net.ini")) == value, (key.name, text)
        assert type(field_value(key, value, Origin("net.ini"))) is type(value)


def test_as_many_threads_as_cores_is_a_setting_of_the_ini_file(folder: Path) -> None:
    config = read(folder, SMALLEST + "cpu_threads = auto\n")
    assert replace(config, report=True).settings.cpu_threads == 0
