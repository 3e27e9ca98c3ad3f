// CMAC and CACC for integers: exact sums, rounded and saturated to 32 bits.
#include <algorithm>

#include "conv.h"
#include "floats.h"

namespace nvdla {
namespace {

constexpr std::size_t kKernels = 4;        // at a time
constexpr std::size_t kExact = 1 << 16;    // products of bytes whose sum has 32 bits
constexpr std::size_t kProducts = 16;      // at a time

// Sums of products of bytes, with one reading of x. Compilers make it a multiplication of pairs.
void add_bytes(const int16_t *x, const int16_t *const *w, std::size_t count, int64_t *sums) {
  for (std::size_t start = 0; start < count; start += kExact) {
    const std::size_t n = std::min(kExact, count - start);
    const int16_t *a = x + start, *b0 = w[0] + start, *b1 = w[1] + start, *b2 = w[2] + start, *b3 = w[3] + start;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (std::size_t i = 0; i < n; ++i) {
      s0 += a[i] * b0[i];
      s1 += a[i] * b1[i];
      s2 += a[i] * b2[i];
      s3 += a[i] * b3[i];
    }
    sums[0] += s0;
    sums[1] += s1;
    sums[2] += s2;
    sums[3] += s3;
  }
}

void add_words(const int16_t *x, const int16_t *const *w, std::size_t count, int64_t *sums) {
  for (std::size_t k = 0; k < kKernels; ++k)
    for (std::size_t i = 0; i < count; ++i) sums[k] += int64_t{x[i]} * w[k][i];
}

// The elements that one output position sees, in the order of a kernel's weights.
void gather(const Convolution &c, const PaddedInput &input, std::size_t y, std::size_t x, int16_t *to) {
  const std::size_t run = c.dilation_x == 1 ? c.row_elements() : c.channels, runs = c.row_elements() / run;
  for (std::size_t row = 0; row < c.rows; ++row) {
    const int16_t *from = input.values.data() + (y * c.stride_y + row * c.dilation_y) * input.width + x * c.stride_x * c.channels;
    for (std::size_t i = 0; i < runs; ++i, to += run) std::copy(from + i * c.dilation_x * run, from + i * c.dilation_x * run + run, to);
  }
}

}  // namespace

void convolve_integers(const Parts &parts, const Convolution &c, const PaddedInput &input,
                       const std::vector<int16_t> &weights, Map &output) {
  const std::size_t elements = c.kernel_elements(), step = rounded_up(elements, kProducts);
  const std::size_t kernels = rounded_up(c.kernels, kKernels);
  std::vector<int16_t> spread(kernels * step);  // each kernel at a multiple of a vector
  for (std::size_t k = 0; k < c.kernels; ++k)
    std::copy(weights.data() + k * elements, weights.data() + (k + 1) * elements, spread.data() + k * step);
  const auto add = c.precision == kInt8 ? add_bytes : add_words;
  parallel(parts.threads, c.out_height, [&](std::size_t y) {
    std::vector<int16_t> window(step);
    for (std::size_t x = 0; x < c.out_width; ++x) {
      gather(c, input, y, x, window.data());
      int32_t *to = output.line(y) + x * output.lanes;
      for (std::size_t k = 0; k < c.kernels; k += kKernels) {
        const int16_t *of[kKernels];
        for (std::size_t i = 0; i < kKernels; ++i) of[i] = spread.data() + (k + i) * step;
        int64_t sums[kKernels] = {};
        add(window.data(), of, step, sums);
        for (std::size_t i = 0; i < std::min(kKernels, c.kernels - k); ++i)
          to[k + i] = static_cast<int32_t>(saturated(rounded(saturated(sums[i], 48), c.truncate), 32));
      }
    }
  });
}

}  // namespace nvdla
