"""Files that describe devices: what they may say, and what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.devices.dv700.device_file import NAMES, read_profile
from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.profile import FIGURES, Measurement
from cnn_convertor.devices.figures import Figure
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.errors import ConvertorWarning, UsageError

C3 = read_profile("zia-c3", Path())


def written(folder: Path, text: str, name: str = "board.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_the_package_is_possible_and_has_a_source(name: str) -> None:
    profile = read_profile(name.upper(), Path())
    assert profile.name == name
    for key, figure in profile.figures.items():
        value = figure.value
        plain = [value.low, value.high] if isinstance(value, Interval) else value
        assert FIGURES[key].accepts(list(plain) if isinstance(plain, tuple) else plain), key
        assert figure.source, key


def test_a_file_changes_some_figures_of_a_device(tmp_path: Path) -> None:
    text = """
    title = "our board"
    base = "zia-c3"
    [device]
    ub_size = 524288
    driver = "7.2.20201106"
    hardware = 2019-07-29
    bandwidth = { value = 2100.5, source = "our measurement" }
    conv_freq = { value = [200, 250.5], assumed = true }
    command_usec = 0
    blocks = ["conv", "ipu"]
    """
    profile = read_profile("board.toml", written(tmp_path, text))
    expected: dict[str, Figure[Any]] = {
        "ub_size": Figure(524288, "board.toml"),
        "driver": Figure("7.2.20201106", "board.toml"),
        "hardware": Figure(date(2019, 7, 29), "board.toml"),
        "bandwidth": Figure(Interval.of(2100.5), "our measurement"),
        "conv_freq": Figure(Interval(200, 250.5), "board.toml", is_assumed=True),
        "command_usec": Figure(Interval.of(0), "board.toml"),
        "blocks": Figure(("conv", "ipu"), "board.toml"),
    }
    assert profile == replace(C3.with_figures(expected), name="board", title="our board")
    assert profile.limits.pools_tiles and not C3.limits.pools_tiles


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ub_size = 5", 'the key "ub_size" belongs to the table [device]'),
        ("[devices]", 'there is no key "devices"; did you mean "device"?'),
        ("device = 5", "device: expected a table, not 5"),
        ("title = 5", "title: expected a text, not 5"),
        ('base = "zia-c4"', 'base: there is no device "zia-c4"'),
        ("base = []", "base: expected a text, not []"),
        ("[device]\nubsize = 5", 'device: there is no key "ubsize"; did you mean "ub_size"?'),
        ("[device]\nub_size = 5", "device.ub_size: expected 1024 to 2147483647, not 5"),
        ("[device]\nub_size = true", "device.ub_size: expected 1024 to 2147483647, not True"),
        ("[device]\nub_size = 1e6", "device.ub_size: expected 1024"),
        ("[device]\nmax_kernel_size = 9", "device.max_kernel_size: expected 1 to 7, not 9"),
        ("[device]\nrevision = -1", "device.revision: expected a whole number"),
        ("[device]\nmultipliers = 0", "device.multipliers: expected a whole number above 0"),
        ("[device]\nconv_freq = nan", "device.conv_freq: expected a number above 0"),
        ("[device]\nbandwidth = inf", "device.bandwidth: expected a number above 0"),
        (
            "[device]\ndriver = 2019-07-16",
            'device.driver: expected a version in quotes, like "7.2.20190716", not 2019-07-16',
        ),
        ('[device]\ndriver = "7.2"', "device.driver: expected a version in quotes"),
        ('[device]\ndriver = "7.2.20190716-dirty"', "device.driver: expected a version in quotes"),
        ("[device]\nhardware = 2019-07-29T00:00:00", "device.hardware: expected a date like 2019-07-29"),
        ('[device]\nhardware = "2019-07-29"', 'device.hardware: expected a date like 2019-07-29, or "unknown"'),
        (
            "[device]\nconv_freq = [200]",
            "device.conv_freq: expected a number above 0, or both ends of an interval: [low",
        ),
        (
            "[device]\nconv_freq = [200, 100]",
            "device.conv_freq: expected a number above 0, or both ends of an interval",
        ),
        ("[device]\nconv_freq = [0, 100]", "device.conv_freq: expected a number above 0, or both ends of an interval"),
        (
            "[device]\nconv_freq = [100, nan]",
            "device.conv_freq: expected a number above 0, or both ends of an interval",
        ),
        ("[device]\nconv_freq = ['a', 1]", "device.conv_freq: expected a number above 0, or both ends of an interval"),
        ("[device]\nmultipliers = [1, 2]", "device.multipliers: expected a whole number above 0, not [1, 2]"),
        ("[device]\ncommand_usec = -1", "device.command_usec: expected a number of 0 or more, or both ends of an"),
        ('[device]\nblocks = ["conv", "gpu"]', "device.blocks: expected a list of conv and"),
        ('[device]\nblocks = ["ipu"]', "device.blocks: expected a list of conv and"),
        ("[device]\nexpands_palettes = 1", "device.expands_palettes: expected true or false, not 1"),
        ("[device]\nub_size = { value = 2048, from = 1 }", 'device.ub_size: there is no key "from"'),
        ("[device]\nub_size = { source = 1 }", "device.ub_size: source: expected a text, not 1"),
        ("[device]\nub_size = { source = '' }", "device.ub_size: value is missing"),
        ("[device]\nub_size = { value = 2048, assumed = 1 }", "device.ub_size: assumed: expected true or false, not 1"),
        ("[device]\nub_size = [2048]", "device.ub_size: expected 1024 to 2147483647, not [2048]"),
        ("[device", "this is not TOML: "),
        ("a = 1\na = 2", "this is not TOML: "),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_profile("board.toml", written(tmp_path, text))
    assert any(message in problem.message for problem in caught.value.problems), caught.value
    assert {problem.code for problem in caught.value.problems} == {"DV150"}


def test_everything_wrong_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_profile("board.toml", written(tmp_path, "x = 1\n[device]\nub_size = 5\nrevision = 'a'"))
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zia-c4", 'there is no device "zia-c4"; did you mean "zia-c'),
        ("none.toml", "the device file cannot be read: No such file"),
        ("folder.toml", "the device file cannot be read: Is a directory"),
        ("latin.toml", "this is not TOML: 'utf-8' codec"),
        ("deep.json", "this is not JSON: "),
        ("list.json", "expected an object"),
        ("twice.json", 'this is not JSON: the key "a" appears twice'),
        ("digits.json", "this is not JSON: the number 1000000000000000000... is too large"),
    ],
)
def test_what_is_no_device(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"')
    written(tmp_path, "[" * 100_000, "deep.json")
    written(tmp_path, "[]", "list.json")
    written(tmp_path, '{"a": 1, "a": 2}', "twice.json")
    written(tmp_path, '{"measured": {"bytes_per_second": 1' + 400 * "0" + "}}", "digits.json")
    with pytest.raises(UsageError) as caught:
        read_profile(name, tmp_path)
    (problem,) = caught.value.problems
    assert problem.code == "DV150" and message in problem.message


# --- board.json ----------------------------------------------------------------------------------------------------------

BOARD: dict[str, Any] = {
    "format": "cnn-convertor board",
    "version": 1,
    "device": {
        "description": "a board", "ub_size": 1048576, "max_kernel_size": 7, "conv_freq": 200, "svn_version": 93,
        "mac_num": 1152, "hw_version": None, "driver": "7.2.20201106",
    },
    "probed": {"ub_size": 655360, "max_kernel_size": 7},
    "forms": {**dict.fromkeys((form.name.lower() for form in Form), "passed"), "chain": "failed", "dense": "untested"},
    "features": {"deconvolution": "passed", "maximizer": "passed", "ipu": "failed", "prelu": "passed"},
    "measured": {"conv_mhz": 190.5, "bytes_per_second": 2.1e9, "command_usec": 2.5, "list_usec": 4,
                 "cache_bytes_per_second": 5e9, "functions": {"Swish": 8.5}},
    "commands": [
        {"name": "a", "form": "run", "result": "passed", "usec": 12, "cycles": 100, "bytes": 65536, "input_bytes": None},
        {"name": "c", "form": "run", "result": "passed", "usec": 30, "cycles": 8, "bytes": 16, "repeats": 8},
        {"name": "d", "form": "run", "result": "passed", "usec": 4, "cycles": 8, "bytes": 16},
        {"name": "b", "form": "chain", "result": "wrong", "usec": 12, "cycles": 100, "bytes": 65536},
    ],
}  # fmt: skip


def board(folder: Path, **changes: Any) -> Path:
    return written(folder, json.dumps({**BOARD, **changes}), "board.json")


def test_a_probed_board_has_what_the_probe_saw(tmp_path: Path) -> None:
    profile = read_profile("board.json", board(tmp_path))
    assert profile.passed == frozenset(Form) - {Form.CHAIN, Form.DENSE}
    assert profile.title == "a board"
    values = {name: figure.value for name, figure in profile.figures.items() if figure.source == "board.json"}
    assert values == {
        "ub_size": 655360, "max_kernel_size": 7, "revision": 93, "multipliers": 1152,
        "conv_freq": Interval.of(200), "bandwidth": Interval.of(2100.0), "command_usec": Interval.of(2.5), "list_usec": Interval.of(4.0), "cache_rate": Interval.of(5000.0), "blocks": ("conv", "maximizer"),
        "driver": "7.2.20201106",
    }  # fmt: skip
    assert profile.functions == {"Swish": 8.5}
    assert profile.measured == (Measurement("a", 8, 100, 65536), Measurement("c", 26, 8, 16, commands=8))


def test_a_board_of_an_earlier_probe_leaves_the_time_of_a_command_assumed(tmp_path: Path) -> None:
    profile = read_profile("board.json", board(tmp_path, measured={"conv_mhz": None}))
    assert profile.command_usec == read_profile("dv700", Path()).command_usec
    assert [row.usec for row in profile.measured] == [12, 30, 4]


def test_the_measured_clock_stands_in_for_one_that_the_board_does_not_say(tmp_path: Path) -> None:
    device = {**BOARD["device"], "conv_freq": 0, "mac_num": None}
    assert read_profile("board.json", board(tmp_path, device=device)).conv_freq.value == Interval.of(190.5)
    twice = {**device, "mac_num": 1152}  # half the clock explains the same time
    assert read_profile("board.json", board(tmp_path, device=twice)).conv_freq.value == Interval.of(190.5 / 2)


def test_a_board_has_the_driver_that_it_names_and_the_hardware_that_the_user_adds(tmp_path: Path) -> None:
    device = {**BOARD["device"], "driver": "7.0 (emulated)", "hardware": "2019-07-29"}
    profile = read_profile("board.json", board(tmp_path, device=device))
    pinned = read_profile("dv700", Path()).driver
    assert (profile.driver, profile.hardware) == (pinned, Figure(date(2019, 7, 29), "board.json"))


def test_features_that_failed_are_not_used(tmp_path: Path) -> None:
    features = {"deconvolution": "failed", "rectangular_pool": "untested"}
    forms = {**BOARD["forms"], "tiled_pool": "failed"}
    limits = read_profile("board.json", board(tmp_path, features=features, forms=forms)).limits
    assert (limits.deconvolves, limits.pools_unevenly, limits.pools_tiles) == (False, False, False)


def test_failed_features_without_a_rule_are_a_warning(tmp_path: Path) -> None:
    with pytest.warns(ConvertorWarning, match="DV151: .* dilation, prelu"):
        read_profile("board.json", board(tmp_path, features={"dilation": "failed", "prelu": "untested"}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "x"}, 'expected "format"'),
        ({"version": 2}, 'expected "format"'),
        ({"forms": []}, "forms: expected an object"),
        ({"forms": {**BOARD["forms"], "run": "failed"}}, "forms: run did not pass"),
        ({"forms": {"run": True}}, "forms: run: expected passed, failed, untested"),
        ({"forms": {"run": []}}, "forms: run: expected passed, failed, untested"),
        ({"features": {"ipu": 1}}, "features: ipu: expected passed"),
        ({"device": {"ub_size": "many"}}, "ub_size: expected 1024 to 2147483647, not 'many'"),
        ({"device": {"hardware": "2019"}}, "hardware: expected a date like 2019-07-29"),
        ({"device": {"svn_version": 1.5}}, "revision: expected a whole number, not 1.5"),
        (
            {"measured": {"bytes_per_second": "fast"}},
            "bandwidth: expected a number above 0, or both ends of an interval: [low, high], not 'fast'",
        ),
        (
            {"measured": {"command_usec": -1}},
            "command_usec: expected a number of 0 or more, or both ends of an interval",
        ),
        (
            {"measured": {"list_usec": "slow"}},
            "list_usec: expected a number of 0 or more, or both ends of an interval: [low, high], not 'slow'",
        ),
        ({"measured": {"functions": {"Swish": 0}}}, "measured: functions: expected an object with numbers above 0"),
        ({"measured": {"list_usec": [1, 2]}}, "measured: list_usec: expected a number of 0 or more, not [1, 2]"),
        ({"commands": {}}, "commands: expected a list of objects"),
        ({"commands": [5]}, "commands: expected a list of objects"),
        ({"commands": [{"result": "passed", "usec": "5"}]}, "commands: expected numbers in usec, cycles, bytes"),
    ],
)
def test_what_is_wrong_with_a_board_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_profile("board.json", board(tmp_path, **changes))
    assert any(message in problem.message for problem in caught.value.problems), caught.value
    assert {problem.code for problem in caught.value.problems} == {"DV150"}
