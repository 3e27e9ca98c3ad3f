"""Memory layouts of several accelerators, in one small algebra."""

from typing import TYPE_CHECKING, Any

from cnn_convertor.layouts.describe import describe, svg
from cnn_convertor.layouts.layout import AxisPadding, Layout, Term, nbytes, offset
from cnn_convertor.layouts.packing import pack, unpack

if TYPE_CHECKING:
    from cnn_convertor.layouts.names import layout_of

__all__ = ["AxisPadding", "Layout", "Term", "describe", "layout_of", "nbytes", "offset", "pack", "svg", "unpack"]


def __getattr__(name: str) -> Any:
    """Import the table of names when it is first used: conversions do without it, and it takes long."""
    if name != "layout_of":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cnn_convertor.layouts.names import layout_of

    return layout_of
