"""What a layer of the device costs, by published formulas with assumed clock and bandwidth."""

from __future__ import annotations

from cnn_convertor.devices.facts import StepCost
from cnn_convertor.devices.intervals import Interval
from cnn_convertor.devices.nvdla.configurations import Configuration
from cnn_convertor.devices.nvdla.firmware.descriptors import Cube, Engine, MemoryKind
from cnn_convertor.devices.nvdla.hardware import NvdlaHardware
from cnn_convertor.devices.nvdla.network_program import NvdlaLayer, NvdlaRun


def cost_of(layer: NvdlaLayer, hardware: NvdlaHardware) -> StepCost:
    """Engines of a chain work at the same time: the slowest one counts, or memory."""
    cycles = max(_cycles(layer.runs, hardware.configuration).values())
    moved = {"input": 0, "operand": 0, "output": 0, "weights": 0}
    for run in layer.runs:
        for name, cube in _cubes(run):
            moved[name] += cube.size
    total = sum(moved.values())
    clock, bandwidth = (hardware.figures[name].value for name in ("clock_mhz", "bandwidth"))
    compute = Interval.of(cycles / clock)
    memory = Interval.of(total / (bandwidth * 1000))
    return StepCost(
        cycles=cycles,
        input_bytes=moved["input"],
        operand_bytes=moved["operand"],
        output_bytes=moved["output"],
        weights_bytes=moved["weights"],
        bytes=total,
        compute_usec=compute,
        memory_usec=memory,
        command_usec=Interval.of(0.0),
        usec=max(compute, memory, key=lambda each: each.low),
        bound="compute" if compute.low >= memory.low else "memory",
    )


def _cycles(runs: tuple[NvdlaRun, ...], configuration: Configuration) -> dict[Engine, int]:
    """Of each engine."""
    cycles = dict.fromkeys((run.operation.engine for run in runs), 0)
    for run in runs:
        engine = run.operation.engine
        if engine is Engine.CONV:
            op = run.operation.op
            steps = op.kernel_width_csc * op.kernel_height_csc * -(-op.kernel_channel_csc // configuration.atomic_c)
            groups = -(-run.output.channels // configuration.atomic_k["fp16"])
            cycles[engine] += run.output.height * run.output.width * steps * groups
        else:
            rate = configuration.throughput.x1 if engine is Engine.SDP else configuration.throughput.pdp
            cycles[engine] += -(-run.input.size // rate)
    return cycles


def _cubes(run: NvdlaRun) -> list[tuple[str, Cube]]:
    """What an operation moves: its kind, and the cube in memory."""
    surfaces = run.operation.surfaces
    kinds = {
        "src_data": "input",
        "dst_data": "output",
        "weight_data": "weights",
        "x1_data": "operand",
        "x2_data": "operand",
        "y_data": "operand",
    }
    cubes = []
    for field, kind in kinds.items():
        cube = getattr(surfaces, field, None)
        if cube is not None and cube.type != MemoryKind.HW and cube.size:
            cubes.append((kind, cube))
    return cubes
