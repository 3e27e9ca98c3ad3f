"""Makes small networks to be tried out on the emulated device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnn_convertor.codegen.options import RenderOptions
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.dv700.sources.rendering import render
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import quantize
from cnn_convertor.trials.run import prepare

NAME = "net"


def target_for(config: Config) -> Dv700:
    """The device of a configuration, set up as it says."""
    return Dv700.of(config.hardware, config.settings)


def config(definition: Path, data: Path | None = None, **fields: Any) -> Config:
    """A configuration: FP16 weights, transposed maps, unless the fields say otherwise."""
    made = Config(
        definition=definition,
        name=NAME,
        data=data or definition,
        output_folder=Path("output"),
        generate_source=True,
        quantization=False,
    )
    return replace(made, **fields)


def network(
    graph: Graph, folder: Path, *, sources: Sequence[Path] = (), compiled: bool = False, **fields: Any
) -> EmulatedNetwork:
    """A graph that no frontend has read, ready to run. sources: the callbacks of custom layers.

    compiled: its generated sources run. Otherwise its program does, as data, beside sources that are not compiled.
    """
    request = Request.of(config(Path("graph.keras"), **fields))
    if compiled:
        return prepare(graph, request, folder, sources=sources)
    program = quantize(graph, request).program
    replace_all(folder, render(program, RenderOptions("graph.keras")))
    return request.target.install_data(graph, program, folder, sources=sources)


def change_files(patch: pytest.MonkeyPatch, change: Callable[[Path], None]) -> None:
    """Change the files of each network before it is compiled. change: takes their folder."""

    def write(folder: Path, files: Mapping[str, Contents]) -> tuple[Path, ...]:
        written = replace_all(folder, files)
        if any(name.endswith("_gen.cpp") for name in files):  # what runs as data stays as it is
            change(folder)
        return written

    patch.setattr("cnn_convertor.devices.dv700.emulating.replace_all", write)


def samples(*values: Mapping[str, NDArray[Any]]) -> dict[str, Maps]:
    """Input name -> (N, H, W, C) for N samples of (H, W, C), in what FP16 holds exactly."""
    return {name: np.stack([np.asarray(v[name], np.float16).astype(np.float32) for v in values]) for name in values[0]}
