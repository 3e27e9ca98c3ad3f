"""A generated runtime gives the bits of the SDK's, misses no call that caches need, and survives a driver that fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnn_convertor.devices.dv700.emulating import install_data
from cnn_convertor.devices.dv700.profiles import DV700
from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.timetable import Act, Timetable, timetable_of
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.emulation.build import INCLUDE, device_library
from cnn_convertor.emulation.feature_maps import input_bytes
from cnn_convertor.errors import ConvertorError
from cnn_convertor.ir import ops
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Shape
from cnn_convertor.samples import random_samples, shapes_of
from cnn_convertor.trials.run import prepare
from cnn_convertor.workers.compiler import find_compiler
from emulation.generated_runtime import build_runner, execute
from emulation.test_byte_input import PREPARATIONS, camera
from emulation.test_classes import ZIA_C3, segmentation
from emulation.test_data import built, requested
from reference import random_networks
from verification.test_cpu_layers import everything
from verification.test_fusion import conv

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.slow]

FAULTY = Path(__file__).with_name("faulty.cpp")
STEPS = 14  # of a random network


def branches(*outputs: str) -> Graph:
    """Two branches, one on the CPU, and a product on the CPU that reads weights."""
    nodes = (
        Node("image", ops.Input(Shape(6, 5, 8))),
        Node("stem", conv(8, 16, 3), ("image",)),
        Node("swish", ops.Unary(ops.Swish()), ("stem",)),
        Node("other", conv(16, 16, 3), ("stem",)),
        Node("more", conv(16, 16, 3), ("other",)),
        Node("sum", ops.Add(), ("swish", "more")),
        Node("last", conv(16, 8), ("sum",)),
        Node("scores", ops.Softmax(), ("last",)),
    )
    return Graph(nodes, outputs or ("scores", "more"))


GRAPHS: dict[str, tuple[Callable[[], Graph], dict[str, Any]]] = {
    "branches": (branches, {}),
    "branches, the whole buffer": (branches, {"device": "zia-c2"}),
    "branches, with threads": (branches, {"cpu_threads": 3}),
    "bytes": (camera, {"input": "u8", **PREPARATIONS["CP_DIV_255"]}),
    "maximizer": (lambda: segmentation(9), {"device": ZIA_C3}),
    "every function": (lambda: everything().graph, {}),
}


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("name", GRAPHS)
def test_compiled_networks_give_the_bits_of_the_sdk(name: str, tmp_path: Path) -> None:
    """As a whole and layer by layer. The program as data runs as the SDK's runtime does."""
    make, fields = GRAPHS[name]
    request = requested(runtime="generated", **fields)
    graph = make()
    compiled = prepare(graph, request, tmp_path / "compiled")
    data = install_data(graph, compiled.program, tmp_path / "data", device=DV700)._replace(device=compiled.device)
    inputs = random_samples(shapes_of(graph), request.preparation, samples=2, seed=1).inputs
    expected, alone, whole = (data.run(inputs, layers=True), compiled.run(inputs, layers=True), compiled.run(inputs))
    for layer, theirs, mine in zip(compiled.program.layers, expected.layers, alone.layers, strict=True):
        assert theirs.tobytes() == mine.tobytes(), layer.name
    assert expected.traffic == alone.traffic
    for output in (alone.outputs, whole.outputs):
        assert [each.tobytes() for each in output] == [each.tobytes() for each in expected.outputs]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Under a thread sanitizer, unless $CXX has another one."""
    options = [] if "sanitize" in os.environ.get("CXX", "") else ["-fsanitize=thread"]
    return build_runner(tmp_path_factory.mktemp("runner"), "-O1", *options)


def timetable_with(program: Program, random: np.random.Generator) -> Timetable:
    """With random costs of the layers."""
    layers = program.generated()
    costs = [Interval.of(float(random.integers(1, 50))) for _ in layers.layers]
    return timetable_of(layers, costs, Interval.of(float(random.choice([0, 5, 100]))))


@pytest.mark.rotating(turns=4)
def test_random_networks_give_the_bits_of_the_sdk(runner: Path, random_seeds: range, tmp_path: Path) -> None:
    seeds = random_seeds if len(random_seeds) > 50 else random_seeds[:8]  # a handful, unless someone asks for many
    beside = 0
    for seed in seeds:
        graph = random_networks.network_of_blocks(seed, STEPS)
        try:
            program = built(graph, runtime="generated")
        except ConvertorError:
            continue
        maps = {
            name: np.stack([values, -values]).astype(np.float32)
            for name, values in random_networks.inputs_for(graph).items()
        }
        inputs = input_bytes(program, maps)
        expected = install_data(graph, program, tmp_path / "sdk", device=DV700).execute(inputs, 2)
        timetable = timetable_with(program, np.random.default_rng(seed))
        outputs, said = execute(runner, tmp_path, program, inputs, timetable)
        assert (seed, said, outputs.tobytes()) == (seed, "", expected.outputs.astype("<f4").tobytes())
        beside += any(each.act is Act.RUN and is_busy for each, is_busy in _with_state(timetable))
    assert beside >= len(seeds) // 5


def _with_state(timetable: Timetable) -> list[tuple[Any, bool]]:
    """Each action, and whether a list runs meanwhile."""
    is_busy, rows = False, []
    for action in timetable.actions:
        is_busy = action.act is Act.START or (is_busy and action.act is not Act.WAIT)
        rows.append((action, is_busy))
    return rows


def test_a_missing_call_is_noticed(runner: Path, tmp_path: Path) -> None:
    """By a report or by other outputs: hand-overs of what the other side reads, and waits."""
    graph = branches()
    program = built(graph, runtime="generated")
    inputs = input_bytes(program, random_samples(shapes_of(graph), requested().preparation, samples=2, seed=1).inputs)
    timetable = timetable_of(program.generated(), [Interval.of(50.0)] * len(program.layers), Interval.of(1.0))
    expected, said = execute(runner, tmp_path, program, inputs, timetable)
    assert said == ""
    checked = 0
    for number, action in enumerate(timetable.actions):
        if action.act in {Act.TO_CPU, Act.WAIT} or (action.act is Act.TO_DEVICE and action.number == 0):
            without = timetable._replace(actions=timetable.actions[:number] + timetable.actions[number + 1 :])
            outputs, said = execute(runner, tmp_path, program, inputs, without)
            assert said or outputs.tobytes() != expected.tobytes(), action
            checked += 1
    assert checked > 6


@pytest.mark.parametrize("device", ["zia-c3", "zia-c2"])
def test_a_failure_of_any_call_of_the_driver_is_an_error_and_not_the_end(device: str, tmp_path: Path) -> None:
    graph = branches()
    compiled = prepare(graph, requested(runtime="generated", device=device), tmp_path)
    compiler = find_compiler()
    defines = ('-DNETWORK_SOURCE="net_gen.cpp"', "-DNETWORK_CLASS=Cnet", f"-DINPUT_SIZE={6 * 5 * 8}")
    flags = ("-std=c++11", "-O0", "-pthread", *defines, f"-I{INCLUDE}", f"-I{tmp_path}")
    program = tmp_path / "faulty"
    command = [*compiler.command, *flags, str(FAULTY), str(device_library(compiler)), "-o", str(program)]
    subprocess.run(command, check=True)
    result = subprocess.run([program, compiled.weights], capture_output=True, text=True, check=False)
    *problems, whole, alone = result.stdout.splitlines()
    assert problems == [] and result.returncode == 0, result.stderr[-2000:]
    assert int(whole.split()[0]) > 20 and int(alone.split()[0]) > 20
