// Prints how long the functions of CPU layers take for each element, beside memcpy of the bytes that they read and write and beside
// the functions of version 0.1.0, on one thread. Then what EfficientNet-B0 takes for its swishes and products.
// On a board: copy this file, functions_of_0_1_0.h and the folder cnn_convertor/codegen/kernels, then
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
#include "l2_normalize.h"
#include "mat_mul.h"
#include "max_pool.h"
#include "mean_variance_norm.h"
#include "reduce.h"
#include "resize.h"
#include "softmax.h"
#include "space_to_depth.h"
#include "transpose_reshape.h"
#include "unary.h"
#include "functions_of_0_1_0.h"

using namespace cpu_functions;

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

// bytes: read and written. Returns the time of a call.
template <class F>
double Row(const char *name, std::size_t elements, std::size_t bytes, F f) {
  std::vector<uint8_t> from(bytes / 2, 1), to(bytes / 2);
  const double copied = Nanoseconds([&] { std::memcpy(to.data(), from.data(), from.size()); });
  const double taken = Nanoseconds(f), count = static_cast<double>(elements);
  std::printf("%-24s %9.3f %9.3f %8.1f", name, taken / count, copied / count, taken / copied);
  return taken;
}

template <class F>
void RowAlone(const char *name, std::size_t elements, std::size_t bytes, F f) {
  Row(name, elements, bytes, f);
  std::printf("\n");
}

// old: the same by version 0.1.0.
template <class F, class Old>
void RowBeside(const char *name, std::size_t elements, std::size_t bytes, F f, Old old) {
  const double taken = Row(name, elements, bytes, f), before = Nanoseconds(old);
  std::printf(" %9.3f %8.1f\n", before / static_cast<double>(elements), before / taken);
}

struct Size {
  int pixels, channels, swishes, products;
  std::size_t Elements() const { return static_cast<std::size_t>(pixels) * pixels * channels; }
};

// The maps of EfficientNet-B0 at 224 x 224, and how many layers on the CPU give one.
const Size kEfficientNet[] = {{112, 32, 2, 1}, {112, 96, 1, 0}, {56, 96, 1, 1},  {56, 144, 3, 1}, {28, 144, 1, 1},
                              {28, 240, 3, 1}, {14, 240, 1, 1}, {14, 480, 6, 3}, {14, 672, 5, 2}, {7, 672, 1, 1},
                              {7, 1152, 8, 4}, {7, 1280, 1, 0}};

// The time of all, in nanoseconds. swish: for a map of a size. product: of a map and its channels' factors.
template <class Swishes, class Products>
double EfficientNet(Swishes swish, Products product) {
  double all = 0.0;
  for (const Size &size : kEfficientNet) {
    all += size.swishes * Nanoseconds([&] { swish(size); });
    if (size.products) all += size.products * Nanoseconds([&] { product(size); });
  }
  return all;
}

}  // namespace

int main(int argc, char **argv) {
  const int h = argc > 3 ? std::atoi(argv[1]) : 56, w = argc > 3 ? std::atoi(argv[2]) : 56;
  const int c = argc > 3 ? std::atoi(argv[3]) : 144;
  const std::size_t n = static_cast<std::size_t>(h) * static_cast<std::size_t>(w) * static_cast<std::size_t>(c);
  const std::size_t largest = std::max(n, kEfficientNet[1].Elements());
  std::vector<uint8_t> memory(24 * largest + 64);
  uint32_t random = 1;
  for (std::size_t i = 0; i < 4 * largest; i += 2) {
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
  namespace old = v0_1_0;
  const old::Tensor old_x(io, 0, h, w, c), old_y(io, 2 * n, h, w, c), old_z(io, 4 * n, h, w, c);
  const old::Tensor old_factors(io, 2 * n, 1, 1, c), old_pixels(io, 2 * n, h, w, 1);
  std::printf("%d x %d x %d, %d KiB\n%-24s %9s %9s %8s %9s %8s\n", h, w, c, static_cast<int>(2 * n >> 10), "ns an element",
              "function", "memcpy", "ratio", "0.1.0", "times");
  RowBeside("sum", n, 6 * n, [&] { Binary(x, y, z, Add{}); },
            [&] { old::Binary(old_x, old_y, old_z, old::Add{}); });
  RowBeside("product", n, 6 * n, [&] { Binary(x, y, z, Multiply{}); },
            [&] { old::Binary(old_x, old_y, old_z, old::Multiply{}); });
  RowBeside("product with channels", n, 4 * n, [&] { Binary(x, factors, z, Multiply{}); },
            [&] { old::Binary(old_x, old_factors, old_z, old::Multiply{}); });
  RowBeside("product with pixels", n, 4 * n, [&] { Binary(x, pixels, z, Multiply{}); },
            [&] { old::Binary(old_x, old_pixels, old_z, old::Multiply{}); });
  RowBeside("hard swish", n, 4 * n, [&] { Unary(x, z, HardSwish{}); },
            [&] { old::Unary(old_x, old_z, old::HardSwish{}); });
  RowBeside("hard sigmoid", n, 4 * n, [&] { Unary(x, z, HardSigmoid{0.2f, 0.5f}); },
            [&] { old::Unary(old_x, old_z, old::HardSigmoid{0.2f, 0.5f}); });
  RowBeside("swish", n, 4 * n, [&] { Unary(x, z, Swish{1.0f}); },
            [&] { old::Unary(old_x, old_z, old::Swish{}); });
  RowBeside("sigmoid", n, 4 * n, [&] { Unary(x, z, Sigmoid{}); }, [&] { old::Unary(old_x, old_z, old::Sigmoid{}); });
  RowAlone("GELU", n, 4 * n, [&] { Unary(x, z, Gelu{false}); });
  RowAlone("mean of pixels", n, 2 * n, [&] { Reduce(x, factors, kPixels, kMean, 1.0f); });
  RowAlone("softmax of channels", n, 4 * n, [&] { Softmax(x, z, kChannels); });
  RowAlone("lengths of channels", n, 4 * n, [&] { L2Normalize(x, z, kChannels, 1e-6f, false); });
  RowAlone("normalize channels", n, 4 * n, [&] { MeanVarianceNorm(tokens, result, kChannels, 1, true, 1e-5f, false); });
  RowAlone("normalize pixels", n, 4 * n, [&] { MeanVarianceNorm(x, z, kPixels, 1, true, 1e-5f, false); });
  RowAlone("concatenate", n, 4 * n, [&] { Concat({map(0, h, w, c / 2), map(1, h, w, c - c / 2)}, z, kChannels); });
  RowAlone("crop", n, 4 * n, [&] { Crop(x, map(4, h, w, c - 4), Steps{0, 0, 4}, Steps{1, 1, 1}); });
  RowAlone("transpose tokens", n, 4 * n, [&] { TransposeReshape(tokens, map(4, 1, c, h * w), {h * w, c}, {1, 0}, false); });
  RowAlone("transpose, ragged", n, 4 * n, [&] { TransposeReshape(x, z, {h * w, c}, {1, 0}, false); });
  RowAlone("reshape to channels", n, 4 * n, [&] { TransposeReshape(x, z, {c, h, w}, {0, 1, 2}, true); });
  RowAlone("space to depth", n, 4 * n, [&] { SpaceToDepth(x, map(4, h / 2, w / 2, 4 * c), 2, 2, 0, 0); });
  RowAlone("resize, nearest", 4 * n, 10 * n, [&] { Resize(x, doubled, false, kAsymmetric); });
  RowAlone("resize, bilinear", 4 * n, 10 * n, [&] { Resize(x, doubled, true, kHalfPixel); });
  RowAlone("max pool 3x3", n, 4 * n, [&] { MaxPool(x, pooled, window); });
  RowAlone("average pool 3x3", n, 4 * n, [&] { AveragePool(x, pooled, window, Counted{0, 0, 0, 0}, 0.0f); });
  const Matrices rows = {1, 0, 1, 2}, columns = {1, 0, 2, 1};
  const Tensor squared = map(8, 1, h * w, 64), left = map(0, 1, h * w, c), right = map(2, 1, 64, c);
  RowAlone("matrix product by 64", n, 4 * n, [&] { MatMul(left, right, squared, rows, columns, rows, 1.0f); });
  const auto all = [&](const Size &s, std::size_t place) {
    return Tensor(io, place * largest, s.pixels, s.pixels, s.channels, kHalf);
  };
  const auto old_all = [&](const Size &s, std::size_t place) {
    return old::Tensor(io, place * largest, s.pixels, s.pixels, s.channels);
  };
  const double now = EfficientNet(
      [&](const Size &s) { Unary(all(s, 0), all(s, 4), Swish{1.0f}); },
      [&](const Size &s) { Binary(all(s, 0), Tensor(io, 2 * largest, 1, 1, s.channels, kHalf), all(s, 4), Multiply{}); });
  const double before = EfficientNet(
      [&](const Size &s) { old::Unary(old_all(s, 0), old_all(s, 4), old::Swish{}); },
      [&](const Size &s) {
        old::Binary(old_all(s, 0), old::Tensor(io, 2 * largest, 1, 1, s.channels), old_all(s, 4), old::Multiply{});
      });
  std::printf("EfficientNet-B0: swishes and products take %.2f ms, by 0.1.0 %.2f ms: %.1f times\n", now / 1e6, before / 1e6,
              before / now);
}
