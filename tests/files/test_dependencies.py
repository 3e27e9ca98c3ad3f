"""Build systems see every input of a conversion, and rebuild exactly what depends on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import h5py
import pytest

import cnn_convertor
from cnn_convertor.cli import main
from cnn_convertor.errors import UsageError
from cnn_convertor.files.dependencies import depfile, recorded
from cnn_convertor.files.replacing import write
from cnn_convertor.frontends.keras import hdf5

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits_keras"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A copy of the example in a folder with odd characters; gives the ini file."""
    folder = tmp_path / "a #net $1"
    folder.mkdir()
    for name in ("net.ini", "digits.keras"):
        shutil.copy(DIGITS / name, folder)
    return folder / "net.ini"


def needed(path: Path) -> list[str]:
    """The inputs that a dependency file names, as Make reads them."""
    rule = path.read_text().replace("\\\n", "").splitlines()[0].partition(": ")[2]
    marked = rule.replace("\\ ", "\0").replace("\\#", "#").replace("$$", "$")
    return [name.replace("\0", " ") for name in marked.split()]


def test_every_input_is_named(net: Path, tmp_path: Path) -> None:
    (net.parent / "layers.py").write_text("import helper\ncustom_layer = {}\n")
    profile = (ROOT / "cnn_convertor" / "devices" / "dv700").glob("**/*.toml")
    shutil.copy(next(iter(sorted(profile))), net.parent / "board.toml")
    text = (
        net.read_text().replace("[INPUT]", "[INPUT]\ncustom_layer = layers.py") + "\n[OPTIONAL]\ndevice = board.toml\n"
    )
    net.write_text(text)
    (net.parent / "helper.py").write_text("")
    sys.path.insert(0, str(net.parent))
    try:
        assert main(["-q", str(net), "--output", str(tmp_path / "out"), "--depfile", str(tmp_path / "d")]) == 0
    finally:
        sys.path.remove(str(net.parent))
    found = needed(tmp_path / "d")
    assert {str(net.parent / name) for name in ("net.ini", "digits.keras", "layers.py", "board.toml")} <= set(found)
    assert found[-1] == cnn_convertor.__file__
    assert not any(name.startswith((sys.prefix, str(tmp_path / "out"))) for name in found)


def test_images_are_inputs_though_a_library_opens_them(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / "images" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "images" / name).touch()
    with recorded(tmp_path / "images", None) as inputs:
        pass
    assert inputs == {tmp_path / "images" / "a.png", tmp_path / "images" / "b.png"}


def test_a_compiled_module_stands_for_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helper_of_a_layer.py").write_text("")
    for _ in range(2):
        with recorded() as inputs:
            import_module("helper_of_a_layer")
        assert tmp_path / "helper_of_a_layer.py" in inputs
        assert not any(path.suffix == ".pyc" for path in inputs)
        del sys.modules["helper_of_a_layer"]


def test_recordings_do_not_disturb_each_other(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).touch()
    with recorded() as outer:
        (tmp_path / "a").read_text()
        with recorded() as inner:
            (tmp_path / "b").read_text()
    (tmp_path / "a").read_text()
    assert (outer, inner) == ({tmp_path / "a", tmp_path / "b"}, {tmp_path / "b"})


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="the system has no folder in memory")
def test_files_in_memory_are_inputs_and_devices_are_not() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        (made := Path(name) / "net.ini").touch()
        with recorded() as inputs:
            made.read_text()
            Path(os.devnull).read_bytes()
        assert inputs == {made}


def test_paths_are_escaped() -> None:
    text = depfile(Path("a b"), [Path("x y"), Path("c$d"), Path("e#f"), Path("out/f")], Path("out"))
    assert text.startswith("a\\ b: \\\n  c$$d \\\n  e\\#f \\\n  x\\ y \\\n  ")


@pytest.mark.parametrize(
    "name", ["a b#c$d", "$(touch pwned)$x", "@(x) {y}, +!", "größe", os.fsdecode(b"gr\xf6\xdfe"), "-"]
)
@pytest.mark.parametrize("tool", ["make", "ninja"])
def test_make_and_ninja_know_a_file_by_its_name(tool: str, name: str, tmp_path: Path) -> None:
    """The target is made once; again when the file is newer; and a file that is gone is called by its name."""
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}")
    source = tmp_path / name
    source.touch()
    text = depfile(Path("target"), [source], tmp_path / "out")
    rules = {"make": text + "target:\n\ttouch target\n", "ninja": "rule r\n  command = cp d.txt net.d && touch target\n  depfile = net.d\nbuild target: r\n"}  # fmt: skip
    write(tmp_path / "rules", rules[tool])
    write(tmp_path / "d.txt", text)

    def run() -> str:
        done = subprocess.run(
            [tool, "-f", "rules"], cwd=tmp_path, check=True, capture_output=True, text=True, errors="replace"
        )
        return done.stdout

    assert "touch target" in run()
    idle = run()
    assert "up to date" in idle or "no work to do" in idle
    os.utime(source, (later := (tmp_path / "target").stat().st_mtime + 10, later))
    assert "touch target" in run()
    assert not (tmp_path / "pwned").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="runs Make")
def test_make_runs_after_an_input_is_renamed(tmp_path: Path) -> None:
    source = tmp_path / "a #model $1"
    source.touch()
    (tmp_path / "d").write_text(depfile(Path("target"), [source]))
    (tmp_path / "Makefile").write_text("target:\n\ttouch target\n\ninclude d\n")

    def run() -> str:
        return subprocess.run(["make"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "touch target" in run()
    assert "up to date" in run()
    source.rename(tmp_path / "b")
    assert "touch target" in run()


@pytest.mark.parametrize("name", ["a;touch pwned", "a\nb", "a\rb", "a\\", "a\tb", "a\\ b", "a:b", "a%b", "a*", "a?", "[a]", "a=b", "a|b", "a(b)", "~a", "a'b", 'a"b', "a&b"])  # fmt: skip
def test_a_path_that_make_or_ninja_reads_otherwise_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        depfile(Path(name), [tmp_path / "net.ini"], tmp_path / "out")
    assert caught.value.problems[0].code == "DV119"


def test_one_network_has_one_dependency_file(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(net, net.with_name("other.ini"))
    assert main([str(net.parent), "--depfile", str(tmp_path / "d")]) == 2
    assert "--depfile needs one NET.ini" in capsys.readouterr().err


def test_a_failure_writes_no_dependency_file(net: Path, tmp_path: Path) -> None:
    (net.parent / "digits.keras").unlink()
    assert main(["-q", str(net), "--depfile", str(tmp_path / "d")]) != 0
    assert not (tmp_path / "d").exists()


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake_rebuilds_what_depends_on_a_change(generator: str, tmp_path: Path) -> None:
    """A comment or a weight compiles nothing; a palette compiles what includes the header."""
    if shutil.which("cmake") is None or (generator == "Ninja" and shutil.which("ninja") is None):
        pytest.skip(f"no cmake for {generator}")
    shutil.copy(DIGITS / "digits_keras2.h5", tmp_path)
    ini, model, build = tmp_path / "net.ini", tmp_path / "digits_keras2.h5", tmp_path / "build"
    ini.write_text((DIGITS / "net.ini").read_text().replace("digits.keras", model.name))
    flags = [f"-DNETWORK={ini}", f"-DPython3_EXECUTABLE={sys.executable}"]
    flags += ["-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"]  # half of the time
    source = ROOT / "examples" / "firmware"
    subprocess.run(["cmake", "-G", generator, "-S", source, "-B", build, *flags], check=True, capture_output=True)

    def rebuilt() -> list[str]:
        done = subprocess.run(["cmake", "--build", build, "-v"], check=True, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        compiled = [name for name in ("digits_gen.cpp", "main.cpp", "unity_0_cxx.cxx") if any(" -c " in line and name in line for line in lines)]  # fmt: skip
        return [*(["converted"] if any("--depfile-target" in line for line in lines) else []), *compiled]

    assert rebuilt() == ["converted", "digits_gen.cpp", "main.cpp", "unity_0_cxx.cxx"]
    assert rebuilt() == []
    weights = build / "digits" / "digits" / "digits_weights.bin"
    run = subprocess.run([build / "firmware", weights], check=True, capture_output=True, text=True)
    assert run.stdout.startswith("this is a 3 ")
    before = weights.read_bytes()
    ini.write_text(ini.read_text() + "; another comment\n")
    assert rebuilt() == ["converted"]
    assert rebuilt() == []
    assert weights.read_bytes() == before
    with h5py.File(model, "r+") as file:
        kernel = next(file[name] for name in hdf5.read_file(model).variables if "stem" in name and "kernel" in name)
        kernel[0, 0, 0, 0] += 0.25
    assert rebuilt() == ["converted"]
    assert weights.read_bytes() != before
    ini.write_text(ini.read_text() + "[QUANTIZATION]\nstem = palette\n")
    assert rebuilt() == ["converted", "digits_gen.cpp", "main.cpp"], "the header says how large the weights are"
