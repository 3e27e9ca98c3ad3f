"""Reads HDF5 files, also those inside a zip archive: the structure at once, arrays on demand."""

import io
import math
import os
import shutil
import weakref
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.files.interruption import uninterrupted
from cnn_convertor.files.isolation import IsolationError, isolated
from cnn_convertor.files.limited import open_archive
from cnn_convertor.files.opening import Version, open_file, require_file
from cnn_convertor.files.temporary import LockedFolder
from cnn_convertor.frontends.model_file import ModelFile, changed
from cnn_convertor.ir.constant import Array

Index: TypeAlias = tuple[slice, ...]

T = TypeVar("T")

_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_SMALL: Final = 64 << 20  # bytes; weights of this size may be compressed more than _LARGEST_RATIO times
_LARGEST_RATIO: Final = 100
_SECONDS: Final = 5  # of processor time for a file's structure; the largest real ones take 0.3
_SLOWEST: Final = 2_000_000  # bytes that a decompression gives in a second at least
_DEEPEST: Final = 200  # groups in each other; the library looks for each from the first one
_MEMORY: Final = 300 << 20  # bytes, beside a multiple of the file's size
BLOCK = 1 << 20  # bytes that are read at a time
GAP: Final = 1 << 14  # bytes that take as long to read as to skip
LOCAL_HEADER_SIZE = 30  # of a zip member, before its name and extra field


def damaged(file: str, reason: object) -> ModelError:
    """The error for a file whose structure cannot be read."""
    hint = "copy or save the model again; the file may be cut short"
    return ModelError.of("DV201", f"the file is damaged: {reason}", Origin(file), hint)


class _Section(io.RawIOBase):
    """A part of a file as a file of its own."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self._file = open_file(path)
        self._start = start
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:  # Any: typeshed's buffer type is private
        available = max(0, min(len(buffer), self._size - self._position))
        self._file.seek(self._start + self._position)
        count = self._file.readinto(memoryview(buffer)[:available]) or 0
        self._position += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True, eq=False)
class Hdf5Data:
    """Bytes start to start + size of a file. file: its name in messages. version: of the file, which must stay the same."""

    file: str
    path: Path
    start: int
    size: int
    version: Version

    @contextmanager
    def _open(self) -> Iterator[Any]:
        import h5py  # in the child alone

        if self.start == 0:
            require_file(self.path)
            with h5py.File(self.path, "r") as file:
                yield file
        else:
            with io.BufferedReader(_Section(self.path, self.start, self.size)) as raw, h5py.File(raw, "r") as file:
                yield file

    def ask(self, question: Callable[[Any], T], nbytes: int = 0) -> T:
        """What a function finds in the open HDF5 file.

        nbytes: of the answer. Damage may make libhdf5 loop or crash, so it works in a process of its own.
        Raises ModelError when the file is damaged or missing.
        """
        seconds = _SECONDS + nbytes // _SLOWEST
        memory = _MEMORY + 3 * max(nbytes, self.size)
        try:
            answer = isolated(partial(self._answer, question), seconds=seconds, memory=memory)
        except IsolationError as error:
            require_unchanged(self.path, self.version)
            raise damaged(self.file, error) from None
        require_unchanged(self.path, self.version)
        return answer

    def _answer(self, question: Callable[[Any], T]) -> T:
        with self._open() as file:
            return question(file)

    def contiguous(self, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], index: Index) -> NDArray[Any]:
        """A part of an array whose numbers lie together, read in pieces."""
        try:
            file = ModelFile(self.path)
        except OSError as error:
            raise damaged(self.file, error) from None
        if file.version != self.version:
            raise changed(self.path)
        offset += self.start
        if not shape or not math.prod(shape):
            return file.numbers(dtype, math.prod(shape), offset).reshape(shape)[index]
        parts = [part.indices(size) for part, size in zip(index, shape, strict=False)]
        cut = max((axis for axis, (start, stop, _) in enumerate(parts) if stop - start < shape[axis]), default=0)
        start, stop, _ = parts[cut] if parts else (0, shape[0], 1)
        inner = math.prod(shape[cut + 1 :])
        width = shape[cut] * inner
        first = start * inner
        count = max(stop - start, 0) * inner
        outer = math.prod(shape[:cut])
        assert all(part[:2] == (0, size) for part, size in zip(parts[:cut], shape, strict=False)), "one axis is cut"
        values = np.empty((outer, count), dtype)
        if outer == 1 or (width - count) * dtype.itemsize > GAP:
            for row in range(outer):
                values[row] = file.numbers(dtype, count, offset + (row * width + first) * dtype.itemsize)
        else:
            at_a_time = max(1, BLOCK // (width * dtype.itemsize))
            for row in range(0, outer, at_a_time):
                rows = min(at_a_time, outer - row)
                block = file.numbers(dtype, rows * width, offset + row * width * dtype.itemsize)
                values[row : row + rows] = block.reshape(rows, width)[:, first : first + count]
        return values.reshape(*shape[:cut], count // inner, *shape[cut + 1 :])


def require_unchanged(path: Path, version: Version) -> None:
    """Raises ModelError when a file is no longer this version."""
    try:
        is_same = Version.of(path.stat()) == version
    except OSError:
        is_same = False
    if not is_same:
        raise changed(path)


def _member(path: Path, name: str, version: Version) -> Hdf5Data:
    """The data of a zip archive's member; compressed ones (Keras stores them) are unpacked to a temporary file."""
    with open_archive(path) as archive:
        member = archive.getinfo(name)
        if member.compress_type != zipfile.ZIP_STORED:
            source = _unpacked(path, archive, member)
            require_unchanged(path, version)
            return source
        with archive.open(member) as packed:  # the archive's checksum finds what no other check would
            while packed.read(BLOCK):
                pass
    with open_file(path) as file:
        file.seek(member.header_offset)
        header = file.read(LOCAL_HEADER_SIZE)
    name_size, extra_size = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    start = member.header_offset + LOCAL_HEADER_SIZE + name_size + extra_size
    return Hdf5Data(str(path), path, start, member.file_size, version)


def _unpacked(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Hdf5Data:
    if member.file_size > max(_SMALL, _LARGEST_RATIO * member.compress_size):
        ratio = member.file_size // max(member.compress_size, 1)
        raise damaged(str(path), f"{member.filename} is compressed {ratio} times; weights never compress that much")
    with ExitStack() as stack:
        with uninterrupted():
            folder = LockedFolder()
            stack.callback(folder.remove)
        unpacked = folder.path / "member.h5"
        with unpacked.open("wb") as target, archive.open(member) as packed:
            shutil.copyfileobj(packed, target)
        source = Hdf5Data(str(path), unpacked, 0, member.file_size, Version.of(unpacked.stat()))
        weakref.finalize(source, stack.pop_all().close)  # the temporary file lives as long as its source
    return source


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """One array of a file, read on demand.

    name: its path in the file. read: index -> float32. flaw: why it cannot be read; empty if it can.
    """

    name: str
    shape: tuple[int, ...]
    read: Callable[[Index], Array]
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of an HDF5 file.

    variables: path -> array. groups: path -> attribute -> its texts; the root's path is empty.
    """

    file: str
    variables: Mapping[str, Variable]
    groups: Mapping[str, Mapping[str, list[str]]] = field(repr=False)

    def text(self, group: str, name: str) -> str | None:
        """An attribute that is a text, possibly split into name0, name1, ... because it is long."""
        parts = self._parts(group, name)
        return None if parts is None else "".join(parts)

    def texts(self, group: str, name: str) -> list[str] | None:
        """An attribute that is a list of texts, possibly split as well."""
        return self._parts(group, name)

    def _parts(self, group: str, name: str) -> list[str] | None:
        attributes = self.groups.get(group, {})
        if name in attributes:
            return attributes[name]
        parts: list[str] = []
        count = 0
        while f"{name}{count}" in attributes:
            parts += attributes[f"{name}{count}"]
            count += 1
        return parts if count else None

    def children(self, group: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self.groups if path and path.rpartition("/")[0] == group]


def is_hdf5(path: Path) -> bool:
    """Whether the signature stands at the start, or after a user block of 512 bytes, 1024, 2048, ..."""
    with open_file(path) as file:
        for start in (0, *(512 << n for n in range(16))):
            file.seek(start)
            if file.read(len(_SIGNATURE)) == _SIGNATURE:
                return True
    return False


def read_file(path: Path) -> Contents:
    """The groups and arrays of an HDF5 file; the numbers stay in it. Raises ModelError, or OSError."""
    version = Version.of(path.stat())
    return _contents(Hdf5Data(str(path), path, 0, version.size, version))


def read_member(path: Path, name: str, version: Version) -> Contents:
    """Like read_file, for a member of a zip archive. version: of the archive, as its other members were read.

    Raises zipfile.BadZipFile when the data do not match the member's checksum.
    """
    return _contents(_member(path, name, version))


class _Dataset(NamedTuple):
    """offset: of contiguous numbers, in bytes; None where they lie in pieces."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int | None
    flaw: str


def _contents(source: Hdf5Data) -> Contents:
    datasets, groups = source.ask(_structure)
    variables = {path: _variable(source, path, dataset) for path, dataset in datasets.items()}
    return Contents(source.file, variables, groups)


def _structure(file: Any) -> tuple[dict[str, _Dataset], dict[str, dict[str, list[str]]]]:
    """All arrays and the attributes of all groups. Links to other files are not followed."""
    import h5py

    datasets: dict[str, _Dataset] = {}
    groups = {"": _attributes(file)}

    def visit(path: str, item: Any) -> None:
        if path.count("/") > _DEEPEST:
            raise ValueError(f"groups lie more than {_DEEPEST} deep in each other")
        if isinstance(item, h5py.Group):
            groups[path] = _attributes(item)
        elif isinstance(item, h5py.Dataset):
            datasets[path] = _dataset(item)

    file.visititems(visit)
    return datasets, groups


def _attributes(group: Any) -> dict[str, list[str]]:
    return {name: _strings(value) for name, value in group.attrs.items()}


def _strings(value: Any) -> list[str]:
    """The texts in an attribute: h5py gives bytes, str, arrays of either, or h5py.Empty."""
    import h5py

    if isinstance(value, h5py.Empty):
        return []
    items = value.ravel().tolist() if isinstance(value, np.ndarray) else [value]
    return [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in items]


def _dataset(dataset: Any) -> _Dataset:
    shape = tuple(dataset.shape or ())
    dtype = dataset.dtype
    stored = dataset.id.get_storage_size()
    flaw = ""
    if dtype.kind != "f" and dtype != "V2":
        flaw = f"holds {dtype} numbers, not floating-point ones"
    elif dataset.external is not None or dataset.is_virtual:
        flaw = "lies in other files, which are not read"
    elif math.prod(shape) and not stored:
        flaw = "was never written"
    elif (nbytes := math.prod(shape) * dtype.itemsize) > max(_SMALL, _LARGEST_RATIO * stored):
        flaw = f"is compressed {nbytes // stored} times; weights never compress that much"
    return _Dataset(shape, dtype, None if dataset.chunks is not None else dataset.id.get_offset(), flaw)


def _variable(source: Hdf5Data, path: str, dataset: _Dataset) -> Variable:
    shape, dtype, offset, flaw = dataset
    if offset is None:
        return Variable(path, shape, lambda index: _read(source, path, index, shape), flaw)
    if not flaw and offset + math.prod(shape) * dtype.itemsize > source.size:
        flaw = "lies beyond the end of the file, which is cut short"
    return Variable(path, shape, lambda index: _as_float32(source.contiguous(dtype, offset, shape, index)), flaw)


def _read(source: Hdf5Data, path: str, index: Index, shape: tuple[int, ...]) -> Array:
    return _as_float32(source.ask(partial(_part, path, index), 8 * math.prod(shape)))


def _part(path: str, index: Index, file: Any) -> NDArray[Any]:
    part: NDArray[Any] = file[path][index]
    return part


def _as_float32(values: NDArray[Any]) -> Array:
    """Any floating type, and bfloat16, which Keras writes as two opaque bytes."""
    if values.dtype.kind == "V":
        return (np.ascontiguousarray(values).view("<u2").astype(np.uint32) << 16).view(np.float32)
    return np.asarray(values, dtype=np.float32)
