"""Caffe's layers as plain formulas in numpy (FP64), written from Caffe's definitions and apart from the frontend.

A formula takes a layer and its bottoms, with the axes that Caffe has, and returns its tops.
"""

from cnn_convertor.verification.formulas import (
    boxes,
    channels,
    data_movement,
    elementwise,
    reductions,
    resizing,
    windows,
)
from cnn_convertor.verification.formulas.layer import FORMULAS, Blob, FormulaLayer

__all__ = [
    "FORMULAS",
    "Blob",
    "FormulaLayer",
    "boxes",
    "channels",
    "data_movement",
    "elementwise",
    "reductions",
    "resizing",
    "windows",
]
