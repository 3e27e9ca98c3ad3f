"""Writes .npz files, and reads .npy and .npz files of any origin: no pickles, and memory bounded by the file's size."""

import io
import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.files import replacing
from cnn_convertor.files.limited import DAMAGES, open_archive
from cnn_convertor.files.opening import require_file

_SMALL: Final = 64 << 20  # bytes; arrays of this size together may be compressed more than _LARGEST_RATIO times
_LARGEST_RATIO: Final = 100
# What NumPy raises for headers and contents that make no sense; SyntaxError and TokenError come from Python's parser.
_ERRORS: Final = (
    *DAMAGES,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
    KeyError,
)


def load_array(path: Path) -> NDArray[Any]:
    """The array of a .npy file. Raises ValueError for another file, or OSError."""
    require_file(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)  # a file that is too short cannot be mapped
        if isinstance(array, np.ndarray):  # but it may shrink from now on
            array = np.load(path, allow_pickle=False)
    except _ERRORS as error:
        raise ValueError(_reason(error)) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError("it holds several arrays, as a .npz file does")
    return array


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Name -> array, of a .npz file. Raises ValueError for another file, or OSError."""
    try:
        with open_archive(path) as archive:
            members = archive.infolist()
        size = sum(m.file_size for m in members)
        packed = sum(m.compress_size for m in members)
        if size > max(_SMALL, _LARGEST_RATIO * packed):
            raise ValueError(f"it is compressed {size // max(packed, 1)} times; samples never compress that much")
        with np.load(path, allow_pickle=False) as arrays:
            result = {name: arrays[name] for name in arrays.files}
        if wrong := next((name for name, value in result.items() if not isinstance(value, np.ndarray)), None):
            raise ValueError(f"its member {wrong} is not an array")
        return result
    except _ERRORS as error:
        raise ValueError(_reason(error)) from None


def _reason(error: BaseException) -> str:
    """Of an error, without NumPy's advice to load anything but an array as a pickle."""
    if "allow_pickle" in str(error):
        return "it begins otherwise, or holds Python objects"
    return str(error) or type(error).__name__


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a .npz file."""
    stream = io.BytesIO()
    _write_arrays(stream, arrays)
    replacing.write(path, [np.frombuffer(stream.getbuffer(), np.uint8)])


def _write_arrays(stream: BinaryIO, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Like numpy.savez, which refuses an array with the name "file". A zero byte would end a name, so it is escaped."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, values in arrays.items():
            member = zipfile.ZipInfo("{}.npy".format(name.replace("\0", "\\0")))
            with archive.open(member, "w", force_zip64=True) as opened:
                np.lib.format.write_array(opened, np.asarray(values), allow_pickle=False)
