"""Caffe's layer types in terms of the graph's operators. Importing this package fills the registry `caffe`."""

from cnn_convertor.frontends.caffe.layers import (
    channels,
    conv_pool,
    detection,
    functions,
    merge,
    reductions,
    resize,
    shapes,
)
from cnn_convertor.frontends.caffe.reading import caffe

__all__ = ["caffe", "channels", "conv_pool", "detection", "functions", "merge", "reductions", "resize", "shapes"]
