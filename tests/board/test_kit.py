"""A kit runs a network on the board, and `verify --board` finds where the board leaves the emulation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from board.building import build
from cnn_convertor.board.board_comparison import verify_board
from cnn_convertor.board.board_times import function_times
from cnn_convertor.board.kit import Inputs, write_kit
from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.errors import UsageError
from cnn_convertor.pipeline import quantize, read_whole

pytestmark = pytest.mark.usefixtures("compiler")

INI = Path(__file__).resolve().parents[2] / "examples" / "digits_caffe" / "net.ini"
CONFIG = Config.read(INI)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory, compiler: None) -> Path:
    """A kit, and its runner for an emulated device that can be made faulty."""
    folder = tmp_path_factory.mktemp("kit")
    write_kit(CONFIG, folder, Inputs(samples=2, seed=3))
    sources = [folder / "runner.cpp", folder / "digits_caffe_gen.cpp"]
    build(folder, "runner", sources, standard="c++11", with_runtime=True)
    return folder


def run(kit: Path, results: Path, **environment: str) -> Path:
    """The folder of results that the kit writes."""
    variables = {**os.environ, **environment}
    subprocess.run(["./runner", str(results)], cwd=kit, env=variables, check=True, capture_output=True)
    return results


@pytest.fixture(scope="module")
def results(kit: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(kit, tmp_path_factory.mktemp("good") / "results")


@pytest.mark.slow
def test_the_emulated_device_is_a_board_that_passes(results: Path) -> None:
    found = verify_board(CONFIG, results)
    assert found.passed and found.first_leaving is None and found.samples == 2
    assert all(layer.emulation.max_error == 0 for layer in found.layers)
    assert all(layer.framework == layer.emulated for layer in found.layers)
    assert found.outputs == found.emulated
    assert [layer.measured.usec is None for layer in found.layers] == [False] * 9
    assert json.loads(found.to_json())["passed"] is True


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.skipif(shutil.which("make") is None, reason="make builds the kit")
def test_a_kit_builds_and_runs_on_the_pc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way, as docs/board.md describes it."""
    assert main(["board", "kit", str(INI), "-o", str(tmp_path), "--samples", "1"]) == 0
    convertor = f"CNN_CONVERTOR={sys.executable} {INI.parents[2] / 'convertor.py'}"
    subprocess.run(["make", "pc", convertor, "CXXFLAGS=-O0 -Werror"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["./runner_pc", "results"], cwd=tmp_path, check=True)
    capsys.readouterr()
    assert main(["verify", str(INI), "--board", str(tmp_path / "results")]) == 0
    assert "pass: the board does what the emulated device does" in capsys.readouterr().out


@pytest.mark.parametrize(("fault", "layer"), [("run", "relu1"), ("prelu", "prelu2"), ("branches", "concat4")])
def test_the_first_layer_with_a_fault_is_named(kit: Path, tmp_path: Path, fault: str, layer: str) -> None:
    found = verify_board(CONFIG, run(kit, tmp_path / "results", FAULT=fault))
    assert found.first_leaving == layer and not found.passed
    if fault != "run":  # the layers behind it compute rightly on what they are given
        assert [one.name for one in found.layers if not one.is_same] == [layer]


def test_traffic_is_what_the_emulated_device_counts(kit: Path, tmp_path: Path) -> None:
    (tmp_path / "sysfs").mkdir()
    found = verify_board(CONFIG, run(kit, tmp_path / "results", DMP_DV_SYSFS=str(tmp_path / "sysfs")))
    on_device = [layer for layer in found.layers if layer.measured.nbytes is not None]
    assert [layer.measured.nbytes for layer in on_device] == [layer.modelled.bytes for layer in on_device]
    assert found.whole.nbytes == found.modelled.bytes > 0


EMPTY_LAYER = b'{"bytes": 0, "usec": null, "input_bytes": null, "output_bytes": null, "weights_bytes": null}, '


def changed(results: Path, folder: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of the results with another file."""
    copy = folder / "results"
    shutil.copytree(results, copy)
    (copy / name).write_bytes(change((copy / name).read_bytes()))
    return copy


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_layers_are_measured_on_maps_of_their_own(tmp_path: Path) -> None:
    """The output in FP32 lies where the input and a map of the CPU have been: measuring once more must not read it as FP16."""
    values = np.random.default_rng(0)
    kernels = {"w1": values.normal(0, 0.1, (16, 3, 1, 1)), "w2": values.normal(0, 0.1, (300, 16, 4, 4))}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1"], ["a"]),
            helper.make_node("Erf", ["a"], ["e"]),
            helper.make_node("Conv", ["e", "w2"], ["b"]),
            helper.make_node("Softmax", ["b"], ["y"], axis=1),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in kernels.items()],
    )
    model = tmp_path / "net.onnx"
    model.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    config = Config.of(model, name="net", output_folder=tmp_path, generate_source=True, quantization="0")
    write_kit(config, tmp_path, Inputs(samples=1, seed=3))
    build(tmp_path, "runner", [tmp_path / "runner.cpp", tmp_path / "net_gen.cpp"], standard="c++11", with_runtime=True)
    assert verify_board(config, run(tmp_path, tmp_path / "results", DMP_DV_STRICT="1")).passed


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_a_network_with_a_concatenation_in_place_passes(tmp_path: Path) -> None:
    """Its layer is numbered behind all others and does nothing, so the kit does not wait for it."""
    config = Config.read(INI.parents[1] / "digits_pytorch" / "net.ini", fusion="full")
    write_kit(config, tmp_path, Inputs(samples=1, seed=3))
    source = tmp_path / "digits_pytorch_gen.cpp"
    assert "LT_CONCAT" in source.read_text(encoding="utf-8")
    build(tmp_path, "runner", [tmp_path / "runner.cpp", source], standard="c++11", with_runtime=True)
    assert verify_board(config, run(tmp_path, tmp_path / "results", DMP_DV_STRICT="1")).passed


def test_one_wrong_element_of_a_layer_is_found(results: Path, tmp_path: Path) -> None:
    def change(memory: bytes) -> bytes:
        values = np.frombuffer(memory, "<f2").copy()
        values[1024 + 17] += 1  # the second layer, prelu2
        return values.tobytes()

    assert verify_board(CONFIG, changed(results, tmp_path, "layers.bin", change)).first_leaving == "prelu2"


def test_an_element_that_is_two_steps_off_is_found(results: Path, tmp_path: Path) -> None:
    def change(memory: bytes) -> bytes:
        values = np.frombuffer(memory, "<f2").copy()
        values.view("<u2")[1024 + np.abs(values[1024:2048]).argmax()] += 2
        return values.tobytes()

    found = verify_board(CONFIG, changed(results, tmp_path, "layers.bin", change))
    assert found.first_leaving == "prelu2" and found.layers[1].emulation.sqnr > 60


def test_a_last_digit_is_rounding(results: Path, tmp_path: Path) -> None:
    def change(memory: bytes) -> bytes:
        values = np.frombuffer(memory, "<u2").copy()
        values[1024 + 17] ^= 1
        return values.tobytes()

    found = verify_board(CONFIG, changed(results, tmp_path, "layers.bin", change))
    assert found.passed and found.layers[1].emulation.max_error > 0


def test_outputs_of_the_whole_network_count(results: Path, tmp_path: Path) -> None:
    found = verify_board(CONFIG, changed(results, tmp_path, "outputs.bin", lambda values: bytes(len(values))))
    assert found.first_leaving is None and not found.passed


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("results.json", lambda _: b"{", "results.json is damaged"),
        ("results.json", lambda _: b"{}", "results.json is damaged"),
        ("results.json", lambda text: text.replace(b'n": 1', b'n": 2'), "is not cnn-convertor results, version 1"),
        ("results.json", lambda text: text.replace(b'"input_bytes": null', b'"input_bytes": "7"'), "damaged"),
        ("results.json", lambda text: text.replace(b'"seed": 3', b'"seed": 1e999'), "damaged"),
        ("results.json", lambda _: b"[" * 100_000, "damaged"),
        (
            "results.json",
            lambda text: text.replace(b'"input_bytes": null', b'"input_bytes": ' + b"[" * 500 + b"]" * 500),
            "damaged",
        ),
        (
            "results.json",
            lambda text: text.replace(b'"device": {', b'"device": {"a": ' + b"[" * 500 + b"]" * 500 + b","),
            "damaged",
        ),
        ("results.json", lambda text: text.replace(b'"layers": [', b'"layers": [' + EMPTY_LAYER), "other sizes"),
        ("layers.bin", lambda memory: memory[:-2], "layers.bin has another size"),
        ("outputs.bin", lambda values: values[:-4], "damaged"),
    ],
)
def test_damaged_results_are_refused(
    results: Path, tmp_path: Path, name: str, change: Callable[[bytes], bytes], reason: str
) -> None:
    with pytest.raises(UsageError, match=f"DV731: .*{reason}"):
        verify_board(CONFIG, changed(results, tmp_path, name, change))


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"DV731: .*results\.json: No such file"):
        verify_board(CONFIG, tmp_path)


def test_results_of_another_network_are_refused(results: Path) -> None:
    with pytest.raises(UsageError, match=r"DV732: .*made from another network"):
        verify_board(replace(CONFIG, fusion="none"), results)


def test_results_with_other_inputs_are_refused(results: Path, tmp_path: Path) -> None:
    other = changed(results, tmp_path, "results.json", lambda text: text.replace(b'"seed": 3', b'"seed": 4'))
    with pytest.raises(UsageError, match=r"DV732: .*made with other inputs"):
        verify_board(CONFIG, other)
    (tmp_path / "given").mkdir()
    given = changed(results, tmp_path / "given", "results.json", lambda text: text.replace(b'"seed": 3', b'"seed": -1'))
    with pytest.raises(UsageError, match=r"DV732: .*made with --inputs"):
        verify_board(CONFIG, given)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_command_that_a_kit_prints_accepts_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = INI.parents[1] / "digits_samples"
    shutil.copytree(INI.parent, tmp_path / "net", ignore=shutil.ignore_patterns("output"))
    ini = tmp_path / "net" / "net.ini"
    ini.write_text(ini.read_text().replace("quantization = 0", "quantization = 1"))
    kit = tmp_path / "kit"
    given = [f"--inputs={samples}", f"--calibrate={samples}", "--ub-size=500000"]
    assert main(["board", "kit", str(ini), *given, "-o", str(kit)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    again = f"verify {ini} {' '.join(given)} --board RESULTS"
    assert f"then `cnn-convertor {again}`" in said
    build(kit, "runner", [kit / "runner.cpp", kit / "digits_caffe_gen.cpp"], standard="c++11", with_runtime=True)
    words = again.replace("RESULTS", str(run(kit, tmp_path / "results"))).split()
    assert main(words) == 0
    words.remove(given[1])
    assert main(words) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "DV732" in said and "give the --calibrate and the device that" in said


def test_the_same_network_has_the_same_kit(tmp_path: Path) -> None:
    first, again = (write_kit(CONFIG, tmp_path / name, Inputs()).files for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_the_command_line(kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "kit", str(INI), "--samples", "2", "--seed", "3", "-o", str(tmp_path / "kit")]) == 0
    assert (tmp_path / "kit" / "kit.h").read_text() == (kit / "kit.h").read_text()
    assert f"README.txt says; then `cnn-convertor verify {INI} --board RESULTS`" in capsys.readouterr().err
    assert "which takes 2 samples" in (tmp_path / "kit" / "README.txt").read_text()
    assert main(["verify", str(INI), "--board", str(run(kit, tmp_path / "good"))]) == 0
    judged = capsys.readouterr().out
    assert "pass: the board does what the emulated device does" in judged
    page, form = tmp_path / "page.html", tmp_path / "report.json"
    shown = ["--board", str(tmp_path / "good"), "--html", str(page), "--json", str(form)]
    assert main(["report", str(INI), *shown]) == 0
    assert page.read_text().count("<td>the same</td>") == len(json.loads(form.read_text())["board"]["layers"]) == 9
    assert judged in capsys.readouterr().out
    bad = run(kit, tmp_path / "bad", FAULT="branches")
    assert main(["verify", str(INI), "--board", str(bad), "--json", str(tmp_path / "found.json")]) == 1
    assert 'fail: the board leaves the emulation at the layer "concat4"' in capsys.readouterr().out
    assert json.loads((tmp_path / "found.json").read_text())["first_leaving"] == "concat4"
    assert main(["verify", str(INI), "--board", str(bad), "--layers"]) == 2
    capsys.readouterr()


def test_a_kit_measures_functions_and_changes(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The softmax is the only layer on the CPU: its time, and that of the changes, replace those of a board.json."""
    measured = {"functions": {"Softmax": 1.0, "Swish": 8.5}, "list_usec": 4}
    forms = {form.name.lower(): "passed" for form in Form}
    probed = {"format": "cnn-convertor board", "version": 1, "forms": forms, "measured": measured}
    file = tmp_path / "board.json"
    file.write_text(json.dumps(probed))

    def slow(text: bytes) -> bytes:
        found = json.loads(text)
        for layer in found["layers"]:
            layer["usec"] = None if layer["usec"] is None else 7
        return json.dumps({**found, "between_usec": 50}).encode()

    timed = changed(results, tmp_path, "results.json", slow)
    assert main(["verify", str(INI), "--board", str(timed), "--times", str(file)]) == 0
    written = json.loads(file.read_text())
    assert written == {**probed, "measured": {**measured, **written["measured"]}}  # the rest stays
    program = quantize(read_whole(request := Request.of(CONFIG)), request).program
    assert written["measured"]["functions"] == {"Softmax": 7e3 / 10, "Swish": 8.5}
    assert written["measured"]["cache_bytes_per_second"] == pytest.approx(2 * program.io_bytes / 50e-6)
    assert function_times(replace(program, cpu_threads=2), [], []) == {}  # times are those of one thread
    profile = read_profile("board.json", tmp_path)
    assert profile.functions["Softmax"] == 700 and not profile.cache_rate.is_assumed
    for other, code in {timed / "results.json": "DV150", INI.with_name("digits.prototxt"): "DV100"}.items():
        assert main(["verify", str(INI), "--board", str(timed), "--times", str(other)]) == 2
        assert code in capsys.readouterr().err
    assert main(["verify", str(INI), "--times", str(file)]) == 2
    assert "--times goes with --board" in capsys.readouterr().err
    before = file.read_text()
    wrong = changed(timed, tmp_path / "wrong", "outputs.bin", lambda data: bytes(len(data)))
    assert main(["verify", str(INI), "--board", str(wrong), "--times", str(file)]) == 1
    assert file.read_text() == before


def test_callbacks_of_custom_layers_must_be_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.cpp").write_bytes(b"// \xe4")
    for name, reason in {"none.cpp": "No such file", "latin.cpp": "not UTF-8"}.items():
        assert main(["board", "kit", str(INI), "-o", str(tmp_path / "kit"), "--source", str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert "DV730" in said and reason in said


def test_make_names_the_sources(kit: Path) -> None:
    command = ["make", "-n", "-B", "CROSS_COMPILE=arm-linux-gnueabihf-", "RUNTIME=libruntime.a"]
    said = subprocess.run(command, cwd=kit, capture_output=True, text=True, check=True).stdout
    assert said.startswith("arm-linux-gnueabihf-g++ -std=c++11 -pthread -Wall -Wextra")
    assert "runner.cpp digits_caffe_gen.cpp -o runner libruntime.a -ldmpdv" in said


def test_callbacks_may_be_named_after_the_network(kit: Path, tmp_path: Path) -> None:
    own = tmp_path / "digits_caffe_callbacks.cpp"
    own.write_text("// none")
    made = write_kit(CONFIG, tmp_path / "kit", Inputs(samples=2, seed=3), sources=[own])
    assert tmp_path / "kit" / own.name in made.files
    assert (tmp_path / "kit" / "kit.h").read_text() == (kit / "kit.h").read_text()


@pytest.mark.parametrize("name", ["runner.cpp", "kit.h", "digits_caffe_gen.cpp"])
def test_callbacks_replace_no_file_of_the_kit(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("// none")
    with pytest.raises(UsageError, match=f'DV730: a kit has only one file "{name}"'):
        write_kit(CONFIG, tmp_path / "kit", Inputs(), sources=[tmp_path / name])


@pytest.mark.parametrize("name", ["$(shell touch pwned).cpp", "a b.cpp", "a;b.cpp", "-o.cpp", "a'b.cpp", "a#.cpp"])
def test_a_makefile_names_plain_files_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match="DV730: the kit's Makefile can name files"):
        write_kit(CONFIG, tmp_path / "kit", Inputs(), sources=[tmp_path / name])
