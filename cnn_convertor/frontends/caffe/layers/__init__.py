"""What each of Caffe's layer types means in terms of the graph's operators: the readers, entered in `caffe`."""

from cnn_convertor.frontends.caffe.layers import channels, detection, functions, joins, measures, shapes, windows
from cnn_convertor.frontends.caffe.reading import caffe

__all__ = ["caffe", "channels", "detection", "functions", "joins", "measures", "shapes", "windows"]
