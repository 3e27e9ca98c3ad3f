// CMAC for halves: each step multiplies up to 64 pairs, and aligns and cuts the products as carry-save pairs.
#include <algorithm>
#include <cmath>
#include <cstring>

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
bool find_nan(const StepOf &step, const int16_t *input, const int16_t *weights, int16_t &value) {
  for (const int16_t *side : {weights, input})
    for (const Run &run : step.runs) {
      const int16_t *from = side + (side == weights ? run.weight : run.input);
      for (std::size_t i = 0; i < run.count; ++i)
        if (is_nan(from[i])) {
          value = from[i];
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

namespace {

// Kernels with what their steps need.
struct Exact {
  const Convolution &c;
  const PaddedInput &input;
  const std::vector<int16_t> &weights;
  std::vector<StepOf> steps;
  bool nan;
  std::vector<Operands> multipliers;

  Exact(const Parts &parts, const Convolution &convolution, const PaddedInput &around, const std::vector<int16_t> &kernels)
      : c(convolution), input(around), weights(kernels), steps(steps_of(c, input.width, parts.configuration.atomic_c)),
        nan(any_nan(weights) || any_nan(input.values)), multipliers(c.kernels, Operands(0)) {
    parallel(parts.threads, c.kernels, [&](std::size_t k) {
      multipliers[k] = operands_of(steps, weights.data() + k * c.kernel_elements(), &Run::weight);
    });
  }

  const int16_t *window(std::size_t y, std::size_t x) const {
    return input.values.data() + y * c.stride_y * input.width + x * c.stride_x * c.channels;
  }

  int32_t of(const int16_t *from, const Operands &data, std::size_t k) const {
    Accumulator sum;
    for (const StepOf &step : steps) {
      int16_t value;
      if (nan && find_nan(step, from, weights.data() + k * c.kernel_elements(), value))
        sum.add(nan_step(value));
      else
        sum.add(multiply(data, multipliers[k], step.first, step.lanes));
    }
    return static_cast<int32_t>(sum.to_fp32());
  }
};

}  // namespace

void convolve_halves(const Parts &parts, const Convolution &c, const PaddedInput &input,
                     const std::vector<int16_t> &weights, Map &output) {
  settle_halves(parts, c, input, weights, std::vector<uint8_t>(output.values.size(), 1), output);
}

void settle_halves(const Parts &parts, const Convolution &c, const PaddedInput &input, const std::vector<int16_t> &weights,
                   const std::vector<uint8_t> &open, Map &values) {
  const Exact exact(parts, c, input, weights);
  parallel(parts.threads, c.out_height, [&](std::size_t y) {
    for (std::size_t x = 0; x < c.out_width; ++x) {
      const std::size_t first = (y * c.out_width + x) * values.lanes;
      const auto from = open.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::none_of(from, from + static_cast<std::ptrdiff_t>(c.kernels), [](uint8_t one) { return one; })) continue;
      const int16_t *window = exact.window(y, x);
      const Operands data = operands_of(exact.steps, window, &Run::input);
      for (std::size_t k = 0; k < c.kernels; ++k)
        if (open[first + k]) values.values[first + k] = exact.of(window, data, k);
    }
  });
}

namespace {

constexpr std::size_t kTogether = 16, kPositions = 4;  // kernels, and positions side by side
using Four = double __attribute__((vector_size(32)));
using Powers = int8_t __attribute__((vector_size(kTogether)));

template <class Vector, class Number>
Vector loaded(const Number *from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

// Numbers of an input or of kernels, and the high bits of their exponents.
struct Decoded {
  std::vector<double> values;
  std::vector<int8_t> powers;

  explicit Decoded(std::size_t count) : values(count), powers(count, kNothing) {}

  void put(std::size_t at, int16_t half) {
    values[at] = Fp16::value(static_cast<uint16_t>(half));
    if (half & 0x7fff) powers[at] = half >> 12 & 7;
  }
};

// Sums of the products of 8 kernels at some positions. sums: of each position, kTogether.
void add_products(const StepOf &step, const double *const *positions, const double *factors, double *sums) {
  Four s[kPositions][2];
  for (std::size_t p = 0; p < kPositions; ++p)
    for (std::size_t v = 0; v < 2; ++v) s[p][v] = loaded<Four>(sums + p * kTogether + 4 * v);
  for (const Run &run : step.runs) {
    const double *x0 = positions[0] + run.input, *x1 = positions[1] + run.input, *x2 = positions[2] + run.input, *x3 = positions[3] + run.input;
    for (std::size_t i = 0; i < run.count; ++i, factors += kTogether) {
      const Four f0 = loaded<Four>(factors), f1 = loaded<Four>(factors + 4);
      s[0][0] += x0[i] * f0;
      s[0][1] += x0[i] * f1;
      s[1][0] += x1[i] * f0;
      s[1][1] += x1[i] * f1;
      s[2][0] += x2[i] * f0;
      s[2][1] += x2[i] * f1;
      s[3][0] += x3[i] * f0;
      s[3][1] += x3[i] * f1;
    }
  }
  for (std::size_t p = 0; p < kPositions; ++p)
    for (std::size_t v = 0; v < 2; ++v) std::memcpy(sums + p * kTogether + 4 * v, &s[p][v], sizeof(Four));
}

// Of each kernel: the largest exponent of a step's products, how many are below it and so are cut, and how many by more than 16 bits.
struct Cuts {
  Powers most, cut, far;
};

Cuts cuts_of(const StepOf &step, const int8_t *position, const int8_t *kernels) {
  Powers sums[kLanes], most, cut = {}, far = {};
  std::memset(&most, kNothing, sizeof most);
  std::size_t lanes = 0;
  for (const Run &run : step.runs)
    for (std::size_t i = 0; i < run.count; ++i, ++lanes) {
      sums[lanes] = loaded<Powers>(kernels + lanes * kTogether) + position[run.input + i];
      most = sums[lanes] > most ? sums[lanes] : most;
    }
  const Powers near = most - 4;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const Powers counts = sums[lane] >= 0;  // -1 where neither number is zero
    cut -= counts & (sums[lane] < most);
    far -= counts & (sums[lane] < near);
  }
  return {most, cut, far};
}

// How far the results of the multipliers are from exact sums, of each kernel.
struct Errors {
  double down[kTogether] = {}, up[kTogether] = {}, largest[kTogether] = {};

  void add(const Cuts &cuts) {
    for (std::size_t k = 0; k < kTogether; ++k) {
      if (cuts.most[k] < 0) continue;
      const double unit = power_of_two(4 * cuts.most[k] - 50);
      // A product that is cut loses less than two units. By more than 16 bits, it may also gain less than one.
      down[k] += 2 * unit * cuts.cut[k];
      up[k] += unit * cuts.far[k];
      largest[k] += unit * kLanes * (1 << 28);  // of the sum at any time
    }
  }
};

// Kernels in groups of kTogether, in the order of the steps' elements.
Decoded grouped(const Convolution &c, const std::vector<StepOf> &steps, const std::vector<int16_t> &weights) {
  const std::size_t elements = c.kernel_elements();
  Decoded result(rounded_up(c.kernels, kTogether) * elements);
  for (std::size_t k = 0; k < c.kernels; ++k) {
    std::size_t at = k / kTogether * elements * kTogether + k % kTogether;
    for (const StepOf &step : steps)
      for (const Run &run : step.runs)
        for (std::size_t i = 0; i < run.count; ++i, at += kTogether) result.put(at, weights[k * elements + run.weight + i]);
  }
  return result;
}

}  // namespace

bool bound_halves(const Parts &parts, const Convolution &c, const PaddedInput &input, const std::vector<int16_t> &weights,
                  Map &low, Map &high) {
  if (any_nan(weights) || any_nan(input.values)) return false;
  const std::vector<StepOf> steps = steps_of(c, input.width, parts.configuration.atomic_c);
  const Decoded kernels = grouped(c, steps, weights);
  Decoded source(input.values.size());
  for (std::size_t i = 0; i < input.values.size(); ++i) source.put(i, input.values[i]);
  const std::size_t size = c.kernel_elements() * kTogether, groups = kernels.values.size() / size;
  const auto bound = [&](std::size_t y, std::size_t first, std::size_t group) {
    const double *positions[kPositions], *factors = kernels.values.data() + group * size;
    const int8_t *windows[kPositions], *powers = kernels.powers.data() + group * size;
    for (std::size_t p = 0; p < kPositions; ++p) {
      const std::size_t x = std::min(first + p, c.out_width - 1);
      const std::size_t at = y * c.stride_y * input.width + x * c.stride_x * c.channels;
      positions[p] = source.values.data() + at;
      windows[p] = source.powers.data() + at;
    }
    double sums[kPositions * kTogether] = {};
    Errors errors[kPositions];
    for (const StepOf &step : steps) {
      add_products(step, positions, factors, sums);
      add_products(step, positions, factors + kTogether / 2, sums + kTogether / 2);
      for (std::size_t p = 0; p < kPositions; ++p) errors[p].add(cuts_of(step, windows[p], powers));
      for (const Run &run : step.runs) {
        factors += run.count * kTogether;
        powers += run.count * kTogether;
      }
    }
    for (std::size_t p = 0; p < std::min(kPositions, c.out_width - first); ++p)
      for (std::size_t k = 0; k < std::min(kTogether, c.kernels - group * kTogether); ++k) {
        // The accumulator rounds to 40 bits at each step, and fp32 at the end. Double precision adds less.
        const double sum = sums[p * kTogether + k], steps_taken = static_cast<double>(steps.size() + 2);
        const double rounding = steps_taken * errors[p].largest[k] * power_of_two(-38) + std::abs(sum) * power_of_two(-22);
        const std::size_t at = (first + p) * low.lanes + group * kTogether + k;
        low.line(y)[at] = static_cast<int32_t>(Fp32::rounded(sum - errors[p].down[k] - rounding));
        high.line(y)[at] = static_cast<int32_t>(Fp32::rounded(sum + errors[p].up[k] + rounding));
      }
  };
  parallel(parts.threads, c.out_height, [&](std::size_t y) {
    for (std::size_t group = 0; group < groups; ++group)
      for (std::size_t x = 0; x < c.out_width; x += kPositions) bound(y, x, group);
  });
  return true;
}

}  // namespace nvdla
