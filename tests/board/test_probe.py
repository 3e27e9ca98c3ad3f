"""The probe finds the forms of commands that a device computes correctly."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from board.building import build
from cnn_convertor.devices.dv700.cpu_costs import cycles
from cnn_convertor.devices.dv700.device_file import read_profile
from cnn_convertor.devices.dv700.estimate import model_error
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.fusion.tiling import unified_buffer_need
from cnn_convertor.devices.dv700.fusion.ub_fit import geometry
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.probe.probe_commands import ASPECTS, Feature
from cnn_convertor.devices.dv700.probe.probe_files import write_probe
from cnn_convertor.devices.dv700.probe.suite import commands
from cnn_convertor.devices.dv700.profile import Profile
from cnn_convertor.devices.dv700.profiles import device_of
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.settings import Fusion

pytestmark = pytest.mark.usefixtures("compiler")

UB_SIZE = 65_536
SMALL = read_profile("dv700", Path()).overridden(ub_size=UB_SIZE)
OTHER_BLOCKS = {"maximizer", "ipu"}  # beside the convolution, whose counters sysfs has
# What contains only commands with a fault fails with it.
CONTAINED = {
    "branches": {"deep_branch", "channel_split"},
    "deconvolution": {"deconv_run"},
    "prelu": {"prelu_in_buffer"},
}

# The quick tests have those that fail others too.
FAULTS = [
    name if name in CONTAINED else pytest.param(name, marks=pytest.mark.slow)
    for name in (aspect.name.lower() for aspect in ASPECTS)
]


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory, compiler: None) -> Path:
    """The probe of a small device, with the faults linked in."""
    folder = tmp_path_factory.mktemp("probe")
    write_probe(folder, SMALL)
    build(folder, "probe", [folder / "probe.cpp"], standard="c++11")
    return folder


def run(folder: Path, *arguments: str, ub_size: int = UB_SIZE, **environment: str) -> tuple[list[str], Any]:
    """The lines that the probe prints, and what board.json holds."""
    # One thread: to wake others takes longer than what such small commands have to do.
    device = {"DMP_DV_UB_SIZE": str(ub_size), "DMP_DV_POOLS_TILES": "1", "DMP_DV_THREADS": "1"}
    variables = {**os.environ, **device, **environment}
    result = subprocess.run(
        ["./probe", *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines(), json.loads((folder / "board.json").read_text())


def verdicts(board: Any) -> dict[str, str]:
    return {**board["forms"], **board["features"]}


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_every_form_passes_on_the_emulated_device(probe: Path) -> None:
    lines, board = run(probe)
    assert list(board["forms"]) == [form.name.lower() for form in Form]
    assert list(board["features"]) == [feature.name.lower() for feature in Feature]
    assert verdicts(board) == {aspect.name.lower(): "passed" for aspect in ASPECTS}
    assert len(lines) == len(ASPECTS) + 1
    assert {command["result"] for command in board["commands"]} == {"passed"}
    assert board["device"]["ub_size"] == board["probed"]["ub_size"] == UB_SIZE
    assert board["device"]["mac_num"] is None


@pytest.mark.slow
@pytest.mark.rotating
@pytest.mark.parametrize("fault", FAULTS)
def test_exactly_the_faulty_form_fails(probe: Path, fault: str) -> None:
    lines, board = run(probe, FAULT=fault)
    failed = {name for name, word in verdicts(board).items() if word == "failed"}
    assert failed == {fault, *CONTAINED.get(fault, ())}
    assert any(line.startswith("failed") and "is wrong" in line for line in lines)


def test_the_times_of_a_board_give_the_error_of_the_model(probe: Path) -> None:
    run(probe)
    error = model_error(read_profile("board.json", probe))
    assert error is not None and error.commands > 200


def test_the_functions_of_the_cpu_are_measured(probe: Path) -> None:
    run(probe)
    profile = read_profile("board.json", probe)
    assert set(profile.functions) == set(cycles("cortex-a53"))
    assert profile.cache_rate.source == "board.json"


def test_cache_maintenance_of_a_range_is_tried(probe: Path) -> None:
    """The emulated device keeps what both sides see apart in strict mode."""
    for fault, word, line in (("", "passed", 64), ("1", "failed", 0)):
        lines, board = run(probe, DMP_DV_STRICT="1", NO_RANGES=fault)
        assert lines[-1].split() == [
            word,
            *["cache", "maintenance", "of", "a", "range,", "for", "runtime", "=", "generated"],
        ]
        assert board["measured"]["cache_ranges"] == word
        figure = read_profile("board.json", probe).cache_line
        assert (figure.value, figure.source, figure.is_assumed) == (line, "board.json", False)


def test_a_refused_command_fails_its_form(probe: Path) -> None:
    _, board = run(probe, FAULT="chain", REFUSE="1")
    assert verdicts(board)["chain"] == "failed"
    assert {command["result"] for command in board["commands"]} == {"passed", "refused"}
    assert all(command["form"] != "branches" for command in board["commands"] if command["result"] == "refused")


def test_the_probe_goes_on_behind_a_command_that_does_not_return(probe: Path) -> None:
    variables = {**os.environ, "DMP_DV_UB_SIZE": str(UB_SIZE), "DMP_DV_POOLS_TILES": "1"}
    for _ in range(2):  # the command in two memory orders
        hung = subprocess.run(
            ["./probe"], cwd=probe, env={**variables, "FAULT": "upsampling", "HANG": "1"}, check=False
        )
        assert hung.returncode == 3
    lines, board = run(probe)
    assert lines[0].startswith("note: goes on behind command ")
    failed = [command["name"] for command in board["commands"] if command["result"] == "failed"]
    assert failed == ["upsampling (WHC)", "upsampling (HWC)"]
    assert verdicts(board)["upsampling"] == "failed" and verdicts(board)["run"] == "passed"
    assert not list(probe.glob("*.unfinished"))


def test_many_commands_in_a_list_show_what_a_command_and_a_list_cost(probe: Path, tmp_path: Path) -> None:
    _, board = run(probe, COMMAND_USEC="7", LIST_USEC="30")
    assert {command["repeats"] for command in board["commands"]} == {1, 64}
    assert {command["usec"] for command in board["commands"]} == {30 + 7, 30 + 64 * 7}
    measured = {"conv_mhz": None, "bytes_per_second": None, "command_usec": 7, "list_usec": 30}
    assert {name: board["measured"][name] for name in measured} == measured
    profile = read_back(board, tmp_path)
    assert profile.command_usec == Figure(Interval.of(7), "board.json")
    idle = [row for row in profile.measured if row.name.startswith("a copy of one pixel")]
    assert sorted((row.usec, row.commands) for row in idle) == [(7, 1)] * 2 + [(64 * 7, 64)] * 2
    error = model_error(replace(profile, measured=tuple(idle)))
    assert error is not None and error.largest < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("device", [{"COMMAND_USEC": "0", "LIST_USEC": "0"}, {"FAULT": "run"}])
def test_what_is_not_measured_is_null(probe: Path, device: dict[str, str]) -> None:
    _, board = run(probe, ub_size=UB_SIZE, **device)
    assert (board["measured"]["command_usec"], board["measured"]["list_usec"]) == (None, None)


def read_back(board: Any, folder: Path) -> Profile:
    (folder / "board.json").write_text(json.dumps(board))
    return read_profile(str(folder / "board.json"), Path())


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_a_board_allows_exactly_what_passed(probe: Path, tmp_path: Path) -> None:
    _, board = run(probe)
    profile = read_back(board, tmp_path)
    assert device_of(profile).forms[Fusion.FULL] == frozenset(Form)
    assert profile.blocks.value == ("conv", "maximizer", "ipu") and profile.limits.ub_size == UB_SIZE
    assert profile.conv_freq.value.low == profile.conv_freq.value.high == pytest.approx(board["measured"]["conv_mhz"])
    assert profile.bandwidth.value.low == pytest.approx(board["measured"]["bytes_per_second"] / 1e6)
    assert profile.command_usec.value.high == pytest.approx(board["measured"]["command_usec"])
    _, board = run(probe, FAULT="chain")
    assert device_of(read_back(board, tmp_path)).forms[Fusion.FULL] == frozenset(Form) - {Form.CHAIN}


def test_a_board_with_the_driver_of_the_sdk_has_no_max_pool_in_several_tiles(probe: Path, tmp_path: Path) -> None:
    _, board = run(probe, DMP_DV_POOLS_TILES="0")
    refused = {command["name"] for command in board["commands"] if command["result"] == "refused"}
    assert refused and all("max pool" in name for name in refused)
    profile = read_back(board, tmp_path)
    assert profile.passed == frozenset(Form) - {Form.TILED_POOL} and not profile.limits.pools_tiles


def test_the_probe_names_each_command_before_it_runs(probe: Path) -> None:
    lines, board = run(probe, "-v")
    for command, line in zip(board["commands"], lines, strict=False):
        assert line.startswith(f"{command['name']}: passed, ")


def test_a_probe_for_another_device_says_so(probe: Path) -> None:
    lines, board = run(probe, ub_size=655_360)
    assert (
        lines[0] == "note: the device has --ub-size 655360 --max-kernel-size 7, but the probe is made for 65536 and 7"
    )
    assert board["probed"] == {"ub_size": UB_SIZE, "max_kernel_size": 7}


@pytest.mark.slow
def test_figures_and_counters_come_from_sysfs(probe: Path, tmp_path: Path) -> None:
    for name, text in {"mac_num": "576\n", "svn_version": "0x5d\n", "conv_freq": "400"}.items():
        (tmp_path / name).write_text(text)
    _, board = run(probe, DMP_DV_SYSFS=str(tmp_path))
    assert (board["device"]["mac_num"], board["device"]["svn_version"]) == (576, 93)
    for command in board["commands"]:
        if command["form"] not in OTHER_BLOCKS:
            counted = sum(command[name] for name in ("input_bytes", "output_bytes", "weights_bytes"))
            assert counted == command["bytes"], command["name"]
    assert all((command["output_bytes"] > 0) is (command["form"] not in OTHER_BLOCKS) for command in board["commands"])


@pytest.mark.parametrize("device", ["dv700", "zia-c2", "dv740"])
def test_every_form_that_a_device_can_have_has_commands(device: str) -> None:
    limits = read_profile(device, Path()).limits
    made = commands(limits)
    tiled = set() if device != "dv740" else {Form.TILED_POOL, Form.TILED_ADDITION}
    assert {command.subject for command in made} == {*ASPECTS} - {Feature.MAXIMIZER, Feature.IPU} - tiled
    assert max(command.input.height for command in made) == limits.max_height


def test_a_small_kernel_leaves_out_large_ones() -> None:
    kernels = [
        run.convolution.kernel
        for command in commands(Limits(max_kernel_size=3))
        for run in command.runs
        if run.convolution is not None
    ]
    assert max(max(kernel) for kernel in kernels) == 3


def test_commands_fill_the_buffer() -> None:
    limits = Limits()
    for command in commands(limits):
        if "fills the buffer" in command.name and len(command.runs) > 1:
            sizes = [geometry(run, external=run.external) for run in command.runs]
            assert unified_buffer_need(command.input, sizes) > 0.98 * limits.ub_size, command.name


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_the_same_device_has_the_same_probe(tmp_path: Path) -> None:
    first, again = (write_probe(tmp_path / name, SMALL).files for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_make_builds_the_probe_with_another_compiler(probe: Path) -> None:
    said = subprocess.run(
        ["make", "-n", "-B", "CROSS_COMPILE=aarch64-linux-gnu-", "SDK=/opt/sdk"],
        cwd=probe,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "aarch64-linux-gnu-g++ -std=c++11" in said.stdout
    assert "-I/opt/sdk/include -L/opt/sdk/lib" in said.stdout and "-ldmpdv" in said.stdout
