"""What a verification shows of itself in a notebook."""

from __future__ import annotations

from cnn_convertor.report.page import notebook_table
from cnn_convertor.report.sections import row_of, tables_of
from cnn_convertor.report.summary import decibels
from cnn_convertor.verification.results import Comparison, Verification

_MEASURES = ("SQNR dB", "max error", "agreement", "largest")


def of_verification(result: Verification) -> str:
    """The verdict, the outputs, and the layers if they were compared."""
    verdict = "pass" if result.passed else "fail" if result.failed else "not verified"
    note = (
        f"Compared with {result.framework} on {result.samples} samples ({result.inputs}); every output needs "
        f"{result.min_sqnr:g} dB."
    )
    tables = (
        *tables_of(("output", *_MEASURES), [row_of(*_cells(each)) for each in result.outputs]),
        *tables_of(("layer", *_MEASURES), [row_of(*_cells(each.comparison)) for each in result.layers]),
    )
    return notebook_table(f"{result.network}: {verdict}", note, tables)


def _cells(each: Comparison) -> tuple[str, ...]:
    agreement = "" if each.agreement is None else f"{each.agreement:.2%}"
    return each.name, decibels(each.sqnr), f"{each.max_error:.2g}", agreement, f"{each.largest:.4g}"
