"""Converts one network: writes its files, with a manifest, and reports on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.manifest import earlier_files, manifest, names_of
from cnn_convertor.errors import captured_warnings
from cnn_convertor.files import replacing
from cnn_convertor.files.codec import to_json
from cnn_convertor.files.dependencies import inputs_kept, require_kept
from cnn_convertor.files.replacing import Digest
from cnn_convertor.pipeline import NO_OBSERVERS, transform
from cnn_convertor.progress import Progress, silent
from cnn_convertor.report import Report, page_of
from cnn_convertor.report.collecting import message_of, report_of
from cnn_convertor.report.whole import ReportRecorder, whole_report
from cnn_convertor.workers.processes import HERE, Workers


class ConvertedNetwork(NamedTuple):
    """files: what was written. report: what it contains."""

    files: tuple[Path, ...]
    report: Report

    def _repr_html_(self) -> str:
        """The report, as Jupyter shows it."""
        return page_of(self.report)


def convert(config: Config, progress: Progress = silent, on: Workers = HERE) -> ConvertedNetwork:
    """Convert one network and write its files. on: where calibration runs.

    Raises ConvertorError (one of its kinds, with every reason); earlier outputs then stay as they are.
    """
    request = Request.of(config)
    check_outputs(config)
    recorder = ReportRecorder.new() if request.report else None
    with captured_warnings() as warned, inputs_kept():
        conversion = transform(request, progress, on, recorder.observers if recorder else NO_OBSERVERS)
        quantized = conversion.quantized
        report = report_of(quantized.program, request, calibration=quantized.calibration, budget=quantized.budget)

        @cache
        def finished() -> Report:
            """What is known when the weights are packed."""
            known = replace(report, warnings=tuple(map(message_of, warned.problems)))
            return known if recorder is None else whole_report(known, conversion.analysis, quantized, recorder)

        def pages(_: Mapping[str, Digest]) -> Mapping[str, str]:
            if not request.report:
                return {}
            progress("report", 0, 1)
            return _pages(finished())

        written = replacing.replace_all(
            request.folder,
            conversion.contents,
            later=(pages, lambda digests: {f"{request.name}.json": manifest(report, digests)}),
            obsolete=lambda: earlier_files(request.folder, request.name),
        )
    return ConvertedNetwork(written, finished())


def check_outputs(config: Config) -> None:
    """Raises UsageError, before the work, where the outputs cannot be written, or would replace what is read."""
    names = [*names_of(config.name), f"{config.python_module}.cpp"]
    require_kept([config.folder / name for name in names], config.files)
    replacing.check_writable(config.folder)


def _pages(report: Report) -> dict[str, str]:
    from cnn_convertor.report.page import html_page  # here, as most conversions do without

    data = to_json(report)
    return {f"{report.network}.html": html_page(report, data=data), f"{report.network}_report.json": data}
