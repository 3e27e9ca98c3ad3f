"""One hundred faults in the convertor's own source, each a change of one line, with the network that reaches it.

A row names its line by what stands there: when code moves, only the name of the file changes. A test says which row no longer fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]


class Fault(NamedTuple):
    """network: a name in NETWORKS. path: relative to the checkout. old: occurs once in the file."""

    path: str
    network: str
    old: str
    new: str

    @property
    def room(self) -> str:
        """What the file belongs to, as the table of results names it."""
        return next(room for room, starts in ROOMS.items() if self.path.startswith(starts))

    def applied(self, text: str) -> str:
        """Raises ValueError, with the row, unless the old text occurs once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


ROOMS: Final[Mapping[str, tuple[str, ...]]] = {
    "readers": ("cnn_convertor/frontends/",),
    "operators and passes": ("cnn_convertor/ir/", "cnn_convertor/passes/"),
    "legal graphs": ("cnn_convertor/devices/dv700/legalize/", "cnn_convertor/devices/split_pools.py"),
    "packed weights, palettes": ("cnn_convertor/devices/dv700/weights/", "cnn_convertor/quantize/"),
    "registers and FP16": (
        "cnn_convertor/devices/dv700/encode/",
        "cnn_convertor/devices/half.py",
        "cnn_convertor/devices/half_check.py",
    ),
    "functions of the CPU": ("cnn_convertor/codegen/kernels/", "cnn_convertor/devices/cpu_functions.py"),
    "generated sources": ("cnn_convertor/codegen/", "cnn_convertor/devices/dv700/sources/", "templates/"),
    "commands and memory": ("cnn_convertor/devices/dv700/", "cnn_convertor/memory/", "cnn_convertor/layouts/"),
    "emulated device": ("cnn_convertor/host/", "cnn_convertor/emulation/"),
}


def _faults() -> tuple[Fault, ...]:
    return tuple(
        Fault(f"{folder}{path}", network, old, new)
        for folder, rows in _ROWS.items()
        for path, network, old, new in rows
    )


_ROWS: Final[Mapping[str, tuple[tuple[str, str, str, str], ...]]] = {
    "cnn_convertor/frontends/caffe/": (
        ("layers/channels.py", "caffe", "1 / total if total else 0.0", "total if total else 0.0"),
        ("layers/channels.py", "caffe", "ops.BatchNorm(mean.scale_rows(factors), variance.scale_rows", "ops.BatchNorm(mean, variance.scale_rows"),
        ("layers/channels.py", "caffe", "weight.map_rows(lambda w: w.reshape(-1, *shape), shape)", "weight.map_rows(lambda w: w[:, ::-1].reshape(-1, *shape), shape)"),
        ("layers/conv_pool.py", "caffe", "Padding(pad.height, pad.height, pad.width, pad.width)\n    match", "Padding(pad.width, pad.width, pad.height, pad.height)\n    match"),
        ("layers/conv_pool.py", "caffe", "weight.swap_axes(group)", "weight.swap_axes(1).swap_axes(1).swap_axes(group).map_rows(lambda w: w[..., ::-1])"),
        ("layers/conv_pool.py", "caffe", "ops.AveragePool2d(window._replace(padding=padding), uncounted=beyond)", "ops.AveragePool2d(window, uncounted=padding + beyond)"),
        ("layers/functions.py", "caffe", "ops.ScaledElu(alpha)", "ops.ScaledElu(alpha * alpha)"),
        ("layers/merge.py", "caffe", "x if factor == 1 else", "x if abs(factor) <= 1 else"),
        ("layers/reductions.py", "caffe", 'k = k if across else 1.0', 'k = k if across else 2.0'),
        ("layers/reductions.py", "caffe", "divides=divides, epsilon_outside=True", "divides=divides, epsilon_outside=False"),
    ),
    "cnn_convertor/frontends/keras/": (
        ("activations.py", "keras", "ops.HardSigmoid(1 / 6, 0.5)", "ops.HardSigmoid(0.2, 0.5)"),
        ("convolutions.py", "keras", "(2, 3, 0, 1) if transposed else (3, 2, 0, 1)", "(2, 3, 1, 0) if transposed else (3, 2, 0, 1)"),
        ("convolutions.py", "keras", "sides += (cut // 2, cut - cut // 2)", "sides += (cut - cut // 2, cut // 2)"),
        ("convolutions.py", "keras", "values.transpose(2, 0, 1)[:, None]", "values.transpose(2, 1, 0)[:, None]"),
        ("merge.py", "keras", "1 / len(reading.inputs)", "1 / max(3, len(reading.inputs))"),
        ("normalizations.py", "keras", 'epsilon=reading.number("epsilon", 1e-3),', 'epsilon=reading.number("epsilon", 1e-3) / 100,'),
        ("normalizations.py", "keras", "ops.MeanVarianceNorm(tuple(Axis), reading.number(\"epsilon\", 1e-3), groups)", "ops.MeanVarianceNorm(tuple(Axis), reading.number(\"epsilon\", 1e-3), 1)"),
        ("resize.py", "keras", "ops.AveragePool2d(window, uncounted=padding)", "ops.AveragePool2d(window._replace(padding=padding))"),
        ("resize.py", "keras", "sides = Padding(top, bottom, left, right)", "sides = Padding(bottom, top, left, right)"),
        ("resize.py", "keras", "upsampling_of(reading) if interpolation", "Sampling.ASYMMETRIC if interpolation"),
    ),
    "cnn_convertor/frontends/onnx/": (
        ("importer.py", "pairs", "for info in self._model.outputs])\n\n", "for info in self._model.outputs[::-1]])\n\n"),
        ("importer.py", "pairs", "return self._builder.finish([self._output(info.name) for info in self._model.outputs])", "return self._builder.finish([self._output(info.name) for info in self._model.outputs[:-1]])"),
        ("operators/conv_pool.py", "windows", "Padding(top, bottom, left, right)", "Padding(bottom, top, left, right)"),
        ("operators/conv_pool.py", "windows", "return Padding(upper.bottom, upper.top, upper.right, upper.left)", "return upper"),
        ("operators/conv_pool.py", "windows", "pooling_reach(*rows, rounds_up=True, clips=True)", "pooling_reach(*rows, rounds_up=False, clips=True)"),
        ("operators/conv_pool.py", "windows", 'reading.integer("count_include_pad", 0):', 'reading.integer("count_include_pad", 0) < 0:'),
        ("operators/elementwise.py", "moves", "return scaled(reading, x, 1 / numbers, None, part)", "return scaled(reading, x, numbers, None, part)"),
        ("operators/functions.py", "functions", "ops.Gelu(by_tanh=True)", "ops.Gelu()"),
        ("operators/functions.py", "functions", "scale_and_shift(channels, 6 * alpha, 6 * beta)", "scale_and_shift(channels, 6 * alpha, 6.01 * beta)"),
        ("operators/normalizations.py", "windows", "epsilon = reading.number(\"epsilon\", 1e-5)\n    return on_channels", "epsilon = reading.number(\"epsilon\", 1e-5) / 100\n    return on_channels"),
        ("operators/normalizations.py", "functions", "ops.LocalResponseNorm(size, alpha, beta, bias)", "ops.LocalResponseNorm(size, 1.02 * alpha, beta, bias)"),
        ("folding.py", "quantized", "steps.numbers(x).astype(scale.dtype)", "(steps.numbers(x) + steps.zero * steps.scale).astype(scale.dtype)"),
        ("operators/resize.py", "moves", '"cubic_coeff_a", -0.75', '"cubic_coeff_a", -0.5'),
        ("operators/shapes.py", "moves", "(2, 3, 0, 4, 1), dims)", "(2, 3, 1, 4, 0), dims)"),
        ("quant_params.py", "quantized", "(np.iinfo(self.type).max - self.zero)", "(np.iinfo(self.type).max // 2 - self.zero)"),
    ),
    "cnn_convertor/frontends/": (
        ("arithmetic.py", "keras", "sides += (total // 2, total - total // 2)", "sides += (total - total // 2, total // 2)"),
        ("nchw.py", "moves", "return Matrices(math.prod(inner[:-2]), Axis.CHANNELS, Axis.HEIGHT, Axis.WIDTH)", "return Matrices(math.prod(inner[:-2]), Axis.CHANNELS, Axis.WIDTH, Axis.HEIGHT)"),
    ),
    "cnn_convertor/ir/": (
        ("ops/computing.py", "windows", "kernels[:, :, ::-1, ::-1]", "kernels[:, :, ::-1]"),
        ("ops/computing.py", "windows", "1.0 / math.prod(self.window.kernel) if", "1.0 / (math.prod(self.window.kernel) + 0.01) if"),
        ("constant.py", "caffe", "columns = factors.reshape(-1", "columns = factors[::-1].reshape(-1"),
    ),
    "cnn_convertor/passes/": (
        ("canonicalize.py", "caffe", "norm.variance.load_wide() + norm.epsilon", "norm.variance.load_wide()"),
        ("canonicalize.py", "windows", "shift = beta - norm.mean.load_wide() * factor", "shift = beta - norm.mean.load_wide()"),
        ("canonicalize.py", "moves", "np.full(graph.shape(y).channels, -1.0)", "np.full(graph.shape(y).channels, -1.001)"),
        ("fold_scales.py", "windows", "bias = factor * _values(before.bias, len(factor)) + shift", "bias = _values(before.bias, len(factor)) + shift"),
        ("fold_padding.py", "moves", "padding=after.padding + first.op.padding", "padding=after.padding"),
        ("fold_products.py", "moves", "replace(first.op, factor=first.op.factor * factor)", "replace(first.op, factor=factor / first.op.factor * 1.0003)"),
        ("fuse_hard_swish.py", "functions", '_is_scale(op, factor=1.0, shift=3.0)', '_is_scale(op, factor=1.0, shift=2.5)'),
        ("hoist_scales.py", "windows", "for one, other in ((by, by.linear), (by.linear, by)):", "for one, other in ((by, by), (by, by)):"),
        ("swap_pool_conv.py", "windows", "replace(conv, activation=pool.activation)", "replace(conv, activation=None)"),
        ("fold_transposes.py", "moves", "axes = [between[starts[axis] + place]", "axes = [between[starts[axis]]"),
    ),
    "cnn_convertor/devices/dv700/legalize/": (
        ("single_operators.py", "moves", "_depthwise(factor, shift, function)),)", "_depthwise(factor, None, function)),)"),
        ("single_operators.py", "moves", "op=replace(COPY, activation=function)),)\n        case ops.Pad", "op=replace(COPY, activation=ops.Relu())),)\n        case ops.Pad"),
        ("single_operators.py", "windows", "        left *= area\n", "        left *= area + 1\n"),
        ("decompose_conv.py", "windows", "g * per_group : (g + 1) * per_group", "(groups - 1 - g) * per_group : (groups - g) * per_group"),
        ("drop_taps.py", "windows", "values[:, :, rows.first : rows.end,", "values[:, :, rows.first - 1 : rows.end - 1,"),
    ),
    "cnn_convertor/devices/dv700/fusion/": (
        ("combining.py", "bytes", "not isinstance(after.op, Dense) or self.graph.shape(before.name).is_vector", "True"),
    ),
    "cnn_convertor/devices/dv700/weights/": (
        ("streams.py", "windows", "[(2, 5), (0, 3), (1, 3), (2, 3), (0, 0), (1, 0), (2, 0)]", "[(2, 5), (0, 3), (1, 3), (2, 3), (0, 0), (2, 0), (1, 0)]"),
        ("streams.py", "windows", "return 9 - 3 * (k // 2) + y, 3 * (k % 2) + x", "return 9 - 3 * (k // 2) + x, 3 * (k % 2) + y"),
        ("streams.py", "windows", "return 7 - 6 * k + y, x", "return 1 + 6 * k + y, x"),
        ("streams.py", "windows", "return 11 - 3 * (k // 2) - group // 3, 3 * (k % 2) + group % 3", "return 11 - 3 * (k // 2) - group % 3, 3 * (k % 2) + group // 3"),
        ("streams.py", "windows", "header if tap == taps[-1] else np.zeros_like(header)", "header if tap == taps[0] else np.zeros_like(header)"),
        ("streams.py", "windows", "[(y, x) for x in columns for y in rows] if transposed", "[(y, x) for y in rows for x in columns] if transposed"),
        ("streams.py", "windows", "[bias] if prelu is None else [bias, prelu]", "[bias] if prelu is None else [prelu, bias]"),
        ("streams.py", "turned", "(x if transposed else y) + extra_rows, y if transposed else x)", "(y if transposed else x) + extra_rows, x if transposed else y)"),
        ("encoding.py", "windows", "half = check.halve(kernels, \"weight\")", "half = check.halve(kernels * (1 - 2.0**-12), \"weight\")"),
        ("streams.py", "palettes", 'palette.astype("<f2")', '(palette * np.float16(1.002)).astype("<f2")'),
        ("streams.py", "palettes", "palette.index.take(read(rows).view(np.uint16))", "palette.index.take(read(rows).view(np.uint16) & np.uint16(0xFFF0))"),
    ),
    "cnn_convertor/devices/dv700/encode/": (
        ("registers.py", "windows", "return padding.left | padding.right << 8 | padding.top << 16", "return padding.right | padding.left << 8 | padding.top << 16"),
        ("registers.py", "windows", "Tanh: 1, Relu: 2, Sigmoid: 3", "Tanh: 3, Relu: 2, Sigmoid: 1"),
        ("registers.py", "windows", "return pair.width | pair.height << 8", "return pair.height | pair.width << 8"),
        ("registers.py", "windows", "half_bits(pooling.factor)", "half_bits(pooling.factor) + 2"),
        ("registers.py", "windows", "half_bits(function.slope) if isinstance", "half_bits(function.slope / 2) if isinstance"),
    ),
    "cnn_convertor/devices/dv700/memory/": (
        ("placement.py", "windows", "offset += nbytes(graph, part)", "offset += nbytes(graph, part) // 2"),
        ("placement.py", "windows", "dies[name] = index", "dies.setdefault(name, index)"),
        ("memory_layout.py", "windows", "reshape(channels, height, width).transpose(1, 2, 0)", "reshape(channels, height, width)[::-1].transpose(1, 2, 0)"),
    ),
    "cnn_convertor/devices/dv700/": (
        ("byte_input.py", "bytes", "table=tuple(entry[::-1] for entry in byte_input.table), swapped=True", "swapped=True"),
        ("byte_input.py", "bytes", "halves = to_half(values)\n", "halves = to_half(values * np.float32(1.01))\n"),
        ("commands.py", "windows", "kernels, padding = op.rotated, op.input_padding", "kernels, padding = op.weight, op.input_padding"),
        ("lower.py", "pairs", "written = tuple(written_by[buffer_owner(graph, output).name] for output in graph.outputs)", "written = tuple(written_by[buffer_owner(graph, output).name] for output in graph.outputs)[::-1]"),
    ),
    "cnn_convertor/devices/": (
        ("half_check.py", "functions", "halved(values, \"constant\", array.where)[0]", "halved(values * np.float32(1.001), \"constant\", array.where)[0]"),
        ("split_pools.py", "windows", "AxisWindow(kernel, 1, here_before, here_after)", "AxisWindow(kernel, 1, here_after, here_before)"),
        ("half.py", "windows", "sign &= _SIGN", "sign &= np.uint32(0)"),
        ("half.py", "windows", "flat = values.reshape(-1)\n    half =", "flat = (values * np.float32(1 - 2.0**-12)).reshape(-1)\n    half ="),
        ("cpu_functions.py", "functions", "op.size, op.alpha, op.beta, op.bias, op.across_channels", "op.size, op.alpha, op.beta, op.beta, op.across_channels"),
        ("cpu_functions.py", "functions", "float(op.epsilon), op.epsilon_outside", "float(op.epsilon) * 2, op.epsilon_outside"),
    ),
    "cnn_convertor/memory/": (
        ("planning.py", "windows", "offsets[root] + start for name", "offsets[root] for name"),
    ),
    "cnn_convertor/quantize/": (
        ("clustering.py", "palettes", "+ (1 << 41)) & -(1 << 42)", "+ (0 << 41)) & -(1 << 42)"),
        ("__init__.py", "palettes", "np.searchsorted((ascending[:-1] + ascending[1:]) / 2, _VALUES)", "np.searchsorted(ascending[1:], _VALUES)"),
    ),
    "cnn_convertor/layouts/": (
        ("dv700.py", "turned", 'inside = "h w" if transposed else "w h"', 'inside = "w h" if transposed else "h w"'),
    ),
    "cnn_convertor/codegen/kernels/": (
        ("unary.h", "functions", "Each<V>(6.0f)) / Each<V>(6.0f)", "Each<V>(6.0f)) / Each<V>(6.005f)"),
        ("unary.h", "functions", "0.044715f", "0.04472f"),
        ("unary.h", "functions", "std::erfc(-0.7071067812f * x)", "std::erfc(-0.7072f * x)"),
        ("unary.h", "functions", "PowerOfTwo(Each<V>(-beta * kLog2OfE) * x)", "PowerOfTwo(Each<V>(-beta * 1.4414f) * x)"),
        ("unary.h", "functions", "scale * (x > 0.0f ? x : alpha * std::expm1(x))", "scale * (x > 0.0f ? x : std::expm1(x))"),
        ("softmax.h", "functions", "Each<V>(kLog2OfE) * (x - largest)", "Each<V>(1.4434f) * (x - largest)"),
        ("local_response_norm.h", "functions", "std::min(c + half, x.channels - 1)", "std::min(c + half, x.channels - 2)"),
        ("mean_variance_norm.h", "functions", "const double variance = squares * part;", "const double variance = 1.01 * squares * part;"),
        ("l2_normalize.h", "functions", "return 1.0 / std::sqrt(at_least", "return 1.0005 / std::sqrt(at_least"),
        ("resize.h", "moves", "static_cast<float>(from - 1) / static_cast<float>(to - 1)", "static_cast<float>(from) / static_cast<float>(to)"),
        ("resize.h", "moves", "x * Each<V>(1.0f - share) + y * Each<V>(share)", "x * Each<V>(share) + y * Each<V>(1.0f - share)"),
        ("half.h", "functions", "0x0FFFu + ((rest >> 13) & 1u)) >> 13", "0x0000u + ((rest >> 13) & 0u)) >> 13"),
        ("binary.h", "moves", "return Larger(x, y);", "return Smaller(x, y);"),
        ("average_pool.h", "windows", "static_cast<float>(std::max(count, 1))", "static_cast<float>(std::max(count, 5))"),
    ),
    "cnn_convertor/codegen/": (
        ("kernels/__init__.py", "moves", "f\"Tensor {name}(weights, {offset}, {', '.join(map(str, array.shape))}, {kind})\"", "f\"Tensor {name}(weights, {offset + 2}, {', '.join(map(str, array.shape))}, {kind})\""),
        ("cpp.py", "functions", "text = str(np.float32(value))", "text = f\"{np.float32(value):.4}\""),
        ("description.py", "turned", "layout = tensor.layout.name", "layout = tensor.layout.name[::-1]"),
    ),
    "cnn_convertor/devices/dv700/sources/": (
        ("layer_views.py", "windows", '("eltwise_buf.offs", 0 if operand is None else operand.offset, "")', '("eltwise_buf.offs", 0, "")'),
        ("layer_views.py", "windows", '("output_buf.offs", layer.output.offset, "")', '("output_buf.offs", layer.output.offset + 16 * (layer.name == "seven"), "")'),
        ("rendering.py", "bytes", "for entry in byte_input.table for bits in entry]", "for entry in byte_input.table for bits in entry[::-1]]"),
    ),
    "templates/": (
        ("network.cpp.j2", "pairs", "output_layers_[{{ position }}]", "output_layers_[{{ outputs | length - 1 - position }}]"),
        ("network.cpp.j2", "windows", "  is_weight_transposed = true;", "  is_weight_transposed = false;"),
    ),
    "cnn_convertor/host/": (
        ("src/units.cpp", "windows", "x < 0.0f ? x * slope : x;", "x < 0.0f ? x * (slope * 0.99f) : x;"),
        ("src/units.cpp", "windows", "none + 6.0f", "none + 5.99f"),
        ("src/units.cpp", "windows", "return std::tanh(x);", "return std::tanh(1.001f * x);"),
        ("src/units.cpp", "windows", "return x < 0.0f ? std::expm1(x) : x;", "return x < 0.0f ? std::exp(x) - 0.999f : x;"),
        ("src/units.cpp", "windows", "values[k] * factor;", "values[k] * factor * 1.0005f;"),
        ("src/convolve.cpp", "windows", "size(x * major.dilation) * row + 8 * size(y * minor.dilation)", "size(y * major.dilation) * row + 8 * size(x * minor.dilation)"),
        ("src/weights.cpp", "windows", "else if (y < 4) row = y - 1, column = 3;", "else if (y < 4) row = 3 - y, column = 3;"),
        ("src/registers.cpp", "windows", "return {byte(0), byte(1), byte(2), byte(3)};", "return {byte(1), byte(0), byte(2), byte(3)};"),
        ("src/half.h", "windows", "0x0fffu + ((magnitude >> 13) & 1u)", "0x0000u + ((magnitude >> 13) & 1u)"),
    ),
    "cnn_convertor/emulation/": (
        ("feature_maps.py", "pairs", "values = inputs[name]\n", "values = inputs[names[0]]\n"),
    ),
}  # fmt: skip
FAULTS: Final = _faults()
