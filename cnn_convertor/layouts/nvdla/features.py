"""NVDLA's feature data, and operands of its single-point processor (SDP): bias, PReLU, batch norm, element-wise."""

import numpy as np

from cnn_convertor.layouts.layout import Layout, Term, refuse
from cnn_convertor.layouts.nvdla.memory_forms import FULL, MemoryForm
from cnn_convertor.layouts.nvdla.precision import Precision


def feature_data(
    precision: Precision,
    form: MemoryForm = FULL,
    *,
    line_stride: int | None = None,
    surface_stride: int | None = None,
) -> Layout:
    """A cube (C, H, W): surfaces of an atom of channels, lines of atoms. Strides in bytes; default: packed."""
    form.group(precision)
    terms = _cube(form.atom // precision.element.itemsize, form, line_stride, surface_stride)
    name = form.named(f"feature_{precision.value}")
    return Layout("chw", terms, precision.element, base_align=form.atom, name=name)


def operand(
    processing: Precision,
    form: MemoryForm = FULL,
    *,
    data_size: int,
    operands: int = 1,
    line_stride: int | None = None,
    surface_stride: int | None = None,
) -> Layout:
    """An SDP operand: a cube (C, H, W), or (2, C, H, W) of addends and factors; (C, 1, 1) per channel.

    processing: PROC_PRECISION; it defines the elements per atom (in INT8 its bytes, else half), regardless of their size
    data_size: bytes per element
    """
    if data_size not in (1, 2) or (data_size == 1 and processing is not Precision.INT8) or operands not in (1, 2):
        refuse("DV832", f"{operands} operands of {data_size} bytes in {processing.value}")
    element = processing.element if processing.element.itemsize == data_size else np.dtype(np.int16)
    form.group(processing)
    elements = form.atom // processing.element.itemsize
    terms = _cube(elements, form, line_stride, surface_stride)
    name = form.named(f"operand{'s' * (operands == 2)}_{processing.value}_{8 * data_size}bit")
    axes, terms = ("chw", terms) if operands == 1 else ("pchw", (*terms, Term("p")))
    return Layout(axes, terms, element, base_align=form.atom, name=name)


def _cube(channels: int, form: MemoryForm, line_stride: int | None, surface_stride: int | None) -> tuple[Term, ...]:
    surfaces = Term("c", channels, pitch_align=form.atom, pitch=surface_stride)
    return (surfaces, Term("h", pitch_align=form.atom, pitch=line_stride), Term("w"), Term("c", 1, channels))
