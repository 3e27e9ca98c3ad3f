"""Converts one exported network and compares it with onnxruntime.

python -m development.benchmarks.exports.measuring FILE.onnx PRODUCTS prints what came of it as JSON. PRODUCTS: multiplications of two maps.
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
from cnn_convertor.report.values import Report
from cnn_convertor.trials.verify import verify
from development.benchmarks.exports.outcome import State, causes_of
from development.benchmarks.networks_page import LEAST

# Assumed of the board's processor, as the estimate of the device leaves it out.
USEC_OF_VALUE: Final = 0.005  # that a CPU layer reads or writes
USEC_OF_PRODUCT: Final = 0.002
CEILING: Final = 200.0  # dB, in place of infinity


def measure(model: Path, products: int) -> dict[str, Any]:
    """state and causes, figures or detail, as they are in an Outcome."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config.read(_ini(model, Path(folder)))
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
            "share": share_on_device(report, products),
            "sqnr": min(sqnr, CEILING) if math.isfinite(sqnr) or sqnr > 0 else -CEILING,
        },
        "detail": "" if result.passed else ", ".join(f"{o.name}: {o.sqnr:.1f} dB {o.doubt}" for o in result.outputs),
    }


def share_on_device(report: Report, products: int) -> float:
    """Of the estimated time; the device's is the middle of its interval."""
    device = (report.device_usec.low + report.device_usec.high) / 2
    values = sum(
        math.prod(step.output.shape) + sum(math.prod(read.shape) for read in step.reads) for step in report.on_cpu
    )
    cpu = USEC_OF_VALUE * values + (USEC_OF_PRODUCT * products if values else 0)
    return device / (device + cpu) if device + cpu else 1.0


def _ini(model: Path, folder: Path) -> Path:
    ini = folder / "net.ini"
    text = (
        f"[INPUT]\nname = network\ndefinition = {model.resolve()}\n[OUTPUT]\noutput_folder = output\nquantization = 0\n"
    )
    ini.write_text(text, encoding="utf-8")
    return ini


def main() -> None:
    warnings.simplefilter("ignore", ConvertorWarning)
    model, products = sys.argv[1:]
    try:
        values = measure(Path(model), int(products))
    except Exception:  # noqa: BLE001 - a defect of the convertor is a result here
        values = {"state": State.FAILED.name, "detail": traceback.format_exc()[-2000:]}
    if "causes" in values:
        values["causes"] = [cause._asdict() for cause in values["causes"]]
    print(json.dumps(values))


if __name__ == "__main__":
    main()
