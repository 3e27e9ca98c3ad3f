"""The driver refuses what the device cannot do, and its message names the field and the value."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cnn_convertor
from host.device import Device, DeviceError
from host.reference import Command, Run, Sides

if TYPE_CHECKING:
    Fields = dict[str, Any]

RULES = Path(cnn_convertor.__file__).parent / "host/src/rules.cpp"
CONV = Run(8, (2, 0), conv_enable=1, p=0x0303, weight_fmt=1)
MAX = Run(8, pool_enable=1, pool_size=0x0202, pool_stride=0x0202)
AVERAGE = Run(8, pool_enable=2, pool_size=0x0202, pool_stride=0x0202, pool_avg_param=0x3400)
DILATED = replace(CONV, conv_dilation=0x0202, conv_pad=Sides(2, 2, 2, 2).register())
PLAIN = Command(16, 12, 8, [CONV], (1, 0), (1, 65536))


@dataclass(frozen=True)
class Refusal:
    message: str
    command: Command

    def __str__(self) -> str:
        return self.message[:60]


def of(message: str, run: Run, **fields: Any) -> Refusal:
    return Refusal(message, replace(PLAIN, runs=[replace(run, **fields)]))


def whole(message: str, **fields: Any) -> Refusal:
    return Refusal(message, replace(PLAIN, **fields))


REFUSALS = [
    # the command
    whole("header.size = 100: this version has 1896 bytes", size=100),
    whole("header.device_type = 2: the device has no such block (it has CONV,MX,IPU)", device_type=2),
    whole("header.version = 7: 0 or 1 is known", version=7),
    whole("to_bgr = 2: 0 or 1 is known", to_bgr=2),
    whole("topo = 0: no run writes to external memory", topo=0),
    whole("w = 0: 1 to 2047 is possible", w=0),
    whole("w = 2048: 1 to 2047 is possible", w=2048),
    whole("h = 1025: 1 to 1024 is possible", h=1025),
    whole("c = 32769: 1 to 32768 is possible", c=32769),
    whole("z = 2: maps have a depth of 1", z=2),
    whole("input_circular_offset = 0x0002: a batch of 2 samples goes with one run only, topo = 0x00000003",
          input_circular_offset=2, topo=3, runs=[CONV, CONV]),
    whole("input_circular_offset = 0x8003: a batch of 3 samples goes with no element-wise operand (output_mode = 1)",
          input_circular_offset=0x8003, output_mode=1),
    whole("input_circular_offset = 0x0002: a batch of 2 samples goes with no 8-bit input", input_circular_offset=2,
          c=3, u8tofp16_table=(1, 0)),
    whole("input_buf: bytes 0 to 132096 are outside a memory of 131072 bytes", input_circular_offset=43),
    whole("output_mode = 2: 0 or 1 is known", output_mode=2),
    whole("output_mode = 1: only one run may write to external memory, topo = 0x00000003",
          output_mode=1, topo=3, runs=[CONV, CONV]),
    # unknown values
    of("run[0].conv_enable = 2: 0 (off), 1, 3, 5 or 7 is known", CONV, conv_enable=2),
    of("run[0].pool_enable = 3: 0 (none), 1, 2 or 4 is known", CONV, pool_enable=3),
    of("run[0].actfunc = 7: 0 (none) to 6 is known", CONV, actfunc=7),
    of("run[0].rectifi_en = 2: 0 or 1 is known", CONV, rectifi_en=2),
    of("run[0].lrn = 1: this device has no LRN", CONV, lrn=1),
    of("run[0].m = 0: a run has at least one output channel", CONV, m=0),
    of("run[0].m = 40000: a convolution has at most 32768 channels", CONV, m=40000),
    of("run[0].weight_fmt = 0: a convolution needs 1 (FP16) or 3 (8-bit palette)", CONV, weight_fmt=0),
    of("run[0].weight_fmt = 2: a convolution needs 1 (FP16) or 3 (8-bit palette)", CONV, weight_fmt=2),
    of("run[0].pz = 3: a kernel has a depth of 1", CONV, pz=3),
    # section 3
    of("run[0].p = 0x0300: a kernel of 0x3; 1 to 7 in each direction is possible", CONV, p=0x0300),
    of("run[0].p = 0x0308: a kernel of 8x3; 1 to 7 in each direction is possible", CONV, p=0x0308),
    of("run[0].p = 0x0901: a kernel of 1x9; 1 to 7 in each direction is possible", CONV, p=0x0901),
    of("run[0].p = 0x0008: a kernel of 8x8; 1 to 7 in each direction is possible", CONV, p=0x0008),
    of("run[0].conv_stride = 0x0100: strides start at 1", CONV, conv_stride=0x0100),
    of("run[0].conv_stride = 0x0001: strides start at 1", CONV, conv_stride=0x0001),
    of("run[0].pool_stride = 0x0000: strides start at 1", MAX, pool_stride=0),
    of("run[0].conv_pad = 0x00000080: left is 128, at most 127 fits", CONV, conv_pad=0x80),
    of("run[0].conv_pad = 0x00ff0000: top is 255, at most 127 fits", CONV, conv_pad=0xFF0000),
    of("run[0].pool_pad = 0x00000080: left is 128, at most 127 fits", AVERAGE, pool_pad=0x80),
    of("run[0].pool_pad = 0x00800000: top is 128, at most 127 fits", MAX, pool_pad=0x800000),
    Refusal("run[0].p = 0x0707: the window covers 7x7, the padded input is only 7x6",
            replace(PLAIN, w=5, h=4, runs=[replace(CONV, p=0x0707, conv_pad=0x01010101)])),
    Refusal("run[0].pool_size = 0x0303: the window covers 3x3, the padded input is only 2x4",
            replace(PLAIN, w=2, h=4, runs=[replace(MAX, pool_size=0x0303)])),
    Refusal("run[0].pool_size = 0x0202: the window covers 2x2, the padded input is only 1x2",
            replace(PLAIN, w=3, h=4, runs=[replace(CONV, pool_enable=1, pool_size=0x0202)])),
    of("run[0].pool_enable = 2: only a max pool may follow a convolution in one run", CONV, pool_enable=2,
       pool_size=0x0202),
    of("run[0].pool_enable = 4: only a max pool may follow a convolution in one run", CONV, pool_enable=4),
    of("run[0].m = 16: a depthwise convolution keeps its 8 channels", CONV, conv_enable=3, m=16),
    of("run[0].m = 4: a depthwise convolution keeps its 8 channels", CONV, conv_enable=7, m=4),
    of("run[0].m = 9: a run without convolution keeps its 8 channels", MAX, m=9),
    of("run[0].pool_size = 0x0201: max pools are 2 or 3 wide and 1 to 3 high, not 1x2", MAX, pool_size=0x0201),
    of("run[0].pool_size = 0x0204: max pools are 2 or 3 wide and 1 to 3 high, not 4x2", MAX, pool_size=0x0204),
    of("run[0].pool_size = 0x0402: max pools are 2 or 3 wide and 1 to 3 high, not 2x4", MAX, pool_size=0x0402),
    of("run[0].pool_size = 0x0002: max pools are 2 or 3 wide and 1 to 3 high, not 2x0", MAX, pool_size=0x0002),
    of("run[0].pool_size = 0x0108: average pools are 1 to 7 wide and high, not 8x1", AVERAGE, pool_size=0x0108),
    of("run[0].pool_size = 0x0801: average pools are 1 to 7 wide and high, not 1x8", AVERAGE, pool_size=0x0801),
    of("run[0].pool_size = 0x0303: upsampling is always 2x2", MAX, pool_enable=4, pool_size=0x0303),
    of("run[0].pool_pad = 0x00000001: upsampling has no padding", MAX, pool_enable=4, pool_pad=1),
    whole("run[1].conv_enable", topo=2, runs=[CONV, replace(CONV, conv_enable=9)]),
    whole("run[0].conv_dilation = 0x0202: a dilated convolution is the only run of its command, this one has 2",
          topo=2, runs=[DILATED, CONV]),
    of("run[0].conv_dilation = 0x0202: no pool goes with a dilated convolution (pool_enable = 1)", DILATED,
       pool_enable=1, pool_size=0x0202),
    of("run[0].conv_dilation = 0x0202: the kernel is 2x2, dilation needs odd sizes", DILATED, p=0x0202),
    of("run[0].conv_dilation = 0x0201: the kernel is 3x4, dilation needs odd sizes", DILATED, p=0x0403,
       conv_dilation=0x0201),
    of("run[0].conv_dilation = 0x0202: PReLU does not go with dilation (actfunc = 4)", DILATED, actfunc=4),
    of("run[0].conv_dilation = 0x0202: a dilated deconvolution has stride 1 (conv_stride = 0x0202)", DILATED,
       conv_enable=5, conv_stride=0x0202),
    of("run[0].conv_dilation = 0x0202: output times stride must equal the input, but 14x10 times 1x1 is not 16x12"
       " (conv_pad = 0x01010101)", DILATED, conv_pad=0x01010101),
    of("run[0].conv_dilation = 0x0202: user drivers before 2019-12-23 compare the sizes as if the stride were 1, but then the "
       "output 15x11 is not the input 16x12 (conv_pad = 0x02010201)", DILATED, conv_stride=0x0202, conv_pad=0x02010201),
    of("run[0].actfunc = 4: PReLU does not go with palette weights (weight_fmt = 3)", CONV, weight_fmt=3, actfunc=4),
    of("run[0].actfunc = 4: PReLU needs a convolution, whose weights hold its slopes", MAX, actfunc=4),
    of("run[0]: conv_enable = 0, pool_enable = 0, actfunc = 0, rectifi_en = 0: the run has no operation", Run(8)),
    Refusal("run[5]: the output is 131008x64x8, sizes have 16 bits",
            replace(PLAIN, w=2047, h=1, topo=1 << 31, runs=[replace(MAX, pool_enable=4)] * 32)),
    Refusal("run[0]: the output is 521729x381x8, sizes have 16 bits",
            replace(PLAIN, w=2047, h=1, runs=[replace(CONV, conv_enable=5, conv_stride=0x01FF, conv_pad=0xFF7F0000)])),
    # section 5
    Refusal("run[0].m = 8: an input of 16x1024x256 to 8 channels does not fit the unified buffer of 655360 bytes in any"
            " number of strips", replace(PLAIN, h=1024, c=256)),
    Refusal("topo = 0x00000002: run[0]: an input of 100x100x64 to 8 channels needs 3 tiles; in a command of several runs"
            " each has one", replace(PLAIN, w=100, h=100, c=64, runs=[CONV, CONV], topo=2)),
    Refusal("topo = 0x00000002: the 2 runs need 1267968 bytes of unified buffer, there are 655360",
            replace(PLAIN, w=200, h=200, runs=[CONV, CONV], topo=2)),
    # buffers
    whole("input_buf.offs = 1: maps start at even offsets", input_buf=(1, 1)),
    whole("output_buf.offs = 65537: maps start at even offsets", output_buf=(1, 65537)),
    whole("input_buf.mem = 0: no memory", input_buf=(0, 0)),
    whole("output_buf.mem = 0: no memory", output_buf=(0, 0)),
    whole("eltwise_buf.mem = 0: no memory", output_mode=1),
    whole("eltwise_buf.offs = 3: maps start at even offsets", output_mode=1, eltwise_buf=(1, 3)),
    whole("input_buf: bytes 131072 to 134144 are outside a memory of 131072 bytes", input_buf=(1, 131072)),
    whole("input_buf: bytes 128002 to 131074 are outside a memory of 131072 bytes", input_buf=(1, 128002)),
    whole("output_buf: bytes 130000 to 132240 are outside a memory of 131072 bytes", output_buf=(1, 130000)),
    whole("eltwise_buf: bytes 130000 to 132240 are outside a memory of 131072 bytes", output_mode=1,
          eltwise_buf=(1, 130000)),
    whole("output_buf.offs = 3070: 2240 bytes of output overlap the input at 0", output_buf=(1, 3070)),
    whole("output_buf.offs = 65536: 2240 bytes of output overlap a part of eltwise_buf at 65538", output_mode=1,
          eltwise_buf=(1, 65538)),
    of("run[0].weight_buf.offs = 8: weights start at a multiple of 16", CONV, weight_buf=(2, 8)),
    of("output_buf.offs = 65536: 2240 bytes of output overlap weights at 65536", CONV, weight_buf=(1, 65536)),
    of("run[0].weight_buf.mem = 0: a convolution needs weights", CONV, weight_buf=(0, 0)),
    of("run[0].weight_buf: bytes 4096 to 5264 are outside a memory of 4096 bytes", CONV, weight_buf=(2, 4096)),
    of("run[0].weight_buf: bytes 2944 to 4112 are outside a memory of 4096 bytes", CONV, weight_buf=(2, 2944)),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusal(device: Device, case: Refusal) -> None:
    device.alloc(1 << 17)
    device.alloc(4096)
    device.ask("list")
    with pytest.raises(DeviceError) as refused:
        device.add(case.command)
    assert str(refused.value).startswith(case.message)


# Of boards of an old revision: the variable that says so.
REFUSALS_OF_BOARDS = {
    "DMP_DV_DECONVOLVES": of(
        "run[0].conv_enable = 5: this revision of the device has no deconvolution", CONV, conv_enable=5
    ),
    "DMP_DV_POOLS_UNEVENLY": of(
        "run[0].pool_size = 0x0302: on this revision a pool is as wide as it is high", MAX, pool_size=0x0302
    ),
    "DMP_DV_PADS_BEYOND_MAP": of(
        "run[0].pool_pad = 0x11000000: on this revision padding is at most the map's 16x12",
        AVERAGE,
        pool_pad=0x11000000,
    ),
}


@pytest.mark.parametrize("variable", REFUSALS_OF_BOARDS)
def test_refusal_of_a_board(driver: Path, variable: str) -> None:
    device = Device(driver, {variable: "0"})
    test_refusal(device, REFUSALS_OF_BOARDS[variable])
    assert device.close() == 0


def test_each_refusal_of_a_run_has_a_case() -> None:
    """By its longest words."""
    calls = re.findall(r"\brefuse\(([^;]+)\);", RULES.read_text("utf-8"))
    reasons = [max(re.findall(r'"([^"]+)"', call), key=len) for call in calls]
    assert len(reasons) > 20
    messages = [case.message for case in (*REFUSALS, *REFUSALS_OF_BOARDS.values())]
    untested = [reason for reason in reasons if not any(reason in message for message in messages)]
    assert untested == [], "add a row to REFUSALS"


MANY = Command(1, 1, 65535, [replace(AVERAGE, m=65535, pool_size=0x0101)], (1, 0), (1, 131072))
ACCEPTED = {
    "65535 channels without a convolution": MANY,
    "the driver's format 0 of a depthwise convolution": replace(
        PLAIN, runs=[replace(CONV, conv_enable=3, weight_fmt=0)]
    ),
    "plain": PLAIN,
    "zero kernel height means the width": replace(PLAIN, runs=[replace(CONV, p=0x0003)]),
    "a dilation whose output has the input's size with any stride": replace(
        PLAIN, runs=[replace(DILATED, conv_stride=0x0202, conv_pad=0x03010301)]
    ),
    "dilation 1": replace(PLAIN, runs=[replace(CONV, conv_dilation=0x0101)]),
    "dilated": replace(PLAIN, runs=[DILATED]),
    "max pool after a convolution": replace(PLAIN, runs=[replace(CONV, pool_enable=1, pool_size=0x0103)]),
    "activation alone": replace(PLAIN, runs=[Run(8, actfunc=2)]),
    "pads as large as fits": replace(PLAIN, w=1, h=1, runs=[replace(AVERAGE, pool_stride=0x0404, pool_pad=0x107F017F)]),
    "added in place": replace(PLAIN, output_mode=1, eltwise_buf=(1, 65536)),
    "up to the last byte": replace(PLAIN, input_buf=(1, (1 << 17) - 3072), output_buf=(1, 0)),
    "up to the last weight": replace(PLAIN, runs=[replace(CONV, weight_buf=(2, 16384 - 1168))]),
}


@pytest.mark.parametrize("name", list(ACCEPTED))
def test_what_the_device_can_do_is_not_refused(device: Device, name: str) -> None:
    device.alloc(1 << (18 if ACCEPTED[name] is MANY else 17))
    device.alloc(16384)
    device.run(ACCEPTED[name])


def test_a_list_takes_nothing_after_commit(device: Device) -> None:
    device.alloc(1 << 17)
    device.alloc(4096)
    device.run(PLAIN)
    with pytest.raises(DeviceError, match="add_raw: the list is committed already"):
        device.add(PLAIN)
    with pytest.raises(DeviceError, match="commit: the list is committed already"):
        device.ask("run")


def test_an_empty_list_is_refused(device: Device) -> None:
    device.ask("list")
    with pytest.raises(DeviceError, match="commit: the list is empty"):
        device.ask("run")


def test_the_unified_buffer_has_the_size_that_the_environment_says(driver: Path) -> None:
    chain = replace(PLAIN, runs=[CONV, CONV], topo=2)
    for size, fits in (("1000000", True), ("3000", False)):
        device = Device(driver, {"DMP_DV_UB_SIZE": size})
        device.alloc(1 << 17)
        device.alloc(4096)
        if fits:
            device.run(chain)
        else:
            with pytest.raises(DeviceError, match="bytes of unified buffer, there are 3000"):
                device.run(chain)
        assert device.close() == 0


def test_a_size_that_is_no_number_is_refused(driver: Path) -> None:
    device = Device(driver, {"DMP_DV_UB_SIZE": "64k"})
    with pytest.raises(DeviceError, match="null context handle"):
        device.alloc(16)
    assert device.close() == 0


# The bytes of CONV's weights: a header of 16, then one tile of 144 for each output. Of 7 channels in a tile for 8, the
# three rows from byte 6 on are not used.
@pytest.mark.parametrize(
    ("run", "offset", "message"),
    [
        (CONV, 16 + 6, r"command 0 of the list: packed weights: the tile at byte 16 of the run's weights \(output 0\)"),
        (
            CONV,
            16 + 7 * 144 + 12 + 10,
            r"the tile at byte 1024 of the run's weights \(output 7\) has a value at a position",
        ),
        (replace(CONV, m=5), 10, "the bias of output 5, of 5, is not 0"),
        (replace(CONV, weight_fmt=3), 0, "packed weights at byte 0: entry 0 of the palette is not 0"),
        # a kernel 2 high in a plane of 3: its top row lies at row 9 of the tile
        (replace(CONV, p=0x0203), 16 + 2 * 9 * 6, "the tile at byte 16"),
    ],
)
def test_a_value_where_packed_weights_are_zero_is_an_error(device: Device, run: Run, offset: int, message: str) -> None:
    device.alloc(1 << 17)
    weights = bytearray(4096)
    weights[offset : offset + 2] = b"\x00\x3c"
    device.store(bytes(weights))
    with pytest.raises(DeviceError, match=message):
        device.run(replace(PLAIN, c=7, runs=[run]))


# --- sizes, against the vendor's numbers ---


def shapes_of(case: Fields) -> Command:
    kind = 5 if case["deconv"] else 1
    run = Run(
        case["m"], conv_enable=kind, p=case["kx"] | case["ky"] << 8, weight_fmt=1,
        conv_pad=Sides(*case["pad_lrtb"]).register(),
        conv_stride=case["stride_xy"][0] | case["stride_xy"][1] << 8,
        conv_dilation=case["dilation_xy"][0] | case["dilation_xy"][1] << 8,
    )  # fmt: skip
    return Command(case["w"], case["h"], case["c"], [run])


def test_strips_equal_the_vendors(device: Device, shared: Path) -> None:
    cases = json.loads((shared / "vectors" / "dv700" / "tiles.json").read_text())
    assert len(cases) == 600
    for case in cases:
        assert device.needs(shapes_of(case), case["ub_size"])[1] == case["tiles"], case


@pytest.mark.parametrize("name", ["unified_buffer", "unified_buffer_average_pools"])
def test_unified_buffer_needs_equal_the_vendors(device: Device, shared: Path, name: str) -> None:
    cases = json.loads((shared / "vectors" / "dv700" / f"{name}.json").read_text())
    assert len(cases) == 400
    for case in cases:
        runs = [Run(weight_fmt=1, **run) for run in case["runs"]]
        command = Command(case["w"], case["h"], case["c"], runs, topo=case["topo"])
        assert device.needs(command, case["ub_size"])[0] == case["need_bytes"], case
