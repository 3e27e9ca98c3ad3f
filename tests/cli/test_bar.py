"""Slow commands show progress: only on a terminal, on standard error, and it leaves no trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cli.terminal import terminal
from cnn_convertor import cli
from cnn_convertor.cli import console
from cnn_convertor.cli.bar import RareLines
from cnn_convertor.cli.live import ProgressLine
from cnn_convertor.progress import State, counted

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits_keras"
INI, IMAGE = str(DIGITS / "net.ini"), str(ROOT / "examples" / "digits_samples" / "digit_3.png")
MADE = DIGITS / "output" / "digits" / "digits_gen.cpp"

COMMANDS = {  # its arguments -> the steps that it shows; OUT is a folder
    f"convert {INI} --output OUT": ["read", "weights"],
    f"check {INI}": ["read", "weights", "compare"],
    f"inspect {INI}": ["inspect"],
    f"run {INI} --inputs {IMAGE}": ["read", "compile", "run"],
    f"report {INI}": ["read", "report"],
    f"init {DIGITS / 'digits.keras'}": ["read"],
    f"board kit {INI} --output OUT": ["read", "weights"],
    f"layouts export {INI} --target nvdla-fp16 --output OUT --run": ["read", "run", "surfaces"],
    f"sweep {INI} --vary fusion=none,full": ["variants"],
    f"audit {MADE}": ["audit"],
    "layouts plan OUT/table.csv": ["plan"],
    "layouts pack --to nvdla_feature_int16 OUT/map.npy OUT/map.bin": ["rearrange"],
}
RUNS_DATA = "layouts export"  # with the prebuilt runner, whose compilation takes 12 s
every_command = pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=pytest.mark.slow) if each.startswith(RUNS_DATA) else each for each in COMMANDS],
)


@pytest.fixture
def arguments(tmp_path: Path) -> Callable[[str], list[str]]:
    """The arguments of a command, with files to work on."""
    (tmp_path / "table.csv").write_text("id,lower,upper,size\na,0,2,16\nb,1,3,32\n")
    np.save(tmp_path / "map.npy", np.zeros((1, 8, 4, 4), np.int16))
    return lambda text: text.replace("OUT", str(tmp_path)).split()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars appear at the first step."""
    monkeypatch.setattr(console, "MOMENT", 0.0)
    monkeypatch.setenv("TERM", "xterm")


@every_command
def test_v_names_and_times_every_step(
    command: str, arguments: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments(command), "-v"]) == 0
    timed = re.findall(r"^\S+: (.*) took \d+\.\d\d s$", capsys.readouterr().err, re.MULTILINE)
    places = [timed.index(step) for step in COMMANDS[command]]
    assert places == sorted(places)


@pytest.mark.slow
def test_v_names_the_steps_of_a_calibration_and_a_self_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "net.ini"
    output = "[OUTPUT]\noutput_folder = .\nquantization = 1\nselftest = 1\n"
    ini.write_text(f"[INPUT]\nname = digits\ndefinition = {DIGITS / 'digits.keras'}\n{output}")
    assert cli.main([str(ini), "-v", "--calibrate", str(Path(IMAGE).parent)]) == 0
    steps = list(dict.fromkeys(re.findall(r"^digits: (.*) took", capsys.readouterr().err, re.MULTILINE)))
    of_calibration = ["prepare", "measure", "palettes", "compensate", "biases", "compare"]
    assert steps == [
        "read",
        "palettes",
        "calibrate",
        *(f"calibrate: {s}" for s in of_calibration),
        "self-test",
        "weights",
    ]


@every_command
def test_without_a_terminal_there_is_no_progress(
    command: str, arguments: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str], at_once: None
) -> None:
    assert cli.main(arguments(command)) == 0
    err = capsys.readouterr().err
    assert "\x1b" not in err and not any(f": {step}\n" in err for step in COMMANDS[command])


@every_command
@pytest.mark.parametrize("columns", [80, 30])
def test_a_terminal_shows_a_bar_and_ends_without_a_trace(
    command: str,
    columns: int,
    arguments: Callable[[str], list[str]],
    capsys: pytest.CaptureFixture[str],
    at_once: None,
) -> None:
    with terminal(columns) as screen:
        assert cli.main(arguments(command)) == 0
    *_, last = screen.text.split("\x1b[?25h")  # the cursor is shown again
    assert "\x1b[2K" in last, "the line is cleared"
    assert screen.text.count("\x1b[?25l") == 1
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "options"), [("xterm", ["-q"]), ("dumb", [])])
def test_quiet_commands_and_dumb_terminals_have_no_bar(
    kind: str, options: list[str], at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", kind)
    with terminal() as screen:
        assert cli.main(["inspect", INI, *options]) == 0
    assert screen.text == ""


def test_no_color_keeps_the_bar_and_drops_its_colors(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as screen:
        assert cli.main(["inspect", INI]) == 0
    assert "inspect" in screen.text and not re.search(r"\x1b\[[\d;]*m", screen.text)


def test_what_is_fast_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "MOMENT", 60.0)
    with terminal() as screen:
        assert cli.main(["inspect", INI]) == 0
    assert screen.text == ""


def test_a_bar_names_the_step_its_share_and_the_layer() -> None:
    state = State("net")
    state("weights", 1_000_000, 4_000_000, "conv1")
    state.since -= 1
    with terminal() as screen:
        shown = ProgressLine(state)
        shown.start(refresh=True)
        shown.stop()
    assert re.search(r"0:00  net: weights  25%  1 MB/s  conv1", screen.text)


def test_elsewhere_a_line_says_now_and_then_where_the_work_is() -> None:
    said: list[str] = []
    times = iter([0.0, 1.0, 29.0, 31.0, 32.0, 70.0])
    lines = RareLines(said.append, clock=lambda: next(times))
    for step, done, total in (("read", 0, 1), ("run", 0, 4), ("run", 1, 4), ("run", 2, 4), ("compare", 0, 1)):
        lines(step, done, total)
    assert said == ["run, 25%", "compare"]


# --- what a bar knows ----------------------------------------------------------------------------------------------------


def test_a_rate_counts_the_bytes_of_its_step() -> None:
    state = State("net")
    state("palettes", 5, 10)
    assert state.rate is None
    state("weights", 0, 4_000_000)
    assert state.rate is None
    state("weights", 2_000_000, 4_000_000, "conv1")
    state.since -= 1
    assert state.rate is not None and 1_000_000 < state.rate <= 2_000_000


def test_progress_names_the_layer_whose_weights_come_next() -> None:
    seen: list[tuple[str, int, int, str]] = []
    pieces = [np.zeros(size, np.uint8) for size in (16, 16, 32)]
    layers = [(0, "conv1"), (32, "conv2"), (64, "fc")]
    given = counted(pieces, lambda *state: seen.append(state), total=64, layers=layers)
    assert [piece.size for piece in given] == [16, 16, 32]
    assert seen == [
        ("weights", 0, 64),
        ("weights", 16, 64, "conv1"),
        ("weights", 32, 64, "conv2"),
        ("weights", 64, 64, "fc"),
    ]
