"""Exports a network's folded weights and feature maps in the memory formats of several accelerators."""

from cnn_convertor.export.loading import Manifest, SurfaceEntry, read
from cnn_convertor.export.writing import Export, export

__all__ = ["Export", "Manifest", "SurfaceEntry", "export", "read"]
