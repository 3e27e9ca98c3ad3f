"""Programs are compiled once, kept in a cache, and what the compiler refuses is an error that names the source."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.dv700.emulating import Twin
from cnn_convertor.emulation import build as building
from cnn_convertor.emulation import network as emulated_network
from cnn_convertor.errors import ConvertorError, ConvertorWarning, UsageError
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Pair, Shape, Window
from emulation.small_networks import needs_compiler, random, small_graph, with_limits
from verification.trials import NAME, network, samples


@pytest.mark.slow
@needs_compiler
def test_a_program_is_compiled_again_when_a_file_that_a_source_includes_has_changed(tmp_path: Path) -> None:
    network(small_graph(), tmp_path, compiled=True)
    (tmp_path / "mine.cpp").write_text('#include "value.h"\nint mine() { return VALUE; }\n')
    programs = []
    for value in (1, 2, 1):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        programs.append(building.build(tmp_path, NAME, sources=[tmp_path / "mine.cpp"]))
    assert programs[0] == programs[2] != programs[1]
    assert programs[0].read_bytes() != programs[1].read_bytes()


@needs_compiler
def test_a_process_looks_for_a_program_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for it runs the preprocessor on each source. A program that has gone is made again."""
    made = network(small_graph(), tmp_path, compiled=True)
    away = made._replace(executable=tmp_path / "of another computer" / made.executable.name)
    with monkeypatch.context() as patch:
        patch.setattr(emulated_network, "_BUILT", {})
        assert away.built() == made
        patch.setattr(Twin, "build", None)
        assert away.built() == made
    made.executable.unlink()
    assert away.built() == made and made.executable.exists()


@needs_compiler
def test_a_source_that_includes_a_missing_file_is_an_error_that_names_both(tmp_path: Path) -> None:
    network(small_graph(), tmp_path)
    (tmp_path / "mine.cpp").write_text('#include "n\xf6.h"\n', encoding="latin-1")
    with pytest.raises(ConvertorError, match=r"DV702[\s\S]*n.*\.h[\s\S]*--> .*mine\.cpp") as caught:
        building.build(tmp_path, NAME, sources=[tmp_path / "mine.cpp"])
    assert "each computer" in caught.value.problems[0].hint


@needs_compiler
def test_an_error_in_a_source_of_the_user_names_its_line(tmp_path: Path) -> None:
    network(small_graph(), tmp_path)
    (tmp_path / "mine.cpp").write_text("\nint x = ;\n")
    with pytest.raises(ConvertorError, match=r"--> .*mine\.cpp:2\n  try: correct this file"):
        building.build(tmp_path, NAME, sources=[tmp_path / "mine.cpp"])
    with pytest.raises(ConvertorError, match=r"--> .*none\.cpp\n  try: name a C\+\+ file"):
        building.build(tmp_path, NAME, sources=[tmp_path / "none.cpp"])
    (tmp_path / "mine.txt").write_text("no source\n")  # the linker takes it for a script
    with pytest.raises(ConvertorError, match=r"--> .*mine\.txt(:1)?\n  try: correct this file"):
        building.build(tmp_path, NAME, sources=[tmp_path / "mine.txt"])


@needs_compiler
def test_sources_that_do_not_compile_are_an_error_that_names_them(tmp_path: Path) -> None:
    trial = network(small_graph(), tmp_path, compiled=True)
    source = tmp_path / f"{NAME}_gen.cpp"
    source.write_text(source.read_text() + "\nbroken;\n")
    with pytest.raises(ConvertorError, match=r"DV702[\s\S]*broken[\s\S]*net_gen.cpp"):
        building.build(tmp_path, NAME)
    assert trial.executable.exists()


def test_without_a_compiler_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(UsageError, match=r"DV701[\s\S]*no-such-compiler[\s\S]*install g\+\+"):
        building.build(tmp_path, NAME)


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_without_a_writable_home_programs_are_kept_among_temporary_files(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that no other user can write."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("CNN_CONVERTOR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = tmp_path / f"cnn-convertor-{os.getuid()}"
    other.mkdir()
    other.chmod(mode)

    def make(scratch: Path) -> Path:
        (scratch / "program").touch()
        return scratch / "program"

    if mode == 0o777:
        with pytest.raises(UsageError, match="DV703"):
            building._cached("a", make)  # noqa: SLF001
        return
    for _ in range(2):
        with pytest.warns(ConvertorWarning, match="DV724"):
            assert building._cached("a", make) == other / "a"  # noqa: SLF001
    assert [*other.iterdir()] == [other / "a"]


@pytest.mark.parametrize("chosen", [False, True])
def test_a_cache_that_others_can_write_is_not_used(
    chosen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its programs would run as this user."""
    tmp_path.chmod(0o1777)  # like /tmp
    folder = tmp_path / "cnn-convertor"
    folder.mkdir()
    (folder / "a").write_text("theirs")
    folder.chmod(0o777)
    monkeypatch.delenv("CNN_CONVERTOR_CACHE", raising=False)
    monkeypatch.setenv("CNN_CONVERTOR_CACHE" if chosen else "XDG_CACHE_HOME", str(folder if chosen else tmp_path))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def make(scratch: Path) -> Path:
        (scratch / "program").write_text("ours")
        return scratch / "program"

    with pytest.warns(ConvertorWarning, match="DV724.*other users can write to it"):
        assert building._cached("a", make).read_text() == "ours"  # noqa: SLF001
    assert (folder / "a").read_text() == "theirs"


def test_a_home_that_the_user_may_not_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CNN_CONVERTOR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "closed"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def make(scratch: Path) -> Path:
        (scratch / "program").touch()
        return scratch / "program"

    monkeypatch.setattr(os, "stat", _refusing(os.stat, tmp_path / "closed"))
    monkeypatch.setattr(os, "mkdir", _refusing(os.mkdir, tmp_path / "closed"))
    with pytest.warns(ConvertorWarning, match="DV724"):
        assert building._cached("a", make).is_file()  # noqa: SLF001


def _refusing(call: Any, folder: Path) -> Any:
    def refused(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path).startswith(str(folder)):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return call(path, *arguments, **options)

    return refused


@needs_compiler
def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CNN_CONVERTOR_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match=r"DV703[\s\S]*CNN_CONVERTOR_CACHE"):
        network(small_graph(), tmp_path / "net")


@needs_compiler
def test_interrupted_builds_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    trial = network(small_graph(), tmp_path / "net", compiled=True)
    shutil.copytree(building.cache_folder(), cache, ignore=shutil.ignore_patterns(".unfinished-*"))  # others build
    monkeypatch.setenv("CNN_CONVERTOR_CACHE", str(cache))
    (cache / trial.executable.name).unlink()
    before = set(cache.iterdir())

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "_compile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        building.build(tmp_path / "net", NAME)
    assert set(cache.iterdir()) == before


@needs_compiler
def test_the_emulated_device_has_the_unified_buffer_that_was_converted_for(tmp_path: Path) -> None:
    conv = ops.Conv2d(Constant.of(random(512, 256, 3, 3)), None, Window(Pair(3, 3)))
    graph = Graph((Node("in", ops.Input(Shape(200, 4, 256))), Node("conv", conv, ("in",))), ("conv",))
    inputs = samples({"in": random(200, 4, 256) / 1000})
    large = network(graph, tmp_path / "large", ub_size=1 << 20)
    expected = large.run(inputs).outputs[0]
    assert np.isfinite(expected).all()
    with pytest.raises(ConvertorError, match="DV704"):
        large._replace(device=Twin(with_limits(ub_size=1 << 17))).run(inputs)
