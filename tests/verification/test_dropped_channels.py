"""Networks without the channels that no output needs give the same on the emulated device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.errors import Origin
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.verification.compare import sqnr
from passes.test_drop_channels import NARROWED, X
from reference import ir_reference, random_networks
from verification.trials import network, samples


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_the_device_gives_what_is_left(tmp_path: Path) -> None:
    """All cases at once, on one input."""
    rows: list[Node] = []
    outputs: list[str] = []
    for index, (each, _) in enumerate(NARROWED.values()):
        name = {node.name: f"{node.name}{index}" for node in each.nodes[1:]} | {"x": "x"}
        rows += [Node(name[n.name], n.op, tuple(name[i] for i in n.inputs), n.origins) for n in each.nodes[1:]]
        outputs += [name[output] for output in each.outputs]
    whole = Graph((Node("x", ops.Input(X), (), (Origin("net", "x"),)), *rows), tuple(outputs))
    inputs = samples(random_networks.inputs_for(whole))
    expected = ir_reference.run(whole, {"x": inputs["x"][0].astype(np.float64)})
    results = network(whole, tmp_path, transpose_weight=True).run(inputs).outputs
    for output, values in zip(whole.outputs, results, strict=True):
        assert sqnr(values[0], expected[output]) >= 45, output
