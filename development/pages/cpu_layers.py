"""The section of docs/layers.md about the CPU: the C++ functions, and the operators that they compute."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import get_args

from cnn_convertor.devices.cpu_functions import FUNCTIONS
from cnn_convertor.devices.words import words_of
from cnn_convertor.ir import ops

HEAD = """## Layers that run on the CPU

A DV700 convolves, pools, adds and activates. Layers that it does not support run on the CPU, in generated C++: `NAME_cpu.h`,
which `NAME_gen.cpp` includes. There is nothing to write by hand. A network that runs on the device alone has no such file.

Each such layer is an `LT_CUSTOM` whose callback calls one function on the feature maps in the I/O buffer:

```cpp
// "block/se/multiply" (Multiply)
inline void Layer_7(fpga_layer &, void *, uint8_t *io) {
  const Tensor x0(io, 12544, 28, 28, 72, kHalf);
  const Tensor x1(io, 0, 1, 1, 72, kFloat);
  const Tensor y(io, 125440, 28, 28, 72, kHalf);
  Binary(x0, x1, y, Multiply{});
}
```

The numbers of a `Tensor` are its offset in bytes, height, width and channels. The header holds the functions that the network
uses. It needs C++11 and has no global state. Functions of elements run over the machine's vectors: NEON, or F16C if the compiler may use
it (`-mf16c -mavx2 -mfma`). Most others copy their maps as FP32, for as long as the call takes.
`development/benchmarks/functions.cpp` prints the time of each function on a PC or a board.

| function | does | which is |
|---|---|---|
"""
TAIL = """
This table is generated from the operators. The tables above show which layers map to these operators; the convertor itself makes
some: a convolution by 4 with a kernel of 11x11, which is too large for the device, becomes `SpaceToDepth` and a convolution by 1 with
one of 3x3.

### Chosen by time

A layer that the device could run goes to the CPU where that takes less time, as each change between them costs a command list, a
wait, and the cache maintenance of the I/O buffer. These can: pools, sums, scales, activations, and fully connected layers and 1x1
convolutions of a vector, such as the two of squeeze-and-excite. Their weights are FP16 in `NAME_weights.bin`, behind those of the
device, also where others have palettes. The choice is the cheapest of all: a minimum cut of the network, by the times of [the cost
model](devices.md). A layer leaves the device only if that saves a change between the two. `inspect` and the report show the times
that decided.

### Threads

Several threads share the work of each such layer: as many as the board has cores, or `cpu_threads` in `[OUTPUT]`. They belong to the
network object and end with it. Between two layers they sleep on a condition variable: none waits busily. Each element is computed by
the same instructions in the same order, so results do not depend on the number of threads. Maps below 32,768 elements are left to
one thread, because waking another takes longer; with `cpu_threads = auto`, the default, a network that has only such maps on the CPU has no
other threads. If the system cannot start a thread, the others do its work. The
[estimate](devices.md#what-a-network-costs) takes the threads into account; the choice between CPU and device assumes one.

Compile with `-pthread`. With `cpu_threads = 1` no source includes `<thread>`, which firmware without an operating system lacks, and
the board's other cores are left to the application.

### Softmax

By default a softmax is a generated function: it computes in FP32 and leaves its input alone. `softmax = sdk` in `[OPTIONAL]`
uses the SDK's `LT_SOFTMAX` instead, which adds in FP16 (up to 1.8 % off at 1000 classes) and overwrites its input. The convertor
refuses it where another layer or the application reads that input, and for more than 2048 classes (DV425).

### Numbers

Functions compute in FP32. Swish and softmax take exponentials from a polynomial with a relative error of 1e-7, and up to 4e-8 for
each binary place of the result: of all FP16 values, 3 give a swish that is a neighbor of the nearest FP16 value. A map that the
device or the runtime reads next is FP16, in the device's order; a map that only the CPU or the application reads is FP32. An output
of the network that would be in chunks is in the order H, W, C instead.
Positions that FP16 cannot hold are refused (DV424).

An unpooling finds the maxima in the pooled map itself, so that map stays in memory until then. In FP16 some neighbors become
equal; the first of them, row by row, is the maximum, as in Caffe. A value may then lie one pixel off, in one of some thousand
windows; [verify](verify.md) takes this into account.

Device and CPU wait for each other, so a CPU layer between two commands costs time at both ends.
[`cnn-convertor inspect`](report.md#before-a-conversion-inspect) shows which layers run on the CPU, and what share of the work the device does.

### In the code

`cnn_convertor/devices/dv700/legalize/assign_cpu.py` leaves to the CPU what no rewrite makes fit for the device (`OnCpu` in the
graph). The functions are C++ headers in `cnn_convertor/codegen/kernels/`; the convertor copies those that a network needs. Tests
run each on the emulated device against an independent implementation, in both memory orders
(`tests/verification/test_cpu_layers.py`). `cnn-convertor audit` compares the maps in the header with those of the layers (DV666).
"""


def cpu_layers() -> str:
    """The last section of docs/layers.md."""
    return HEAD + "".join(f"{row}\n" for row in _rows()) + TAIL


def _rows() -> Iterator[str]:
    for kind, row in FUNCTIONS.items():
        yield f"| `{row.function}` | {words_of(kind)} | {_meaning(kind).replace('|', chr(92) + '|')} |"


def _meaning(kind: type) -> str:
    """The first paragraph of the operator's docstring; what functions and arithmetic it may be."""
    if kind is ops.Unary:
        return ", ".join(map(words_of, get_args(ops.ElementFunction)))
    if kind is ops.Binary:
        return ", ".join(f"`{operation.value}`" for operation in ops.BinaryOp) + "; axes of length 1 are repeated"
    paragraph, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    return " ".join(paragraph.split()).rstrip(".")
