"""Many networks in one call: their selection, their order, and failures of single ones."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cnn_convertor import cli
from cnn_convertor.config.ini_file import ini_files
from cnn_convertor.errors import Problem, UsageError
from cnn_convertor.trials.sweep_results import Figures, Sweep, SweptVariant

ROOT = Path(__file__).resolve().parents[2]
NAMES = [f"n{i}" for i in range(6)]


def network(folder: Path, name: str, channels: int = 3) -> Path:
    """An ini file for a network without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "net.prototxt").write_text(
        f'input: "x" input_shape {{ dim: 1 dim: {channels} dim: 8 dim: 8 }}\n'
        'layer { name: "r" type: "ReLU" bottom: "x" top: "y" }\n'
    )
    ini = folder / "net.ini"
    ini.write_text(f"[INPUT]\nname = {name}\ndefinition = net.prototxt\n[OUTPUT]\noutput_folder = out\n")
    return ini


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with networks, in which the third cannot be converted; it is in the working directory."""
    for name in NAMES:
        network(tmp_path / "nets" / name, name)
    path = tmp_path / "nets" / NAMES[2] / "net.prototxt"
    path.write_text(path.read_text().replace("ReLU", "Unknown"))
    monkeypatch.chdir(tmp_path)
    return Path("nets")


def program(*arguments: str, **options: int) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, str(ROOT / "convertor.py"), *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def outputs(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("out/*/*")}


# --- which networks ------------------------------------------------------------------------------------------------------


def test_a_folder_stands_for_the_ini_files_in_it(nets: Path) -> None:
    (nets / ".hidden").mkdir()
    (nets / ".hidden" / "net.ini").write_text("")
    (nets / "readme.txt").write_text("")
    expected = tuple(nets / name / "net.ini" for name in NAMES)
    assert ini_files([nets]) == expected
    assert ini_files([nets / "*" / "*"]) == ini_files([Path("**/net.ini")]) == expected
    assert ini_files([Path.cwd() / nets / "n[01]" / "net.ini"]) == tuple(Path.cwd() / path for path in expected[:2])


def test_what_is_named_twice_is_found_once(nets: Path) -> None:
    first = nets / NAMES[0] / "net.ini"
    assert ini_files([first, nets]) == (first, *ini_files([nets])[1:])
    assert ini_files([nets, nets / "*" / "*.ini"]) == ini_files([nets])


def test_files_stay_as_they_are_given(nets: Path) -> None:
    assert ini_files([Path("no.ini"), Path("b"), Path("a")]) == (Path("no.ini"), Path("b"), Path("a"))


@pytest.mark.parametrize("nothing", ["empty", "empty/*.ini"])
def test_where_nothing_is_found_is_an_error(nets: Path, nothing: str) -> None:
    Path("empty").mkdir()
    with pytest.raises(UsageError, match="DV124"):
        ini_files([nets, Path(nothing)])
    assert cli.main([nothing]) == 2


# --- several processes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_one_process_or_several_print_and_write_the_same(nets: Path) -> None:
    found = []
    for jobs in "12":
        done = program("nets", "--jobs", jobs)
        lines = [line for line in done.stderr.splitlines() if not re.match(r"n\d: ", line)]
        found.append((done.returncode, done.stdout, lines, outputs(nets)))
    assert found[0] == found[1]
    code, out, lines, files = found[0]
    assert code == 1
    assert re.findall(r"^n\d", out, re.MULTILINE) == [name for name in NAMES if name != NAMES[2]]
    assert lines[0].startswith("error DV3") and lines[-1] == "5 of 6 networks converted"
    assert {path.split("/")[0] for path in files} == {name for name in NAMES if name != NAMES[2]}


@pytest.mark.slow
def test_a_process_that_dies_costs_one_network(nets: Path, tmp_path: Path) -> None:
    """A file of the user's, in a process of its own, may do anything."""
    (tmp_path / "nets" / NAMES[2] / "net.prototxt").unlink()
    keras = ROOT / "examples/digits_keras/digits.keras"
    (nets / NAMES[2] / "layers.py").write_text("import os\nos._exit(3)\n")
    (nets / NAMES[2] / "net.ini").write_text(
        f"[INPUT]\nname = n2\ndefinition = {keras}\ncustom_layer = layers.py\n[OUTPUT]\noutput_folder = out\n"
    )
    done = program("nets", "--jobs", "2")
    assert done.returncode == 1
    assert "error DV127: the process that worked on n2 ended with exit code 3" in done.stderr
    assert done.stderr.endswith("5 of 6 networks converted\n")


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_a_warm_cache_prints_and_writes_the_same(nets: Path) -> None:
    found = [program("nets", "--cache", "cache", "--jobs", jobs) for jobs in "211"]
    assert [done.returncode for done in found] == [1, 1, 1]
    assert found[0].stdout == found[1].stdout == found[2].stdout
    assert found[2].stderr.endswith("5 of 6 networks converted, 5 of them from the cache\n")


@pytest.mark.slow
def test_a_terminal_shows_a_table(nets: Path) -> None:
    ours, terminal = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "CI"}}
    done = subprocess.run(
        [sys.executable, str(ROOT / "convertor.py"), "nets", "--jobs", "2"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**environment, "TERM": "xterm"},
        check=False,
        text=True,
    )
    os.close(terminal)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 1
    assert re.search(r"\d of 6 networks done", shown)
    assert "5 of 6 networks converted" in shown and "error" in shown
    assert "Traceback" not in shown


@pytest.mark.slow
def test_an_interruption_ends_all_processes(nets: Path) -> None:
    """Nothing is left beside the outputs, and no process goes on."""
    layers = nets / NAMES[2] / "layers.py"
    layers.write_text("import time, pathlib\npathlib.Path('begun').touch()\ntime.sleep(600)\n")
    keras = ROOT / "examples/digits_keras/digits.keras"
    (nets / NAMES[2] / "net.ini").write_text(
        f"[INPUT]\nname = n2\ndefinition = {keras}\ncustom_layer = layers.py\n[OUTPUT]\noutput_folder = out\n"
    )
    call = [sys.executable, str(ROOT / "convertor.py"), "nets", "--jobs", "2"]
    running = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not Path("begun").exists() and running.poll() is None:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 130
    assert err.endswith("interrupted\n") and "Traceback" not in err
    assert not [*nets.rglob("*unfinished*")]


# --- sweep ---------------------------------------------------------------------------------------------------------------


def test_a_sweep_compares_all_combinations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = str(ROOT / "examples/digits_keras/net.ini")
    table, values = tmp_path / "table.csv", tmp_path / "table.json"
    files = ["--csv", str(table), "--json", str(values), "--html", str(tmp_path / "table.html")]
    vary = ["--vary", "quantization=0,1", "--vary", "fusion=none,full"]
    assert cli.main(["sweep", ini, *vary, *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:6]] == [["0", "none"], ["0", "full"], ["1", "none"], ["1", "full"]]
    assert [line.endswith("*") for line in lines[2:6]] == [False, False, False, True]
    found = json.loads(values.read_text())
    assert [row["best"] for row in found["rows"]] == [False, False, False, True]
    assert found["rows"][3]["weight_bytes"] < found["rows"][1]["weight_bytes"]
    assert (tmp_path / "table.html").read_text().count("<tr") == 2 + 5  # of the front, and of all
    rows = [line.split(",") for line in table.read_text().splitlines()]
    assert rows[0][:3] == ["quantization", "fusion", "commands"] and len(rows) == 5
    assert [row[6] for row in rows[1:]] == [str(row["traffic_bytes"]) for row in found["rows"]]


def test_the_page_of_a_sweep_marks_the_front_and_shows_names_as_text(tmp_path: Path) -> None:
    better = Figures(1, 0, 1000.0, 1000.0, 2000, 300, 40, 50.0)
    rows = [
        SweptVariant({"fusion": "<b>full"}, better, is_best=True),
        SweptVariant({"fusion": "none"}, better._replace(usec_high=1500.0)),
        SweptVariant({"fusion": "proven"}, None, (Problem("DV431", "refused & named"),)),
    ]
    page = Sweep("a<i>.ini", tuple(rows)).to_html()
    assert re.findall(r'<tr class="best">.*?</td><td>(.*?)</td>', page) == ["&lt;b&gt;full"]
    assert "a&lt;i&gt;.ini" in page and "<i>" not in page and "<b>" not in page
    assert "DV431</td>" in page and "refused &amp; named" in page
    assert "http" not in page.replace("http-equiv", "")
    points = re.findall(r'<g class="point( best)?"><title>(.*?)</title>', page)
    assert points == [
        (" best", "fusion = &lt;b&gt;full: 1 ms, 340 bytes, 50.0 dB; fusion = none: 1 to 1.5 ms, 340 bytes, 50.0 dB")
    ]


def test_the_plot_of_a_sweep_marks_and_names_the_front() -> None:
    figures = Figures(1, 0, 1000.0, 1000.0, 2000, 300, 40)
    rows = (
        SweptVariant({"fusion": "none"}, figures._replace(usec_low=3000.0, usec_high=3000.0)),
        SweptVariant({"fusion": "proven"}, figures._replace(usec_low=2000.0, io_bytes=4), is_best=True),
        SweptVariant({"fusion": "full"}, figures, is_best=True),
    )
    page = Sweep("a.ini", rows).to_html()
    marks = re.findall(r'<g class="point best"><title>fusion = (\w+).*?<text .*?>(\d)</text>', page)
    assert sorted(marks, key=lambda pair: pair[1]) == [("full", "1"), ("proven", "2")], "the fastest first"
    front = page[page.index('id="front"') : page.index('id="variants"')]
    assert re.findall(r"<td[^>]*>(\d)</td><td>(\w+)</td>", front) == [("1", "full"), ("2", "proven")]
    assert "weights and I/O buffer, kB" in front and "ms</text>" in front
    assert 'id="front"' not in Sweep("a.ini", (SweptVariant({"fusion": "x"}, None),)).to_html()


@pytest.mark.parametrize(
    ("low", "high", "is_beaten"),
    [(9, 19, True), (10, 19, True), (9, 20, True), (10, 20, False), (9, 21, False), (11, 19, False)],
)
def test_a_time_is_better_only_if_both_its_ends_are(low: float, high: float, is_beaten: bool) -> None:
    figures = Figures(1, 0, 10.0, 20.0, 2000, 300, 40)
    assert figures.is_beaten_by(figures._replace(usec_low=low, usec_high=high)) is is_beaten


def test_a_sweep_has_a_column_for_the_sqnr_only_if_it_is_measured() -> None:
    measured = Figures(1, 0, 1000.0, 1000.0, 2000, 300, 40, 50.0)
    for figures, shown in ((measured, "50.0"), (measured._replace(sqnr=None), None)):
        made = Sweep("net.ini", (SweptVariant({"fusion": "full"}, figures, is_best=True),))
        row = dict(zip(made.titles, (cell.text for cell in made.cells[0]), strict=True))
        assert (row.get("SQNR dB"), row["I/O buffer"], row[""]) == (shown, "40", "*")
        assert ("SQNR" in made.notes[0]) == (shown is not None)


@pytest.mark.slow
def test_a_sweep_in_processes_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    ini = str(ROOT / "examples/digits_keras/net.ini")
    shown = []
    for jobs in "12":
        assert cli.main(["sweep", ini, "--vary", "fusion=none,proven", "--jobs", jobs]) == 0
        shown.append(capsys.readouterr())
    assert shown[0] == shown[1]


def test_variants_that_cannot_be_converted_are_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pixels as bytes need one input of three channels, which the first command reads."""
    ini = ROOT / "examples/digits_keras/net.ini"
    assert cli.main(["sweep", str(ini), "--vary", "input=fp16,u8", "--json", str(tmp_path / "t.json")]) == 1
    out, err = capsys.readouterr()
    assert "DV431" in out and "error DV431" in err
    good, bad = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert good["best"] and not bad["best"] and "usec_low" not in bad and "DV431" in bad["problems"][0]


MANY = ",".join(map(str, range(1, 1001)))


@pytest.mark.parametrize(
    "vary",
    [
        [f"quantization_threshold={MANY}", f"quantization_output_sqnr={MANY}"],
        ["quantization"],
        ["name=a,b"],
        ["fusion=all"],
        ["fusion=none", "fusion=full"],
        ["quantization=0,"],
    ],
)
def test_what_cannot_be_varied_is_refused(vary: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for text in vary for word in ("--vary", text)]
    assert cli.main(["sweep", str(ROOT / "examples/digits_keras/net.ini"), *options]) == 2
    assert "error DV128" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_a_sweep_measures_precision(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorflow")
    ini = str(ROOT / "examples/digits_keras/net.ini")
    assert cli.main(["sweep", ini, "--vary", "quantization=0,1", "--verify"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:4]]
    assert [row[-1] for row in rows] == ["*", "*"], "FP16 is more exact, palettes are smaller"
    assert float(rows[0][-2]) > float(rows[1][-2]) > 20
