"""The commands of a probe: every form at its limits, in both memory orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from cnn_convertor.devices.dv700.fusion.levels import Form
from cnn_convertor.devices.dv700.fusion.ub_fit import strips
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.probe.probe_commands import (
    UPSAMPLE,
    Aspect,
    Feature,
    ProbeCommand,
    RunBuilder,
    average_pool,
    branches,
    conv,
    deconv,
    depthwise,
    max_pool,
    packed_factors,
    packed_matrix,
    pool,
)
from cnn_convertor.ir.ops import NO_PADDING, Elu, Function, Padding, Relu, Relu6, Shape, Sigmoid, Tanh

# Times of these commands show the clock, the bandwidth, and what a command and a list cost beside their work.
COMPUTE_BOUND = "one tile that fills the buffer"
MEMORY_BOUND = "an addition of large maps"
IDLE = "a copy of one pixel"
REPEATED = "a copy of one pixel, 64 times in a list"
_RELU6 = Relu6()  # keeps the integers of a chain small
_BARE = average_pool(1, factor=1.0)
_MAP, _SMALL = Shape(13, 18, 16), Shape(9, 11, 16)
_AROUND = Padding(1, 1, 1, 1)


def commands(limits: Limits) -> tuple[ProbeCommand, ...]:
    """All commands that a device with these limits should run. A device without tiles has no command about tiles."""
    both_orders = (replace(command, transposed=transposed) for command in _all(limits) for transposed in (False, True))
    return tuple(
        command for command in both_orders if command.fits(limits) and command.subject in command.aspects(limits)
    )


def _all(limits: Limits) -> Iterator[ProbeCommand]:
    for subject, rows in _SUBJECTS.items():
        for name, shape, builders, options in rows(limits):
            yield ProbeCommand(name, subject, shape, branches(shape, *builders), **options)


class _Row(NamedTuple):
    """A command. branches: the builders of each. options: of ProbeCommand."""

    name: str
    shape: Shape
    branches: tuple[Sequence[RunBuilder], ...]
    options: dict[str, Any]


_Rows: TypeAlias = Iterator[_Row]


def _row(name: str, shape: Shape, *builders: Sequence[RunBuilder], **options: object) -> _Row:
    return _Row(name, shape, builders, options)


def _tallest(
    shape: Shape, limits: Limits, fits: Callable[[ProbeCommand], bool], *builders: Sequence[RunBuilder]
) -> Shape:
    """The map with the most rows, of the shape's width and channels, over which a command fits."""
    low, high = shape.height, limits.max_height
    while low < high:
        middle = (low + high + 1) // 2
        tried = shape._replace(height=middle)
        if fits(ProbeCommand("", Form.RUN, tried, branches(tried, *builders))):
            low = middle
        else:
            high = middle - 1
    return shape._replace(height=low)


def _one_tile(builder: RunBuilder, limits: Limits) -> Shape:
    """The largest map of its kind over which a convolution takes one tile."""

    def fits(command: ProbeCommand) -> bool:
        return strips(command.runs[0], ub_size=limits.ub_size) == 1

    return _tallest(Shape(8, 40, 32), limits, fits, [builder])


# --- one run -------------------------------------------------------------------------------------------------------------


def _plain_runs(limits: Limits) -> _Rows:
    yield from _kernels()
    yield from _plain_depthwise()
    yield from _pools()
    yield from _functions()
    yield from _sizes(limits)


def _kernels() -> _Rows:
    for kernel in (1, 2, 3, 4, 5, 6, 7, (1, 3), (3, 1), (2, 5), (5, 2), (1, 7), (7, 1)):
        yield _row(f"convolution {_by(kernel)}", _MAP, [conv(12, kernel)])
    for side in (3, 7):
        for stride in ((1, 2), (2, 1), (2, 2), (3, 3)):
            yield _row(f"convolution {_by(side)}, stride {_by(stride)}", _MAP, [conv(16, side, stride=stride)])
    for channels, outputs in ((1, 1), (3, 8), (8, 8), (9, 17), (64, 8), (65, 9), (72, 64)):
        for side in (1, 3):
            shape = _SMALL._replace(channels=channels)
            yield _row(f"convolution {_by(side)}, {channels} to {outputs} channels", shape, [conv(outputs, side)])
    yield _row("convolution 5x5, 9 to 9 channels", _SMALL._replace(channels=9), [conv(9, 5)])
    yield _row("convolution 7x7, 9 to 9 channels", _SMALL._replace(channels=9), [conv(9, 7)])
    for padding in (Padding(0, 0, 0, 0), Padding(2, 0, 1, 3), Padding(0, 3, 4, 0)):
        yield _row(f"convolution 3x3, padding {tuple(padding)}", _SMALL, [conv(16, 3, padding=padding)])


def _plain_depthwise() -> _Rows:
    for kernel in (1, 3, 5, 7):
        yield _row(f"depthwise {_by(kernel)}", _MAP, [depthwise(16, kernel)])
    for kernel in (3, 5):
        yield _row(f"depthwise {_by(kernel)}, stride 2x2", _MAP, [depthwise(16, kernel, stride=2)])
    yield _row("depthwise 3x3 of 9 channels", _MAP._replace(channels=9), [depthwise(9, 3)])


def _pools() -> _Rows:
    for side, stride, padding in ((2, 2, NO_PADDING), (3, 2, _AROUND), (3, 1, _AROUND), (2, 1, Padding(0, 1, 0, 1))):
        yield _row(f"max pool {_by(side)}, stride {stride}", _MAP, [pool(max_pool(side, stride, padding))])
    for side, stride, factor in ((1, 2, 1.0), (2, 2, 0.25), (3, 1, 0.125), (5, 2, 2**-5), (7, 7, 2**-6)):
        pooling = average_pool(side, stride, factor=factor)
        yield _row(f"average pool {_by(side)}, stride {stride}", _MAP, [pool(pooling)])
    yield _row("average pool 3x3 with padding", _MAP, [pool(average_pool(3, 1, _AROUND, factor=0.125))])
    yield _row("average pool 3x3 by 1/9", _SMALL, [pool(average_pool(3, factor=1 / 9))], is_exact=False)
    yield _row("convolution 3x3 with max pool 2x2", _MAP, [conv(16, 3, pooling=max_pool())])
    yield _row("convolution 5x5 with max pool 3x3", _MAP, [conv(12, 5, pooling=max_pool(3, 2, _AROUND))])


_EXACT: dict[str, Function] = {"ReLU": Relu(), "leaky ReLU": Relu(0.125), "ReLU6": _RELU6}
_ROUNDED: dict[str, Function] = {"tanh": Tanh(), "sigmoid": Sigmoid(), "ELU": Elu()}


def _functions() -> _Rows:
    for name, function in {**_EXACT, **_ROUNDED}.items():
        is_exact = name in _EXACT
        yield _row(f"convolution 3x3 with {name}", _SMALL, [conv(8, 3, function=function)], is_exact=is_exact)
        yield _row(f"{name} alone", _SMALL, [pool(_BARE, function)], is_exact=is_exact)
    yield _row("convolution 3x3 of fractions", _SMALL, [conv(8, 3, exact=False)], is_exact=False)
    yield _row("depthwise 3x3 of fractions", _SMALL, [depthwise(16, 3, exact=False)], is_exact=False)
    yield _row("an addition", _MAP, [pool(_BARE)], adds=True)
    yield _row("an addition with ReLU", _MAP, [pool(_BARE, Relu())], adds=True)


def _sizes(limits: Limits) -> _Rows:
    for channels, outputs in ((64, 10), (300, 17), (2048, 24)):
        yield _row(f"fully connected, {channels} to {outputs}", Shape(1, 1, channels), [conv(outputs)])
    yield _row("convolution 1x1 of 4096 channels", Shape(2, 2, 4096), [conv(16)])
    yield _row(MEMORY_BOUND, Shape(96, 96, 32), [pool(_BARE)], adds=True)
    yield _row(f"convolution over {limits.max_width} columns", Shape(3, limits.max_width, 16), [conv(8, 3)])
    yield _row(f"convolution over {limits.max_height} rows", Shape(limits.max_height, 5, 16), [conv(8, 3)])
    yield _row(IDLE, Shape(1, 1, 8), [pool(_BARE)])
    yield _row(REPEATED, Shape(1, 1, 8), [pool(_BARE)], repeats=64)
    builder = conv(32, 3)
    one = _one_tile(builder, limits)
    yield _row(COMPUTE_BOUND, one, [builder])
    yield _row("two tiles", one._replace(height=one.height + 1), [builder])
    yield _row("several tiles", one._replace(width=3 * one.width), [builder])
    yield _row("several tiles, stride 2x2", one._replace(width=3 * one.width), [conv(32, 3, stride=2)])
    yield _row("several tiles, 7x7", one._replace(width=2 * one.width), [conv(8, 7)])


def _by(size: int | tuple[int, int]) -> str:
    return f"{size}x{size}" if isinstance(size, int) else f"{size[0]}x{size[1]}"


def _deconvolutions(_: Limits) -> _Rows:
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (4, 2, 1), (3, 1, 1), (5, 3, 1)):
        builder = deconv(12, kernel, stride=stride, padding=padding)
        yield _row(f"deconvolution {_by(kernel)}, stride {stride}", _SMALL, [builder])
    yield _row("depthwise deconvolution 4x4", _SMALL, [deconv(16, 4, stride=2, padding=1, depthwise=True)])


def _dilations(_: Limits) -> _Rows:
    for kernel, dilation in (((3, 3), 2), ((3, 3), 4), ((1, 3), 2), ((5, 5), 2)):
        yield _row(f"convolution {_by(kernel)}, dilation {dilation}", _MAP, [conv(12, kernel, dilation=dilation)])


def _dilated_depthwise(_: Limits) -> _Rows:
    for kernel, dilation in ((3, 2), (3, 4), (5, 2)):
        yield _row(f"depthwise {_by(kernel)}, dilation {dilation}", _MAP, [depthwise(16, kernel, dilation=dilation)])


def _palettes(_: Limits) -> _Rows:
    for kernel in (1, 3, 5, 7, (2, 3)):
        yield _row(f"convolution {_by(kernel)} with a palette", _MAP, [conv(12, kernel, palette=True)])
    yield _row("depthwise 3x3 with a palette", _MAP, [depthwise(16, 3, palette=True)])
    yield _row("fully connected with a palette", Shape(1, 1, 300), [conv(17, palette=True)])


def _slopes(_: Limits) -> _Rows:
    for kernel in (1, 3, 7):
        yield _row(f"convolution {_by(kernel)} with PReLU", _MAP, [conv(12, kernel, slopes=True)])
    yield _row("depthwise 3x3 with PReLU", _MAP, [depthwise(16, 3, slopes=True)])


def _upsampling(_: Limits) -> _Rows:
    yield _row("upsampling", _SMALL, [pool(UPSAMPLE)])
    yield _row("upsampling with ReLU", _SMALL._replace(channels=9), [pool(UPSAMPLE, Relu())])


def _rectangular_pools(_: Limits) -> _Rows:
    for kernel in ((1, 2), (1, 3), (2, 3), (3, 2)):
        yield _row(f"max pool {_by(kernel)}", _MAP, [pool(max_pool(kernel, 2))])
    yield _row("average pool 2x5", _MAP, [pool(average_pool((2, 5), 1, factor=0.125))])
    yield _row("average pool 7x1", _MAP, [pool(average_pool((7, 1), 1, factor=0.125))])


def _tiled_max_pools(limits: Limits) -> _Rows:
    builder = conv(32, 3, pooling=max_pool())
    one = _one_tile(builder, limits)
    yield _row("max pool 2x2 in two tiles", one._replace(height=one.height + 2), [builder])
    yield _row(
        "max pool 3x3 in several tiles", one._replace(width=3 * one.width), [conv(16, 3, pooling=max_pool(3, 2))]
    )


def _u8_inputs(_: Limits) -> _Rows:
    for channels in (1, 3):
        for kernel, stride in ((3, 1), (3, 2), (7, 2)):
            shape = Shape(21, 22, channels)
            name = f"8-bit input of {channels} channels, {_by(kernel)}, stride {stride}"
            yield _row(name, shape, [conv(16, kernel, stride=stride)], table=True)


def _batches(_: Limits) -> _Rows:
    for samples in (2, 3, 8):
        for name, builder in {
            "convolution 3x3": conv(12, 3),
            "convolution 3x3, stride 2x2": conv(12, 3, stride=2),
            "depthwise 3x3": depthwise(16, 3),
            "deconvolution 4x4": deconv(12, 4, stride=2, padding=1),
        }.items():
            yield _row(f"{samples} samples, {name}", _SMALL, [builder], batch=samples)


# --- additions -----------------------------------------------------------------------------------------------------------


def _additions(_: Limits) -> _Rows:
    for name, builder in (
        ("average pool 2x2", pool(average_pool(2, 2, factor=0.25))),
        ("average pool 3x3", pool(average_pool(3, 1, _AROUND, factor=0.125), Relu())),
        ("a scale", pool(average_pool(1, factor=0.5), Relu6())),
        ("a strided copy", pool(average_pool(1, 2, factor=1.0))),
        ("depthwise 1x1", depthwise(16, 1)),
        ("depthwise 1x1 with ReLU", depthwise(16, 1, function=Relu())),
    ):
        yield _row(f"an addition behind {name}", _MAP, [builder], adds=True)


def _packed_factors(_: Limits) -> _Rows:
    for channels in (8, 9, 16, 72):
        shape = _SMALL._replace(channels=channels)
        yield _row(f"packed factors of {channels} channels", shape, [packed_factors()])
    yield _row("packed factors that are fractions", _MAP, [packed_factors()], is_exact=False)
    yield _row("packed factors and an addition", _MAP, [packed_factors(Relu())], adds=True)
    yield _row("packed factors in front of a convolution", _MAP, [packed_factors(_RELU6), conv(12)])


def _packed_matrices(limits: Limits) -> _Rows:
    for kernels, channels in ((8, 8), (9, 16), (16, 65), (7, 130)):
        name = f"a packed matrix of {kernels} kernels for {channels} channels"
        yield _row(name, _SMALL._replace(channels=channels), [packed_matrix(kernels)])
    yield _row("a packed matrix of fractions", _MAP, [packed_matrix(12)], is_exact=False)
    yield _row("a packed matrix in front of a convolution", _MAP, [packed_matrix(8), conv(12)])
    one = _one_tile(packed_matrix(16), limits)
    yield _row("a packed matrix in two tiles", one._replace(height=one.height + 1), [packed_matrix(16)])


def _conv_additions(limits: Limits) -> _Rows:
    for kernel in (1, 3, 5, 7):
        yield _row(f"an addition behind {_by(kernel)}", _MAP, [conv(12, kernel, function=Relu())], adds=True)
    yield _row("an addition behind 3x3, stride 2x2", _MAP, [conv(9, 3, stride=2)], adds=True)
    yield _row("an addition behind depthwise 3x3", _MAP, [depthwise(16, 3)], adds=True)
    yield _row("an addition in front of max pool 2x2", _MAP, [conv(16, 3, pooling=max_pool())], adds=True)
    yield _row("an addition behind a fully connected layer", Shape(1, 1, 300), [conv(17, function=Relu())], adds=True)
    builder = conv(32, 3, function=Relu())
    full = _one_tile(builder, limits)
    yield _row("an addition that fills the buffer", full, [builder], adds=True)


def _tiled_additions(limits: Limits) -> _Rows:
    builder = conv(32, 3, function=Relu())
    one = _one_tile(builder, limits)
    wide = one._replace(width=3 * one.width)
    yield _row("an addition in two tiles", one._replace(height=one.height + 1), [builder], adds=True)
    yield _row("an addition in several tiles", wide, [builder], adds=True)
    yield _row("an addition in several tiles behind 1x1", wide, [conv(24)], adds=True)
    yield _row("an addition in several tiles, stride 2x2", wide, [conv(16, 3, stride=2)], adds=True)


def _deconv_runs(_: Limits) -> _Rows:
    plain = deconv(12, 4, stride=2, padding=1)
    yield _row("an addition behind a deconvolution", _SMALL, [plain], adds=True)
    each = deconv(16, 4, stride=2, padding=1, depthwise=True)
    yield _row("an addition behind a depthwise deconvolution", _SMALL, [each], adds=True)
    yield _row("a max pool behind a deconvolution", _SMALL, [deconv(12, 3, stride=2, padding=1, pooling=max_pool())])


# --- branches and chains -------------------------------------------------------------------------------------------------


def _inner(outputs: int, kernel: int = 1, **options: Any) -> RunBuilder:
    """A convolution that writes to the unified buffer."""
    return conv(outputs, kernel, function=_RELU6, **options)


def _same_size_chain(depth: int) -> list[RunBuilder]:
    return [*([_inner(16, 3)] * (depth - 1)), conv(16, 3)]


_PLAIN = [conv(8, 3)]  # a branch beside those that matter


def _branches(limits: Limits) -> _Rows:
    for count in (2, 3, 8, limits.max_runs):
        yield _row(f"{count} branches", _SMALL, *([conv(8, 1 + 2 * (i % 2))] for i in range(count)))
    yield _row(
        "branches with pools", _MAP, [conv(8, 3, pooling=max_pool())], [conv(16, 1, stride=2)], [pool(max_pool())]
    )
    yield _row("branches of depthwise convolutions and ReLU", _MAP, [depthwise(16, 3)], [conv(8, 1, function=Relu())])


def _inception(limits: Limits) -> _Rows:
    same = pool(max_pool(3, 1, _AROUND))
    pairs: dict[str, list[RunBuilder]] = {
        "1x1 to 3x3": [_inner(8), conv(16, 3)],
        "1x1 to 5x5": [_inner(8), conv(8, 5)],
        "max pool to 1x1": [same, conv(8)],
        "1x1 to 3x3 with max pool": [_inner(8), conv(16, 3, pooling=max_pool(3, 1, _AROUND))],
    }
    for name, builders in pairs.items():
        yield _row(f"a branch {name}", _SMALL, _PLAIN, builders)
    yield _row("an inception module", _MAP._replace(channels=24), [conv(8)], *list(pairs.values())[:3])
    module = ([conv(16)], [_inner(16), conv(32, 3)], [_inner(8), conv(8, 5)], [same, conv(8)])
    full = _tallest(Shape(8, 28, 64), limits, lambda command: command.fits(limits), *module)
    yield _row("an inception module that fills the buffer", full, *module)


def _chains(limits: Limits) -> _Rows:
    for depth in (2, 3, 4, 6, 8, 12, 16, 24, limits.max_runs - 1, limits.max_runs):
        yield _row(f"a chain of {depth}", _SMALL, _same_size_chain(depth))
    yield _row("a chain of 1x1 and 3x3", _SMALL, [_inner(8), conv(16, 3)])
    for depth in (2, 8, limits.max_runs):
        builders = _same_size_chain(depth)
        full = _tallest(Shape(4, 40, 16), limits, lambda command: command.fits(limits), builders)
        yield _row(f"a chain of {depth} that fills the buffer", full, builders)
    yield _row(
        "a chain of 3 with palettes",
        _SMALL,
        [_inner(16, 3, palette=True), _inner(8, palette=True), conv(8, 3, palette=True)],
    )


def _deep_branches(limits: Limits) -> _Rows:
    for depth in (3, 4, 8, (limits.max_runs - 1) // 2):
        yield _row(f"two branches of {depth}", _SMALL, _same_size_chain(depth), _same_size_chain(depth))
    yield _row("a branch of 31", _SMALL, [conv(8)], _same_size_chain(limits.max_runs - 1))
    yield _row("a branch of 1x1, 3x3, 3x3", _SMALL, _PLAIN, [_inner(8), _inner(16, 3), conv(8, 3)])
    builders = ([_inner(16), _inner(16, 3), conv(16, 3)], [conv(16)])
    full = _tallest(Shape(4, 40, 16), limits, lambda command: command.fits(limits), *builders)
    yield _row("a branch of 3 that fills the buffer", full, *builders)


def _other_branches(_: Limits) -> _Rows:
    pairs: dict[str, list[RunBuilder]] = {
        "1x1 to 1x1": [_inner(16), conv(8)],
        "3x3 to 3x3": [_inner(8, 3), conv(8, 3)],
        "3x3 to 1x1": [_inner(16, 3), conv(8)],
        "1x1 to 7x7": [_inner(8), conv(8, 7)],
        "7x7 to 5x5": [_inner(8, 7), conv(8, 5)],
        "max pool to 3x3": [pool(max_pool(3, 1, _AROUND)), conv(8, 3)],
        "3x3 to max pool": [_inner(16, 3), pool(max_pool(3, 1, _AROUND))],
        "1x1 to 1x3": [_inner(8), conv(8, (1, 3))],
    }
    for name, builders in pairs.items():
        yield _row(f"a branch {name}", _SMALL, _PLAIN, builders)


def _beside_and_alone(name: str, shape: Shape, builders: Sequence[RunBuilder], **options: object) -> _Rows:
    """The runs as a branch, and as a chain."""
    yield _row(f"{name}, in a branch", shape, _PLAIN, builders, **options)
    yield _row(f"{name}, in a chain", shape, builders, **options)


def _prelu_in_buffer(_: Limits) -> _Rows:
    for kernel in (1, 3):
        builders = [conv(8, kernel, slopes=True), conv(8, 3)]
        yield from _beside_and_alone(f"PReLU between {_by(kernel)} and 3x3", Shape(9, 11, 3), builders)


def _channels_in_buffer(_: Limits) -> _Rows:
    for channels in (1, 4, 9, 17):
        yield from _beside_and_alone(f"{channels} channels between runs", _SMALL, [_inner(channels), conv(8, 3)])


def _strided(_: Limits) -> _Rows:
    for name, builders in {
        "stride 2x2, then 3x3": [_inner(8, 3, stride=2), conv(8, 3)],
        "1x1, then stride 2x2": [_inner(8), conv(8, 3, stride=2)],
        "max pool with stride 2, then 1x1": [pool(max_pool()), conv(8)],
        "1x1, then max pool with stride 2": [_inner(8), pool(max_pool())],
    }.items():
        yield from _beside_and_alone(name, _MAP, builders)


def _depthwise(_: Limits) -> _Rows:
    each = depthwise(16, 3, function=_RELU6)
    for name, builders in {
        "1x1 to depthwise 3x3": [_inner(16), depthwise(16, 3)],
        "depthwise 3x3 to 1x1": [each, conv(8)],
        "depthwise 5x5 to 1x1": [depthwise(16, 5, function=_RELU6), conv(8)],
        "1x1, depthwise 3x3, 1x1": [_inner(16), each, conv(8)],
    }.items():
        yield from _beside_and_alone(name, _MAP, builders)
    yield _row(
        "1x1, depthwise 3x3 with stride 2x2, 1x1",
        _MAP,
        [_inner(16), depthwise(16, 3, stride=2, function=_RELU6), conv(8)],
    )


def _average_pools(_: Limits) -> _Rows:
    average = average_pool(3, 1, _AROUND, factor=0.125)
    for name, builders in {
        "average pool 3x3 to 1x1": [pool(average), conv(8)],
        "1x1 to average pool 3x3": [_inner(8), pool(average)],
        "1x1 to average pool 7x7": [_inner(8), pool(average_pool(7, 1, factor=2**-5))],
    }.items():
        yield from _beside_and_alone(name, _SMALL, builders)


def _dense(_: Limits) -> _Rows:
    yield from _beside_and_alone("fully connected, 64 to 32 to 10", Shape(1, 1, 64), [_inner(32), conv(10)])
    yield _row("fully connected, 4 layers", Shape(1, 1, 256), [_inner(64), _inner(64), _inner(32), conv(10)])
    pooled = [_inner(16, 3), pool(average_pool(7, 7, factor=2**-4)), conv(10)]
    yield _row("average pool 7x7 to fully connected", Shape(7, 7, 16), pooled)


def _channel_splits(limits: Limits) -> _Rows:
    for name, inner in {
        "depthwise 3x3": depthwise(8, 3),
        "depthwise 3x3 with stride 2x2": depthwise(8, 3, stride=2),
        "average pool 3x3": pool(average_pool(3, 1, _AROUND, factor=0.125)),
        "max pool 3x3": pool(max_pool(3, 1, _AROUND)),
    }.items():
        yield _row(f"3 branches of 8 channels, {name}", _MAP, *[[_inner(8), inner]] * 3)
    yield _row("branches of 16 and 9 channels", _MAP, *([_inner(m), depthwise(m, 3)] for m in (16, 16, 9)))
    most = [[_inner(8), depthwise(8, 3)]] * (limits.max_runs // 2)
    yield _row("as many branches of 8 channels as a command has", _SMALL, *most)
    full = _tallest(Shape(4, 28, 16), limits, lambda command: command.fits(limits), *most)
    yield _row("branches of 8 channels that fill the buffer", full, *most)


_SUBJECTS: dict[Aspect, Callable[[Limits], _Rows]] = {
    Form.RUN: _plain_runs,
    Form.ADDITION: _additions,
    Form.CONV_ADDITION: _conv_additions,
    Form.BRANCHES: _branches,
    Form.INCEPTION_BRANCH: _inception,
    Form.TILED_POOL: _tiled_max_pools,
    Form.DILATED_DEPTHWISE: _dilated_depthwise,
    Form.TILED_ADDITION: _tiled_additions,
    Form.DECONV_RUN: _deconv_runs,
    Form.CHAIN: _chains,
    Form.DEEP_BRANCH: _deep_branches,
    Form.OTHER_BRANCH: _other_branches,
    Form.PRELU_IN_BUFFER: _prelu_in_buffer,
    Form.CHANNELS_IN_BUFFER: _channels_in_buffer,
    Form.STRIDED: _strided,
    Form.DEPTHWISE: _depthwise,
    Form.AVERAGE_POOL: _average_pools,
    Form.DENSE: _dense,
    Form.CHANNEL_SPLIT: _channel_splits,
    Form.PACKED_FACTORS: _packed_factors,
    Form.PACKED_MATRIX: _packed_matrices,
    Feature.DECONVOLUTION: _deconvolutions,
    Feature.DILATION: _dilations,
    Feature.PALETTE: _palettes,
    Feature.PRELU: _slopes,
    Feature.UPSAMPLING: _upsampling,
    Feature.RECTANGULAR_POOL: _rectangular_pools,
    Feature.U8_INPUT: _u8_inputs,
    Feature.BATCH: _batches,
}
