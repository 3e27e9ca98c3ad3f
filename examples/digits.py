"""The handwritten digits that the example networks are trained and tested on.

Source: scikit-learn's `load_digits`, 1797 images of 8x8 pixels in 17 shades, 0 (paper) to 16 (ink). A fifth of them,
drawn once and committed as `digits_test.npz`, is for tests; the networks are trained on the others. The networks' input
is pixel / 16, from 0 to 1. The sample images have pixel * 15 as their gray value, 0 to 240, so there it is gray / 240.

`python -m examples.digits` writes the test split and the sample images again (it needs scikit-learn and OpenCV).
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

HERE: Final = Path(__file__).parent
TEST_SPLIT: Final = HERE / "digits_test.npz"
SAMPLES: Final = HERE / "digits_samples"
BRIGHTEST: Final = 16
GRAY_PER_PIXEL_VALUE: Final = 15


class Digits(NamedTuple):
    """images: (N, 8, 8) uint8, 0..16. labels: (N,) uint8, 0..9."""

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    def inputs(self) -> NDArray[np.float32]:
        """What the networks are given: (N, 8, 8), 0..1."""
        return self.images.astype(np.float32) / np.float32(BRIGHTEST)


def load_test() -> Digits:
    """The committed test split."""
    with np.load(TEST_SPLIT) as file:
        return Digits(file["images"], file["labels"])


def load_train() -> Digits:
    """Every digit that is not in the test split; needs scikit-learn."""
    return _split()[0]


def shifted(digits: Digits) -> Digits:
    """The digits, and each of them again moved by one pixel to the left, right, top and bottom."""
    padded = np.pad(digits.images, ((0, 0), (1, 1), (1, 1)))
    moves = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    images = [padded[:, y : y + 8, x : x + 8] for y, x in moves]
    return Digits(np.concatenate(images), np.tile(digits.labels, len(moves)))


def accuracy(scores: NDArray[np.float32], digits: Digits) -> dict[str, int | float]:
    """How many of the digits have their highest score, of (N, 10), where it belongs."""
    right = int(np.sum(scores.argmax(axis=1) == digits.labels))
    count = len(digits.labels)
    return {"test_images": count, "right": right, "accuracy": round(right / count, 4)}


def _split() -> tuple[Digits, Digits]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    train_images, test_images, train_labels, test_labels = train_test_split(
        digits.images.astype(np.uint8),
        digits.target.astype(np.uint8),
        test_size=0.2,
        random_state=0,
        stratify=digits.target,
    )
    return Digits(train_images, train_labels), Digits(test_images, test_labels)


def write_test_split(digits: Digits) -> None:
    """Write digits_test.npz; numpy's own savez would put the time into it."""
    with zipfile.ZipFile(TEST_SPLIT, "w") as archive:
        for name, values in digits._asdict().items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as file:
                np.lib.format.write_array(file, np.ascontiguousarray(values))


def write_samples(digits: Digits) -> None:
    """Write the first digit of each label as `digit_LABEL.png`."""
    import cv2

    SAMPLES.mkdir(exist_ok=True)
    for label, first in zip(*np.unique(digits.labels, return_index=True), strict=True):
        cv2.imwrite(str(SAMPLES / f"digit_{label}.png"), digits.images[first] * np.uint8(GRAY_PER_PIXEL_VALUE))


if __name__ == "__main__":
    test = _split()[1]
    write_test_split(test)
    write_samples(test)
