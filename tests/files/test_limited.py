"""Small files are read up to a limit, also where a device has no end."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnn_convertor.devices.dv700 import device_file
from cnn_convertor.errors import UsageError
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


def test_a_device_without_an_end_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(TooLargeError, match=r"^it has more than 1 MB$"):
        contents(Path("/dev/zero"), 1 << 20)
    link = tmp_path / "device.toml"
    link.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="DV150: this is not a device file: it has more than 65,536 bytes"):
        device_file.read_profile(str(link), tmp_path)
