"""Keras: .h5 and .hdf5 files of Keras 2 and 3, .keras files, and networks as JSON with a file of weights."""

from cnn_convertor.frontends.frontend import Frontend

KERAS = Frontend(
    name="KERAS",
    title="Keras",
    definitions=(".h5", ".hdf5", ".keras", ".json"),
    data=(".h5", ".hdf5", ".keras"),
    magic=(b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"),
    channel_order="RGB",
    runner="Keras",
    options=frozenset({"size", "custom_layers"}),
    importer="cnn_convertor.frontends.keras.importer",
    pattern=rb'(\xef\xbb\xbf)?\s*\{[^\0]*"class_name"\s*:',
)
