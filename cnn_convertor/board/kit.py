"""Writes a folder that runs a network on the board and stores the results that `verify` compares."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cnn_convertor.codegen.cpp import class_name
from cnn_convertor.codegen.description import byte_outputs
from cnn_convertor.codegen.text_templates import render_text
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.program import Program
from cnn_convertor.emulation.feature_maps import input_bytes
from cnn_convertor.errors import Origin, UsageError
from cnn_convertor.files import replacing
from cnn_convertor.files.opening import text_of
from cnn_convertor.files.replacing import Contents, Digest
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import counted_weights, quantize, read_whole
from cnn_convertor.progress import Progress, silent
from cnn_convertor.samples import SAMPLES, Preparation, Samples, samples_of
from cnn_convertor.trials.run import warn_of_other_files

GIVEN = -1  # in place of a seed: the inputs were given
HEADER = "kit.h"


class Inputs(NamedTuple):
    """The inputs of a kit. path: where they are; None: random images. samples: of the random images."""

    path: Path | None = None
    samples: int = SAMPLES
    seed: int = 0

    def read(self, graph: Graph, preparation: Preparation) -> Samples:
        return samples_of(self.path, graph, preparation, samples=self.samples, seed=self.seed)


class WrittenKit(NamedTuple):
    files: tuple[Path, ...]
    samples: int


def write_kit(
    config: Config, folder: Path, inputs: Inputs, *, sources: Sequence[Path] = (), progress: Progress = silent
) -> WrittenKit:
    """Convert a network into a kit. sources: C++ files with the callbacks of custom layers.

    Raises ConvertorError as a conversion does, UsageError when a file cannot be read or written, and, once
    the kit is written, when the files in the output folder are not those of the kit.
    """
    progress("read", 0, 1)
    request = Request.of(config)
    graph = read_whole(request)
    quantized = quantize(graph, request, progress)
    program = quantized.program
    samples = inputs.read(graph, request.preparation)
    data = input_bytes(program, samples.inputs)
    in_bytes = byte_outputs(program)
    values = {
        "name": program.name,
        "class_name": class_name(program),
        "header_name": f"{program.name}_gen.h",
        "inputs": [{"offset": tensor.offset, "nbytes": tensor.nbytes} for _, tensor in program.inputs],
        "byte_outputs": ["true" if position in in_bytes else "false" for position in range(len(program.outputs))],
        "sample_bytes": len(data) // samples.count,
        "samples": samples.count,
        "seed": inputs.seed if inputs.path is None else GIVEN,
        "inputs_hash": hashlib.sha256(data).hexdigest(),
        "sources": [f"{program.name}_gen.cpp", *(path.name for path in sources)],
    }
    model = request.rendering.model
    network = network_files(program, request)
    weights = f"{program.name}_weights.bin"
    network[weights] = counted_weights(network[weights], program, progress)
    own: dict[str, Contents] = {
        **network,
        "inputs.bin": [np.frombuffer(data, np.uint8)],
        **request.target.kit_files,
        "Makefile": render_text("kit.mk.j2", model, values),
        "README.txt": render_text("kit_readme.txt.j2", model, values),
    }
    contents = {**own, **_callbacks(sources, {*own, HEADER})}
    written = replacing.replace_all(folder, contents, later=[_header(tuple(network), model, values)])
    warn_of_other_files(request, quantized, {name: folder / name for name in network})
    return WrittenKit(written, samples.count)


def _header(network: Collection[str], model: str, values: Mapping[str, object]) -> replacing.Later:
    """kit.h, once the files are known. network: the names of the network's own."""

    def header(digests: Mapping[str, Digest]) -> Mapping[str, str]:
        own = {name: digests[name].sha256 for name in network}
        return {HEADER: render_text("kit.h.j2", model, {**values, "network_hash": network_hash(own)})}

    return header


def network_files(program: Program, request: Request) -> dict[str, Contents]:
    """The files of the network itself, as a conversion writes them."""
    return request.target.emit(program, replace(request.rendering, source=True))


def network_hash(hashes: Mapping[str, str]) -> str:
    """One hash of the network's files. hashes: file name -> SHA-256."""
    return hashlib.sha256("".join(f"{name} {hashes[name]}\n" for name in sorted(hashes)).encode()).hexdigest()


def _callbacks(sources: Sequence[Path], taken: set[str]) -> dict[str, Contents]:
    """The C++ files of custom layers. taken: names of other files. Raises UsageError."""
    callbacks: dict[str, Contents] = {}
    for path in sources:
        if path.name in taken or path.name in callbacks:
            problem = f'a kit has only one file "{path.name}"'
            raise UsageError.of("DV730", problem, Origin(str(path)), "give the file another name")
        if not re.fullmatch(r"\w[\w.+-]*", path.name):
            problem = "the kit's Makefile can name files of letters, digits and . + - _ only"
            raise UsageError.of("DV730", problem, Origin(str(path)), "give the file another name")
        callbacks[path.name] = _read(path)
    return callbacks


def _read(path: Path) -> str:
    try:
        return text_of(path)
    except OSError as error:
        reason = f"the callbacks of custom layers cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "the callbacks of custom layers are not UTF-8 text"
    raise UsageError.of("DV730", reason, Origin(str(path)), "name a C++ file with --source")
