"""The report of a network: one frozen value, and views of it. Jupyter shows values by the views that are attached here."""

from cnn_convertor.report.values import Report as Report
from cnn_convertor.verification.results import Verification


def page_of(report: Report) -> str:
    """The page in a frame."""
    from cnn_convertor.report.page import notebook_frame  # here, as most commands show no page

    return notebook_frame(report)


def table_of(result: Verification) -> str:
    """The verdict and the table of outputs or layers."""
    from cnn_convertor.report.notebook import of_verification  # here, as most commands show no page

    return of_verification(result)


Report._repr_html_ = page_of  # type: ignore[attr-defined]  # Jupyter's name
Verification._repr_html_ = table_of  # type: ignore[attr-defined]
