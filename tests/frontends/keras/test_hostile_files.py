"""Files that would make a reader loop, flood the memory, or read other files end in one error with a code."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.keras import hdf5, model_files
from frontends.loading import load_keras as load

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits_keras"


@pytest.mark.slow
@pytest.mark.parametrize("offset", [2064, 12576])
def test_zeros_that_make_libhdf5_loop(offset: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At these places of this file libhdf5 never comes back; other versions of it may refuse the file at once."""
    monkeypatch.setattr(hdf5, "_SECONDS", 1)
    data = bytearray((EXAMPLE / "digits_keras2.h5").read_bytes())
    data[offset : offset + 64] = bytes(64)
    path = tmp_path / "zeros.h5"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="DV201: the file is damaged"):
        load(path, path)


def archive(path: Path, name: str, megabytes: int, byte: bytes) -> Path:
    """The example with one member that is followed by many equal bytes."""
    with (
        zipfile.ZipFile(EXAMPLE / "digits.keras") as given,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in ("config.json", "metadata.json", "model.weights.h5"):
            with packed.open(member, "w", force_zip64=True) as stream:
                stream.write(given.read(member))
                for _ in range(megabytes if member == name else 0):
                    stream.write(byte * (1 << 20))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("config.json", "config.json has more than 32 MB"),
        ("metadata.json", "metadata.json has more than 32 MB"),
        ("model.weights.h5", "compressed .* times; weights never compress that much"),
    ],
)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read the largest memory from")
def test_bombs(name: str, reason: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "bomb.keras", name, 300, b" ")
    program = """
import sys
from pathlib import Path
from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.frontend import ReadOptions
from cnn_convertor.frontends.keras import KERAS
try:
    KERAS.read(Path(sys.argv[1]), Path(sys.argv[1]), ReadOptions())
except ModelError as error:
    print(error)
status = Path("/proc/self/status").read_text()  # getrusage includes the parent before exec
print(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    *message, peak = done.stdout.splitlines()
    assert message[0].startswith("DV201: the file is damaged: ")
    assert int(peak) < 3 * (path.stat().st_size >> 20) + 300  # MB
    with pytest.raises(ModelError, match=reason):
        load(path, path)


def test_weights_that_compress_well_are_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "zeros.keras", "model.weights.h5", 20, b"\0")
    assert load(path, path)["digit"]


def test_the_largest_texts_are_large_enough() -> None:
    assert (
        100
        * max(
            zipfile.ZipFile(EXAMPLE / "digits.keras").getinfo(name).file_size
            for name in ("config.json", "metadata.json")
        )
        < model_files.LARGEST_TEXT
    )


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_name_the_memory_of_their_unpacking_are_refused(compression: int, tmp_path: Path) -> None:
    path = tmp_path / "packed.keras"
    with zipfile.ZipFile(EXAMPLE / "digits.keras") as given, zipfile.ZipFile(path, "w", compression) as packed:
        for name in given.namelist():
            packed.writestr(name, given.read(name))
    with pytest.raises(ModelError, match="neither stored nor deflated"):
        load(path, path)


def convolution(model: Any) -> tuple[Path, str]:
    """A file with a convolution, and the name of its kernel, (2, 3, 2, 5), there."""
    kernel, bias = np.zeros((2, 3, 2, 5), np.float32), np.zeros(5, np.float32)
    config = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 6, 2]),
        model.layer("Conv2D", "conv", filters=5, kernel_size=[2, 3]),
    )
    path = model.h5(config, {"conv": [("kernel", kernel), ("bias", bias)]})
    (name,) = [name for name in hdf5.read_file(path).variables if "kernel" in name]
    return path, name


@pytest.fixture
def other_file(tmp_path: Path) -> Path:
    """A file with another kernel."""
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["numbers"] = np.ones((2, 3, 2, 5), np.float32)
    return tmp_path / "other.h5"


@pytest.mark.parametrize("how", ["external storage", "virtual"])
def test_numbers_in_other_files_are_refused(how: str, model: Any, other_file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(np.ones(60, np.float32).tobytes())
    path, name = convolution(model)
    with h5py.File(path, "r+") as file:
        del file[name]
        if how == "virtual":
            layout = h5py.VirtualLayout((2, 3, 2, 5), np.float32)
            layout[...] = h5py.VirtualSource(other_file, "numbers", (2, 3, 2, 5))
            file.create_virtual_dataset(name, layout)
        else:
            file.create_dataset(name, (2, 3, 2, 5), np.float32, external=[(str(secret), 0, 240)])
    with pytest.raises(ModelError, match="lies in other files, which are not read"):
        load(path, path)


def test_an_array_that_is_mostly_not_there_is_refused(model: Any, tmp_path: Path) -> None:
    """Of 40 GB, one number is written; the others would be filled in while they are read."""
    config = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 100_000]),
        model.layer("Dense", "dense", units=100_000, use_bias=False),
    )
    path = model.h5(config, {"dense": [("kernel", np.zeros((1, 1), np.float32))]})
    (name,) = hdf5.read_file(path).variables
    with h5py.File(path, "r+") as file:
        del file[name]
        file.create_dataset(name, (100_000, 100_000), np.float32, chunks=(16, 16))[0, 0] = 1
    with pytest.raises(ModelError, match=r"compressed .* times; weights never compress that much"):
        load(path, path)


@pytest.mark.parametrize(("depth", "is_read"), [(150, True), (300, False)])
def test_groups_may_not_lie_in_each_other_without_end(depth: int, is_read: bool, model: Any) -> None:
    """libhdf5 looks for each group from the first one, so the time would grow as the square of the depth."""
    path, _ = convolution(model)
    with h5py.File(path, "r+") as file:
        file.create_group("/".join(["deep"] * depth))
    if is_read:
        load(path, path)
    else:
        with pytest.raises(ModelError, match="groups lie more than 200 deep in each other"):
            load(path, path)


@pytest.mark.parametrize("link", [h5py.ExternalLink("other.h5", "/numbers"), h5py.SoftLink("/elsewhere")], ids=str)
@pytest.mark.usefixtures("other_file")
def test_links_are_not_followed(link: Any, model: Any) -> None:
    path, name = convolution(model)
    with h5py.File(path, "r+") as file:
        del file[name]
        file[name] = link
    with pytest.raises(ModelError, match="DV204"):
        load(path, path)


@pytest.mark.parametrize("name", ["digits.keras", "digits_keras2.h5"])
@pytest.mark.parametrize("way", ["written", "replaced"])
def test_a_file_that_changes_while_it_is_read_is_an_error(name: str, way: str, tmp_path: Path) -> None:
    """Weights would be of two models."""
    path = tmp_path / name
    path.write_bytes((EXAMPLE / name).read_bytes())
    contents = model_files.open_model(path).contents
    variable = next(each for each in contents.variables.values() if len(each.shape) == 4)
    variable.read((slice(0, 1),))
    if way == "replaced":
        (tmp_path / "new").write_bytes(path.read_bytes())
        (tmp_path / "new").replace(path)
    else:
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(0, 0))
    with pytest.raises(ModelError, match="DV201: the file was written or replaced while it was read"):
        variable.read((slice(0, 1),))
