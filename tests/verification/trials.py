"""Makes small networks to be tried out on the emulated device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.codegen import RenderOptions, render
from cnn_convertor.config import Config
from cnn_convertor.devices.dv700.program import Program
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.emulation.run import Maps
from cnn_convertor.files import replace_all
from cnn_convertor.frontends.caffe import CAFFE
from cnn_convertor.frontends.keras import KERAS
from cnn_convertor.ir.graph import Graph
from cnn_convertor.pipeline import build
from cnn_convertor.verification import Network, prepare

NAME = "net"
Convert: TypeAlias = Callable[[Config, Path], tuple[Graph, Program]]


def config(definition: Path, data: Path | None = None, **fields: Any) -> Config:
    """A configuration: FP16 weights, transposed maps, unless the fields say otherwise."""
    made = Config(
        name=NAME,
        definition=definition,
        data=data or definition,
        origin=CAFFE if definition.suffix == ".prototxt" else KERAS,
        custom_layer=None,
        width_override=None,
        height_override=None,
        output_folder=Path("output"),
        generate_source=True,
        generate_doxy=False,
        generate_dot=False,
        quantization=False,
        transpose_weight=True,
        python_module="",
        verbose=False,
        graphviz_path="",
    )
    return replace(made, **fields)


def converts(graph: Graph) -> Convert:
    """What converts a graph that no frontend has read."""

    def convert(config: Config, folder: Path) -> tuple[Graph, Program]:
        program = build(graph, config)
        texts = render(program, RenderOptions(model="a graph"))
        replace_all(
            folder, {**texts, f"{program.name}_weights.bin": encode_all(program.weights, transposed=program.transposed)}
        )
        return graph, program

    return convert


def network(graph: Graph, folder: Path, *, sources: Sequence[Path] = (), **fields: Any) -> Network:
    """A graph, ready to run. sources: the callbacks of custom layers."""
    return prepare(config(Path("graph.keras"), **fields), converts(graph), folder, sources=sources)


def samples(*values: Mapping[str, NDArray[Any]]) -> dict[str, Maps]:
    """Input name -> (N, H, W, C) for N samples of (H, W, C), in what FP16 holds exactly."""
    return {name: np.stack([np.asarray(v[name], np.float16).astype(np.float32) for v in values]) for name in values[0]}
