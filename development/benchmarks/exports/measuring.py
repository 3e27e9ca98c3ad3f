"""Converts one exported network and compares it with onnxruntime.

python -m development.benchmarks.exports.measuring FILE.onnx prints what came of it as JSON.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any, Final

from cnn_convertor.config import Config
from cnn_convertor.conversion.inspection import find
from cnn_convertor.errors import ConvertorError, ConvertorWarning
from cnn_convertor.trials.verify import verify
from development.benchmarks.exports.outcome import State, causes_of
from development.benchmarks.networks_page import LEAST

CEILING: Final = 200.0  # dB, in place of infinity


def measure(model: Path) -> dict[str, Any]:
    """state and causes, figures or detail, as they are in an Outcome."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(write_ini(model, Path(folder)))
        try:
            report = find(config).report
            if report.problems:
                problems = [(problem.code, problem.type, problem.message) for problem in report.problems]
                return {"state": State.REFUSED.name, "causes": causes_of(problems)}
            result = verify(config, samples=1, min_sqnr=LEAST)
        except ConvertorError as error:
            return {"state": State.REFUSED.name, "causes": causes_of((p.code, "", p.message) for p in error.problems)}
    sqnr = result.least_sqnr
    return {
        "state": (State.VERIFIED if result.passed else State.INACCURATE).name,
        "figures": {
            "commands": len(report.commands),
            "cpu_layers": len(report.on_cpu),
            "sqnr": min(sqnr, CEILING) if math.isfinite(sqnr) or sqnr > 0 else -CEILING,
        },
        "detail": "" if result.passed else ", ".join(f"{o.name}: {o.sqnr:.1f} dB {o.doubt}" for o in result.outputs),
    }


def write_ini(model: Path, folder: Path, runtime: str = "sdk") -> Path:
    """The ini file of a conversion with FP16 weights. runtime: empty leaves the key out, for versions that do not have it."""
    ini = folder / "net.ini"
    text = f"[INPUT]\nname = network\ndefinition = {model.resolve()}\n"
    text += "[OUTPUT]\noutput_folder = output\nquantization = 0\n"
    if runtime:
        text += f"runtime = {runtime}\n"
    ini.write_text(text, encoding="utf-8")
    return ini


def main() -> None:
    warnings.simplefilter("ignore", ConvertorWarning)
    try:
        values = measure(Path(sys.argv[1]))
    except Exception:  # noqa: BLE001 - a defect of the convertor is a result here
        values = {"state": State.FAILED.name, "detail": traceback.format_exc()[-2000:]}
    if "causes" in values:
        values["causes"] = [cause._asdict() for cause in values["causes"]]
    print(json.dumps(values))


if __name__ == "__main__":
    main()
