"""The DV700's feature maps: channels in chunks of 8, the last chunk unpadded."""

from functools import cache

import numpy as np

from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.notation import parse

CHUNK = 8  # channels


@cache
def feature_map(*, transposed: bool, depth: bool = False) -> Layout:
    """The layout of an FP16 map (height, width, channels), optionally with depth first.

    Maps of one pixel, and of up to 8 channels, are linear. transposed: HWC order (transpose_weight = 1).
    """
    inside = "h w" if transposed else "w h"
    text = f"dhwc: c/{CHUNK}! d {inside} c%{CHUNK}" if depth else f"hwc: c/{CHUNK}! {inside} c%{CHUNK}"
    layout = parse(text)
    name = f"{'d' * depth}{inside.replace(' ', '')}c{CHUNK}"
    return Layout(layout.axes, layout.terms, np.dtype(np.float16), name=name)
