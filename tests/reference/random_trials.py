"""How random networks compare with their framework.

For many networks: `pytest -m slow -k random_networks_compute --random-networks 2000 --log-cli-level info`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn_convertor.ir.graph import Graph
from reference import ir_reference

Numbers = NDArray[Any]


class Trial(NamedTuple):
    """types: of the network's layers. deviation: see below. refused: why the network is not compared; empty if it is."""

    types: tuple[str, ...]
    deviation: float = 0.0
    refused: str = ""


def deviation(graph: Graph, inputs: Mapping[str, Numbers], expected: Mapping[str, Numbers]) -> float:
    """The largest error of the graph's outputs, each in units of its largest expected magnitude, or of 1.

    The graph is run by the tests' own reading of it, in FP64. NaN and infinity must be in the same places.
    """
    values, largest = ir_reference.run(graph, inputs), 0.0
    for output, wanted in expected.items():
        known = np.isfinite(wanted)
        if not np.array_equal(known, np.isfinite(values[output])):
            return float("inf")
        error = np.abs(values[output] - wanted)[known].max(initial=0)
        largest = max(largest, float(error / max(1.0, np.abs(wanted[known]).max(initial=0))))
    return largest


def report(judge: str, trials: Sequence[Trial]) -> str:
    """The figures, as lines of text."""
    done = [trial for trial in trials if not trial.refused]
    types = Counter(type for trial in done for type in trial.types)
    refused = Counter(trial.refused for trial in trials if trial.refused)
    return "\n".join(
        [
            f"{len(done)} of {len(trials)} random networks compared with {judge}, by the plain reading of the graph in FP64",
            f"layers: {types.total()} of {len(types)} types; largest deviation: {max((t.deviation for t in done), default=0):.2g}",
            f"not compared: {dict(sorted(refused.items())) or 'none'}",
            ", ".join(f"{type} {count}" for type, count in sorted(types.items())),
        ]
    )
