"""Layers of Caffe and its forks for OpenCV, in numpy: SPP, and Upsample by repetition and by the mask of a pooling."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.frontends.caffe.definition import CaffeLayer
from cnn_convertor.verification.unpooling import DeviceMaxima, Indices

UPSAMPLE, PYRAMID = "Upsample", "SPP"
SETTINGS = ("scale", "scale_h", "scale_w", "upsample_h", "upsample_w", "pad_out_h", "pad_out_w")
DEFAULT_SCALE = 2  # in SegNet


@dataclass(slots=True)
class Running:
    """The state of a running network. created: the layer that OpenCV creates. sample: its index. error: of a layer.

    choices: unpooling -> the maxima that it uses in place of its mask. kept: the number of samples whose masks are kept.
    OpenCV hangs when a layer written in Python raises, so errors are raised after the network has run.
    """

    kept: int
    created: CaffeLayer | None = None
    sample: int = 0
    error: Exception | None = None
    choices: Mapping[str, DeviceMaxima] = field(default_factory=dict)
    _masks: dict[str, dict[int, Indices]] = field(default_factory=dict)

    def keep(self, name: str, mask: Indices) -> None:
        """mask: (1, h, w, C)"""
        if self.sample < self.kept:
            self._masks.setdefault(name, {})[self.sample] = mask

    def computed(self, work: Callable[[], Maps], shape: Sequence[int]) -> list[Maps]:
        """What a layer computes, or zeros if it raises."""
        try:
            return [work()]
        except Exception as error:  # noqa: BLE001  # it is raised later
            self.error = error
            return [np.zeros(shape, np.float32)]

    @property
    def masks(self) -> dict[str, Indices]:
        """Unpooling -> (N, h, w, C)."""
        return {name: np.concatenate([*masks.values()]) for name, masks in self._masks.items()}


class UpsampleLayer:
    """The layer as OpenCV calls it. layer: of the definition; None: the results do not matter."""

    def __init__(self, layer: CaffeLayer | None, running: Running) -> None:
        self._name = "" if layer is None else layer.name
        self._settings = {
            name: 0 if layer is None else int(getattr(layer.message.upsample_param, name)) for name in SETTINGS
        }
        self._running = running

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Of the output."""
        settings = self._settings
        if settings["upsample_h"] and settings["upsample_w"]:
            return settings["upsample_h"], settings["upsample_w"]
        both = settings["scale"] or DEFAULT_SCALE
        down, right = (settings["scale_h"] or both), (settings["scale_w"] or both)
        return height * down - settings["pad_out_h"], width * right - settings["pad_out_w"]

    def getMemoryShapes(self, inputs: Sequence[Sequence[int]]) -> list[list[int]]:  # noqa: N802  # OpenCV's name
        batch, channels, height, width = inputs[0]
        return [[batch, channels, *self.size(height, width)]]

    def forward(self, inputs: Sequence[Maps]) -> list[Maps]:
        """x (1, C, H, W), and a mask (1, C, H, W) with the pixel index of each value in the output."""
        height, width = self.size(*inputs[0].shape[2:])
        shape = (*inputs[0].shape[:2], height, width)
        return self._running.computed(lambda: self._upsampled(*inputs, height=height, width=width), shape)

    def _upsampled(self, x: Maps, *mask: Maps, height: int, width: int) -> Maps:
        if not mask:
            return x.repeat(height // x.shape[2], axis=2).repeat(width // x.shape[3], axis=3)
        result = np.zeros((x.shape[1], height * width), np.float32)
        np.put_along_axis(result, self._indices(mask[0]), x.reshape(len(result), -1), axis=1)
        return result.reshape(1, -1, height, width)

    def _indices(self, mask: Maps) -> Indices:
        """(C, h * w)"""
        indices, running = mask.astype(np.intp), self._running
        if (choice := running.choices.get(self._name)) is not None:
            running.keep(self._name, indices.transpose(0, 2, 3, 1))
            indices = choice.indices(slice(running.sample, running.sample + 1)).transpose(0, 3, 1, 2)
        return indices.reshape(mask.shape[1], -1)


class SpatialPyramidLayer:
    """SPP as OpenCV calls it: pools of 1x1, 2x2, 4x4 ... windows, joined as vectors."""

    def __init__(self, layer: CaffeLayer | None, running: Running) -> None:
        settings = None if layer is None else layer.message.spp_param
        self._running = running
        self._levels = 1 if settings is None else settings.pyramid_height
        self._averages = settings is not None and settings.pool == 1

    def getMemoryShapes(self, inputs: Sequence[Sequence[int]]) -> list[list[int]]:  # noqa: N802  # OpenCV's name
        batch, channels, height, width = inputs[0]
        parts = [self._starts(height, width, 2**level) for level in range(self._levels)]
        if len(parts) == 1:
            return [[batch, channels, len(parts[0][0]), len(parts[0][1])]]
        return [[batch, channels * sum(len(rows) * len(columns) for rows, columns, *_ in parts)]]

    def forward(self, inputs: Sequence[Maps]) -> list[Maps]:
        (shape,) = self.getMemoryShapes([inputs[0].shape])

        def joined() -> Maps:
            levels = [self._pooled(inputs[0][0], 2**level).ravel() for level in range(self._levels)]
            return np.concatenate(levels).reshape(shape).astype(np.float32)

        return self._running.computed(joined, shape)

    def _starts(self, height: int, width: int, bins: int) -> tuple[range, range, tuple[int, int], tuple[int, int]]:
        """Where windows start in rows and columns, their size and the padding."""
        kernel = (-(-height // bins), -(-width // bins))
        pad = ((kernel[0] * bins - height + 1) // 2, (kernel[1] * bins - width + 1) // 2)
        starts = []
        for size, side, rim in zip((height, width), kernel, pad, strict=True):
            count = -(-(size + 2 * rim - side) // side) + 1
            if any(pad) and (count - 1) * side >= size + rim:
                count -= 1
            starts.append(range(-rim, count * side - rim, side))
        return starts[0], starts[1], kernel, pad

    def _pooled(self, x: Maps, bins: int) -> Maps:
        _, height, width = x.shape
        rows, columns, (high, wide), pad = self._starts(height, width, bins)
        ends = (height + pad[0], width + pad[1])

        def window(i: int, j: int) -> Any:  # one number for each channel
            values = x[:, max(i, 0) : i + high, max(j, 0) : j + wide]
            if not self._averages:
                return values.max((1, 2))
            return values.sum((1, 2)) / ((min(i + high, ends[0]) - i) * (min(j + wide, ends[1]) - j))

        return np.stack([[window(i, j) for j in columns] for i in rows]).transpose(2, 0, 1)


@contextmanager
def added(cv2: ModuleType, *, kept: int) -> Iterator[Running]:
    """Register the layers with OpenCV while a network is read and run. kept: the number of samples whose masks are kept."""
    running = Running(kept)

    def upsampling(_settings: object, _blobs: object) -> UpsampleLayer:
        return UpsampleLayer(running.created, running)

    def pyramid(_settings: object, _blobs: object) -> SpatialPyramidLayer:  # OpenCV keeps no reference to it
        return SpatialPyramidLayer(running.created, running)

    cv2.dnn_registerLayer(UPSAMPLE, upsampling)
    cv2.dnn_registerLayer(PYRAMID, pyramid)
    try:
        yield running
        if running.error is not None:
            raise running.error
    finally:
        cv2.dnn_unregisterLayer(UPSAMPLE)
        cv2.dnn_unregisterLayer(PYRAMID)


def make_layers(net: Any, layers: Sequence[CaffeLayer], running: Running) -> None:
    """Create a network's layers one by one, because OpenCV does not say which layer it creates, and chooses the order."""
    known = set(net.getLayerNames())
    for layer in layers:
        if layer.type in (UPSAMPLE, PYRAMID) and layer.name in known:
            running.created = layer
            net.getLayer(layer.name)
    running.created = None  # layers created from now on belong to another phase than the test's
