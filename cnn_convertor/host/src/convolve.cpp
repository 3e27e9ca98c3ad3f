#include "convolve.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu.h"
#include "threads.h"
#include "weights.h"

namespace dv {
namespace {

// Registers of 8 and of 16 channels. Not aligned, because pieces of maps start anywhere.
struct Eight {
  typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
};
struct Sixteen {
  typedef float Lanes __attribute__((vector_size(64), aligned(4), may_alias));
};

constexpr int kSliceChunks = 8;  // chunks of input channels between two reads of weights
constexpr int kMostBlocks = 4;   // blocks of 8 outputs that are computed together
constexpr std::size_t kLeastStrip = 96, kMostStrip = 784;  // output positions of one task: their maps stay in a cache

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

// Zeros around a chunk of the input, and between its values for a deconvolution.
void pad_chunk(const float *from, const Axis &major, const Axis &minor, float *to) {
  const std::size_t row = 8 * size(minor.padded());
  for (int y = 0; y < major.padded(); ++y, to += row) {
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
}

void pad(const Map &input, const Axis &major, const Axis &minor, Map &padded) {
  padded.resize(major.padded(), minor.padded(), input.channels());
  parallel_for(size(input.chunks()), [&](std::size_t task) {
    const int chunk = static_cast<int>(task);
    pad_chunk(input.chunk(chunk), major, minor, padded.chunk(chunk));
  });
}

// Where things are in a chunk of the padded input, counted in floats.
struct Places {
  std::vector<std::size_t> taps;    // from a window's first position
  std::vector<std::size_t> pixels;  // first position of each output's window
};

Places locate(const Axis &major, const Axis &minor, const Shape &result, bool transposed) {
  Places places;
  const std::size_t row = 8 * size(minor.padded());
  for (int y = 0; y < minor.taps; ++y)
    for (int x = 0; x < major.taps; ++x)
      places.taps.push_back(size(x * major.dilation) * row + 8 * size(y * minor.dilation));
  places.pixels.reserve(result.positions());
  for (int a = 0; a < (transposed ? result.height : result.width); ++a)
    for (int b = 0; b < (transposed ? result.width : result.height); ++b)
      places.pixels.push_back(size(a * major.stride) * row + 8 * size(b * minor.stride));
  return places;
}

// What the chunks first to last - 1 add to the sums of count positions, from first_pixel on. The sums begin with those of
// before, step floats from a position to the next.
struct Share {
  const Map &input;  // padded
  const Places &places;
  int first, last;
  const float *weights;
  std::size_t first_pixel, count;
  const float *before;
  std::size_t step;
  float *sums;  // of all outputs of a position, and then the next
};

// Computes the sums from position pixel on: of Pixels positions at a time, in Vectors registers each, and then of the
// positions that are left. Every sum adds its products in the same order: by chunk, tap and channel.
template <class Registers, int Vectors, int Pixels>
DV_INLINE void accumulate_loop(const Share &share, std::size_t pixel) {
  using Lanes = typename Registers::Lanes;
  constexpr std::size_t width = sizeof(Lanes) / sizeof(float), outputs = Vectors * width;
  const Map &input = share.input;
  for (; pixel + Pixels <= share.count; pixel += Pixels) {
    const float *from[Pixels];
    Lanes sum[Pixels][Vectors];
    float *to = share.sums + pixel * outputs;
#pragma GCC unroll 16
    for (int j = 0; j < Pixels; ++j) {
      const std::size_t place = pixel + size(j);
      from[j] = input.chunk(0) + share.places.pixels[share.first_pixel + place];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v)
        sum[j][v] = *reinterpret_cast<const Lanes *>(share.before + place * share.step + size(v) * width);
    }
    const float *weight = share.weights;
    for (int chunk = share.first; chunk < share.last; ++chunk) {
      const int channels = input.width(chunk);
      const std::size_t start = size(chunk) * input.chunk_size();
      for (const std::size_t tap : share.places.taps) {
        const std::size_t offset = start + tap;
        for (int k = 0; k < channels; ++k) {
          const Lanes *w = reinterpret_cast<const Lanes *>(weight + size(k) * outputs);
#pragma GCC unroll 16
          for (int j = 0; j < Pixels; ++j) {
            const float x = from[j][offset + size(k)];
#pragma GCC unroll 2
            for (int v = 0; v < Vectors; ++v) sum[j][v] += x * w[v];
          }
        }
        weight += 8 * outputs;
      }
    }
#pragma GCC unroll 16
    for (int j = 0; j < Pixels; ++j)
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) *reinterpret_cast<Lanes *>(to + size(j) * outputs + size(v) * width) = sum[j][v];
  }
  if constexpr (Pixels > 1) accumulate_loop<Registers, Vectors, Pixels / 2>(share, pixel);
}

template <int Vectors, int Pixels>
void accumulate(const Share &share) {
  accumulate_loop<Eight, Vectors, Pixels>(share, 0);
}

template <int Vectors, int Pixels>
DV_AVX2 void accumulate_avx2(const Share &share) {
  accumulate_loop<Eight, Vectors, Pixels>(share, 0);
}

template <class Registers, int Vectors, int Pixels>
DV_AVX512 void accumulate_avx512(const Share &share) {
  accumulate_loop<Registers, Vectors, Pixels>(share, 0);
}

// A loop for some blocks of 8 outputs. Registers hold its sums, its weights and an input.
struct Loop {
  int blocks, pixels;
  void (*accumulate)(const Share &);
};
using Loops = std::vector<Loop>;  // the most blocks first; the last has one

const Loops kAny = {{2, 6, accumulate<2, 6>}, {1, 6, accumulate<1, 6>}};
const Loops kAvx2 = {{2, 6, accumulate_avx2<2, 6>}, {1, 12, accumulate_avx2<1, 12>}};
const Loops kAvx512 = {{4, 14, accumulate_avx512<Sixteen, 2, 14>},
                       {2, 14, accumulate_avx512<Sixteen, 1, 14>},
                       {1, 14, accumulate_avx512<Eight, 1, 14>}};

const Loops &loops() { return has_avx512() ? kAvx512 : has_avx2() ? kAvx2 : kAny; }

// Some blocks of outputs at a strip of positions.
void convolve_strip(const Loop &loop, const PackedWeights &packed, const Map &input, const Places &places, int block,
                    std::size_t first_pixel, std::size_t count, const Take &take) {
  thread_local std::vector<float> sums, weights, values;
  const std::size_t outputs = 8 * size(loop.blocks);
  sums.resize(count * outputs);
  weights.resize(size(packed.rows()) * outputs);
  values.resize(8 * count);
  float bias[8 * kMostBlocks];
  for (int b = 0; b < loop.blocks; ++b) packed.read_bias(block + b, bias + 8 * b);
  for (int first = 0; first < input.chunks(); first += kSliceChunks) {
    const int last = std::min(first + kSliceChunks, input.chunks());
    for (int b = 0; b < loop.blocks; ++b)
      packed.read_kernels(block + b, first, last, static_cast<int>(outputs), weights.data() + 8 * b);
    const bool begins = first == 0;
    loop.accumulate({input, places, first, last, weights.data(), first_pixel, count, begins ? bias : sums.data(),
                     begins ? 0 : outputs, sums.data()});
  }
  for (int b = 0; b < loop.blocks; ++b) {
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(&values[8 * i], &sums[i * outputs + 8 * size(b)], 8 * sizeof(float));
    take(block + b, first_pixel, count, values.data());
  }
}

void convolve_channels(const PackedWeights &packed, const Map &input, const Places &places, int blocks,
                       const Take &take) {
  const Loops &all = loops();
  const int together = all.front().blocks;
  const std::size_t groups = size((blocks + together - 1) / together), positions = places.pixels.size();
  const std::size_t pixels = size(all.front().pixels);
  const std::size_t wanted = std::max<std::size_t>(1, 4 * size(thread_count()) / groups);
  const std::size_t even = std::clamp((positions + wanted - 1) / wanted, kLeastStrip, kMostStrip);
  const std::size_t strip = (even + pixels - 1) / pixels * pixels, strips = (positions + strip - 1) / strip;
  parallel_for(groups * strips, [&](std::size_t task) {
    const std::size_t first = task % strips * strip, count = std::min(strip, positions - first);
    int block = static_cast<int>(task / strips) * together;
    const int end = std::min(block + together, blocks);
    for (const Loop &loop : all)
      for (; block + loop.blocks <= end; block += loop.blocks)
        convolve_strip(loop, packed, input, places, block, first, count, take);
  });
}

constexpr int kDepthwisePixels = 6;

// values has room for kDepthwisePixels - 1 positions more.
DV_INLINE void depthwise_loop(const Places &places, const float *from, const float *weights, const float *bias,
                              std::size_t first, std::size_t count, float *values) {
  using Lanes = Eight::Lanes;
  const std::size_t taps = places.taps.size();
  for (std::size_t pixel = 0; pixel < count; pixel += kDepthwisePixels) {
    const float *start[kDepthwisePixels];
    Lanes sum[kDepthwisePixels];
#pragma GCC unroll 16
    for (int j = 0; j < kDepthwisePixels; ++j) {
      start[j] = from + places.pixels[first + std::min(pixel + size(j), count - 1)];
      sum[j] = *reinterpret_cast<const Lanes *>(bias);
    }
    for (std::size_t t = 0; t < taps; ++t) {
      const std::size_t tap = places.taps[t];
      const Lanes *weight = reinterpret_cast<const Lanes *>(weights + 64 * t);
#pragma GCC unroll 16
      for (int j = 0; j < kDepthwisePixels; ++j) sum[j] += *reinterpret_cast<const Lanes *>(start[j] + tap) * *weight;
    }
#pragma GCC unroll 16
    for (int j = 0; j < kDepthwisePixels; ++j) *reinterpret_cast<Lanes *>(values + 8 * (pixel + size(j))) = sum[j];
  }
}

void depthwise_any(const Places &places, const float *from, const float *weights, const float *bias, std::size_t first,
                   std::size_t count, float *values) {
  depthwise_loop(places, from, weights, bias, first, count, values);
}

DV_AVX2 void depthwise_avx2(const Places &places, const float *from, const float *weights, const float *bias,
                            std::size_t first, std::size_t count, float *values) {
  depthwise_loop(places, from, weights, bias, first, count, values);
}

void convolve_depthwise(const PackedWeights &packed, const Map &input, const Axis &major, const Axis &minor,
                        const Places &places, const Take &take) {
  parallel_for(size(input.chunks()), [&](std::size_t task) {
    thread_local std::vector<float> padded, weights, values;
    const int chunk = static_cast<int>(task);
    padded.resize(8 * size(major.padded()) * size(minor.padded()));
    weights.resize(size(packed.rows()) * 8);
    values.resize(8 * (kMostStrip + kDepthwisePixels));
    pad_chunk(input.chunk(chunk), major, minor, padded.data());
    float bias[8];
    packed.read_bias(chunk, bias);
    packed.read_kernels(chunk, 0, 1, 8, weights.data());
    for (std::size_t first = 0; first < places.pixels.size(); first += kMostStrip) {
      const std::size_t count = std::min(kMostStrip, places.pixels.size() - first);
      (has_avx2() ? depthwise_avx2 : depthwise_any)(places, padded.data(), weights.data(), bias, first, count,
                                                    values.data());
      take(chunk, first, count, values.data());
    }
  });
}

}  // namespace

void convolve(const Run &run, bool transposed, const Map &input, Map &padded, const Take &take) {
  const Axis major = transposed ? down(run) : across(run), minor = transposed ? across(run) : down(run);
  const PackedWeights packed(run, transposed);
  const Places places = locate(major, minor, run.convolved, transposed);
  if (run.depthwise) return convolve_depthwise(packed, input, major, minor, places, take);
  const bool plain = major.is_plain() && minor.is_plain();
  if (!plain) pad(input, major, minor, padded);
  convolve_channels(packed, plain ? input : padded, places, (run.convolved.channels + 7) / 8, take);
}

}  // namespace dv
