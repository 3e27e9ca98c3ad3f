"""A cache returns the files of the same conversion, and of no other."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import cnn_convertor
from cnn_convertor import cli
from cnn_convertor.config import Config
from cnn_convertor.conversion import cache
from cnn_convertor.conversion import convert as single
from cnn_convertor.conversion.cache import FROM_CACHE, Cache
from cnn_convertor.errors import ConvertorWarning, UsageError
from cnn_convertor.files.hashing import sha256_of

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits_keras"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """The ini file of a copy of the example."""
    for name in ("net.ini", "digits.keras"):
        shutil.copy(DIGITS / name, tmp_path)
    return tmp_path / "net.ini"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def contents(config: Config) -> dict[str, bytes]:
    place = config.output_folder / config.name
    return {path.name: path.read_bytes() for path in place.iterdir()}


def is_known(config: Config, folder: Path) -> bool:
    """Convert; whether the files come from the cache."""
    steps: list[str] = []
    cache.convert(config, lambda step, *_: steps.append(step), folder=folder)
    return steps == [FROM_CACHE]


def test_the_same_network_is_converted_once(net: Path, folder: Path, tmp_path: Path) -> None:
    config = Config.read(net)
    plain = replace(config, output_folder=tmp_path / "plain")
    expected = single.convert(plain)
    first = cache.convert(config, folder=folder)
    made = contents(config)
    shutil.rmtree(config.output_folder)
    assert is_known(config, folder)
    assert contents(config) == made == contents(plain)
    again = cache.convert(config, folder=folder)
    assert again == first
    assert again._replace(files=()) == expected._replace(files=())


def test_files_that_are_there_are_not_touched(net: Path, folder: Path) -> None:
    config = Config.read(net)
    times = []
    for _ in range(2):
        files = cache.convert(config, folder=folder).files
        times.append([path.stat().st_mtime_ns for path in files])
    assert times[0] == times[1]


def test_what_a_killed_run_left_goes_where_nothing_is_written(net: Path, folder: Path) -> None:
    config = Config.read(net)
    cache.convert(config, folder=folder)
    left = config.output_folder / f".{config.name}.unfinished-x"
    (left / "old").mkdir(parents=True)
    cache.convert(config, folder=folder)
    assert not left.exists()


def test_files_that_a_user_changed_come_back(net: Path, folder: Path) -> None:
    config = Config.read(net)
    path = cache.convert(config, folder=folder).files[0]
    before = path.read_bytes()
    path.write_text("something else")
    assert is_known(config, folder) and path.read_bytes() == before


@pytest.mark.parametrize("setting", ["quantization = 1", "fusion = none", "name = other", "transpose_weight = 0"])
def test_another_option_is_another_conversion(setting: str, net: Path, folder: Path) -> None:
    key, _, value = setting.partition(" = ")
    assert not is_known(Config.read(net), folder)
    value_ = {"quantization": True, "transpose_weight": False}.get(key, value)
    changed = replace(Config.read(net), **{key: value_})  # type: ignore[arg-type]  # of several types
    assert not is_known(changed, folder)
    assert is_known(changed, folder) and is_known(Config.read(net), folder)


def test_another_folder_of_outputs_is_the_same_conversion(net: Path, folder: Path, tmp_path: Path) -> None:
    config = Config.read(net)
    assert not is_known(config, folder)
    assert is_known(replace(config, output_folder=tmp_path / "elsewhere"), folder)


def test_other_weights_are_another_conversion(net: Path, folder: Path) -> None:
    shutil.copy(DIGITS / "digits_keras2.h5", net.parent)
    net.write_text(net.read_text().replace("digits.keras", "digits_keras2.h5"))
    config = Config.read(net)
    cache.convert(config, folder=folder)
    data = bytearray(config.data.read_bytes())
    data[-1] ^= 1
    config.data.write_bytes(data)
    assert cache._key(config) != cache._key(replace(config, data=DIGITS / "digits_keras2.h5"))  # noqa: SLF001  # it needs no conversion
    config.data.write_bytes((DIGITS / "digits_keras2.h5").read_bytes())
    assert is_known(config, folder)


def test_another_convertor_is_another_conversion(net: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.read(net)
    cache.convert(config, folder=folder)
    monkeypatch.setattr(cache, "versions", lambda: {"numpy": "another"})
    assert not is_known(config, folder)


def test_external_data_counts(net: Path, folder: Path) -> None:
    """What a conversion reads beside the files of the ini file."""
    config = Config.read(net)
    cache.convert(config, folder=folder)
    (path,) = Cache(folder)._files("entries")  # noqa: SLF001
    key = path.name
    found = Cache(folder).find(key)
    assert found is not None and found.others == ()
    other = net.parent / "external"
    other.write_bytes(b"1")
    entry = found._replace(others=(cache.HashedInput(other, sha256_of(other)),))
    Cache(folder).add(key, entry._replace(contents=()), folder)
    assert Cache(folder).find(key) is not None
    other.write_bytes(b"2")
    assert Cache(folder).find(key) is None
    other.unlink()
    assert Cache(folder).find(key) is None


def test_an_input_that_changes_meanwhile_is_not_kept(net: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, convert = Config.read(net), single.convert

    def changing(*arguments: object) -> object:
        report = convert(*arguments)  # type: ignore[arg-type]  # as they come
        config.definition.touch()
        config.definition.write_bytes(config.definition.read_bytes() + b" ")
        return report

    monkeypatch.setattr(single, "convert", changing)
    cache.convert(config, folder=folder)
    assert Cache(folder).statistics().entries == 0


def test_external_data_that_changes_meanwhile_is_not_kept(
    net: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their contents are hashed after the conversion, which may have read others."""
    config, other, convert = Config.read(net), net.parent / "external", single.convert

    def changing(*arguments: object) -> object:
        other.write_text("new")
        return convert(*arguments)  # type: ignore[arg-type]  # as they come

    monkeypatch.setattr(cache, "_others", lambda *_: [other])
    monkeypatch.setattr(single, "convert", changing)
    assert not is_known(config, folder) and not is_known(config, folder)
    monkeypatch.setattr(single, "convert", convert)
    monkeypatch.setattr(cache, "_CLOCKS", 0.1)
    time.sleep(0.2)
    assert not is_known(config, folder) and is_known(config, folder)


def test_a_dependency_file_is_the_same_from_the_cache(net: Path, folder: Path, tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        assert cli.main(["-q", str(net), "--cache", str(folder), "--depfile", str(tmp_path / "d")]) == 0
        texts.append((tmp_path / "d").read_text())
    assert texts[0] == texts[1] and str(net) in texts[0] and str(folder) not in texts[0]


def test_a_network_with_a_custom_layer_is_not_kept(net: Path, folder: Path) -> None:
    (net.parent / "layers.py").write_text("custom_layer = {}\n")
    net.write_text(net.read_text().replace("[INPUT]", "[INPUT]\ncustom_layer = layers.py"))
    for _ in range(2):
        assert not is_known(Config.read(net), folder)
    assert not folder.exists()


@pytest.mark.parametrize("part", ["entries", "files"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\x00"])
def test_damage_is_found_and_repaired(part: str, damage: bytes, net: Path, folder: Path) -> None:
    config = Config.read(net)
    cache.convert(config, folder=folder)
    expected = contents(config)
    shutil.rmtree(config.output_folder)
    for path in Cache(folder)._files(part):  # noqa: SLF001
        path.write_bytes(damage)
    with pytest.warns(ConvertorWarning, match="DV125"):
        assert not is_known(config, folder)
    assert contents(config) == expected
    assert is_known(config, folder)


@pytest.mark.parametrize("part", ["entries", "files"])
def test_a_cache_that_cannot_store_a_network_is_a_warning(
    part: str, net: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config.read(net)
    cache.convert(config, folder=folder)
    expected = contents(config)
    path = min(Cache(folder)._files(part))  # noqa: SLF001
    path.unlink()
    path.mkdir()
    shutil.rmtree(config.output_folder)
    assert cli.main([str(net), "--cache", str(folder)]) == 0
    assert "DV131" in capsys.readouterr().err
    assert contents(config) == expected


def test_an_entry_writes_into_the_output_folder_alone(net: Path, folder: Path) -> None:
    config = Config.read(net)
    cache.convert(config, folder=folder)
    (entry,) = Cache(folder)._files("entries")  # noqa: SLF001
    _, _, text = entry.read_text().partition("\n")
    changed = text.replace('"digits_gen.h"', '"../outside.h"')
    assert changed != text
    entry.write_text(f"{hashlib.sha256(changed.encode()).hexdigest()}\n{changed}")
    shutil.rmtree(config.output_folder)
    with pytest.warns(ConvertorWarning, match="DV125"):
        assert not is_known(config, folder)
    assert not (config.output_folder / "outside.h").exists()


def test_a_pipe_in_place_of_a_file_is_not_read(net: Path, folder: Path) -> None:
    """Reading it would wait for a writer."""
    config = Config.read(net)
    cache.convert(config, folder=folder)
    expected = contents(config)
    kept = [min(Cache(folder)._files(part)) for part in ("files", "entries")]  # noqa: SLF001
    for path in (config.output_folder / config.name / "digits_gen.h", *kept):
        path.unlink()
        os.mkfifo(path)
        assert is_known(config, folder) == (path not in kept)
        assert contents(config) == expected
        shutil.rmtree(config.output_folder)


def test_a_file_that_is_gone_is_made_again(net: Path, folder: Path) -> None:
    config = Config.read(net)
    cache.convert(config, folder=folder)
    shutil.rmtree(config.output_folder)
    Cache(folder)._files("files")[0].unlink()  # noqa: SLF001
    assert not is_known(config, folder)
    assert is_known(config, folder)


def test_warnings_come_again(net: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, convert = Config.read(net), single.convert

    def warning(*arguments: object) -> object:
        cnn_convertor.errors.warn(cnn_convertor.errors.Problem("DV501", "a weight is lost"))
        return convert(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(single, "convert", warning)
        with pytest.warns(ConvertorWarning, match="DV501"):
            cache.convert(config, folder=folder)
    with pytest.warns(ConvertorWarning, match="DV501"):
        assert is_known(config, folder)


def test_a_folder_with_other_files_is_no_cache(net: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "precious").write_text("")
    with pytest.raises(UsageError, match="DV126"):
        cache.convert(Config.read(net), folder=folder)
    for command in (["clear"], ["stats"], ["prune", "--size", "0"]):
        assert cli.main(["cache", *command[:1], str(folder), *command[1:]]) == 2
    assert [path.name for path in folder.iterdir()] == ["precious"]


def test_a_cache_is_pruned_to_what_was_used_last(net: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = Config.read(net), replace(Config.read(net), name="other")
    cache.convert(old, folder=folder)
    for path in Cache(folder)._files("entries"):  # noqa: SLF001
        os.utime(path, (1, 1))
    size = Cache(folder).statistics().bytes
    cache.convert(new, folder=folder)
    assert cli.main(["cache", "prune", str(folder), "--size", str(size)]) == 0
    assert cli.main(["cache", "stats", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("1 conversion, ")
    assert is_known(new, folder) and not is_known(old, folder)
    assert cli.main(["cache", "clear", str(folder)]) == 0
    assert Cache(folder).statistics() == (0, 0)
    assert not is_known(new, folder)


def test_first_writers_do_not_refuse_each_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Path.replace

    def meanwhile(draft: Path, target: Path) -> Path:
        monkeypatch.undo()
        Cache(folder).prepare()  # as another process does before the tag of this one has its name
        return finish(draft, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    Cache(folder).prepare()
    Cache(folder).require()
    assert [path.name for path in folder.iterdir()] == ["CACHEDIR.TAG"]


@pytest.mark.slow
def test_processes_share_a_cache(net: Path, folder: Path, tmp_path: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, ROOT / "convertor.py", "-q", net, "--cache", folder, "--output", tmp_path / f"{i}"]
        )
        for i in range(3)
    ]
    assert [program.wait() for program in programs] == [0, 0, 0]
    config = replace(Config.read(net), output_folder=tmp_path / "0")
    assert is_known(config, folder)
    assert contents(config) == contents(replace(config, output_folder=tmp_path / "1"))


@pytest.mark.parametrize("command", [["prune", "--size", "0"], ["clear"], ["stats"]])
def test_what_tidies_a_cache_does_not_disturb_another_process(
    command: list[str], net: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not remove what that process is about to give its name, nor the folder where it will be."""
    config, finish = Config.read(net), Path.replace

    def meanwhile(draft: Path, target: Path) -> Path:
        if folder in target.parents and target.name != "CACHEDIR.TAG":
            assert cli.main(["cache", command[0], str(folder), *command[1:]]) == 0
        return finish(draft, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    assert not is_known(config, folder)
    monkeypatch.undo()
    assert Cache(folder).statistics().entries == 1
    is_known(config, folder)
    assert is_known(config, folder)


def test_the_draft_of_a_process_that_was_killed_goes(net: Path, folder: Path) -> None:
    cache.convert(Config.read(net), folder=folder)
    drafts = [folder / "cnn-convertor-draft-1.temporary", folder / "work" / "cnn-convertor-1.temporary"]
    for draft in drafts:
        draft.mkdir()
    assert cli.main(["cache", "prune", str(folder), "--size", "1000000"]) == 0
    assert not any(draft.exists() for draft in drafts)


@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_a_cache_that_other_users_can_write_is_not_used(mode: int, net: Path, tmp_path: Path) -> None:
    """They could store sources in place of those of the network."""
    folder = tmp_path / "cache"
    config = Config.of(net)
    cache.convert(config, folder=folder)
    tmp_path.chmod(0o1777)  # like /tmp
    folder.chmod(mode)
    if mode == 0o775:
        assert is_known(config, folder)
        return
    with pytest.warns(ConvertorWarning, match=r"DV147: the cache is not used.*other users can write to it"):
        assert not is_known(config, folder)
    with pytest.raises(UsageError, match=r"DV126: .*other users can write to it"):
        Cache(folder).require()


def test_an_entry_under_the_name_of_another_is_not_used(net: Path, folder: Path) -> None:
    config = Config.of(net)
    cache.convert(config, folder=folder)
    (entry,) = (path for path in (folder / "entries").rglob("*") if path.is_file())
    other = replace(config, transpose_weight=not config.transpose_weight)
    cache.convert(other, folder=folder)
    (others,) = (path for path in (folder / "entries").rglob("*") if path.is_file() and path != entry)
    shutil.copy(entry, others)
    with pytest.warns(ConvertorWarning, match="DV125"):
        assert not is_known(other, folder)


def test_what_clears_a_cache_follows_no_link(net: Path, folder: Path, tmp_path: Path) -> None:
    cache.convert(Config.of(net), folder=folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    shutil.rmtree(folder / "entries")
    (folder / "entries").symlink_to(tmp_path / "mine")
    Cache(folder).clear()
    assert (tmp_path / "mine" / "file").exists()
