"""Small files are read up to a limit, of what is a file, and which nobody writes meanwhile."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

import pytest

from cnn_convertor.devices.dv700 import device_file
from cnn_convertor.errors import UsageError
from cnn_convertor.files import limited
from cnn_convertor.files.limited import TooLargeError, contents


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    assert contents(path, 4) == b"1234"
    with pytest.raises(TooLargeError, match=r"^it has more than 3 bytes$"):
        contents(path, 3)
    content = bytes(range(256)) * 1000
    path.write_bytes(content)
    assert contents(path, len(content)) == content


def test_a_device_without_an_end_is_not_read(tmp_path: Path) -> None:
    link = tmp_path / "device.toml"
    link.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="DV150: the device file cannot be read: it is a pipe or a device"):
        device_file.read_profile(str(link), tmp_path)


def test_a_file_that_is_written_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    read = FileIO.read

    class Written(FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            path.write_bytes(bytes(11))
            return read(self, size) or b""

    monkeypatch.setattr(limited, "open_file", Written)
    with pytest.raises(OSError, match="another program writes it"):
        contents(path, 100)
