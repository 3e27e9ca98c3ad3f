"""Layers of SSD: boxes, and the objects detected in them."""

import math
from bisect import bisect, insort

from cnn_convertor.frontends.caffe.reading import CaffeBlob, CaffeReading, caffe
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import BoxCode, Pair

CODES = {"CORNER": BoxCode.CORNER, "CENTER_SIZE": BoxCode.CENTER_SIZE, "CORNER_SIZE": BoxCode.CORNER_SIZE}
SAME = 1e-6  # ratios that differ by less are one
EVERYTHING = -3.4028234663852886e38  # Caffe's threshold when none is given


@caffe.reads(
    "PriorBox", group="prior_box_param", makes=[ops.PriorBox],
    settings="img_size img_h img_w step step_h step_w min_size max_size flip aspect_ratio clip variance offset",
)  # fmt: skip
def read_prior_box(reading: CaffeReading) -> CaffeBlob:
    """The first input gives the number of boxes, the second the image's size; their elements do not matter."""
    reading.check_inputs(2, "a map and the image")
    features, image = (reading.shape(reading.as_map(x)) for x in reading.inputs)
    _check_finite(reading, "min_size", "max_size", "step", "step_h", "step_w", "aspect_ratio", "variance", "offset")
    map_size = Pair(features.height, features.width)
    image_size = _pair(reading, "img", "img_size") or Pair(image.height, image.width)
    step = _pair(reading, "step", "step")
    minima, maxima = (tuple(float(int(size)) for size in reading.take(f"{m}_size")) for m in ("min", "max"))
    if not minima or len(maxima) not in (0, len(minima)):
        raise reading.wrong(f"{len(minima)} min_size and {len(maxima)} max_size are given")
    if min(minima) <= 0 or any(low >= high for low, high in zip(minima, maxima, strict=False)):
        raise reading.wrong("the sizes of boxes must be above 0, and each max_size above its min_size")
    op = ops.PriorBox(
        map_size,
        image_size,
        minima,
        maxima,
        _ratios(reading),
        reading.take("clip"),
        _variance(reading),
        step.height if step else image_size.height / map_size.height,
        step.width if step else image_size.width / map_size.width,
        reading.take("offset"),
    )
    return reading.add(op, dims=(1, 2, op.output_shape().height))


def _check_finite(reading: CaffeReading, *names: str) -> None:
    for name, value in zip(names, reading.take_each(*names), strict=True):
        for number in value if isinstance(value, tuple) else (value,):
            if not math.isfinite(number):
                raise reading.wrong(f'"{name}" is {number}, not a finite number')


def _pair(reading: CaffeReading, short: str, name: str) -> Pair | None:
    """A size that is given once, or as height and width."""
    names = (name, f"{short}_h", f"{short}_w")
    one, height, width = reading.take_each(*names)
    present = [key for key in names if reading.gives(key)]
    if not present:
        return None
    if present not in ([name], [*names[1:]]):
        raise reading.wrong(f'either "{name}", or "{short}_h" and "{short}_w", can be given')
    size = Pair(one, one) if present == [name] else Pair(height, width)
    if min(size) <= 0:
        raise reading.wrong(f'"{present[0]}" must be above 0')
    return size


def _ratios(reading: CaffeReading) -> tuple[float, ...]:
    """Each ratio once, followed by its inverse if boxes are flipped; 1 is always there."""
    listed = [1.0]
    ascending = [1.0]  # the same values, as Caffe orders them and sorted
    flip, ratios = reading.take_each("flip", "aspect_ratio")
    for ratio in ratios:
        if ratio <= 0:
            raise reading.wrong(f"the aspect ratio {ratio:g} is not above 0")
        index = bisect(ascending, ratio)
        if not any(abs(ratio - near) < SAME for near in ascending[max(index - 1, 0) : index + 1]):
            new = [ratio, 1 / ratio] if flip else [ratio]
            listed += new
            for value in new:
                insort(ascending, value)
    return tuple(listed[1:])


def _variance(reading: CaffeReading) -> tuple[float, float, float, float]:
    variances = reading.take("variance") or (0.1,)
    if len(variances) not in (1, 4) or min(variances) <= 0:
        raise reading.wrong("one variance, or four, can be given, each above 0")
    a, b, c, d = variances * (4 // len(variances))
    return a, b, c, d


@caffe.reads(
    "DetectionOutput", group="detection_output_param", makes=[ops.DetectionOutput],
    settings="num_classes background_label_id keep_top_k nms_param share_location code_type variance_encoded_in_target "
    "confidence_threshold",
    ignores="visualize visualize_threshold save_file",
)  # fmt: skip
def read_detection_output(reading: CaffeReading) -> CaffeBlob:
    reading.check_inputs(3, "locations, confidences and boxes")
    classes, background, keep = reading.take_each("num_classes", "background_label_id", "keep_top_k")
    if classes < 1:
        raise reading.wrong('"num_classes" is missing')
    if keep == 0 or keep < -1:
        raise reading.wrong(f"keep_top_k is {keep}; it must be above 0, or -1 for all")
    suppression = reading.take("nms_param")
    if not 0 < suppression.eta <= 1:
        raise reading.wrong(f"eta is {suppression.eta:g}; it must be above 0, and 1 at most")
    if suppression.nms_threshold < 0:
        raise reading.wrong("nms_threshold must not be below 0")
    op = ops.DetectionOutput(
        classes,
        background,
        reading.take("share_location"),
        CODES[reading.take("code_type")],
        reading.take("variance_encoded_in_target"),
        suppression.nms_threshold,
        max(suppression.top_k, -1) if suppression.HasField("top_k") else -1,
        suppression.eta,
        reading.take("confidence_threshold") if reading.gives("confidence_threshold") else EVERYTHING,
        keep,
    )
    priors = reading.shape(reading.inputs[2])
    rows = priors.height // 4 * classes if keep < 0 else keep
    return reading.add(op, *reading.inputs, dims=(1, 1, rows, 7))
