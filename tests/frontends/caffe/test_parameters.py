"""Weights in .caffemodel files, in all the forms that Caffe and its forks wrote."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cnn_convertor.errors import ModelError
from cnn_convertor.frontends.caffe.parameters import WeightsFile
from cnn_convertor.frontends.wire import WireType
from examples.caffemodel import encode, tag, write
from frontends.loading import load_caffe

NUMBERS = np.array([[1.5, -2.25, 3], [0.125, 1e-30, 7]], np.float32)


def delimited(number: int, content: bytes) -> bytes:
    return tag(number, WireType.BYTES) + encode(len(content)) + content


def whole(number: int, value: int) -> bytes:
    return tag(number, WireType.VARINT) + encode(value)


def unpacked(number: int, values: NDArray[Any], kind: WireType) -> bytes:
    return b"".join(tag(number, kind) + value.tobytes() for value in values.ravel())


SHAPE = delimited(7, delimited(1, b"\x02\x03"))
PACKED = delimited(5, NUMBERS.astype("<f4").tobytes())
SINGLES = unpacked(5, NUMBERS.astype("<f4"), WireType.FIXED32)
FORMS = {
    "packed": SHAPE + PACKED,
    "shape after the numbers": PACKED + SHAPE,
    "shape not packed": delimited(7, whole(1, 2) + whole(1, 3)) + PACKED,
    "old shape": whole(1, 1) + whole(2, 1) + whole(3, 2) + whole(4, 3) + PACKED,
    "not packed": SHAPE + SINGLES,
    "not packed, shape last": SINGLES + SHAPE,
    "packed in two pieces": SHAPE + delimited(5, NUMBERS[0].tobytes()) + delimited(5, NUMBERS[1].tobytes()),
    "half packed": SHAPE + delimited(5, NUMBERS[0].tobytes()) + unpacked(5, NUMBERS[1], WireType.FIXED32),
    "gradients too": delimited(6, NUMBERS[::-1].tobytes()) + SHAPE + PACKED,
    "double": SHAPE + delimited(8, NUMBERS.astype("<f8").tobytes()),
    "double, not packed": SHAPE + unpacked(8, NUMBERS.astype("<f8"), WireType.FIXED64),
    "raw double": SHAPE + whole(10, 0) + delimited(12, NUMBERS.astype("<f8").tobytes()),
    "raw single": SHAPE + whole(10, 1) + delimited(12, NUMBERS.astype("<f4").tobytes()),
}


def saved(path: Path, blob: bytes, *, v1: bool = False) -> WeightsFile:
    layer = delimited(4, b"a") + delimited(6, blob) if v1 else delimited(1, b"a") + delimited(7, blob)
    path.write_bytes(delimited(1, b"net") + delimited(2 if v1 else 100, layer))
    return WeightsFile.open(path)


@pytest.mark.parametrize("v1", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_blob_gives_the_same_numbers(form: str, v1: bool, tmp_path: Path) -> None:
    (blob,) = saved(tmp_path / "w", FORMS[form], v1=v1).blobs("a")
    assert blob.shape == ((1, 1, 2, 3) if form == "old shape" else (2, 3))
    np.testing.assert_array_equal(blob.numbers(0, 6), NUMBERS.ravel())
    for start in range(7):
        for stop in range(start, 7):
            np.testing.assert_array_equal(blob.numbers(start, stop), NUMBERS.ravel()[start:stop])


def test_half_precision_of_forks(tmp_path: Path) -> None:
    half = NUMBERS.astype("<f2")
    (blob,) = saved(tmp_path / "w", SHAPE + whole(10, 2) + delimited(12, half.tobytes())).blobs("a")
    np.testing.assert_array_equal(blob.numbers(0, 6), half.astype(np.float32).ravel())


def test_a_blob_without_shape_is_one_number(tmp_path: Path) -> None:
    (blob,) = saved(tmp_path / "w", delimited(5, struct.pack("<f", 2.5))).blobs("a")
    assert blob.shape == ()
    assert blob.numbers(0, 1) == 2.5


@pytest.mark.parametrize("v1", [False, True])
def test_what_is_written_is_read(v1: bool, tmp_path: Path) -> None:
    arrays = [NUMBERS, np.arange(5.0), np.zeros((0, 3))]
    write(tmp_path / "w", ((name, "Convolution", arrays) for name in ("a", "b")), v1=v1)
    weights = WeightsFile.open(tmp_path / "w")
    assert list(weights.layers) == ["a", "b"]
    for blob, array in zip(weights.blobs("b"), arrays, strict=True):
        assert blob.shape == ((1,) * (4 - array.ndim) + array.shape if v1 else array.shape)
        np.testing.assert_array_equal(blob.numbers(0, array.size), array.astype(np.float32).ravel())


def test_of_two_layers_of_one_name_the_last_with_blobs_stays(tmp_path: Path) -> None:
    write(tmp_path / "w", [("a", "X", [np.ones(1)]), ("a", "X", [np.full(1, 2)]), ("a", "X", [])])
    (blob,) = WeightsFile.open(tmp_path / "w").blobs("a")
    assert blob.numbers(0, 1) == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file of the weights is empty"),
        (delimited(100, b"x" * 50)[:-7], "field 100 needs 50 bytes, but 43 are left, at byte 0"),
        (b"layer { name: 'a' }", "not a .caffemodel"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 50, "HDF5"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\x0f\x00", "the unknown wire type 7, at byte 0"),
        (b"\x00\x00", "a field has the number 0"),
        (b"\xff" * 20, "a number does not end"),
        (b"\xff" * 5, "the data end inside a number"),
    ],
)
def test_what_is_no_weights_file_is_named(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        WeightsFile.open(tmp_path / "w")
    (problem,) = caught.value.problems
    assert says in str(problem)
    assert problem.code == "DV201"
    assert problem.where is not None and problem.where.file == str(tmp_path / "w")


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (SHAPE + PACKED[:1] + b"\x17" + PACKED[2:-1], "a blob ends inside a number"),
        (SHAPE + delimited(5, NUMBERS[0].tobytes()), "says 2x3, but holds 3 numbers"),
        (SHAPE, "says 2x3, but holds 0 numbers"),
        (SHAPE + SINGLES[:-1], "field 5 needs 4 bytes, but 3 are left"),
        (SHAPE + whole(10, 9) + delimited(12, b"1234"), "raw data of the unknown type 9"),
        (delimited(7, whole(1, 2**64 - 1)) + PACKED, "a size below zero"),
        (delimited(7, whole(1, 1) * 33) + PACKED, "a blob has 33 axes, but Caffe knows 32 at most"),
    ],
)
def test_a_damaged_blob_is_named_with_its_layer(blob: bytes, says: str, tmp_path: Path) -> None:
    weights = saved(tmp_path / "w", blob)
    with pytest.raises(ModelError, match="'a'") as caught:
        weights.blobs("a")
    assert says in str(caught.value)


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    for path, says in ((tmp_path, "is a folder"), (tmp_path / "none", "No such file")):
        with pytest.raises(ModelError, match=says):
            WeightsFile.open(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_bytes_give_anything_but_a_model_error(tmp_path: Path, data: st.DataObject) -> None:
    sample = delimited(1, b"net") + delimited(100, delimited(1, b"a") + delimited(7, FORMS["half packed"]))
    content = data.draw(st.binary(min_size=1) | st.just(sample))
    if content == sample:
        cut = data.draw(st.integers(1, len(sample)))
        place, byte = data.draw(st.integers(0, cut - 1)), data.draw(st.integers(0, 255))
        content = sample[:place] + bytes([byte]) + sample[place + 1 : cut]
    (tmp_path / "w").write_bytes(content)
    with contextlib.suppress(ModelError):
        weights = WeightsFile.open(tmp_path / "w")
        for name in weights.layers:
            for blob in weights.blobs(name):
                blob.numbers(0, 10)


def test_files_beyond_two_gigabytes_are_read(tmp_path: Path) -> None:
    """The file is sparse: a layer with an unknown field of 2.2 GB, then the one that is asked for."""
    huge = 2_200_000_000
    inner = tag(200, WireType.BYTES) + encode(huge)
    opening = tag(100, WireType.BYTES) + encode(len(inner) + huge) + inner
    with (tmp_path / "w").open("wb") as file:
        file.write(opening)
        file.seek(len(opening) + huge)
        file.write(delimited(100, delimited(1, b"a") + delimited(7, FORMS["packed"])))
    (blob,) = WeightsFile.open(tmp_path / "w").blobs("a")
    np.testing.assert_array_equal(blob.numbers(0, 6), NUMBERS.ravel())


def test_a_network_without_weights_needs_no_weights_file(tmp_path: Path) -> None:
    head = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [1, 2, 4, 4] } } }\n'
    definition = tmp_path / "net.prototxt"
    definition.write_text(head + 'layer { name: "r" type: "ReLU" bottom: "x" top: "r" }')
    assert load_caffe(definition, definition).outputs == ("r",)
    definition.write_text(
        head + 'layer { name: "f" type: "InnerProduct" bottom: "x" top: "f" inner_product_param { num_output: 3 } }'
    )
    with pytest.raises(ModelError) as caught:
        load_caffe(definition, definition)
    (problem,) = caught.value.problems
    assert problem.code == "DV204"
    assert problem.message == "the weights are missing: a .prototxt holds none, and no other file is named"
    assert problem.hint == "add the line data = NAME.caffemodel to [INPUT] in the ini file; `init MODEL` makes one"
    (tmp_path / "net.caffemodel").touch()
    with pytest.raises(ModelError, match=r"add the line data = net\.caffemodel to"):
        load_caffe(definition, definition)


def test_settings_in_the_weights_file_mean_nothing(tmp_path: Path) -> None:
    """Field 13 of a pooling is round_mode in one fork and ceil_mode in another."""
    settings = delimited(121, whole(13, 1))
    (tmp_path / "w").write_bytes(delimited(100, delimited(1, b"p") + delimited(2, b"Pooling") + settings))
    text = 'input: "x" input_shape { dim: [1, 1, 6, 6] } layer { name: "p" type: "Pooling" bottom: "x" top: "y" %s }'
    (tmp_path / "net.prototxt").write_text(text % "pooling_param { kernel_size: 3 stride: 2 }")
    assert load_caffe(tmp_path / "net.prototxt", tmp_path / "w").shape("p") == (3, 3, 1)
