"""Layers that only change the size of a map."""

from cnn_convertor.frontends.arithmetic import crop, scale_and_shift
from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, caffe
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Axis, Interpolation, Padding, Pair, Sampling, Shape

LARGEST = 1 << 15  # height or width of a map, far more than any device has


@caffe.reads(
    "Upsample", group="upsample_param", settings="upsample_h upsample_w pad_out_h pad_out_w scale scale_h scale_w",
    makes=[ops.MaxUnpool, ops.Pad, ops.Upsample],
    limits="one input: by scale, or scale_h and scale_w; two: the second is the mask of a pooling of the same map",
)  # fmt: skip
def read_upsample(reading: CaffeReading) -> CaffeBlob:
    """Repeats pixels; with the mask of a pooling as the second input, SegNet's unpooling."""
    if len(reading.inputs) == 2:
        return _unpooled(reading)
    x = reading.map
    scale, height, width = reading.take_each("scale", "scale_h", "scale_w")
    has_sides = reading.gives("scale_h") or reading.gives("scale_w")
    factor = Pair(height, width) if has_sides else Pair(scale, scale)
    if min(factor) < 1 or (reading.gives("scale") and factor != (scale, scale)):
        raise reading.unsupported('only an upsampling by a given "scale", or "scale_h" and "scale_w", can be converted')
    _check_size(reading, factor.height * reading.shape(x).height, factor.width * reading.shape(x).width)
    return reading.add(ops.Upsample(factor), x)


def _unpooled(reading: CaffeReading) -> CaffeBlob:
    """The first input's values where the mask's pooling found its maxima."""
    x = reading.as_map(reading.inputs[0])
    mask = reading.inputs[1].mask
    if mask is None and reading.builder.is_placeholder(reading.inputs[1].node):
        raise reading.wrong("the pooling before the unpooling cannot be read")
    if mask is None:
        hint = 'the second top of a Pooling with "pool: MAX" is a mask'
        raise reading.unsupported(
            "an unpooling whose second input is not the mask of a pooling cannot be converted", hint
        )
    pooled = reading.builder.shape(mask.pooled)
    size = _unpooled_size(reading, reading.shape(x))
    below = size.height - pooled.height
    if size.width != pooled.width or below < 0:
        raise reading.unsupported(
            f"an unpooling to the size {size.height}x{size.width} cannot be converted: the mask counts the pixels of another map",
            f"give upsample_h: {pooled.height} and upsample_w: {pooled.width}, the size of what was pooled",
        )
    source = x._replace(node=mask.pooled)
    if below == 0:
        return reading.add(ops.MaxUnpool(mask.window), x, source)
    unpooled = reading.add(ops.MaxUnpool(mask.window), x, source, part="unpooled")
    return reading.add(ops.Pad(Padding(0, below, 0, 0)), unpooled)


def _unpooled_size(reading: CaffeReading, shape: Shape) -> Pair:
    """The size after an unpooling, from any of the settings that give it."""
    size = Pair(*reading.take_each("upsample_h", "upsample_w"))
    cut = Pair(*map(int, reading.take_each("pad_out_h", "pad_out_w")))
    scale = reading.take("scale")
    sides = Pair(*reading.take_each("scale_h", "scale_w"))
    if any(size):
        _check_size(reading, *size)
        return size
    factor = sides if any(sides) else Pair(scale or 2, scale or 2)
    if min(factor) < 1 or (any(sides) and reading.gives("scale")):
        hint = 'give "upsample_h" and "upsample_w", or only "scale"'
        raise reading.contradiction("the factors of the unpooling are not clear", hint)
    if any(c and f != 2 for c, f in zip(cut, factor, strict=True)):
        raise reading.contradiction('"pad_out_h" and "pad_out_w" apply to an unpooling by 2')
    return Pair(*(n * f - c for n, f, c in zip(shape, factor, cut, strict=False)))


@caffe.reads(
    "Interp", group="interp_param", settings="pad_beg pad_end height width zoom_factor shrink_factor",
    makes=[ops.Identity, ops.Resize, ops.Crop],
)  # fmt: skip
def read_interp(reading: CaffeReading) -> CaffeBlob:
    """DeepLab's and PSPNet's layer: bilinear, with aligned corners. A second input gives the size."""
    if len(reading.inputs) == 2:
        like = reading.shape(reading.as_map(reading.inputs[1]))
        return _resized(reading, reading.as_map(reading.inputs[0]), Pair(like.height, like.width), Sampling.CORNERS)
    x = reading.map
    first, last = reading.take_each("pad_beg", "pad_end")
    shape = reading.shape(x)
    if max(first, last) > 0 or min(shape.height, shape.width) + first + last < 1:
        raise reading.wrong(f"pad_beg {first} and pad_end {last} must not be above 0, and leave a part of the input")
    if first or last:
        kept = {Axis.HEIGHT: (-first, shape.height + last), Axis.WIDTH: (-first, shape.width + last)}
        x = reading.add(crop(shape, kept), x, part="cropped")
    return _resized(reading, x, _size_after_interp(reading, reading.shape(x)), Sampling.CORNERS)


def _size_after_interp(reading: CaffeReading, shape: Shape) -> Pair:
    """The size, or the factor, that the settings give; factors count the gaps between pixels."""
    names = ("height", "width", "zoom_factor", "shrink_factor")
    present = {name for name in names if reading.gives(name)}
    height, width, zoom, shrink = reading.take_each(*names)
    if present == {"height", "width"}:
        return Pair(height, width)
    if present and present <= {"zoom_factor", "shrink_factor"} and min(zoom, shrink) >= 1:
        return Pair(*((n - 1) // shrink * zoom + 1 for n in (shape.height, shape.width)))
    hint = 'give "height" and "width", or "zoom_factor" or "shrink_factor"'
    raise reading.wrong(f"the settings ({', '.join(sorted(present)) or 'none'}) do not define a size", hint)


@caffe.reads(
    "BilinearInterpolate", group="bilinear_interpolate_param", settings="dst_h dst_w align_corners",
    makes=[ops.Identity, ops.Resize],
)  # fmt: skip
def read_bilinear_interpolate(reading: CaffeReading) -> CaffeBlob:
    x = reading.map
    if not reading.gives("align_corners"):
        raise reading.wrong('"align_corners" must be given')
    sampling = Sampling.CORNERS if reading.take("align_corners") else Sampling.HALF_PIXEL
    return _resized(reading, x, Pair(*reading.take_each("dst_h", "dst_w")), sampling)


def _resized(reading: CaffeReading, x: CaffeBlob, size: Pair, sampling: Sampling) -> CaffeBlob:
    _check_size(reading, *size)
    shape = reading.shape(x)
    if size == (shape.height, shape.width):
        return reading.add(ops.Identity(), x)
    return reading.add(ops.Resize(size, Interpolation.BILINEAR, sampling), x)


def _check_size(reading: CaffeReading, height: int, width: int) -> None:
    if min(height, width) < 1 or max(height, width) > LARGEST:
        raise reading.wrong(f"{height}x{width} is not a size of a map")


@caffe.reads(
    "Pad", group="pad_param", settings="pad_u pad_d pad_l pad_r pad_value", makes=[ops.Pad, ops.Scale, ops.Add],
)  # fmt: skip
def read_pad(reading: CaffeReading) -> CaffeBlob:
    x = reading.map
    pad = Padding(*reading.take_each("pad_u", "pad_d", "pad_l", "pad_r"))
    value = reading.take("pad_value")
    channels = reading.shape(x).channels
    _check_size(reading, 1 + pad.top + pad.bottom, 1 + pad.left + pad.right)
    if value == 0:
        return reading.add(ops.Pad(pad), x)
    # Zeros, plus a second map that is 0 where x is and the value around it: not a bit of x changes.
    ones = reading.add(scale_and_shift(channels, 0.0, 1.0), x, part="ones")
    ones = reading.add(ops.Pad(pad), ones, part="ones_padded")
    around = reading.add(scale_and_shift(channels, -value, value), ones, part="around")
    return reading.add(ops.Add(), reading.add(ops.Pad(pad), x, part="padded"), around)
