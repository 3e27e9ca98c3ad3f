"""Caffe's layers that enlarge, shrink or pad maps."""

from collections.abc import Sequence

import numpy as np

from cnn_convertor.verification.formulas.layer import Blob, FormulaLayer, computes


@computes("Upsample")
def _upsample(layer: FormulaLayer, x: Blob, *masks: Blob) -> Blob:
    """Repeats pixels; with the mask of a pooling, puts each value where the maximum was."""
    settings = layer.message.upsample_param
    both = settings.scale or 2
    down, right = settings.scale_h or both, settings.scale_w or both
    if not masks:
        return x.repeat(down, axis=2).repeat(right, axis=3)
    size = (settings.upsample_h, settings.upsample_w)
    if not all(size):
        size = (x.shape[2] * down - settings.pad_out_h, x.shape[3] * right - settings.pad_out_w)
    result = np.zeros((x.shape[1], size[0] * size[1]))
    np.put_along_axis(result, masks[0].astype(int).reshape(x.shape[1], -1), x.reshape(x.shape[1], -1), axis=1)
    return result.reshape(1, -1, *size)


@computes("Interp")
def _interp(layer: FormulaLayer, x: Blob, *like: Blob) -> Blob:
    settings = layer.message.interp_param
    if like:
        return _bilinear(x, like[0].shape[2:], corners=True)
    first, last = -settings.pad_beg, -settings.pad_end
    x = x[:, :, first : x.shape[2] - last, first : x.shape[3] - last]
    size = (settings.height, settings.width)
    if not settings.HasField("height"):
        size = tuple((n - 1) // settings.shrink_factor * settings.zoom_factor + 1 for n in x.shape[2:])
    return _bilinear(x, size, corners=True)


@computes("BilinearInterpolate")
def _bilinear_interpolate(layer: FormulaLayer, x: Blob) -> Blob:
    settings = layer.message.bilinear_interpolate_param
    return _bilinear(x, (settings.dst_h, settings.dst_w), corners=settings.align_corners)


def _bilinear(x: Blob, size: Sequence[int], *, corners: bool) -> Blob:
    """corners: the outermost pixels keep their positions; else pixels are areas, whose centers lie at halves."""
    for axis, count in zip((2, 3), size, strict=True):
        length = x.shape[axis]
        at = np.arange(count) * ((length - 1) / (count - 1) if count > 1 else 0)
        if not corners:
            at = np.clip((np.arange(count) + 0.5) * length / count - 0.5, 0, length - 1)
        low = np.floor(at).astype(int)
        fraction = (at - low).reshape([-1 if n == axis else 1 for n in range(4)])
        x = x.take(low, axis) * (1 - fraction) + x.take(np.minimum(low + 1, length - 1), axis) * fraction
    return x


@computes("Pad")
def _pad(layer: FormulaLayer, x: Blob) -> Blob:
    p = layer.message.pad_param
    return np.pad(x, ((0, 0), (0, 0), (p.pad_u, p.pad_d), (p.pad_l, p.pad_r)), constant_values=p.pad_value)
