"""A generated runtime runs each sample as a whole and layer by layer; other bits are an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.devices.settings import Runtime
from cnn_convertor.emulation.feature_maps import Maps, Outputs
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.errors import ConvertorError
from cnn_convertor.verification.reference import run_device
from emulation.small_networks import random, small_graph
from verification.trials import network, samples

pytestmark = pytest.mark.usefixtures("compiler")


def changed(run: Callable[..., Outputs], layers: bool) -> Callable[..., Outputs]:
    """The same, but one of its outputs is another one if the network runs as a whole, or layer by layer."""

    def other(own: EmulatedNetwork, inputs: dict[str, Maps], **options: Any) -> Outputs:
        outputs = run(own, inputs, **options)
        if options.get("layers", False) is not layers:
            return outputs
        return replace(outputs, outputs=(outputs.outputs[0] + 1, *outputs.outputs[1:]))

    return other


def test_other_outputs_as_a_whole_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(small_graph(), tmp_path)
    made = made._replace(program=replace(made.program, runtime=Runtime.GENERATED))
    inputs = samples({"image": random(5, 4, 3), "more": random(5, 4, 20)})
    expected = run_device(made, inputs).outputs
    run = EmulatedNetwork.run
    for layers in (False, True):
        monkeypatch.setattr(EmulatedNetwork, "run", changed(run, layers))
        with pytest.raises(ConvertorError, match='DV876: the output "sum"'):
            run_device(made, inputs)
    made = made._replace(program=replace(made.program, runtime=Runtime.SDK))
    monkeypatch.setattr(EmulatedNetwork, "run", changed(run, False))
    assert [each.tobytes() for each in run_device(made, inputs).outputs] == [each.tobytes() for each in expected]
