"""Memory layouts of several accelerators, in one small algebra."""

from cnn_convertor.layouts.describe import describe, svg
from cnn_convertor.layouts.layout import AxisPadding, Layout, Term, nbytes, offset
from cnn_convertor.layouts.names import layout_of
from cnn_convertor.layouts.packing import pack, unpack

__all__ = ["AxisPadding", "Layout", "Term", "describe", "layout_of", "nbytes", "offset", "pack", "svg", "unpack"]
