"""Packed weights: the vendor's bytes, an independent reference, and the promised lengths."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cnn_convertor.devices.dv700.weights import streams
from cnn_convertor.devices.dv700.weights.streams import PackedShape, half_codes, pack, palette_codes, unpack
from cnn_convertor.devices.half import to_half
from cnn_convertor.ir.ops import Pair
from cnn_convertor.quantize import fit, histogram
from reference import packing_reference

Half = NDArray[np.float16]


class Case(NamedTuple):
    """What a stream is made from."""

    shape: PackedShape
    codes: NDArray[Any]
    bias: Half
    prelu: Half | None
    palette: Half | None

    def pack(self, transposed: bool = False) -> bytes:
        pieces = pack(
            self.shape,
            lambda rows: self.codes[rows],
            bias=self.bias,
            prelu=self.prelu,
            palette=self.palette,
            transposed=transposed,
        )
        return b"".join(piece.tobytes() for piece in pieces)

    def reference(self, transposed: bool = False) -> bytes:
        return packing_reference.packed(
            self.codes, self.bias, self.prelu, self.palette, dilated=self.shape.dilated, transposed=transposed
        )


def by_formula(shape: PackedShape) -> Case:
    """The inputs that the figures in BY_FORMULA belong to."""
    size = (shape.kernels, shape.channels, *shape.kernel)
    i = np.arange(np.prod(size)).reshape(size)
    m = np.arange(shape.kernels)
    bias = ((m * 13) % 31 - 15) / 8
    slopes = ((m * 7) % 16 - 4) / 16
    palette = (np.arange(256) - 128) / 64
    palette[0] = 0
    return Case(
        shape,
        codes=((i * 37) % 256).astype(np.uint8) if shape.palette else (((i * 37) % 257 - 128) / 64).astype(np.float16),
        bias=bias.astype(np.float16),
        prelu=slopes.astype(np.float16) if shape.prelu else None,
        palette=palette.astype(np.float16) if shape.palette else None,
    )


def conv(ky: int, kx: int, channels: int, kernels: int, *, palette: bool = False, prelu: bool = False) -> PackedShape:
    return PackedShape(kernels, channels, Pair(ky, kx), palette=palette, prelu=prelu)


def dilated(ky: int, kx: int, channels: int, kernels: int, *, palette: bool = False) -> PackedShape:
    return PackedShape(kernels, channels, Pair(ky, kx), dilated=True, palette=palette)


# SHA-256 of what the vendor's own packing routine makes of the inputs of by_formula.
BY_FORMULA = [
    (conv(1, 1, 64, 16), 2336, "14b37030a92b43307f2b67157de5c3134008533b02f1945008b514c37bf65471"),
    (conv(1, 1, 130, 20, palette=True), 4880, "9bb1c6220122e55e7b51131043c884f2ebd0411347b02d875ca01d50caae76f0"),
    (conv(1, 1, 20, 9, prelu=True), 1360, "e9d776a336fc388d29a4e8a454f68cb5bd0c548f5f5202db1a7735944979c958"),
    (conv(3, 3, 3, 32), 4672, "fd03421985e019b9f9f432b72da6b9005b7e940256cd0912dadd4ecbf211c28d"),
    (conv(3, 3, 20, 12, palette=True), 3136, "bfc244d50cabaf1b19a9e5145e64a15d4dbf10537fe9af88b5849d2a3fd8bcc8"),
    (conv(3, 3, 64, 8, prelu=True), 9248, "10c809a797292a4248aed4322e1dd23b3e442492da2a43cde2a99879b675c096"),
    (conv(1, 3, 9, 9), 2624, "bec3900bca4d0dadbb809aa058e29a6d2bd63f6f0f6138ea7611a775593440ef"),
    (conv(2, 2, 16, 16, palette=True), 2848, "619ce9cff3afe81829dd5872facd8c17dd2805dce665fea1f355200a0569e463"),
    (conv(5, 5, 7, 10), 5792, "8bca3bf138cb83f5ccba94d4586fe1489a553fd56dda076ac8d4ac7ab67826d0"),
    (conv(5, 5, 16, 16, palette=True), 9760, "4d5cb11c17e284d98ba2076cc9fa0143fa267fd8d473d031946d705652478b7f"),
    (conv(5, 4, 9, 8), 5776, "f183f1ca6b6ef456ebf5ece70f278c4b56d30ebf8f4a8b34cc19ed57d0380289"),
    (conv(7, 7, 3, 64), 27776, "7f7f2734881522a8bd6017997839cd01f5d98b91d96efaf47fce06db3279a69b"),
    (conv(7, 7, 9, 9, palette=True), 6384, "11211465aaef687ca634636d3b5a9b736999a413d49ab49e8ebf8bae2f955666"),
    (conv(7, 6, 5, 5, prelu=True), 3632, "78e80f3df9c935c7c1f0187c4dfaad59fb0b79c725cc0f81403ad238c7c86711"),
    (conv(7, 1, 8, 8), 9232, "4a137014e053761aae5c41c40cfc6bd97992bc295217dddeb95d07d99309e436"),
    (conv(3, 3, 1, 40), 5840, "bf240914d8577554f7976d179057cb8b9a8f3944ce409508f57a779c0e2dced0"),
    (dilated(3, 3, 20, 16), 21024, "b78adc6a3d28719e364cc1fe0e5c721b637aec2ed51784d76234a060ac7988b1"),
    (dilated(3, 3, 65, 9, palette=True), 12464, "038baa272084d8980d566e7f758c4e0b2876c691e306c72ba62b2ac13156a6dc"),
    (dilated(5, 5, 8, 8), 29200, "4cb500d14476aafd6ecf26adaf70c1fae6df32af8c87e47099aa5bb586e9e040"),
]


@pytest.mark.parametrize(("shape", "nbytes", "sha256"), BY_FORMULA)
def test_bytes_are_the_vendors(shape: PackedShape, nbytes: int, sha256: str) -> None:
    stream = by_formula(shape).pack()
    assert len(stream) == nbytes
    assert hashlib.sha256(stream).hexdigest() == sha256


@pytest.mark.parametrize(("shape", "nbytes", "sha256"), BY_FORMULA)
def test_the_reference_gives_the_vendors_bytes(shape: PackedShape, nbytes: int, sha256: str) -> None:
    assert hashlib.sha256(by_formula(shape).reference()).hexdigest() == sha256


def test_every_vector_of_the_vendor_is_met(shared: Path) -> None:
    folder = shared / "vectors" / "dv700"
    cases = [
        case for case in json.loads((folder / "index.json").read_text())["cases"] if case["kind"] in ("conv", "dil")
    ]
    wrong = []
    for case in cases:
        with np.load(folder / case["file"]) as arrays:
            shape = PackedShape(
                kernels=case["n_kernels"],
                channels=case["n_channels"],
                kernel=Pair(case["ky"], case["kx"]),
                dilated=case["kind"] == "dil",
                palette=case["quant"],
                prelu=case["prelu"],
            )
            stream = Case(
                shape,
                codes=arrays["weights"],
                bias=arrays["bias"],
                prelu=arrays["prelu"] if shape.prelu else None,
                palette=arrays["quant_map"] if shape.palette else None,
            ).pack()
            if stream != arrays["packed"].tobytes() or len(stream) != shape.nbytes:
                wrong.append(case["name"])
    assert len(cases) > 60
    assert wrong == []


shapes = st.builds(
    PackedShape,
    kernels=st.integers(1, 20),
    channels=st.integers(1, 18) | st.sampled_from([63, 64, 65, 130]),
    kernel=st.builds(Pair, st.integers(1, 7), st.integers(1, 7)),
    dilated=st.booleans(),
    palette=st.booleans(),
    prelu=st.booleans(),
)


@settings(max_examples=60)
@given(shape=shapes, transposed=st.booleans(), blocks_a_group=st.integers(1, 3), seed=st.integers(0, 1000))
def test_bytes_are_the_references(shape: PackedShape, transposed: bool, blocks_a_group: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    size = (shape.kernels, shape.channels, *shape.kernel)
    case = Case(
        shape,
        codes=random.integers(0, 256, size, np.uint8) if shape.palette else random.normal(size=size).astype(np.float16),
        bias=random.normal(size=shape.kernels).astype(np.float16),
        prelu=random.normal(size=shape.kernels).astype(np.float16) if shape.prelu else None,
        palette=np.append(0.0, random.normal(size=255)).astype(np.float16) if shape.palette else None,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_blocks_a_group", lambda shape: blocks_a_group)
        stream = case.pack(transposed)
    assert stream == case.reference(transposed)
    assert len(stream) == shape.nbytes
    unpacked = unpack(shape, np.frombuffer(stream, np.uint8), transposed=transposed)
    np.testing.assert_array_equal(unpacked.kernels, case.codes if case.palette is None else case.palette[case.codes])
    np.testing.assert_array_equal(unpacked.bias, case.bias)
    np.testing.assert_array_equal(unpacked.slopes, case.prelu)


@pytest.mark.parametrize("palette", [False, True])
@pytest.mark.parametrize("channels", [1, 20, 64, 130])
def test_channels_are_packed_in_the_given_order(channels: int, palette: bool) -> None:
    case = by_formula(conv(1, 1, channels, 12, palette=palette))
    order = np.random.default_rng(0).permutation(channels)
    pieces = pack(case.shape, lambda rows: case.codes[rows], bias=case.bias, palette=case.palette, order=order)
    assert b"".join(map(bytes, pieces)) == case._replace(codes=case.codes[:, order]).reference()


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("transposed", [False, True])
def test_padding_is_palette_entry_zero(size: int, transposed: bool) -> None:
    shape = conv(size, 1, channels=9, kernels=9, palette=True)
    ones = Case(
        shape,
        codes=np.ones((9, 9, size, 1), np.uint8),
        bias=np.zeros(9, np.float16),
        prelu=None,
        palette=np.zeros(256, np.float16),
    )
    stream = np.frombuffer(ones.pack(transposed), np.uint8)
    assert np.count_nonzero(stream) == np.count_nonzero(stream == 1) == 9 * 9 * size


def test_weights_are_read_once_and_a_few_blocks_at_a_time() -> None:
    shape = conv(1, 1, channels=4096, kernels=1001)
    reads: list[slice] = []

    def read(rows: slice) -> Half:
        reads.append(rows)
        return np.zeros((rows.stop - rows.start, 4096, 1, 1), np.float16)

    pieces = list(pack(shape, read, bias=np.zeros(1001, np.float16)))
    assert sum(piece.size for piece in pieces) == shape.nbytes
    assert max(piece.nbytes for piece in pieces) <= 4 << 20
    assert [row for rows in reads for row in range(rows.start, rows.stop)] == list(range(1001))
    assert len(reads) == 4


@pytest.mark.parametrize("kernel", [Pair(1, 1), Pair(3, 2)])
def test_a_palette_encodes_what_it_was_fitted_to(kernel: Pair) -> None:
    drawn = np.random.default_rng(1).integers(-100, 100, (9, 65, *kernel))
    weights = (drawn / 64).astype(np.float32)
    palette = fit(histogram(to_half(weights)))
    codes = palette_codes(half_codes(lambda rows: weights[rows]), palette)(slice(2, 5))
    halves = half_codes(lambda rows: weights[rows])(slice(2, 5))
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(palette.centers[codes], weights[2:5])
    np.testing.assert_array_equal(halves, weights[2:5])
