"""Caffe: a text definition (.prototxt) and binary weights (.caffemodel)."""

from cnn_convertor.frontends.frontend import Frontend

CAFFE = Frontend(
    name="CAFFE",
    title="Caffe",
    definitions=(".prototxt",),
    data=(".caffemodel",),
    magic=(),
    channel_order="BGR",
    runner="Caffe's formulas",
    options=frozenset({"size", "stages", "level"}),
    importer="cnn_convertor.frontends.caffe.importer",
)
