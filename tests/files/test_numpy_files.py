"""Files of arrays that are damaged, or larger than they say, are refused before memory is allocated for them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.files.numpy_files import load_array, load_arrays


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"
DAMAGED = {
    "empty": b"",
    "no array": b"hello",
    "a bracket that does not close": npy("{'descr': '<f4'("),
    "an indented header": npy("  {'descr': '<f4'\n 1\n"),
    "brackets in brackets": npy("(" * 9000),
    "no dictionary": npy("1"),
    "a type that does not exist": npy(HEADER.replace("<f4", "nonsense") % "(1,)", bytes(4)),
    "objects": npy(HEADER.replace("<f4", "|O") % "(1,)", bytes(8)),
    "a size below zero": npy(HEADER % "(-1,)", bytes(4)),
    "a size beyond 64 bits": npy(HEADER % f"({10**30},)", bytes(4)),
    "less than it says": npy(HEADER % "(1000000, 1000000)", bytes(4)),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_array_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(DAMAGED[name])
    with pytest.raises(ValueError, match=r"^(?!.*pickle)."):  # which nobody should trust
        load_array(path)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", DAMAGED[name])
    with pytest.raises(ValueError, match=r"^(?!.*pickle)."):
        load_arrays(tmp_path / "a.npz")


def test_arrays_are_read(tmp_path: Path) -> None:
    values = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", first=values, second=values[:0])
    assert np.array_equal(load_array(tmp_path / "a.npy"), values)
    found = load_arrays(tmp_path / "a.npz")
    assert (
        list(found) == ["first", "second"]
        and np.array_equal(found["first"], values)
        and found["second"].shape == (0, 3)
    )
    with pytest.raises(ValueError, match="several arrays"):
        load_array(tmp_path / "a.npz")


@pytest.mark.slow
def test_an_archive_that_is_compressed_too_well_is_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros(1 << 24, np.float64))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", stream.getvalue())
    with pytest.raises(ValueError, match=r"compressed 1\d{3} times"):
        load_arrays(tmp_path / "a.npz")
