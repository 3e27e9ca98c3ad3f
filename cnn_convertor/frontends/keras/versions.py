"""Layers that older versions and other backends of Keras compute differently."""

import re

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends.keras.reading import KerasReading
from cnn_convertor.ir.ops import Sampling, Window

HINT = "compare results with the version that made the file; `verify` runs the installed Keras"


def bilinear_sampling(writer: str) -> Sampling | None:
    """The sampling of a bilinear UpSampling2D. writer: the version in the file. None: that version does not show it.

    Keras as a package of its own (2.2.3 to 2.3.1) used TensorFlow 1's bilinear resize, which ignores half pixels (tensorflow
    issue 6720). The Keras in TensorFlow did so up to TensorFlow 1.14 (tensorflow issue 33691); that one and those of 1.15 to
    2.1 all have the version 2.2.4-tf.
    """
    numbers = re.match(r"(\d+)\.(\d+)", writer)
    if numbers is None:
        return None
    version = (int(numbers[1]), int(numbers[2]))
    in_tensorflow = "tf" in writer
    if version >= (2, 4) or (version >= (2, 3) and in_tensorflow):
        return Sampling.HALF_PIXEL
    return None if in_tensorflow else Sampling.ASYMMETRIC


def upsampling_of(reading: KerasReading) -> Sampling:
    """The sampling of the version that saved the file; warns where the version does not show it."""
    if reading.weights.backend == "theano":
        reading.refuse("Keras on Theano interpolates in its own way", "use interpolation='nearest'")
    if reading.version >= 3:
        return Sampling.HALF_PIXEL
    if (sampling := bilinear_sampling(reading.writer)) is not None:
        return sampling
    writer = f"Keras {reading.writer}" if reading.writer else "a Keras without a version"
    reason = f"the file is of {writer}: TensorFlow 1.14 and older shift its bilinear upsampling by half a pixel"
    warn(Problem("DV215", f"{reason}; it is read as in TensorFlow 1.15 and later", reading.origin, HINT))
    return Sampling.HALF_PIXEL


def warn_of_theano(reading: KerasReading, window: Window, *, is_pool: bool = False) -> None:
    """Warn of a "same" padding that differs on Theano, which pads k // 2 at the top and left for any stride."""
    odd = all(size % 2 for size in window.kernel)
    plain = max(window.stride) == 1 and odd and not (is_pool and max(window.kernel) > 1)
    if reading.weights.backend == "theano" and not plain:
        reason = 'Keras on Theano places the padding "same" of this layer differently; it is read as on TensorFlow'
        warn(Problem("DV215", reason, reading.origin, HINT))
