"""The DV700's feature maps: channels in chunks of 8, of which the last one is narrow."""

from __future__ import annotations

from functools import cache

import numpy as np

from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.text import parse

CHUNK = 8  # channels that lie together


@cache
def feature_map(*, transposed: bool, depth: bool = False) -> Layout:
    """The layout of an FP16 map (height, width, channels), with depth in front of them if there is one.

    A map of one pixel, and one of up to 8 channels, is linear: its only chunk is as narrow as it is.

    transposed: maps keep their HWC order (transpose_weight = 1)
    """
    inside = "h w" if transposed else "w h"
    text = f"dhwc: c/{CHUNK}! d {inside} c%{CHUNK}" if depth else f"hwc: c/{CHUNK}! {inside} c%{CHUNK}"
    layout = parse(text)
    name = f"{'d' * depth}{inside.replace(' ', '')}c{CHUNK}"
    return Layout(layout.axes, layout.terms, np.dtype(np.float16), name=name)
