"""Makes or reads the inputs of a network: images, arrays, or seeded random images."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cnn_convertor import __version__
from cnn_convertor.devices.half import LARGEST_HALF
from cnn_convertor.emulation.feature_maps import Maps, count_of
from cnn_convertor.errors import Origin, Problem, UsageError, near_file, warn
from cnn_convertor.files.numpy_files import load_array, load_arrays
from cnn_convertor.files.opening import bytes_of
from cnn_convertor.ir.graph import Graph
from cnn_convertor.ir.ops import Input, Shape

IMAGES = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
ARRAYS = frozenset({".npy", ".npz"})
BRIGHTEST = 255.0
EXPECTED = "expected_"  # prefix of arrays that are results, not inputs
SAMPLES = 4  # random images, where none are given
MOST_PIXELS: Final = 1 << 25  # of an image: a PNG of a megabyte could have 2^30, the limit of OpenCV itself
BATCH = 256  # samples that one process, or a worker of a cluster, runs at a time
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")  # of JPEG: an end, or the begin of a segment with a length
# The starts of these: OpenCV goes by the content, and would read formats of FP32, which take four times the memory.
_STARTS: Final = (b"BM", b"\xff\xd8", b"P2", b"P3", b"P5", b"P6", b"\x89PNG", b"II*\0", b"MM\0*", b"RIFF")
_NO_SAMPLES: Final = "this is not an image, a .npy or a .npz file"
_LIMIT: Final = "OPENCV_IO_MAX_IMAGE_PIXELS"
_CHANNELS: Final = (1, 3)  # that an image may have
_MARGIN: Final = 0.1  # of the range of prepared images, by which arrays may leave it without a warning
UNPREPARED: Final = "without mean and scale"  # random images, whose values are guessed
_COARSEST = 8  # random images have blocks of up to this many pixels


def in_batches(inputs: Mapping[str, Maps], size: int = BATCH) -> list[dict[str, Maps]]:
    """Samples, input name -> (N, H, W, C), in batches of at most `size`: views, not copies."""
    starts = range(0, count_of(inputs), size)
    return [{name: v[start : start + size] for name, v in inputs.items()} for start in starts]


def batch_name(index: int, count: int) -> str:
    """The name of a batch in messages."""
    return f"batch {index + 1} of {count} of the samples"


def how_to_install(extra: str = "verify") -> str:
    return (
        f"install the extra `{extra}` into this Python environment: pip install -e '.[{extra}]' in a checkout of the project, "
        f"or pip install 'cnn_convertor-{__version__}-py3-none-any.whl[{extra}]' with the wheel"
    )


@dataclass(frozen=True, slots=True)
class Preparation:
    """How an image becomes an input: (pixel - mean) * scale, in the given order of channels.

    mean, scale: one number, or one for each channel in the network's order. is_given: whether the ini file says what pixels become.
    is_whole: pixels are whole numbers, since the application writes bytes. swaps: it writes channels in the opposite order.
    """

    mean: tuple[float, ...] = (0.0,)
    scale: float | tuple[float, ...] = 1.0
    channel_order: str = "RGB"
    is_given: bool = False
    is_whole: bool = False
    swaps: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many numbers mean and scale have, where they have one for each channel."""
        counts = {"mean": len(self.mean), "scale": np.size(self.scale)}
        return {name: count for name, count in counts.items() if count != 1}

    def fits(self, channels: int) -> bool:
        """Whether an image of that many channels can be prepared."""
        return all(count == channels for count in self.counts.values())

    @property
    def as_written(self) -> Preparation:
        """The same for the order of channels in which the application writes them."""
        if not self.swaps:
            return self
        scale = self.scale[::-1] if isinstance(self.scale, tuple) else self.scale
        return replace(self, mean=self.mean[::-1], scale=scale, channel_order=self.channel_order[::-1], swaps=False)

    def apply(self, pixels: NDArray[np.floating]) -> Maps:
        """(..., H, W, C) of 0..255, its channels in the network's order, as the network's input."""
        pixels = np.rint(pixels) if self.is_whole else pixels
        return ((pixels - np.asarray(self.mean, np.float64)) * np.asarray(self.scale, np.float64)).astype(np.float32)

    def of_every_byte(self) -> Maps:
        """What each byte becomes in each of three channels: (256, 3)."""
        return self.apply(np.repeat(np.arange(256.0)[:, None], 3, axis=1))

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest input value, over all channels; -1 and 1 without mean and scale."""
        if not self.is_given:
            return -1.0, 1.0
        ends = (np.array([[0.0], [BRIGHTEST]]) - np.array(self.mean)) * np.array(self.scale)
        return float(ends.min()), float(ends.max())


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """inputs: input name -> (N, H, W, C). expected: layer -> its known results. integers: the inputs that were arrays of integers."""

    inputs: Mapping[str, Maps]
    source: str
    expected: Mapping[str, Maps]
    integers: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        return count_of(self.inputs)

    @property
    def are_alike(self) -> bool:
        """Whether all samples are the same; a single one: whether each of its inputs repeats one number."""
        several = self.count > 1
        return all(bool((maps == (maps[:1] if several else maps.flat[0])).all()) for maps in self.inputs.values())


def shapes_of(graph: Graph) -> dict[str, Shape]:
    """The network's inputs, in their order."""
    return {node.name: node.op.shape for node in graph.inputs if isinstance(node.op, Input)}


def axes_of(graph: Graph) -> dict[str, str]:
    """The network's inputs -> their axes in the framework, as letters of "HWC"."""
    return {node.name: node.op.axes for node in graph.inputs if isinstance(node.op, Input)}


def integers_of(graph: Graph) -> dict[str, tuple[int, int]]:
    """The inputs of which the framework takes integers -> the smallest and the largest."""
    inputs = {node.name: node.op for node in graph.inputs if isinstance(node.op, Input)}
    return {name: op.integers for name, op in inputs.items() if op.integers is not None}


def prepared(graph: Graph, preparation: Preparation) -> Preparation:
    """The preparation of a network's images. Where the framework takes integers, pixels are whole numbers, and, if they fit, the input."""
    if not (ranges := integers_of(graph).values()):
        return preparation
    fit = all(low <= 0 and high >= BRIGHTEST for low, high in ranges)
    return replace(preparation, is_whole=True, is_given=preparation.is_given or fit)


# --- random --------------------------------------------------------------------------------------------------------------


def random_samples(
    shapes: Mapping[str, Shape],
    preparation: Preparation,
    *,
    samples: int,
    seed: int,
    integers: Mapping[str, tuple[int, int]] = {},
) -> Samples:
    """Random images, piecewise smooth like photographs, from black to white, prepared as images are.

    Without mean and scale their values range from -1 to 1, or, where the framework takes integers, over these, at most from 0 to 255.
    The same seed gives the same images. Raises MemoryError for too many.
    """
    if samples < 1:
        raise UsageError.of("DV707", f"expected at least one sample, not {samples}", hint="samples=4")
    try:
        inputs = {name: np.empty((samples, *shape), np.float32) for name, shape in shapes.items()}
    except ValueError as error:  # more bytes than NumPy can count
        raise MemoryError from error
    ends: list[float] = []
    for name, shape in shapes.items():
        # the images of an input do not depend on the other inputs
        random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        is_prepared = preparation.is_given and preparation.fits(shape.channels)
        low, high = preparation.range if is_prepared else _levels(integers.get(name))
        ends += low, high
        for values in inputs[name]:
            image = _random_image(random, shape)
            if is_prepared:
                values[...] = preparation.apply(image * BRIGHTEST)
            else:
                levels = image * (high - low) + low
                values[...] = np.rint(levels) if name in integers else levels
        _check_halves(_RANDOM, name, inputs[name])
    guessed = "" if preparation.is_given or integers else f", {UNPREPARED}"
    return Samples(inputs, f"random images, seed {seed}, {min(ends):g} to {max(ends):g}{guessed}", {})


def _levels(integers: tuple[int, int] | None) -> tuple[float, float]:
    """The ends of random numbers that no preparation gives. integers: those that the framework takes, if it does."""
    if integers is None:
        return -1.0, 1.0
    return (0.0, BRIGHTEST) if integers[1] >= BRIGHTEST else integers


def _random_image(random: np.random.Generator, shape: Shape) -> NDArray[np.float64]:
    """(H, W, C) of 0..1: the sum of noise in coarse and fine blocks."""
    image = random.random(shape)
    block = 2
    while block <= min(_COARSEST, shape.height, shape.width):
        rows, columns = -(-shape.height // block), -(-shape.width // block)
        coarse = random.random((rows, columns, shape.channels)).repeat(block, axis=0).repeat(block, axis=1)
        image += block * coarse[: shape.height, : shape.width]
        block *= 2
    low, high = image.min(), image.max()
    return (image - low) / (high - low) if high > low else image


# --- arrays --------------------------------------------------------------------------------------------------------------

Arrays: TypeAlias = ArrayLike | Mapping[str, ArrayLike]  # of the only input, or input name -> its array
Given: TypeAlias = str | os.PathLike[str] | Arrays  # a file, a folder, or arrays
_ARRAYS: Final = Path("given arrays")  # in place of a file
_RANDOM: Final = Path("random images")  # likewise
_ACCEPTED: Final = "give an image, a .npy or .npz file of numbers, or a folder of them"
_AGAIN: Final = "copy or save the image again"


def arrays_of(given: object) -> dict[str, NDArray[Any]]:
    """The arrays by the names of their inputs; one of the only input has any name. Raises TypeError for anything but arrays."""
    named = given if isinstance(given, Mapping) else {"input": given}
    for name, value in named.items():
        if not isinstance(value, Sequence) and not hasattr(value, "__array__"):
            kind = type(value).__qualname__
            raise TypeError(
                f"expected a path, an array, or input names with arrays, not a value of type {kind} for {name}"
            )
    try:
        return {str(name): np.asarray(value) for name, value in named.items()}
    except ValueError as error:  # rows of different lengths
        raise TypeError(f"expected arrays: {error}") from None


def samples_of(
    given: Given | None, graph: Graph, preparation: Preparation, *, samples: int = SAMPLES, seed: int = 0
) -> Samples:
    """The samples for a network: in a file or a folder, as `read_samples` reads them, or in arrays; None: random images."""
    shapes, preparation = shapes_of(graph), prepared(graph, preparation)
    if given is None:
        return random_samples(shapes, preparation, samples=samples, seed=seed, integers=integers_of(graph))
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        read = read_samples(path, shapes, preparation, axes_of(graph))
    else:
        path = _ARRAYS
        read = _samples(path, arrays_of(given), shapes, axes_of(graph))
    if preparation.is_given:
        for name in shapes:
            if name not in integers_of(graph):
                _warn_of_values(path, read, name, preparation)
    return read


def _warn_of_values(path: Path, samples: Samples, name: str, preparation: Preparation) -> None:
    """Warn of pixels in place of an input's prepared values: mean and scale are for images, and arrays are used as they are."""
    maps = samples.inputs[name]
    channels = maps.shape[-1]
    if channels not in _CHANNELS or maps.shape[1:-1] == (1, 1) or not preparation.fits(channels):
        return  # no image
    low, high = preparation.range
    least, most = float(maps.min()), float(maps.max())
    margin = _MARGIN * (high - low)
    are_pixels = name in samples.integers and least >= 0 and most > 1 and (low, high) != (0, BRIGHTEST)
    if least >= low - margin and most <= high + margin and not are_pixels:
        return
    kind = "integers" if name in samples.integers else "numbers"
    problem = (
        f'the input "{name}" is an array of {kind} from {least:g} to {most:g}, which is used as it is; '
        f"mean and scale of the ini file make inputs from {low:g} to {high:g} of pixels"
    )
    hint = "give images, or save (array - mean) * scale as the array; if the array is right, correct mean and scale"
    warn(Problem("DV733", problem, Origin(str(path)), hint))


# --- files ---------------------------------------------------------------------------------------------------------------


def read_samples(
    path: Path, shapes: Mapping[str, Shape], preparation: Preparation, axes: Mapping[str, str] = {}
) -> Samples:
    """An image, an array (.npy, .npz), or a folder of them.

    Arrays are inputs as the network takes them: with the framework's own axes, (H, W, C) or (C, H, W), or N of them. axes: the
    own ones, which win where several fit. In a .npz they are named after the inputs; `expected_LAYER` holds known results of
    a layer. Raises UsageError for arrays that do not fit.
    """
    if not path.exists():
        raise _unfit(path, f"there is no such file or folder{near_file(path, IMAGES | ARRAYS)}")
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in IMAGES | ARRAYS)
        if not files:
            raise _unfit(path, "there are no images or arrays in the folder")
        if not preparation.is_given and any(file.suffix.lower() in IMAGES for file in files):
            _warn_of_pixels(path)  # once, not for each image
            preparation = replace(preparation, is_given=True)
        return _joined(path, [read_samples(file, shapes, preparation, axes) for file in files])
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_archive(path, shapes, axes)
    name, shape = _only(path, shapes)
    if suffix == ".npy":
        return _samples(path, {name: _load(path)}, shapes, axes)
    if suffix in IMAGES:
        image = read_image(path, shape, preparation)[None]
        _check_halves(path, name, image)
        return Samples({name: image}, path.name, {})
    raise _unfit(path, _NO_SAMPLES)


def read_image(path: Path, shape: Shape, preparation: Preparation) -> Maps:
    """An image, resized to the network's input and prepared: (H, W, C)."""
    cv2 = _opencv(path)
    if shape.channels not in _CHANNELS:
        raise _unfit(path, f"an image has 1 or 3 channels, the network's input {shape.channels}", "give a .npy file")
    pixels = _decoded(cv2, path, is_gray=shape.channels == 1)
    if not preparation.is_given:
        _warn_of_pixels(path)
    if not preparation.fits(shape.channels):
        counts = " and ".join(f"{count} numbers of {name}" for name, count in preparation.counts.items())
        hint = "correct the ini file"
        raise _unfit(path, f"the ini file has {counts}, the network's input {shape.channels} channels", hint)
    if pixels.shape[:2] != shape[:2]:
        interpolation = cv2.INTER_AREA if pixels.shape[0] > shape.height else cv2.INTER_LINEAR
        pixels = cv2.resize(pixels, (shape.width, shape.height), interpolation=interpolation)
    pixels = pixels.reshape(shape)
    if shape.channels == 3 and preparation.channel_order == "RGB":
        pixels = pixels[:, :, ::-1]
    return preparation.apply(pixels.astype(np.float64))


def _opencv(path: Path) -> Any:
    """The package cv2, which reads an image. Raises UsageError where it is not installed."""
    os.environ.setdefault(_LIMIT, str(MOST_PIXELS))  # OpenCV reads it when it is loaded
    try:
        import cv2
    except ImportError as error:
        problem = "images are read with OpenCV, and the Python package cv2 is not installed"
        hint = f"{how_to_install()}; or give the input as a .npy file"
        raise UsageError.of("DV711", problem, Origin(str(path)), hint) from error
    return cv2


def _decoded(cv2: Any, path: Path, *, is_gray: bool) -> NDArray[np.uint8]:
    """The pixels of an image: (H, W), or (H, W, 3) in the order BGR."""
    try:
        contents = bytes_of(path)
    except OSError as error:
        raise _unfit(path, f"the image cannot be read: {error.strerror}", _AGAIN) from error
    if not contents.startswith(_STARTS):
        raise _unfit(path, _NO_SAMPLES)
    try:
        flags = cv2.IMREAD_GRAYSCALE if is_gray else cv2.IMREAD_COLOR
        pixels: NDArray[np.uint8] | None = cv2.imdecode(np.frombuffer(contents, np.uint8), flags)
    except cv2.error as error:
        hint = f"make the image smaller, or set the variable {_LIMIT}" if "MAX_IMAGE_PIXELS" in str(error) else _AGAIN
        raise _unfit(path, f"OpenCV cannot read the image: {error.err or error.msg}", hint) from None
    if pixels is None:
        raise _unfit(path, "OpenCV cannot read the image", _AGAIN)
    if _is_cut_off(contents):
        raise _unfit(path, "the JPEG file ends before its image does", _AGAIN)
    return pixels


def _warn_of_pixels(path: Path) -> None:
    problem = "the ini file has neither mean nor scale, so the network's input is pixels from 0 to 255"
    warn(
        Problem("DV714", problem, Origin(str(path)), "set [INPUT] mean and scale to what the network was trained with")
    )


def _is_cut_off(data: bytes) -> bool:
    """Whether it is a JPEG without an end, which OpenCV fills with gray. Source: ITU-T T.81, B.1."""
    if not data.startswith(b"\xff\xd8"):
        return False
    at = 2
    while marker := _MARKER.search(data, at):
        if marker[0] == b"\xff\xd9":
            return False
        at = marker.end() + int.from_bytes(
            data[marker.end() : marker.end() + 2], "big"
        )  # its segment may hold an image too
    return True


def _read_archive(path: Path, shapes: Mapping[str, Shape], axes: Mapping[str, str]) -> Samples:
    try:
        arrays = load_arrays(path)
    except (OSError, ValueError) as error:
        raise _unfit(path, f"this is not a .npz file ({error})") from None
    return _samples(path, arrays, shapes, axes)


def _samples(
    path: Path, arrays: Mapping[str, NDArray[Any]], shapes: Mapping[str, Shape], axes: Mapping[str, str]
) -> Samples:
    """The samples in named arrays. path: to name in messages."""
    expected = {name.removeprefix(EXPECTED): v for name, v in arrays.items() if name.startswith(EXPECTED)}
    inputs = {name: v for name, v in arrays.items() if not name.startswith(EXPECTED)}
    if len(inputs) == len(shapes) == 1:
        inputs = dict(zip(shapes, inputs.values(), strict=True))
    if set(inputs) != set(shapes):
        hint = f"leave out the others, or name known results {EXPECTED}LAYER"
        raise _unfit(path, f"it holds {_listed(inputs)}, but the network's inputs are {_listed(shapes)}", hint)
    maps = {n: _fitted(path, n, inputs[n], shape, axes.get(n, "")) for n, shape in shapes.items()}
    if len(counts := sorted({len(values) for values in maps.values()})) > 1:
        numbers = " and ".join(map(str, counts))
        raise _unfit(path, f"its inputs have {numbers} samples", "give each input as many")
    integers = frozenset(name for name in shapes if inputs[name].dtype.kind in "iu")
    samples = Samples(maps, path.name, expected, integers)
    for name, values in expected.items():
        if values.dtype.kind not in "biuf" or values.ndim < 2 or len(values) != samples.count or not values.size:
            actual = f"an array of {values.dtype} and the shape {values.shape}"
            reason = (
                f"{EXPECTED}{name} is {actual}; it needs real numbers, a row for each of the {samples.count} samples"
            )
            raise _unfit(path, reason, "leave it out, or write it again")
    return samples


def _joined(folder: Path, files: list[Samples]) -> Samples:
    inputs = {name: np.concatenate([file.inputs[name] for file in files]) for name in files[0].inputs}
    common = set.intersection(*(set(file.expected) for file in files))
    for name in sorted(common):
        if len({file.expected[name].shape[1:] for file in files}) > 1:
            raise _unfit(folder, f"the arrays {EXPECTED}{name} of its files have different shapes", "write them again")
    expected = {name: np.concatenate([file.expected[name] for file in files]) for name in sorted(common)}
    integers = frozenset[str]().union(*(file.integers for file in files))
    return Samples(inputs, f"{len(files)} file{'s' * (len(files) != 1)} of {folder.name}", expected, integers)


def _load(path: Path) -> NDArray[np.floating]:
    try:
        return load_array(path)
    except (OSError, ValueError) as error:
        raise _unfit(path, f"this is not a .npy file ({error})") from None


def _fitted(path: Path, name: str, values: NDArray[np.floating], shape: Shape, axes: str) -> Maps:
    """An array as (N, H, W, C). axes: the framework's own."""
    if values.dtype.kind not in "biuf":
        problem = f'the input "{name}" is an array of {values.dtype}, not of real numbers'
        raise _unfit(path, problem, "convert it with .astype(numpy.float32)")
    if not values.size:
        raise _unfit(path, f'there are no samples for the input "{name}"', "give at least one")
    for letters in _spellings(shape, axes):
        expected = tuple(shape["HWC".index(letter)] for letter in letters)
        if values.shape[-len(expected) :] == expected and values.ndim in (len(expected), len(expected) + 1):
            with np.errstate(over="ignore"):  # infinities are refused below
                batch = values.reshape(-1, *expected).astype(np.float32)
            batch = batch.transpose(0, *(1 + letters.index(letter) for letter in "HWC" if letter in letters))
            maps = np.ascontiguousarray(batch).reshape(-1, *shape)
            _check_halves(path, name, maps)
            return maps
    actual = "x".join(map(str, values.shape)) or "a single number"
    problem = f'an array of {actual} does not fit the input "{name}" of {shape} (height x width x channels)'
    raise _unfit(path, problem, f"give arrays of the shape (N, {shape.height}, {shape.width}, {shape.channels})")


def _check_halves(path: Path, name: str, maps: Maps) -> None:
    """Raises UsageError with the first number that FP16 does not hold."""
    if maps.min() >= -LARGEST_HALF and maps.max() <= LARGEST_HALF:
        return
    at = tuple(np.argwhere(~(np.abs(maps) <= LARGEST_HALF))[0])
    axes = zip(("sample", "row", "column", "channel"), at, strict=True)
    problem = f'the input "{name}" holds {maps[at]:g} in {", ".join(f"{axis} {index}" for axis, index in axes)}, counted from 0'
    if np.isfinite(maps[at]):
        problem += f", and the device's numbers (FP16) end at {LARGEST_HALF:g}"
        hint = "set [INPUT] mean and scale for images; arrays are used as they are, so prepare them as for training"
    else:
        hint = "look for a division by zero, or numbers beyond FP32, in what wrote the array"
    raise UsageError.of("DV706", problem, Origin(str(path)), hint)


def _spellings(shape: Shape, own: str) -> Iterator[str]:
    """The axes that an array of an input may have after the batch, as letters of "HWC". own: the framework's; the first that fit win."""
    if own:
        yield own
    yield "HWC"
    yield "CHW"
    if shape.channels == 1:
        yield "HW"
    if shape.height == 1:
        yield "WC"  # as Keras has it, behind a Conv1D
    if shape.is_vector:
        yield "C"


def _only(path: Path, shapes: Mapping[str, Shape]) -> tuple[str, Shape]:
    if len(shapes) != 1:
        raise _unfit(
            path, f"the network has {len(shapes)} inputs", f"give a .npz file with the arrays {_listed(shapes)}"
        )
    return next(iter(shapes.items()))


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "nothing"


def _unfit(path: Path, problem: str, hint: str = _ACCEPTED) -> UsageError:
    return UsageError.of("DV707", problem, Origin(str(path)), hint)
