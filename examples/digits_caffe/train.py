"""Trains the network of digits.prototxt on handwritten digits, through a twin in Keras, and writes digits.caffemodel.

`python -m examples.digits_caffe.train` writes digits.caffemodel and accuracy.json beside this file.
The seeds are fixed; another machine or another version of tensorflow may still round differently and end elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import cv2
import keras
import numpy as np
from keras import layers
from numpy.typing import NDArray

from examples import caffemodel
from examples.digits import Digits, accuracy, load_test, load_train, shifted

HERE: Final = Path(__file__).parent
DEFINITION: Final = HERE / "digits.prototxt"
WEIGHTS: Final = HERE / "digits.caffemodel"
SEED: Final = 1
EPOCHS: Final = 40
BATCH: Final = 128

# Caffe's running statistics are sums, to be divided by this; long trainings end near it, since it is 1 / (1 - 0.999).
STATISTICS_FACTOR: Final = 999.0


def twin() -> keras.Model:
    """digits.prototxt in Keras, with the same names; a batch normalization stands for a BatchNorm and a Scale."""
    x = image = keras.Input((8, 8, 1), name="data")
    x = layers.Conv2D(16, 3, padding="same", use_bias=False, name="conv1")(x)
    x = layers.BatchNormalization(epsilon=1e-5, name="bn1")(x)
    x = layers.ReLU(name="relu1")(x)
    x = layers.Conv2D(16, 3, padding="same", name="conv2")(x)
    x = layers.PReLU(shared_axes=[1, 2], name="prelu2")(x)
    x = pooled = layers.MaxPooling2D(3, 2, padding="same", name="pool2")(x)
    x = layers.Conv2D(16, 3, padding="same", use_bias=False, name="conv3")(x)
    x = layers.BatchNormalization(epsilon=1e-3, name="bn3")(x)
    x = layers.Add(name="sum3")([pooled, x])
    x = layers.ReLU(name="relu3")(x)
    left = layers.ReLU(name="relu4a")(layers.Conv2D(8, 1, name="conv4a")(x))
    right = layers.Conv2D(24, (3, 1), padding="same", name="conv4b")(x)
    right = layers.LeakyReLU(negative_slope=0.125, name="relu4b")(right)
    x = layers.Concatenate(name="concat4")([left, right])
    x = layers.AveragePooling2D(2, name="pool4")(x)
    x = layers.Permute((3, 1, 2), name="as_caffe_counts")(x)
    x = layers.Dense(32, name="ip5")(layers.Flatten()(x))
    x = layers.Dropout(0.25, name="drop5")(layers.ReLU(name="relu5")(x))
    x = layers.Dense(10, name="ip6")(x)
    return keras.Model(image, layers.Softmax(name="prob")(x))


def trained(digits: Digits) -> keras.Model:
    """A twin that has seen the digits."""
    keras.utils.set_random_seed(SEED)
    model = twin()
    images = digits.inputs()[..., np.newaxis]
    rate = keras.optimizers.schedules.CosineDecay(4e-3, EPOCHS * math.ceil(len(images) / BATCH))
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
    model.fit(images, digits.labels, BATCH, EPOCHS, verbose=2)
    return model


def caffe_layers(model: keras.Model) -> Iterator[tuple[str, str, list[NDArray[np.float32]]]]:
    """Name, type and blobs of every Caffe layer that has weights."""
    for layer in model.layers:
        match layer:
            case layers.Conv2D():
                kernel, *bias = layer.get_weights()
                yield layer.name, "Convolution", [kernel.transpose(3, 2, 0, 1), *bias]
            case layers.Dense():
                kernel, bias = layer.get_weights()
                yield layer.name, "InnerProduct", [kernel.T, bias]
            case layers.PReLU():
                yield layer.name, "PReLU", [layer.get_weights()[0].reshape(-1)]
            case layers.BatchNormalization():
                gamma, beta, mean, variance = layer.get_weights()
                factor = np.float32(STATISTICS_FACTOR)
                yield layer.name, "BatchNorm", [mean * factor, variance * factor, np.array([factor])]
                yield layer.name.replace("bn", "scale"), "Scale", [gamma, beta]


def scores(digits: Digits) -> NDArray[np.float32]:
    """What the written files give, run by OpenCV: (N, 10)."""
    net = cv2.dnn.readNetFromCaffe(str(DEFINITION), str(WEIGHTS))
    net.setInput(digits.inputs()[:, np.newaxis])
    return net.forward().reshape(-1, 10).astype(np.float32)


def main() -> None:
    model, test = trained(shifted(load_train())), load_test()
    caffemodel.write(WEIGHTS, caffe_layers(model))

    ours, twins = scores(test), model.predict(test.inputs()[..., np.newaxis], verbose=0)
    assert np.allclose(ours, twins, atol=1e-4), "the Caffe files are not the network that was trained"
    figures = accuracy(ours, test)
    (HERE / "accuracy.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(figures)


if __name__ == "__main__":
    main()
