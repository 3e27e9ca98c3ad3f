// Prints how long the functions of CPU layers take for each element, beside memcpy of the bytes that they read and write.
// On a board: copy this file and the folder cnn_convertor/codegen/kernels, then
//   g++ -std=c++11 -O2 -pthread -I kernels functions.cpp -o functions && ./functions [HEIGHT WIDTH CHANNELS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "average_pool.h"
#include "binary.h"
#include "concat.h"
#include "crop.h"
#include "gather.h"
#include "mat_mul.h"
#include "max_pool.h"
#include "mean_variance_norm.h"
#include "reduce.h"
#include "resize.h"
#include "softmax.h"
#include "space_to_depth.h"
#include "transpose_reshape.h"
#include "unary.h"

using namespace dv700_cpu;

namespace {

// The least processor time of a call, in nanoseconds.
template <class F>
double Nanoseconds(F f) {
  double least = 1e30;
  const std::clock_t start = std::clock();
  for (std::clock_t begin = start; begin - start < CLOCKS_PER_SEC / 5;) {
    f();
    const std::clock_t end = std::clock();
    least = std::min(least, static_cast<double>(end - begin) * 1e9 / CLOCKS_PER_SEC);
    begin = end;
  }
  return least;
}

// bytes: read and written.
template <class F>
void Row(const char *name, std::size_t elements, std::size_t bytes, F f) {
  std::vector<uint8_t> from(bytes / 2, 1), to(bytes / 2);
  const double copied = Nanoseconds([&] { std::memcpy(to.data(), from.data(), from.size()); });
  const double taken = Nanoseconds(f), count = static_cast<double>(elements);
  std::printf("%-24s %9.3f %9.3f %8.1f\n", name, taken / count, copied / count, taken / copied);
}

}  // namespace

int main(int argc, char **argv) {
  const int h = argc > 3 ? std::atoi(argv[1]) : 56, w = argc > 3 ? std::atoi(argv[2]) : 56;
  const int c = argc > 3 ? std::atoi(argv[3]) : 144;
  const std::size_t n = static_cast<std::size_t>(h) * static_cast<std::size_t>(w) * static_cast<std::size_t>(c);
  std::vector<uint8_t> memory(24 * n + 64);
  uint32_t random = 1;
  for (std::size_t i = 0; i < 4 * n; i += 2) {
    random = random * 1664525u + 1013904223u;
    const uint16_t half = ToHalf(static_cast<float>(random >> 16) / 8192.0f - 4.0f);
    std::memcpy(&memory[i], &half, 2);
  }
  uint8_t *io = memory.data();
  const auto map = [&](std::size_t place, int height, int width, int channels) {
    return Tensor(io, place * n, height, width, channels, kHalf);
  };
  const Tensor x = map(0, h, w, c), y = map(2, h, w, c), z = map(4, h, w, c);
  const Tensor factors = map(2, 1, 1, c), pixels = map(2, h, w, 1), doubled = map(4, 2 * h, 2 * w, c);
  const Tensor pooled = map(4, h / 2, w / 2, c), tokens = map(0, 1, h * w, c), result = map(4, 1, h * w, c);
  const Axes kChannels = {false, false, true}, kPixels = {true, true, false};
  const Window window = {3, 3, 2, 2, 1, 1, 1, 1};
  std::printf("%d x %d x %d, %d KiB\n%-24s %9s %9s %8s\n", h, w, c, static_cast<int>(2 * n >> 10), "ns an element",
              "function", "memcpy", "ratio");
  Row("sum", n, 6 * n, [&] { Binary(x, y, z, Add{}); });
  Row("product", n, 6 * n, [&] { Binary(x, y, z, Multiply{}); });
  Row("product with channels", n, 4 * n, [&] { Binary(x, factors, z, Multiply{}); });
  Row("product with pixels", n, 4 * n, [&] { Binary(x, pixels, z, Multiply{}); });
  Row("hard swish", n, 4 * n, [&] { Unary(x, z, HardSwish{}); });
  Row("hard sigmoid", n, 4 * n, [&] { Unary(x, z, HardSigmoid{0.2f, 0.5f}); });
  Row("swish", n, 4 * n, [&] { Unary(x, z, Swish{1.0f}); });
  Row("GELU", n, 4 * n, [&] { Unary(x, z, Gelu{false}); });
  Row("mean of pixels", n, 2 * n, [&] { Reduce(x, factors, kPixels, kMean, 1.0f); });
  Row("softmax of channels", n, 4 * n, [&] { Softmax(x, z, kChannels); });
  Row("normalize channels", n, 4 * n, [&] { MeanVarianceNorm(tokens, result, kChannels, 1, true, 1e-5f, false); });
  Row("normalize pixels", n, 4 * n, [&] { MeanVarianceNorm(x, z, kPixels, 1, true, 1e-5f, false); });
  Row("concatenate", n, 4 * n, [&] { Concat({map(0, h, w, c / 2), map(1, h, w, c - c / 2)}, z, kChannels); });
  Row("crop", n, 4 * n, [&] { Crop(x, map(4, h, w, c - 4), Steps{0, 0, 4}, Steps{1, 1, 1}); });
  Row("transpose", n, 4 * n, [&] { TransposeReshape(x, z, {h * w, c}, {1, 0}, false); });
  Row("reshape to channels", n, 4 * n, [&] { TransposeReshape(x, z, {c, h, w}, {0, 1, 2}, true); });
  Row("space to depth", n, 4 * n, [&] { SpaceToDepth(x, map(4, h / 2, w / 2, 4 * c), 2, 2, 0, 0); });
  Row("resize, nearest", 4 * n, 10 * n, [&] { Resize(x, doubled, false, kAsymmetric); });
  Row("resize, bilinear", 4 * n, 10 * n, [&] { Resize(x, doubled, true, kHalfPixel); });
  Row("max pool 3x3", n, 4 * n, [&] { MaxPool(x, pooled, window); });
  Row("average pool 3x3", n, 4 * n, [&] { AveragePool(x, pooled, window, Counted{0, 0, 0, 0}, 0.0f); });
  const Matrices rows = {1, 0, 1, 2}, columns = {1, 0, 2, 1};
  const Tensor squared = map(8, 1, h * w, 64), left = map(0, 1, h * w, c), right = map(2, 1, 64, c);
  Row("matrix product by 64", n, 4 * n, [&] { MatMul(left, right, squared, rows, columns, rows, 1.0f); });
}
