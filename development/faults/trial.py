"""Converts and verifies one network with the convertor that PYTHONPATH names first: python -m development.faults.trial NET.ini FOLDER

The folder gets the files of the conversion, and outputs.npz with what the device computes. The last line of standard output says
whether verify passes. A convertor that stops ends with its error. With --compiled, the generated sources run; otherwise the program
does, as data, which gives the same bits in a tenth of the time.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from cnn_convertor.config import Config
from cnn_convertor.conversion.convert import convert
from cnn_convertor.devices.dv700.accelerator import Dv700
from cnn_convertor.devices.program import Program
from cnn_convertor.emulation import build
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.ir.graph import Graph
from cnn_convertor.trials.verify import verify
from cnn_convertor.verification.both_sides import BothSides
from cnn_convertor.verification.reference import run_both

_FAST = (
    "-std=c++17",
    "-O0",
    "-ffp-contract=off",
    "-pthread",
)  # a compilation counts more than a run of a small network


def main() -> None:
    ini, folder = map(Path, sys.argv[1:3])
    warnings.simplefilter("ignore")
    runs = list[BothSides]()

    def keeping(*arguments: Any) -> BothSides:
        runs.append(run_both(*arguments))
        return runs[-1]

    def installed(
        target: Dv700, graph: Graph, program: Program, _: object, folder: Path, **options: Any
    ) -> EmulatedNetwork:
        return target.install_data(graph, program, folder, **options)

    flags = ("LOOP_FLAGS", "LIBRARY_FLAGS", "NETWORK_FLAGS", "RUNNER_FLAGS")
    config = replace(Config.of(ini), output_folder=folder)
    with ExitStack() as patches:
        for name in flags:
            patches.enter_context(patch.object(build, name, _FAST))
        patches.enter_context(patch("cnn_convertor.trials.verify.run_both", keeping))
        if "--compiled" not in sys.argv:
            patches.enter_context(patch.object(Dv700, "install", installed))
            patches.enter_context(patch("cnn_convertor.trials.verify.require_preparation"))  # data has no header
        convert(config)
        passed = verify(config).passed
    outputs = {f"output{number}": maps for number, maps in enumerate(runs[0].device.outputs)}
    np.savez(folder / "outputs.npz", **outputs)  # type: ignore[arg-type]  # names are no keywords of numpy's
    print(json.dumps(passed))


if __name__ == "__main__":
    main()
