"""A generated network, written by hand: a convolution with ReLU on the device, and a CPU layer that doubles what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np

from cnn_convertor.devices.nvdla.configurations import NV_FULL
from cnn_convertor.devices.nvdla.emulating import NvdlaTwin
from cnn_convertor.devices.nvdla.playing import AccessKind
from cnn_convertor.devices.program import PLAIN, ElementType, Layer, LayerOf, LayerType, Program, ProgramOf, Tensor
from cnn_convertor.emulation.feature_maps import Maps
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.files.replacing import Contents, replace_all
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from cnn_convertor.ir.graph import Graph, Node
from cnn_convertor.ir.ops import Padding, Pair, Shape, Window
from cnn_convertor.layouts.layout import Layout, Term
from cnn_convertor.memory import Plan
from devices.nvdla import programs, reference
from devices.nvdla.programs import UNIT_X, Convolution, Features

NAME = "net"
ATOMS = Layout("hwc", (Term("c", 16), Term("h"), Term("w"), Term("c", 1, 16)), name="nvdla_feature_fp16")
IMAGE, RESULT = Shape(4, 5, 20), Shape(4, 5, 12)
WEIGHTS, IO = 0x10000000, 0x10000000 + 8192  # where the runner puts them
INPUT, MIDDLE, OUTPUT, END = 0, 1280, 2048, 3072  # bytes of the I/O memory

HEADER = Template("""\
#ifndef CNET_GEN_H
#define CNET_GEN_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef NVDLA_REGISTER_ACCESS
inline void nvdla_write(volatile uint32_t *place, uint32_t value) { *place = value; }
inline uint32_t nvdla_read(const volatile uint32_t *place) { return *place; }
#endif

namespace Cnet_io {

struct Map {
  const char *name;
  std::size_t offset, bytes;
  int height, width, channels, element_bytes;
  const char *layout;
};
constexpr Map kInputs[] = {{"image", $input, $input_bytes, 4, 5, 20, $half, "nvdla_feature_fp16"}};
constexpr Map kOutputs[] = {{"doubled", $output, $output_bytes, 4, 5, 12, 4, "HWC"}};
constexpr float kMean[] = {104.0f, 117.0f, 123.0f};
constexpr float kScale = 0.5f;
constexpr char kChannelOrder[] = "BGR";
uint16_t ToHalf(float value);
float FromHalf(uint16_t half);

}  // namespace Cnet_io

struct Cnet_memory {
  uint8_t *data;
  uint64_t address;
};

struct Cnet_hooks {
  void *context;
  void (*to_device)(void *context, const void *data, std::size_t bytes);
  void (*to_cpu)(void *context, void *data, std::size_t bytes);
  bool (*wait)(void *context);
};

class Cnet {
 public:
  static const std::size_t kWeightBytes = $weight_bytes, kIoBytes = $io_bytes;

  Cnet(volatile uint32_t *registers, Cnet_memory weights, Cnet_memory io, Cnet_hooks hooks)
      : registers_(registers), weights_(weights), io_(io), hooks_(hooks) {}
  bool LoadWeights(const void *bytes, std::size_t size) {
    if (size != kWeightBytes) return Fail("the weights have another size");
    std::memcpy(weights_.data, bytes, size);
    hooks_.to_device(hooks_.context, weights_.data, size);
    return true;
  }
  bool Run();
  const char *error() const { return error_; }
  uint8_t *io() const { return io_.data; }
  int layer_count() const { return 2; }
  bool RunLayer(int index);

 private:
  bool Fail(const char *why) {
    error_ = why;
    return false;
  }

  volatile uint32_t *registers_;
  Cnet_memory weights_, io_;
  Cnet_hooks hooks_;
  const char *error_ = "";
  int turn_ = 0;
};

#endif
""")

SOURCE = Template("""\
#include "net_gen.h"

#include <cmath>

namespace Cnet_io {

// Of small values.
uint16_t ToHalf(float value) {
  if (value == 0.0f) return 0;
  int exponent;
  const float part = std::frexp(std::fabs(value), &exponent);
  const int bits = exponent < -13 ? static_cast<int>(std::nearbyint(std::ldexp(part, exponent + 24)))
                                  : ((exponent + 13) << 10) + static_cast<int>(std::nearbyint(part * 2048.0f));
  return static_cast<uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

float FromHalf(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float value = exponent ? std::ldexp(1024.0f + fraction, exponent - 25) : std::ldexp(1.0f * fraction, -24);
  return half & 0x8000 ? -value : value;
}

}  // namespace Cnet_io

bool Cnet::RunLayer(int index) {
  if (index == 0) {
    hooks_.to_device(hooks_.context, io_.data, kIoBytes);
$accesses
    return true;
  }
  hooks_.to_cpu(hooks_.context, io_.data + $middle, 320 * $half);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 5; ++x)
      for (int c = 0; c < 12; ++c) {
        const uint8_t *from = io_.data + $middle + $half * ((y * 5 + x) * 16 + c);
        float value;
        uint16_t half;
        std::memcpy(&half, from, sizeof(half));
        std::memcpy(&value, from, sizeof(value));
        if ($half == 2) value = Cnet_io::FromHalf(half);
        value *= 2;
        std::memcpy(io_.data + $output + 4 * ((y * 5 + x) * 12 + c), &value, sizeof(value));
      }
  hooks_.to_device(hooks_.context, io_.data + $output, 4 * 240);
  return true;
}

bool Cnet::Run() { return RunLayer(0) && RunLayer(1); }
""")


class Small(NamedTuple):
    """network: installed. kernels: (K, C, R, S)"""

    network: EmulatedNetwork
    kernels: Maps

    def expected(self, images: Maps) -> Maps:
        """The output of its plain formula."""
        made = []
        for image in images:
            seen = reference.windows(image, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 0)
            made.append(2 * np.maximum(np.einsum("yxrsc,kcrs->yxk", seen, self.kernels), 0))
        return np.array(made, np.float32)


def small_network(folder: Path, changed: Mapping[str, str] | None = None, *, exact: bool = False) -> Small:
    """changed: accesses, or offsets of the header. exact: in FP32, with values that FP16 does not have."""
    scale = 2 if exact else 1
    kernels = (
        np.random.default_rng(5)
        .normal(size=(12, 20, 3, 3))
        .astype(np.float32 if exact else np.float16)
        .astype(np.float32)
    )
    packed = reference.weights_to_memory(
        kernels.transpose(0, 2, 3, 1),
        NV_FULL.atomic_c,
        NV_FULL.atomic_k["fp16"],
        scale * NV_FULL.cbuf_entry_bytes,
        "<f4" if exact else "<f2",
    )
    numbers = {
        "input": str(INPUT),
        "input_bytes": str(scale * (MIDDLE - INPUT)),
        "middle": str(scale * MIDDLE),
        "output": str(scale * OUTPUT),
        "output_bytes": str(4 * RESULT.size),
        "half": str(2 * scale),
        "weight_bytes": str(len(packed)),
        "io_bytes": str(scale * END),
        "accesses": accesses(),
        **(changed or {}),
    }
    files: dict[str, Contents] = {
        f"{NAME}_gen.h": HEADER.substitute(numbers),
        f"{NAME}_gen.cpp": SOURCE.substitute(numbers),
        f"{NAME}_weights.bin": [np.frombuffer(packed, np.uint8)],
    }
    replace_all(folder, files)
    network = EmulatedNetwork.of(graph_of(kernels), program(exact=exact), folder, NvdlaTwin(NV_FULL, exact))
    return Small(network, kernels)


def accesses(source: int = IO + INPUT) -> str:
    """The convolution as statements, for both groups of registers in turn. source: the address of the image."""
    made = programs.Program(NV_FULL)
    image = Features(source, *IMAGE, "fp16")
    middle = Features(IO + MIDDLE, *RESULT, "fp16")
    relu = {f"BS_{name}": value for name, value in UNIT_X.items()} | {"BS_RELU_BYPASS": 0}
    status = made.address("GLB", "S_INTR_STATUS") // 4
    blocks = []
    for _ in range(2):
        made.accesses.clear()
        programs.process(made, middle, sdp={"D_DP_BS_CFG": relu})
        programs.convolve(made, Convolution(image, WEIGHTS, RESULT.channels, 3, 3, pads=(1, 1, 1, 1)))
        made.wait("SDP", "CACC")
        lines = []
        for kind, address, value in made.accesses:
            if kind is AccessKind.WRITE:
                lines.append(f"      nvdla_write(registers_ + {address // 4}, {value}u);\n")
            else:
                lines.append(f"      while ((nvdla_read(registers_ + {status}) & {value}u) != {value}u) {{}}\n")
                lines.append(f"      nvdla_write(registers_ + {status}, {value}u);\n")
        blocks.append("".join(lines))
    return f"    if ((turn_ ^= 1)) {{\n{blocks[0]}    }} else {{\n{blocks[1]}    }}"


def program(*, exact: bool = False) -> Program:
    scale = 2 if exact else 1
    element = ElementType(2 * scale)
    image = Tensor(IMAGE, element, scale * INPUT, ATOMS)
    middle = Tensor(RESULT, element, scale * MIDDLE, ATOMS)
    output = Tensor(RESULT, ElementType.FLOAT, scale * OUTPUT, PLAIN)
    layers: tuple[Layer, ...] = (
        LayerOf("conv", LayerType.CONV, (image,), middle, (), sources=(None,)),
        LayerOf("doubled", LayerType.CUSTOM, (middle,), output, (), sources=(0,), is_output=True),
    )
    plan = Plan({}, END, END)
    return ProgramOf(NAME, layers, (("image", image),), (1,), (("doubled", output),), plan, transposed=False)


def graph_of(kernels: Maps) -> Graph:
    window = Window(Pair(3, 3), padding=Padding(1, 1, 1, 1))
    conv = ops.Conv2d(Constant.of(kernels), None, window)
    nodes = (
        Node("image", ops.Input(IMAGE)),
        Node("conv", conv, ("image",)),
        Node("doubled", ops.Add(), ("conv", "conv")),
    )
    return Graph(nodes, ("doubled",))
