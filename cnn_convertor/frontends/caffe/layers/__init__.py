"""What each of Caffe's layer types means in terms of the graph's operators: the readers, entered in `caffe`."""

from cnn_convertor.frontends.caffe.layers import channels, joins, windows
from cnn_convertor.frontends.caffe.reading import caffe

__all__ = ["caffe", "channels", "joins", "windows"]
