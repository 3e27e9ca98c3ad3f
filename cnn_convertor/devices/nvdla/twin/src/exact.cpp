#include "exact.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "floats.h"
#include "weight_order.h"

namespace nvdla {
namespace {

using Vector = double __attribute__((vector_size(32)));

constexpr double kOfTable = 2, kOfRounding = 0x1p-9, kLeastError = 0x1p-14;  // what a table may be off, the first of its largest error
constexpr std::size_t kTileKernels = 8, kTilePositions = 4, kDoubles = 4;  // of a tile of sums, and of a vector

float half_value(uint32_t bits) { return static_cast<float>(Fp16::value(bits & 0xffff)); }

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A line of a map: from and to memory, or the bits in a Map.
std::vector<float> read_floats(const Parts &parts, const Cube &cube, std::size_t width, std::size_t lanes, std::size_t y) {
  const std::size_t atom = parts.configuration.atom_bytes / 2;  // floats
  std::vector<float> line(width * lanes);
  for (std::size_t surface = 0; surface < cube.surfaces; ++surface) {
    const uint8_t *from = parts.memory.at(cube.line(surface, y), cube.line_bytes);
    for (std::size_t x = 0; x < width; ++x)
      std::memcpy(line.data() + x * lanes + surface * atom, from + x * atom * sizeof(float), atom * sizeof(float));
  }
  return line;
}

void write_floats(const Parts &parts, const Cube &cube, const float *line, std::size_t width, std::size_t lanes, std::size_t y) {
  const std::size_t atom = parts.configuration.atom_bytes / 2;
  for (std::size_t surface = 0; surface < cube.surfaces; ++surface) {
    uint8_t *to = parts.memory.at(cube.line(surface, y), cube.line_bytes);
    for (std::size_t x = 0; x < width; ++x)
      std::memcpy(to + x * atom * sizeof(float), line + x * lanes + surface * atom, atom * sizeof(float));
  }
}

std::vector<float> line_of(const Map &map, std::size_t y) {
  std::vector<float> line(map.width * map.lanes);
  std::memcpy(line.data(), map.line(y), line.size() * sizeof(float));
  return line;
}

// --- convolution ---

struct Padded {
  std::size_t width;  // elements of a line
  std::vector<double> values;
};

Padded padded_exactly(const Convolution &c, const std::vector<float> &input) {
  const std::size_t width = (c.out_width - 1) * c.stride_x + (c.columns - 1) * c.dilation_x + 1;
  const std::size_t height = (c.out_height - 1) * c.stride_y + (c.rows - 1) * c.dilation_y + 1;
  Padded result{width * c.channels, {}};
  result.values.assign(height * result.width, half_value(static_cast<uint32_t>(c.pad_value)));
  const std::size_t kept = width > c.pad_left ? std::min(c.width, width - c.pad_left) : 0;
  for (std::size_t y = c.pad_top; y < std::min(height, c.pad_top + c.height); ++y) {
    const float *from = input.data() + (y - c.pad_top) * c.width * c.channels;
    std::copy(from, from + kept * c.channels, result.values.data() + y * result.width + c.pad_left * c.channels);
  }
  return result;
}

// Sums of kTilePositions positions for kTileKernels kernels. panel: their weights, in the order row, column, channel, kernel.
void tile(const Convolution &c, const Padded &input, const double *const (&at)[kTilePositions], const double *panel,
          Vector (&sums)[kTilePositions][kTileKernels / kDoubles]) {
  for (std::size_t row = 0; row < c.rows; ++row)
    for (std::size_t column = 0; column < c.columns; ++column) {
      const std::size_t offset = row * c.dilation_y * input.width + column * c.dilation_x * c.channels;
      for (std::size_t i = 0; i < c.channels; ++i, panel += kTileKernels) {
        Vector low, high;
        std::memcpy(&low, panel, sizeof low);
        std::memcpy(&high, panel + kDoubles, sizeof high);
        for (std::size_t p = 0; p < kTilePositions; ++p) {
          sums[p][0] += at[p][offset + i] * low;
          sums[p][1] += at[p][offset + i] * high;
        }
      }
    }
}

void convolve_kernels(const Convolution &c, const Padded &input, const std::vector<float> &weights, std::size_t first, Map &output) {
  const std::size_t count = std::min(kTileKernels, c.kernels - first), elements = c.kernel_elements();
  std::vector<double> panel(elements * kTileKernels);
  for (std::size_t kernel = 0; kernel < count; ++kernel)
    for (std::size_t i = 0; i < elements; ++i) panel[i * kTileKernels + kernel] = weights[(first + kernel) * elements + i];
  for (std::size_t y = 0; y < c.out_height; ++y)
    for (std::size_t x = 0; x < c.out_width; x += kTilePositions) {
      const std::size_t positions = std::min(kTilePositions, c.out_width - x);
      const double *at[kTilePositions];
      for (std::size_t p = 0; p < kTilePositions; ++p)
        at[p] = input.values.data() + y * c.stride_y * input.width + (x + std::min(p, positions - 1)) * c.stride_x * c.channels;
      Vector sums[kTilePositions][kTileKernels / kDoubles] = {};
      tile(c, input, at, panel.data(), sums);
      for (std::size_t p = 0; p < positions; ++p)
        for (std::size_t kernel = 0; kernel < count; ++kernel) {
          const auto sum = static_cast<float>(sums[p][kernel / kDoubles][kernel % kDoubles]);
          output.line(y)[(x + p) * output.lanes + first + kernel] = static_cast<int32_t>(bits_of_float(sum));
        }
    }
}

// --- tables ---

// What the table gives, between its entries and beyond its ends.
double from_entries(const Lut &lut, float x) {
  const Place place = place_of_fp32(lut, bits_of_float(x));
  const auto entry = [&](int index) { return Fp16::value(lut.half(place.table, index)); };
  if (place.hit) {
    const double part = static_cast<double>(place.fraction) * power_of_two(-lut.fraction);
    return (1 - part) * entry(place.index) + part * entry(place.index + 1);
  }
  const bool under = place.side == kUnder;
  double bound = float_of(static_cast<uint32_t>(under ? lut.start[place.table] : lut.end[place.table]));
  if (below_exponential(lut, place)) bound += power_of_two(lut.offset);
  const double slope = Fp16::value(static_cast<uint16_t>(lut.scale[place.table][place.side]));
  return entry(under ? 0 : LutMemory::size(place.table) - 1) + (x - bound) * slope;
}

// What the named function gives, or else the table. The two must agree, but for what rounding takes.
float looked_up(const Lut &lut, float x) {
  const LutMemory &table = *lut.memory;
  if (!table.exact) return static_cast<float>(from_entries(lut, x));
  const double value = table.exact(x);
  if (x >= table.low && x <= table.high) {
    const double held = from_entries(lut, x), allowed = kOfTable * table.largest_error + std::abs(value) * kOfRounding + kLeastError;
    if (std::abs(held - value) > allowed)
      throw Refusal("the table gives " + std::to_string(held) + " for " + std::to_string(x) + ", and its function " + std::to_string(value));
  }
  return static_cast<float>(value);
}

// --- SDP ---

// An operand of every element of a line.
std::vector<float> operand_line(const Parts &parts, const SdpPlan &plan, const Unit &unit, bool alu, std::size_t lanes, std::size_t y) {
  const Operand &operand = alu ? unit.alu : unit.mul;
  std::vector<float> line(plan.width * lanes);
  if (!operand.in_memory) {
    std::fill(line.begin(), line.end(), float_of(static_cast<uint32_t>(operand.value)));
    return line;
  }
  const OperandData &data = unit.data;
  const std::size_t atom = parts.configuration.atom_bytes / 2, part = alu ? 0 : data.parts - 1;
  for (std::size_t c = 0; c < plan.channels; ++c) {
    const std::size_t surface = c / atom;
    const uint64_t address = data.cube.line(surface, data.per_element ? y : 0);
    const uint8_t *from = parts.memory.at(address, data.cube.needed(surface));
    for (std::size_t x = 0; x < plan.width; ++x) {
      const std::size_t place = ((data.per_element ? x * atom : 0) + c % atom) * data.parts + part;
      std::memcpy(&line[x * lanes + c], from + place * sizeof(float), sizeof(float));
    }
  }
  return line;
}

void combine(uint32_t algorithm, const std::vector<float> &operand, std::vector<float> &line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    const float a = operand[i], v = line[i];
    line[i] = algorithm == kMax ? std::max(v, a) : algorithm == kMin ? std::min(v, a) : algorithm == kSum ? v + a : v != a;
  }
}

void run_unit(const Parts &parts, const SdpPlan &plan, bool is_y, const Unit &unit, std::size_t lanes, std::size_t y, std::vector<float> &line) {
  const auto add = [&] { combine(unit.algorithm, operand_line(parts, plan, unit, true, lanes, y), line); };
  if (unit.alu.used && !is_y) add();
  if (unit.mul.used) {
    const std::vector<float> factor = operand_line(parts, plan, unit, false, lanes, y);
    for (std::size_t i = 0; i < line.size(); ++i)
      if (!unit.prelu || line[i] < 0) line[i] *= factor[i];
  }
  if (unit.alu.used && is_y) add();
  if (unit.relu)
    for (float &value : line) value = value < 0 ? 0 : value;
  if (unit.lut)
    for (float &value : line) value = looked_up(plan.lut, value);
}

// --- PDP ---

struct Inside {
  std::size_t first, end;
};

Inside inside(std::size_t out, std::size_t stride, std::size_t kernel, std::size_t pad, std::size_t size) {
  const std::size_t start = out * stride, end = std::min(start + kernel, size + pad);
  return {std::max(start, pad) - pad, end - pad};
}

// The factor of an average: a kernel's size, unless the registers have something else.
double reciprocal(uint32_t bits, std::size_t kernel) {
  const double factor = Fp17::value(bits), exact = 1.0 / static_cast<double>(kernel);
  const bool is_kernel = factor > exact * (1 - 0x1p-10) && factor < exact * (1 + 0x1p-10);
  return is_kernel ? exact : factor;
}

}  // namespace

std::vector<float> Fetch::exact_input() const {
  if (reuses_input_) return buffer_.exact_input;
  const Convolution &c = convolution_;
  if (c.pixels) cdma_.refuse(CDMA::D_DATAIN_FORMAT_DATAIN_FORMAT, "exact mode reads features, not pixels");
  std::vector<float> values(c.height * c.width * c.channels);
  const std::size_t lanes = rounded_up(c.channels, parts_.configuration.atom_bytes / 2);
  for (std::size_t y = 0; y < c.height; ++y) {
    const std::vector<float> line = read_floats(parts_, inputs_.front(), c.width, lanes, y);
    for (std::size_t x = 0; x < c.width; ++x)
      std::copy_n(line.data() + x * lanes, c.channels, values.data() + (y * c.width + x) * c.channels);
  }
  return values;
}

std::vector<float> Fetch::exact_weights() const {
  if (reuses_weights_) return buffer_.exact_weights;
  return in_order<float, float>(parts_.configuration, convolution_, parts_.memory.at(weight_address_, weight_bytes_));
}

Map convolve_exactly(const Parts &parts, const Convolution &c, const std::vector<float> &input, const std::vector<float> &weights) {
  Map output(c.out_height, c.out_width, c.kernels, parts.configuration.atom_bytes);
  const Padded around = padded_exactly(c, input);
  const std::size_t tasks = (c.kernels + kTileKernels - 1) / kTileKernels;
  parallel(parts.threads, tasks, [&](std::size_t task) { convolve_kernels(c, around, weights, task * kTileKernels, output); });
  return output;
}

SdpResult run_sdp_exactly(const Parts &parts, const SdpPlan &plan, const Map *flying) {
  SdpResult result;
  result.map = Map(plan.height, plan.width, plan.channels, parts.configuration.atom_bytes);
  const std::size_t lanes = result.map.lanes;
  std::atomic<bool> different{false};
  parallel(parts.threads, plan.height, [&](std::size_t y) {
    std::vector<float> line = flying ? line_of(*flying, y) : read_floats(parts, plan.source, plan.width, lanes, y);
    for (int i = 0; i < 3; ++i)
      if (plan.units[i].active) run_unit(parts, plan, i == 2, plan.units[i], lanes, y, line);
    for (std::size_t x = 0; x < plan.width; ++x) {
      const auto end = line.begin() + static_cast<std::ptrdiff_t>((x + 1) * lanes);
      std::fill(end - static_cast<std::ptrdiff_t>(lanes - plan.channels), end, 0.0f);
    }
    if (plan.compares()) {
      if (std::any_of(line.begin(), line.end(), [](float value) { return value != 0; })) different = true;
      return;
    }
    std::memcpy(result.map.line(y), line.data(), line.size() * sizeof(float));
    if (!plan.to_pdp) write_floats(parts, plan.destination, line.data(), plan.width, lanes, y);
  });
  result.different = different;
  return result;
}

void run_pdp_exactly(const Parts &parts, const PdpPlan &plan, const Map *flying) {
  const std::size_t lanes = rounded_up(plan.channels, parts.configuration.atom_bytes);
  std::vector<std::vector<float>> input(plan.height);
  for (std::size_t y = 0; y < plan.height; ++y)
    input[y] = flying ? line_of(*flying, y) : read_floats(parts, plan.source, plan.width, lanes, y);
  const bool averages = plan.method == kAverage, most = plan.method == kMaximum;
  const double factor =
      averages ? reciprocal(plan.reciprocals[0], plan.kernel_width) * reciprocal(plan.reciprocals[1], plan.kernel_height) : 1;
  parallel(parts.threads, plan.out_height, [&](std::size_t y) {
    std::vector<float> line(plan.out_width * lanes);
    const Inside rows = inside(y, plan.stride_y, plan.kernel_height, plan.pad_top, plan.height);
    for (std::size_t x = 0; x < plan.out_width; ++x) {
      const Inside columns = inside(x, plan.stride_x, plan.kernel_width, plan.pad_left, plan.width);
      for (std::size_t i = 0; i < plan.channels; ++i) {
        double result = averages ? 0 : input[rows.first][columns.first * lanes + i];
        for (std::size_t row = rows.first; row < rows.end; ++row)
          for (std::size_t column = columns.first; column < columns.end; ++column) {
            const double value = input[row][column * lanes + i];
            result = averages ? result + value : most ? std::max(result, value) : std::min(result, value);
          }
        line[x * lanes + i] = static_cast<float>(result * factor);
      }
    }
    write_floats(parts, plan.destination, line.data(), plan.out_width, lanes, y);
  });
}

void run_cdp_exactly(const Parts &parts, const CdpPlan &plan) {
  const std::size_t lanes = rounded_up(plan.channels, parts.configuration.atom_bytes);
  parallel(parts.threads, plan.height, [&](std::size_t y) {
    const std::vector<float> input = read_floats(parts, plan.source, plan.width, lanes, y);
    std::vector<float> line(input.size());
    for (std::size_t x = 0; x < plan.width; ++x) {
      const float *own = input.data() + x * lanes;
      for (std::size_t i = 0; i < plan.channels; ++i) {
        double sum = 0;
        for (std::size_t j = i - std::min(i, plan.reach); j < std::min(i + plan.reach + 1, plan.channels); ++j) sum += double{own[j]} * own[j];
        const float table = looked_up(plan.lut, plan.keeps_sum ? own[i] : static_cast<float>(sum));
        line[x * lanes + i] = plan.keeps_table ? table : own[i] * table;
      }
    }
    write_floats(parts, plan.destination, line.data(), plan.width, lanes, y);
  });
}

}  // namespace nvdla
