#include "convolve.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu.h"
#include "threads.h"
#include "weights.h"

namespace dv {
namespace {

// Eight channels. Not aligned, because pieces of maps start anywhere.
typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));

constexpr int kPixels = 6;         // output positions that are computed together
constexpr int kSliceChunks = 8;    // chunks of input channels between two reads of weights
constexpr std::size_t kLeastStrip = 96, kMostStrip = 1536;  // output positions of one task

// The convolution along one axis of memory.
struct Axis {
  int input, before, after, taps, stride, dilation, spread;
  int spread_input() const { return (input - 1) * spread + 1; }
  int padded() const { return before + spread_input() + after; }
  bool is_plain() const { return before == 0 && after == 0 && spread == 1; }
};

Axis across(const Run &run) {
  const Window &c = run.conv;
  const bool spreads = run.deconvolution;
  return {run.input.width, c.pad.left, c.pad.right, c.size.x, spreads ? 1 : c.stride.x, c.dilation.x,
          spreads ? c.stride.x : 1};
}

Axis down(const Run &run) {
  const Window &c = run.conv;
  const bool spreads = run.deconvolution;
  return {run.input.height, c.pad.top, c.pad.bottom, c.size.y, spreads ? 1 : c.stride.y, c.dilation.y,
          spreads ? c.stride.y : 1};
}

// Zeros around the input, and between its values for a deconvolution.
void pad(const Map &input, const Axis &major, const Axis &minor, Map &padded) {
  padded.resize(major.padded(), minor.padded(), input.channels());
  const std::size_t row = 8 * size(padded.minor());
  parallel_for(size(input.chunks()), [&](std::size_t chunk) {
    const float *from = input.chunk(static_cast<int>(chunk));
    float *to = padded.chunk(static_cast<int>(chunk));
    for (int y = 0; y < padded.major(); ++y, to += row) {
      const int inner = y - major.before;
      if (inner < 0 || inner >= major.spread_input() || inner % major.spread != 0) {
        std::fill(to, to + row, 0.0f);
        continue;
      }
      std::fill(to, to + 8 * minor.before, 0.0f);
      std::fill(to + 8 * (minor.before + minor.spread_input()), to + row, 0.0f);
      float *place = to + 8 * minor.before;
      if (minor.spread == 1) {
        std::memcpy(place, from, 8 * size(minor.input) * sizeof(float));
      } else {
        std::fill(place, place + 8 * minor.spread_input(), 0.0f);
        for (int x = 0; x < minor.input; ++x) std::copy(from + 8 * x, from + 8 * x + 8, place + 8 * x * minor.spread);
      }
      from += 8 * size(minor.input);
    }
  });
}

// Where things are in the padded input, counted in floats.
struct Source {
  const Map &map;
  std::vector<std::size_t> taps;    // from a window's first position
  std::vector<std::size_t> pixels;  // first position of each output's window
};

Source locate(const Map &map, const Axis &major, const Axis &minor, const Map &result) {
  Source source{map, {}, {}};
  const std::size_t row = 8 * size(map.minor());
  for (int y = 0; y < minor.taps; ++y)
    for (int x = 0; x < major.taps; ++x)
      source.taps.push_back(size(x * major.dilation) * row + 8 * size(y * minor.dilation));
  source.pixels.reserve(result.positions());
  for (int a = 0; a < result.major(); ++a)
    for (int b = 0; b < result.minor(); ++b)
      source.pixels.push_back(size(a * major.stride) * row + 8 * size(b * minor.stride));
  return source;
}

// Adds some chunks' share to the sums of Blocks * 8 outputs at count positions. Sums have room for kPixels - 1 more.
template <int Blocks>
DV_INLINE void accumulate_loop(const Source &source, int first, int last, const float *weights, std::size_t first_pixel,
                               std::size_t count, float *sums) {
  for (std::size_t pixel = 0; pixel < count; pixel += kPixels) {
    const float *from[kPixels];
    Lanes sum[kPixels][Blocks];
    float *to = sums + pixel * Blocks * 8;
#pragma GCC unroll 6
    for (int j = 0; j < kPixels; ++j) {
      from[j] = source.map.chunk(0) + source.pixels[first_pixel + std::min(pixel + size(j), count - 1)];
#pragma GCC unroll 2
      for (int b = 0; b < Blocks; ++b) sum[j][b] = *reinterpret_cast<const Lanes *>(to + (j * Blocks + b) * 8);
    }
    const float *weight = weights;
    for (int chunk = first; chunk < last; ++chunk) {
      const int width = source.map.width(chunk);
      const std::size_t start = size(chunk) * source.map.chunk_size();
      for (const std::size_t tap : source.taps) {
        const std::size_t offset = start + tap;
        for (int k = 0; k < width; ++k) {
          const Lanes *w = reinterpret_cast<const Lanes *>(weight + k * Blocks * 8);
#pragma GCC unroll 6
          for (int j = 0; j < kPixels; ++j) {
            const float x = from[j][offset + size(k)];
#pragma GCC unroll 2
            for (int b = 0; b < Blocks; ++b) sum[j][b] += x * w[b];
          }
        }
        weight += 8 * Blocks * 8;
      }
    }
#pragma GCC unroll 6
    for (int j = 0; j < kPixels; ++j)
#pragma GCC unroll 2
      for (int b = 0; b < Blocks; ++b) *reinterpret_cast<Lanes *>(to + (j * Blocks + b) * 8) = sum[j][b];
  }
}

template <int Blocks>
DV_AVX2 void accumulate_avx2(const Source &source, int first, int last, const float *weights, std::size_t first_pixel,
                             std::size_t count, float *sums) {
  accumulate_loop<Blocks>(source, first, last, weights, first_pixel, count, sums);
}

template <int Blocks>
void accumulate(const Source &source, int first, int last, const float *weights, std::size_t first_pixel,
                std::size_t count, float *sums) {
  if (has_avx2())
    accumulate_avx2<Blocks>(source, first, last, weights, first_pixel, count, sums);
  else
    accumulate_loop<Blocks>(source, first, last, weights, first_pixel, count, sums);
}

// One task: Blocks blocks of outputs at a strip of positions.
template <int Blocks>
void convolve_strip(const PackedWeights &packed, const Source &source, int block, std::size_t first_pixel,
                    std::size_t count, Map &result) {
  thread_local std::vector<float> sums, weights;
  constexpr std::size_t lanes = Blocks * 8;
  sums.resize((count + kPixels) * lanes);
  weights.assign(size(kSliceChunks * packed.taps()) * 8 * lanes, 0.0f);
  float bias[lanes];
  for (int b = 0; b < Blocks; ++b) packed.read_bias(block + b, bias + 8 * b);
  for (std::size_t i = 0; i < count + kPixels; ++i) std::copy(bias, bias + lanes, &sums[i * lanes]);
  for (int first = 0; first < source.map.chunks(); first += kSliceChunks) {
    const int last = std::min(first + kSliceChunks, source.map.chunks());
    for (int b = 0; b < Blocks; ++b)
      packed.read_kernels(block + b, first, last, static_cast<int>(lanes), weights.data() + 8 * b);
    accumulate<Blocks>(source, first, last, weights.data(), first_pixel, count, sums.data());
  }
  for (int b = 0; b < Blocks; ++b) {
    float *to = result.chunk(block + b) + 8 * first_pixel;
    for (std::size_t i = 0; i < count; ++i) std::memcpy(to + 8 * i, &sums[i * lanes + 8 * size(b)], 8 * sizeof(float));
  }
}

void convolve_channels(const PackedWeights &packed, const Source &source, Map &result) {
  const std::size_t pairs = size(result.chunks() + 1) / 2, positions = result.positions();
  const std::size_t wanted = std::max<std::size_t>(1, 4 * size(thread_count()) / pairs);
  const std::size_t strip = std::clamp((positions + wanted - 1) / wanted, kLeastStrip, kMostStrip);
  const std::size_t strips = (positions + strip - 1) / strip;
  parallel_for(pairs * strips, [&](std::size_t task) {
    const int block = static_cast<int>(task / strips) * 2;
    const std::size_t first = task % strips * strip, count = std::min(strip, positions - first);
    if (block + 1 < result.chunks())
      convolve_strip<2>(packed, source, block, first, count, result);
    else
      convolve_strip<1>(packed, source, block, first, count, result);
  });
}

DV_INLINE void depthwise_loop(const Source &source, const float *from, const float *weights, const float *bias,
                              std::size_t first, std::size_t count, float *to) {
  const std::size_t taps = source.taps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float *start = from + source.pixels[first + i];
    Lanes sum = *reinterpret_cast<const Lanes *>(bias);
    for (std::size_t t = 0; t < taps; ++t)
      sum += *reinterpret_cast<const Lanes *>(start + source.taps[t]) *
             *reinterpret_cast<const Lanes *>(weights + 64 * t);
    *reinterpret_cast<Lanes *>(to + 8 * i) = sum;
  }
}

DV_AVX2 void depthwise_avx2(const Source &source, const float *from, const float *weights, const float *bias,
                            std::size_t first, std::size_t count, float *to) {
  depthwise_loop(source, from, weights, bias, first, count, to);
}

void convolve_depthwise(const PackedWeights &packed, const Source &source, Map &result) {
  const std::size_t positions = result.positions();
  const std::size_t strips = (positions + kMostStrip - 1) / kMostStrip;
  parallel_for(size(result.chunks()) * strips, [&](std::size_t task) {
    const int chunk = static_cast<int>(task / strips);
    const std::size_t first = task % strips * kMostStrip, count = std::min(kMostStrip, positions - first);
    std::vector<float> weights(size(packed.taps()) * 64);
    float bias[8];
    packed.read_bias(chunk, bias);
    packed.read_kernels(chunk, 0, 1, 8, weights.data());
    const float *from = source.map.chunk(chunk);
    float *to = result.chunk(chunk) + 8 * first;
    if (has_avx2())
      depthwise_avx2(source, from, weights.data(), bias, first, count, to);
    else
      depthwise_loop(source, from, weights.data(), bias, first, count, to);
  });
}

}  // namespace

void convolve(const Run &run, bool transposed, const Map &input, Map &padded, Map &result) {
  const Axis major = transposed ? down(run) : across(run), minor = transposed ? across(run) : down(run);
  const bool plain = major.is_plain() && minor.is_plain();
  if (!plain) pad(input, major, minor, padded);
  result.resize(run.convolved, transposed);
  const PackedWeights packed(run, transposed);
  const Source source = locate(plain ? input : padded, major, minor, result);
  run.depthwise ? convolve_depthwise(packed, source, result) : convolve_channels(packed, source, result);
}

}  // namespace dv
