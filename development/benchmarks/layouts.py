"""What packing a feature map costs beside a plain copy of it: python -m development.benchmarks.layouts

Both sides of a ratio run in turns and the best of several rounds counts, so that it means the same on a busy machine.
"""

from __future__ import annotations

import click
import numpy as np

from cnn_convertor.layouts.layout import nbytes
from cnn_convertor.layouts.notation import parse
from cnn_convertor.layouts.packing import pack, unpack
from development.benchmarks.rounds import best_times

ROUNDS = 15
CHANNELS, HEIGHT, WIDTH = 64, 224, 224
TERMS = {
    "planar": "c h w",
    "clDNN fsv2": "c/2 h w c%2",
    "clDNN fsv4": "c/4 h w c%4",
    "DV700, HWC": "c/8! h w c%8",
    "DV700, WHC": "c/8! w h c%8",
    "clDNN fsv16": "c/16 h w c%16",
    "NVDLA FP16": "c/16@32 h@32 w c%16",
    "clDNN fsv32": "c/32 h w c%32",
    "lines apart": "c/16 h@8192 w c%16",
    "c and h": "c/16 h/2 w c%16 h%2",
    "NHWC": "h w c",
}


@click.command()
def main() -> None:
    """What packing a feature map costs beside a plain copy of it."""
    shape = (CHANNELS, HEIGHT, WIDTH)
    image = np.random.default_rng(0).standard_normal(shape, np.float32).astype(np.float16)
    target, back = np.empty_like(image), np.empty_like(image)
    print(f"{CHANNELS} x {HEIGHT} x {WIDTH} in FP16, ms, and times what a plain copy takes")
    for name, terms in TERMS.items():
        layout = parse(f"chw: {terms} | float16")
        memory = np.empty(nbytes(layout, shape), np.uint8)
        copy, packed, unpacked = best_times(
            ROUNDS,
            lambda: np.copyto(target, image),
            lambda layout=layout, memory=memory: pack(image, layout, memory),  # type: ignore[misc]
            lambda layout=layout, memory=memory: unpack(memory, layout, shape, out=back),  # type: ignore[misc]
        )
        print(
            f"{name:12} copy {copy * 1e3:5.2f}   pack {packed * 1e3:6.2f} ({packed / copy:5.1f})"
            f"   unpack {unpacked * 1e3:6.2f} ({unpacked / copy:5.1f})"
        )


if __name__ == "__main__":
    main()
