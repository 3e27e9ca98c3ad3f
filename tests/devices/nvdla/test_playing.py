"""The twin as a process: what it is given, its limits, and what it tells."""

from __future__ import annotations

import pytest

from cnn_convertor.devices.nvdla.configurations import NV_SMALL
from cnn_convertor.devices.nvdla.playing import ProcessLimits, play
from cnn_convertor.errors import ConvertorError


def test_a_job_beyond_its_limits_is_an_error(compiler: None) -> None:
    with pytest.raises(ConvertorError, match=r"DV900.*takes too much time or memory"):
        play(NV_SMALL, {0: bytes(8)}, (), limits=ProcessLimits(memory=1 << 20))
