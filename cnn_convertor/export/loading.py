"""Reads an export: its manifest, and its surfaces as arrays."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.devices.registry import array_of, packs
from cnn_convertor.errors import ConvertorError, ModelError, Origin
from cnn_convertor.export.parts import Role
from cnn_convertor.export.quantizing import to_reals
from cnn_convertor.files import json_files
from cnn_convertor.files.opening import bytes_of
from cnn_convertor.layouts.layout import Layout, nbytes
from cnn_convertor.layouts.notation import parse
from cnn_convertor.layouts.nvdla import weights
from cnn_convertor.layouts.nvdla.precision import Precision
from cnn_convertor.layouts.packing import Bytes, unpack

FORMAT = "cnn-convertor export 1"
MANIFEST = "manifest.json"
_AGAIN = "export the network again"


def json_of(head: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> str:
    """A manifest as JSON text, one line per surface."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    surfaces = ",\n".join(f"    {json.dumps(entry)}" for entry in entries)
    return "\n".join(["{", *lines, '  "surfaces": [', surfaces, "  ]", "}", ""])


def _refuse(code: str, message: str, path: Path, hint: str) -> NoReturn:
    raise ModelError.of(code, message, Origin(str(path)), hint)


@dataclass(frozen=True, slots=True)
class SurfaceEntry:
    """One surface. record: its complete manifest entry.

    shape: of the array, in the order of its axes
    file: None for a map that is only described
    scales: factors of integers, one per index of the first axes; None: values are unscaled
    sparse: mask and group sizes of compressed weights
    """

    record: Mapping[str, Any]
    layer: str
    role: str
    axes: str
    shape: tuple[int, ...]
    element: np.dtype[Any]
    layout: Layout | None
    offset: int
    nbytes: int
    file: Path | None
    sha256: str
    scales: NDArray[np.float32] | None
    sparse: tuple[SurfaceEntry, SurfaceEntry] | None = None

    def memory(self) -> Bytes:
        """The surface's bytes, verified by size and SHA-256. Raises ModelError if they do not match."""
        if self.file is None:
            message = f'the {self.role} of "{self.layer}" is only described, not written'
            hint = "layouts export --inputs" if self.role == Role.INPUT.value else "layouts export --run"
            _refuse("DV856", message, Path(MANIFEST), hint)
        try:
            data = np.frombuffer(bytes_of(self.file), np.uint8)
        except OSError as error:
            _refuse("DV856", f"cannot read the surface: {error.strerror}", self.file, _AGAIN)
        if data.size != self.nbytes:
            _refuse("DV856", f"the surface has {data.size} bytes, not {self.nbytes}", self.file, _AGAIN)
        if hashlib.sha256(data.data).hexdigest() != self.sha256:
            _refuse("DV856", "the surface has changed: its SHA-256 differs", self.file, _AGAIN)
        return data

    def array(self) -> NDArray[Any]:
        """The stored elements, unscaled, in the array's order of axes."""
        memory = self.memory()
        if self.layout is not None and self.sparse is not None:
            return self._decompressed(memory, self.layout, *self.sparse)
        if self.layout is not None:
            return unpack(memory, self.layout, self.shape)
        try:
            array = array_of(self.record["layout"], self.record["stream"], memory, self.role)
            if array.shape != self.shape:
                raise ValueError(f"it has an array of {array.shape}, not {self.shape}")
        except (KeyError, TypeError, ValueError, AssertionError) as error:
            message = f'the description of the stream of "{self.layer}" is wrong: {error}'
            _refuse("DV855", message, Path(MANIFEST), _AGAIN)
        return array

    def _decompressed(
        self, stored: Bytes, layout: Layout, mask: SurfaceEntry, group_sizes: SurfaceEntry
    ) -> NDArray[Any]:
        surfaces = weights.Compressed(stored, mask.memory(), group_sizes.memory())
        bare = replace(layout, total_align=1)
        try:
            elements = nbytes(bare, self.shape) // self.element.itemsize
            payload = weights.decompress(surfaces, elements, Precision(self.element.name))
        except ConvertorError as error:
            _refuse("DV855", error.problems[0].message, Path(MANIFEST), _AGAIN)
        return unpack(payload, bare, self.shape)

    def values(self) -> NDArray[Any]:
        """The real values: integers times their scales, in FP64."""
        array = self.array()
        return array if self.scales is None else to_reals(array, self.scales)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an export. memories: name -> total bytes."""

    network: str
    target: str
    memories: Mapping[str, int]
    surfaces: tuple[SurfaceEntry, ...]

    def __getitem__(self, key: tuple[str, str]) -> SurfaceEntry:
        """The first surface of (layer, role), like ("conv1", "weights"). Raises KeyError if there is none."""
        for entry in self.surfaces:
            if (entry.layer, entry.role) == key:
                return entry
        raise KeyError(key)


def read(path: Path) -> Manifest:
    """Read a manifest, given its folder or file. Raises ModelError for an invalid one."""
    file = path / MANIFEST if path.is_dir() else path
    try:
        data = json_files.load(file)
    except (OSError, ValueError) as error:
        _refuse("DV855", f"cannot read the manifest: {error}", file, "pass the folder given to `layouts export`")
    try:
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']}, not {FORMAT}")
        memories = {str(name): int(size) for name, size in data["memories"].items()}
        entries = _with_sparse([_entry(record, file.parent) for record in data["surfaces"]])
        return Manifest(str(data["network"]), str(data["target"]), memories, entries)
    except ConvertorError as error:
        _refuse("DV855", f"not a manifest of an export: {error.problems[0].message}", file, _AGAIN)
    except KeyError as error:
        _refuse("DV855", f"not a manifest of an export: {error} is missing", file, _AGAIN)
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        _refuse("DV855", f"not a manifest of an export: {error}", file, _AGAIN)


def _with_sparse(entries: Sequence[SurfaceEntry]) -> tuple[SurfaceEntry, ...]:
    """Attach masks and group sizes to compressed weights. Raises TypeError, KeyError or ValueError if missing."""
    entry_of = {(entry.role, entry.record.get("file")): entry for entry in entries}
    complete = []
    for entry in entries:
        if "compressed" in entry.record:
            names = entry.record["compressed"]
            pair = tuple(entry_of[role, names[role]] for role in (Role.MASK.value, Role.GROUP_SIZES.value))
            entry = replace(entry, sparse=(pair[0], pair[1]))
        complete.append(entry)
    return tuple(complete)


def _entry(record: Mapping[str, Any], folder: Path) -> SurfaceEntry:
    """Raises KeyError, TypeError, ValueError or ConvertorError for an invalid record."""
    shape = tuple(map(int, record["shape"]))
    axes = str(record["axes"])
    element = np.dtype(str(record["element"]))
    size = int(record["bytes"])
    layout = None if packs(record["layout"]) else parse(str(record["terms"]))
    if min(shape, default=0) < 1 or len(axes) != len(shape):
        raise ValueError(f"a shape of {shape} for the axes {axes}")
    if layout is not None and (
        (layout.element, layout.axes) != (element, axes) or not _fits(record, layout, shape, size)
    ):
        raise ValueError(f"{record['terms']} of {shape} does not have {size} bytes of {element}")
    if int(record["offset"]) < 0:
        raise ValueError(f"an offset of {record['offset']}")
    name = record.get("file")
    if name is not None and (Path(str(name)).name != name or not name or "\0" in name):
        raise ValueError(f"the file {name} is not in the manifest's folder")
    return SurfaceEntry(
        record=record,
        layer=str(record["layer"]),
        role=Role(record["role"]).value,
        axes=axes,
        shape=shape,
        element=element,
        layout=layout,
        offset=int(record["offset"]),
        nbytes=size,
        file=None if name is None else folder / str(name),
        sha256=str(record["sha256"]) if name is not None else "",
        scales=_scales(record["scale"], axes, shape) if "scale" in record else None,
    )


def _fits(record: Mapping[str, Any], layout: Layout, shape: tuple[int, ...], size: int) -> bool:
    """Whether `size` is the size of the array, or possible for its compressed weights."""
    whole = nbytes(layout, shape)
    if "compressed" not in record:
        return size == whole
    is_precision = layout.element is not None and layout.element.name in [precision.value for precision in Precision]
    return is_precision and 0 <= size < whole and size % layout.total_align == 0


def _scales(record: Mapping[str, Any], axes: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Raises KeyError, TypeError or ValueError for invalid scales."""
    scales = np.array(record["values"], np.float32)
    scaled = str(record["axes"])
    if not axes.startswith(scaled) or scales.shape != (math.prod(shape[: len(scaled)]),) or not (scales > 0).all():
        raise ValueError(f"{scales.size} scales along {scaled} for {shape}")
    return scales
