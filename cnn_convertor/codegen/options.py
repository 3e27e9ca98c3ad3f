"""Which texts a conversion writes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

NONE: Final = "none"  # in place of the version of a loadable


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Which texts to render. model: the file name to name in them; python_module: empty for none.

    loadable: the version of a loadable for the device's own runtime, if it has one, or none.
    mean, scale, channel_order: what images become, for the application. every_byte: what each byte of a pixel becomes in each
    channel, (256, channels), where the ini file says it.
    """

    model: str
    source: bool = True
    doxygen: bool = False
    dot: bool = False
    python_module: str = ""
    graphviz_path: str = ""
    loadable: str = NONE
    mean: tuple[float, ...] = (0.0,)
    scale: float | tuple[float, ...] = 1.0
    channel_order: str = "RGB"
    every_byte: Callable[[], NDArray[np.float32]] | None = None
