"""Where versions and backends of Keras compute a layer otherwise than Keras does today."""

from __future__ import annotations

import re

from cnn_convertor.errors import Problem, warn
from cnn_convertor.frontends.keras.reading import Reading
from cnn_convertor.ir.ops import Sampling, Window

HINT = "compare results with those of the version that made the file; `verify` runs today's Keras"


def bilinear_sampling(writer: str) -> Sampling | None:
    """Where a bilinear UpSampling2D takes its pixels from. writer: the version that a file tells; None where it tells nothing.

    Keras as a package of its own (2.2.3 to 2.3.1) used TensorFlow 1's bilinear resize, which takes no half pixels into account
    (tensorflow issue 6720). The Keras in TensorFlow did so up to TensorFlow 1.14 (tensorflow issue 33691); that one and
    those of 1.15 to 2.1 all call themselves 2.2.4-tf.
    """
    numbers = re.match(r"(\d+)\.(\d+)", writer)
    if numbers is None:
        return None
    version, in_tensorflow = (int(numbers[1]), int(numbers[2])), "tf" in writer
    if version >= (2, 4) or (version >= (2, 3) and in_tensorflow):
        return Sampling.HALF_PIXEL
    return None if in_tensorflow else Sampling.ASYMMETRIC


def upsampling_of(reading: Reading) -> Sampling:
    """How the file's version enlarges by bilinear interpolation; warns where nobody can tell."""
    if reading.weights.backend == "theano":
        reading.refuse("Keras on Theano interpolates in its own way", "use interpolation='nearest'")
    if reading.version >= 3:
        return Sampling.HALF_PIXEL
    if (found := bilinear_sampling(reading.writer)) is not None:
        return found
    told = f"Keras {reading.writer}" if reading.writer else "a Keras that does not tell its version"
    reason = (
        f"the file is of {told}, with which TensorFlow 1.14 and older enlarge by half a pixel to the side; it is read "
        "as TensorFlow 1.15 and later do it"
    )
    warn(Problem("DV215", reason, reading.origin, HINT))
    return Sampling.HALF_PIXEL


def warn_of_theano(reading: Reading, window: Window, *, is_pool: bool = False) -> None:
    """Warn of a "same" padding that is another one on Theano, which pads k // 2 at the top and left, whatever the stride."""
    plain = (
        max(window.stride) == 1 and all(size % 2 for size in window.kernel) and not (is_pool and max(window.kernel) > 1)
    )
    if reading.weights.backend == "theano" and not plain:
        reason = 'Keras on Theano places the padding "same" of this layer otherwise; it is read as Keras on TensorFlow reads the file'
        warn(Problem("DV215", reason, reading.origin, HINT))
