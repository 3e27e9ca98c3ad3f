// CMAC for halves: each step multiplies up to 64 pairs, and aligns and cuts the products as carry-save pairs.
#include <algorithm>

#include "cacc.h"
#include "conv.h"
#include "floats.h"

namespace nvdla {
namespace {

constexpr std::size_t kLanes = 64, kVector = 8;
constexpr int kNothing = -64;  // the exponent of zero: below any pair that counts

// Operands: mantissas, shifted by the low bits of their exponents, with the sign in bit 15, and the exponents' high bits.
struct Operands {
  std::vector<uint16_t> mantissas;
  std::vector<int8_t> exponents;

  explicit Operands(std::size_t count) : mantissas(count), exponents(count, kNothing) {}
};

// Elements of one kernel that meet in a step: runs of a row of the kernel.
struct Run {
  std::size_t input, weight, count;  // offsets of elements from a position of the padded input, and from a kernel
};

struct StepOf {
  std::vector<Run> runs;
  std::size_t lanes = 0, first = 0;  // rounded up to kVector, and where they start among those of all steps
};

// The steps of a kernel, in their order. Features: blocks of channels, rows, columns. Pixels: blocks of elements, groups of rows.
std::vector<StepOf> steps_of(const Convolution &c, std::size_t line, std::size_t block) {
  std::vector<StepOf> steps;
  std::size_t first = 0;
  const std::size_t run = c.pixels ? c.row_elements() : c.channels, columns = c.pixels ? 1 : c.columns;
  for (std::size_t start = 0; start < run; start += block)
    for (std::size_t row = 0; row < c.rows; row += c.row_group)
      for (std::size_t column = 0; column < columns; ++column) {
        StepOf step;
        const std::size_t count = std::min(block, run - start);
        for (std::size_t r = row; r < std::min(row + c.row_group, c.rows); ++r) {
          const std::size_t input = r * c.dilation_y * line + column * c.dilation_x * c.channels + start;
          step.runs.push_back({input, r * c.row_elements() + column * c.channels + start, count});
          step.lanes += count;
        }
        step.lanes = rounded_up(step.lanes, kVector);
        step.first = first;
        first += step.lanes;
        steps.push_back(step);
      }
  return steps;
}

void decode(uint16_t half, Operands &to, std::size_t lane) {
  const uint32_t exponent = half >> 10 & 31, fraction = half & 0x3ff;
  const uint32_t low = exponent ? exponent & 3 : 1;
  to.mantissas[lane] = static_cast<uint16_t>((fraction | (exponent ? 0x400u : 0u)) << low | (half & 0x8000u));
  to.exponents[lane] = static_cast<int8_t>(half & 0x7fff ? static_cast<int>(exponent >> 2) : kNothing);
}

struct Pair {
  uint32_t sum, carry;
};

inline Pair compressed(uint32_t a, uint32_t b, uint32_t c) { return {a ^ b ^ c, ((a & b) | (c & (a ^ b))) << 1}; }

// Five addends as two: triples first, then what is left.
inline Pair compressed(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e) {
  const Pair first = compressed(a, b, c);
  const Pair second = compressed(first.sum, first.carry, d);
  return compressed(second.sum, second.carry, e);
}

// One digit of the multiplier: a partial product of 17 bits, with its sign bit inverted, and what makes a complement negative.
struct Partial {
  uint32_t product, increment;
};

inline Partial partial(uint32_t data, uint32_t multiplier, unsigned digit) {
  const uint32_t b0 = multiplier >> (2 * digit) & 1, b1 = multiplier >> (2 * digit + 1) & 1, b2 = multiplier >> (2 * digit + 2) & 1;
  const uint32_t one = b0 ^ b1, two = (b1 ^ b2) & (one ^ 1);
  const uint32_t negative = b2 & (one | two);
  const uint32_t magnitude = ((0u - one) & data) | ((0u - two) & (data << 1));
  return {(magnitude ^ ((0u - negative) & 0xffffu)) | (negative ^ 1) << 16, negative};
}

// The product of two mantissas, aligned to `shift` bits lower.
inline int32_t product(uint32_t data, uint32_t weight, uint32_t sign, int32_t shift) {
  const uint32_t multiplier = weight << 1 ^ sign;
  const Partial p0 = partial(data, multiplier, 0), p1 = partial(data, multiplier, 1), p2 = partial(data, multiplier, 2);
  const Partial p3 = partial(data, multiplier, 3), p4 = partial(data, multiplier, 4), p5 = partial(data, multiplier, 5);
  const Partial p6 = partial(data, multiplier, 6), p7 = partial(data, multiplier, 7);
  const Pair low = compressed(p0.product, p1.product << 2 | p0.increment, p2.product << 4 | p1.increment << 2,
                              p3.product << 6 | p2.increment << 4, p3.increment << 6);
  const Pair high = compressed(p4.product << 8, p5.product << 10 | p4.increment << 8, p6.product << 12 | p5.increment << 10,
                               p7.product << 14 | p6.increment << 12, p7.increment << 14);
  const Pair three = compressed(low.sum, low.carry, high.sum);
  const Pair both = compressed(three.sum, three.carry, high.carry);
  const uint32_t inside = shift < 32 ? 0xffffffffu : 0u, by = static_cast<uint32_t>(shift) & 31;
  // What the inverted sign bits add, in the shifted position: rounded up.
  const uint32_t correction = static_cast<uint32_t>(
      (static_cast<int32_t>(0xaaab0000u) >> by) + (by > 16 ? 1 : 0));
  return static_cast<int32_t>(((both.sum >> by) + (both.carry >> by) + correction) & inside);
}

// The sum of a step's products. first: lanes of the operands before it. lanes: a multiple of kVector.
Step multiply(const Operands &data, const Operands &weights, std::size_t first, std::size_t lanes) {
  const uint16_t *a = data.mantissas.data() + first, *b = weights.mantissas.data() + first;
  const int8_t *ea = data.exponents.data() + first, *eb = weights.exponents.data() + first;
  int32_t sums[kLanes];
  int32_t most = kNothing;
  for (std::size_t i = 0; i < lanes; ++i) {
    sums[i] = ea[i] + eb[i];
    most = std::max(most, sums[i]);
  }
  if (most < 0) return {0, 0, false};
  int32_t products[kLanes];
  for (std::size_t i = 0; i < lanes; ++i) {
    const uint32_t sign = 0u - ((a[i] ^ b[i]) >> 15 & 1u);
    products[i] = product(a[i] & 0x7fffu, b[i] & 0x7fffu, sign, 4 * (most - sums[i]));
  }
  int32_t columns[kVector] = {};  // at most 8 products of 28 bits
  for (std::size_t i = 0; i < lanes; i += kVector)
    for (std::size_t j = 0; j < kVector; ++j) columns[j] += products[i + j];
  int64_t sum = 0;
  for (const int32_t column : columns) sum += column;
  return {4 * most, sum, false};
}

bool is_nan(int16_t half) { return Fp16::is_nan(static_cast<uint16_t>(half)); }

Step nan_step(int16_t half) {
  const uint64_t bits = static_cast<uint16_t>(half);
  return {0x3f, static_cast<int64_t>((bits >> 15) << 37 | (bits & 0x3ff) << 27), true};
}

// The first NaN of a step, of the weights before the data.
bool find_nan(const StepOf &step, const int16_t *input, const int16_t *weights, int16_t &found) {
  for (const int16_t *side : {weights, input})
    for (const Run &run : step.runs) {
      const int16_t *from = side + (side == weights ? run.weight : run.input);
      for (std::size_t i = 0; i < run.count; ++i)
        if (is_nan(from[i])) {
          found = from[i];
          return true;
        }
    }
  return false;
}

bool any_nan(const std::vector<int16_t> &values) { return std::any_of(values.begin(), values.end(), is_nan); }

// The lanes of all steps. offset: of a run, in what `from` points to.
Operands operands_of(const std::vector<StepOf> &steps, const int16_t *from, std::size_t Run::*offset) {
  Operands result(steps.back().first + steps.back().lanes);
  for (const StepOf &step : steps) {
    std::size_t lane = step.first;
    for (const Run &run : step.runs)
      for (std::size_t i = 0; i < run.count; ++i) decode(static_cast<uint16_t>(from[run.*offset + i]), result, lane++);
  }
  return result;
}

}  // namespace

void convolve_halves(const Parts &parts, const Convolution &c, const PaddedInput &input,
                     const std::vector<int16_t> &weights, Map &output) {
  const std::vector<StepOf> steps = steps_of(c, input.width, parts.configuration.atomic_c);
  const bool nan = any_nan(weights) || any_nan(input.values);
  std::vector<Operands> multipliers(c.kernels, Operands(0));
  parallel(parts.threads, c.kernels, [&](std::size_t k) {
    multipliers[k] = operands_of(steps, weights.data() + k * c.kernel_elements(), &Run::weight);
  });
  parallel(parts.threads, c.out_height, [&](std::size_t y) {
    for (std::size_t x = 0; x < c.out_width; ++x) {
      const int16_t *seen = input.values.data() + y * c.stride_y * input.width + x * c.stride_x * c.channels;
      const Operands data = operands_of(steps, seen, &Run::input);
      int32_t *to = output.line(y) + x * output.lanes;
      for (std::size_t k = 0; k < c.kernels; ++k) {
        Accumulator sum;
        for (const StepOf &step : steps) {
          int16_t found;
          if (nan && find_nan(step, seen, weights.data() + k * c.kernel_elements(), found))
            sum.add(nan_step(found));
          else
            sum.add(multiply(data, multipliers[k], step.first, step.lanes));
        }
        to[k] = static_cast<int32_t>(sum.to_fp32());
      }
    }
  });
}

}  // namespace nvdla
