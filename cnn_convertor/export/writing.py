"""Exports a network: one file per array in the target's format, and a manifest."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor import __version__
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.program import Program
from cnn_convertor.devices.target import Accelerator, PackedStream
from cnn_convertor.errors import ModelError, Origin, Problem, UnsupportedError, warn
from cnn_convertor.export import targets
from cnn_convertor.export.loading import FORMAT, MANIFEST, json_of, read
from cnn_convertor.export.parts import Role, gathered, parts_of
from cnn_convertor.export.program_maps import maps_of
from cnn_convertor.export.quantizing import StorageLoss
from cnn_convertor.export.surface import Packed, Sparse, Surface
from cnn_convertor.files import replacing
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.graph import Graph
from cnn_convertor.layouts.describe import distances
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.nvdla.weights import GROUP_SIZES, MASK
from cnn_convertor.layouts.packing import Bytes, pack
from cnn_convertor.passes import optimize
from cnn_convertor.pipeline import quantize, read_whole
from cnn_convertor.progress import SURFACES, Progress, silent
from cnn_convertor.samples import samples_of


class Export(NamedTuple):
    """files: all written files, the manifest last. summary: (label, value) rows for display."""

    files: tuple[Path, ...]
    summary: tuple[tuple[str, str], ...]


def export(
    config: Config,
    target: str,
    folder: Path,
    *,
    input_file: Path | None = None,
    element: str | None = None,
    run: bool = False,
    sources: Sequence[Path] = (),
    progress: Progress = silent,
) -> Export:
    """Write a network's weights and maps for a target.

    target: nvdla-fp16, nvdla-int16, nvdla-int8, nvdla-small, ... (each optionally with :MODE,...), cldnn:FORMAT,..., bpu, bpu:ALIGN, bpu:x3, dv700
    input_file: an image or array to write as the network's input; without it, maps are only described
    element: the element type for clDNN (default float16) and the BPU (default float32)
    run: also write the outputs of the emulated device, for that input or a random one
    sources: C++ files with the callbacks of custom layers, for `run`
    Raises ConvertorError that lists all problems; earlier files then stay unchanged.
    """
    kind = targets.target_of(target, element)
    progress("read", 0, 1)
    request = Request.of(config)
    graph = read_whole(request)
    maps = _inputs(request, graph, input_file) if run or input_file is not None else {}
    if run:
        # Run with the exported weights: only the DV700 has palettes.
        maps |= _outputs(graph, request if kind is None else Request.of(config.in_fp16), maps, sources, progress)
    if kind is not None:
        return write(kind.surfaces(tuple(parts_of(optimize(graph), maps))), request.name, target, folder, progress)
    quantized = quantize(graph, request, progress)
    return write_program(quantized.program, quantized.target, maps, folder, progress)


def write_program(
    program: Program,
    target: Accelerator,
    maps: Mapping[str, NDArray[np.float32]],
    folder: Path,
    progress: Progress = silent,
) -> Export:
    """Write an accelerator's memory: weight streams, and known maps."""
    writer = _Writer(program.name, targets.DV700, progress)
    for stream, pieces in target.streams(program):
        writer.add_stream(stream, pieces)
    for surface, offset in maps_of(program, maps):
        writer.add(surface, offset)
    return writer.write(folder)


def write(surfaces: Iterable[Surface], network: str, target: str, folder: Path, progress: Progress = silent) -> Export:
    """Write surfaces consecutively into their memories, and the manifest."""
    writer = _Writer(network, target, progress)
    for surface in surfaces:
        writer.add(surface)
    return writer.write(folder)


def _inputs(request: Request, graph: Graph, path: Path | None) -> dict[str, NDArray[np.float32]]:
    """Input name -> (H, W, C) of the first sample; without a path, of a random one."""
    samples = samples_of(path, graph, request.preparation, samples=1)
    if samples.count > 1:
        warn(Problem("DV857", f"there are {samples.count} samples; the first is exported", Origin(str(path))))
    return {name: values[0] for name, values in samples.inputs.items()}


def _outputs(
    graph: Graph,
    request: Request,
    inputs: Mapping[str, NDArray[np.float32]],
    sources: Sequence[Path],
    progress: Progress,
) -> dict[str, NDArray[np.float32]]:
    """Output name -> (H, W, C), computed on the emulated device."""
    with temporary_folder() as folder:
        program = quantize(graph, request, progress).program
        network = request.target.install_data(graph, program, folder, sources=sources)
        progress("run", 0, 1)
        results = network.run({name: values[np.newaxis] for name, values in inputs.items()}).outputs
    return {name: values[0] for name, values in zip(network.graph.outputs, results, strict=True)}


class _Entry(NamedTuple):
    """An array in the manifest. described: before its bytes exist. measured: filled while they are written."""

    described: dict[str, Any]
    measured: dict[str, Any]


class _Writer:
    """Collects surfaces, then writes their files, and the manifest last."""

    def __init__(self, network: str, target: str, progress: Progress) -> None:
        self._progress = progress
        self._written = self._promised = 0  # bytes of surfaces
        self._head = {"format": FORMAT, "made_by": f"cnn-convertor {__version__}", "network": network, "target": target}
        self._entries: list[_Entry] = []
        self._files: dict[str, Iterable[Bytes]] = {}
        self._ends = {"weights": 0, "maps": 0}  # end of the used bytes of each memory
        self._problems: list[Problem] = []
        self._sizes: list[tuple[int, int]] = []  # (written, expected)
        self._worst: tuple[float, str] | None = None

    def add(self, surface: Surface, offset: int | None = None) -> None:
        """Add a surface. offset: in its memory; None: after the previous surface."""
        try:
            sparse = surface.sparse() if surface.may_be_sparse else None
        except UnsupportedError as error:
            self._problems += error.problems
            return
        if sparse is not None:
            self._add_sparse(surface, sparse)
            return
        entry = self._described(surface, surface.nbytes, offset)
        if surface.values is not None:
            self._add_file(entry, self._pieces(surface, entry))

    def _add_sparse(self, surface: Surface, sparse: Sparse) -> None:
        """Add compressed weights, their mask and their group sizes: one file each."""
        entry = self._described(surface, sparse.stored)
        self._add_file(entry, self._pieces(surface, entry, compressed=True))
        entry.described["compressed"] = {
            Role.MASK.value: self._add_numbers(surface, Role.MASK, MASK, sparse.mask),
            Role.GROUP_SIZES.value: self._add_numbers(surface, Role.GROUP_SIZES, GROUP_SIZES, sparse.group_sizes),
        }

    def _add_numbers(self, surface: Surface, role: Role, layout: Layout, numbers: NDArray[Any]) -> str:
        """Add an array of integers that belongs to a surface. Returns its file name."""
        other = replace(surface, role=role, layout=layout, shape=numbers.shape, values=None, notes={})
        return self._add_file(self._described(other, other.nbytes), iter([pack(numbers, layout)]))

    def _described(self, surface: Surface, size: int, offset: int | None = None) -> _Entry:
        """Place a surface of `size` bytes, and return its new manifest entry."""
        memory = "maps" if surface.role.is_map else "weights"
        align = surface.layout.base_align
        start = -(-self._ends[memory] // align) * align if offset is None else offset
        self._ends[memory] = max(self._ends[memory], start + size)
        described: dict[str, Any] = {
            "layer": surface.layer,
            "type": surface.type,
            "node": surface.node,
            "operator": surface.operator,
            "role": surface.role.value,
            "axes": surface.layout.axes,
            "shape": list(surface.shape),
            "layout": surface.layout.name,
            "terms": str(surface.layout),
            "element": surface.element.name,
            "strides": distances(surface.layout, surface.shape),
            "alignment": {"start": align, "size": surface.layout.total_align},
            "memory": memory,
            "offset": start,
            "bytes": size,
            **surface.notes,
        }
        self._entries.append(_Entry(described, {}))
        return self._entries[-1]

    def add_stream(self, stream: PackedStream, pieces: Iterator[Bytes]) -> None:
        """Add a stream: one file, with one entry per array in it."""
        start = self._ends["weights"]
        assert start == stream.offset
        self._ends["weights"] += stream.nbytes
        described: list[dict[str, Any]] = [
            {
                "layer": stream.layer,
                "type": stream.type,
                "role": role,
                "axes": "oiyx"[: len(shape)],
                "shape": list(shape),
                "layout": stream.layout,
                "stream": stream.form,
                "element": "float16",
                "alignment": {"start": 16, "size": 16},
                "memory": "weights",
                "offset": start,
                "bytes": stream.nbytes,
            }
            for role, shape in stream.arrays.items()
        ]
        entries = [_Entry(each, {}) for each in described]
        self._entries += entries
        self._add_file(entries[0], self._checked(pieces), *entries[1:])

    def _add_file(self, entry: _Entry, pieces: Iterator[Bytes], *others: _Entry) -> str:
        """Add a file for an entry. others: further entries of the same file. Returns its name."""
        described = entry.described
        # Layer names may contain characters that file names cannot.
        layer = re.sub(r"[^A-Za-z0-9_-]+", "_", described["layer"])[:60]
        number = f"{described['set']}." if "set" in described else ""
        self._promised += described["bytes"]
        name = f"{len(self._files):03}_{layer}.{described['role']}.{number}bin"
        self._files[name] = self._hashed(name, pieces, (entry, *others))
        return name

    def _hashed(self, name: str, pieces: Iterator[Bytes], entries: Sequence[_Entry]) -> Iterator[Bytes]:
        digest = hashlib.sha256()
        size = 0
        for piece in pieces:
            digest.update(piece.data)
            size += piece.size
            yield piece
            self._written += piece.size
            self._progress(SURFACES, self._written, self._promised, entries[0].described["layer"])
        for entry in entries:
            self._sizes.append((size, entry.described["bytes"]))
            entry.measured.update(file=name, sha256=digest.hexdigest())

    def _pieces(self, surface: Surface, entry: _Entry, *, compressed: bool = False) -> Iterator[Bytes]:
        written: list[Packed] = []
        yield from self._checked(surface.pieces(written, compressed=compressed))
        for scales, error in written:
            if scales is not None:
                axes = surface.layout.axes[: surface.symmetric.axes]
                entry.measured["scale"] = {"axes": axes, "values": [float(scale) for scale in scales]}
            if error is not None:
                entry.measured["error"] = _figures(error)
                if self._worst is None or error.sqnr < self._worst[0]:
                    self._worst = error.sqnr, f'{surface.role.value} of "{surface.layer}"'

    def _checked(self, pieces: Iterator[Bytes]) -> Iterator[Bytes]:
        """The pieces up to an error, which is collected: all errors are reported together."""
        with gathered(self._problems):
            yield from pieces

    def write(self, folder: Path) -> Export:
        """Write all files, or none."""
        contents: Mapping[str, replacing.Contents] = {**self._files, MANIFEST: self._manifest()}
        before = _earlier(folder)
        written = replacing.replace_all(folder, contents)
        for path in before.difference(written):
            path.unlink(missing_ok=True)
        return Export(written, self.summary())

    def _manifest(self) -> Iterator[Bytes]:
        if self._problems:
            raise UnsupportedError(self._problems)
        assert all(size == promised for size, promised in self._sizes)
        head = self._head | {"memories": self._ends}
        yield np.frombuffer(
            json_of(head, [{**entry.described, **entry.measured} for entry in self._entries]).encode(), np.uint8
        )

    def summary(self) -> tuple[tuple[str, str], ...]:
        rows = [("surfaces", str(len(self._files)))]
        rows += [(name, f"{size:,} bytes") for name, size in self._ends.items()]
        if self._worst is not None and math.isfinite(self._worst[0]):
            rows.append(("largest error", f"{self._worst[0]:.1f} dB SQNR, {self._worst[1]}"))
        return tuple(rows)


def _earlier(folder: Path) -> set[Path]:
    """The unchanged surfaces of an earlier export in the folder."""
    files = set()
    with suppress(ModelError):
        for entry in read(folder).surfaces:
            with suppress(ModelError):
                if entry.file is not None and entry.memory() is not None:
                    files.add(entry.file)
    return files


def _figures(error: StorageLoss) -> dict[str, float | None]:
    """The error's figures, rounded for the manifest."""
    sqnr = error.sqnr if math.isfinite(error.sqnr) else None
    figures = {"max": error.largest, "rms": error.rms, "sqnr_db": sqnr}
    return {name: None if value is None else float(f"{value:.6g}") for name, value in figures.items()}
