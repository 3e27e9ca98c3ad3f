"""Writes what the sources of NVDLA's twin need beside themselves: python twin_headers.py FOLDER"""

import sys
from pathlib import Path

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.playing import bases_of, figures_of
from cnn_convertor.devices.nvdla.register_table import header

CONFIGURATION = """\
#ifndef NV_FULL_H
#define NV_FULL_H

#include "nvdla_twin.h"

inline nvdla::Configuration nv_full() {{ return {{"nv_full", {figures}, {{{bases}}}}}; }}

#endif
"""

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    numbers = {"figures": figures_of(NV_FULL), "bases": bases_of(NV_FULL)}
    texts = {name: ", ".join(map(str, values)) for name, values in numbers.items()}
    (folder / "nv_full.h").write_text(CONFIGURATION.format(**texts), encoding="utf-8")
    (folder / "register_table.h").write_text(header(), encoding="utf-8")
