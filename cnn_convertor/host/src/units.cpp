#include "units.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu.h"
#include "threads.h"
#include "weights.h"

namespace dv {
namespace {

// The part of a pool's window that lies inside the map, along one axis.
struct Reach {
  int first, last;
};

struct PoolAxis {
  int input, before, window, stride, output;
  Reach reach(int output) const {
    const int start = output * stride - before;
    return {std::max(start, 0), std::min(start + window, input)};
  }
};

void pool_chunk(const float *from, const PoolAxis &major, const PoolAxis &minor, Pool kind, float factor, float *to) {
  const bool is_max = kind == Pool::kMax;
  const float start = is_max ? -std::numeric_limits<float>::infinity() : 0.0f;
  for (int a = 0; a < major.output; ++a) {
    const Reach outer = major.reach(a);
    for (int b = 0; b < minor.output; ++b, to += 8) {
      const Reach inner = minor.reach(b);
      float values[8];
      std::fill(values, values + 8, start);
      for (int y = outer.first; y < outer.last; ++y) {
        const float *row = from + 8 * (size(y) * size(minor.input));
        for (int x = inner.first; x < inner.last; ++x)
          if (is_max)
            for (int k = 0; k < 8; ++k) values[k] = std::max(values[k], row[8 * x + k]);
          else
            for (int k = 0; k < 8; ++k) values[k] += row[8 * x + k];
      }
      for (int k = 0; k < 8; ++k) to[k] = is_max ? values[k] : values[k] * factor;
    }
  }
}

void upsample_chunk(const float *from, const PoolAxis &major, const PoolAxis &minor, float *to) {
  for (int a = 0; a < major.output; ++a)
    for (int b = 0; b < minor.output; ++b, to += 8) {
      const float *source = from + 8 * (size(a / 2) * size(minor.input) + size(b / 2));
      std::copy(source, source + 8, to);
    }
}

// The channels of a position. Of a choice between scalars, compilers make a branch, which the signs of values mispredict.
typedef float Octet __attribute__((vector_size(32)));

// Applies a function of eight channels to a piece of a map, which may start anywhere.
template <class Function>
DV_INLINE void each_octet(float *values, std::size_t count, const Function &function) {
  for (std::size_t i = 0; i < count; i += 8) {
    Octet x;
    std::memcpy(&x, values + i, sizeof(x));
    function(x);
    std::memcpy(values + i, &x, sizeof(x));
  }
}

// Applies a function of one value to a piece of a map.
template <class Function>
void each(float *values, std::size_t count, const Function &function) {
  for (std::size_t i = 0; i < count; ++i) values[i] = function(values[i]);
}

// The activations that only choose between values. slopes: of eight channels.
DV_INLINE void choose_loop(Activation activation, const float *slopes, float *values, std::size_t count) {
  if (activation == Activation::kRelu6) {
    each_octet(values, count, [](Octet &x) {
      const Octet none = {}, most = none + 6.0f, low = x < none ? none : x;
      x = most < low ? most : low;
    });
  } else {
    Octet slope;
    std::memcpy(&slope, slopes, sizeof(slope));
    each_octet(values, count, [slope](Octet &x) { x = x < 0.0f ? x * slope : x; });
  }
}

void choose_any(Activation activation, const float *slopes, float *values, std::size_t count) {
  choose_loop(activation, slopes, values, count);
}

DV_AVX2 void choose_avx2(Activation activation, const float *slopes, float *values, std::size_t count) {
  choose_loop(activation, slopes, values, count);
}

void activate_part(const Run &run, const float *slopes, float *values, std::size_t count) {
  float same[8];
  switch (run.activation) {
    case Activation::kNone: break;
    case Activation::kRelu: std::fill(same, same + 8, run.slope), slopes = same; [[fallthrough]];
    case Activation::kPrelu:
    case Activation::kRelu6: (has_avx2() ? choose_avx2 : choose_any)(run.activation, slopes, values, count); break;
    case Activation::kTanh: each(values, count, [](float x) { return std::tanh(x); }); break;
    case Activation::kSigmoid: each(values, count, [](float x) { return 1.0f / (1.0f + std::exp(-x)); }); break;
    case Activation::kElu: each(values, count, [](float x) { return x < 0.0f ? std::expm1(x) : x; }); break;
  }
  if (run.absolute) each(values, count, [](float x) { return std::fabs(x); });
}

}  // namespace

void pool(const Run &run, bool transposed, const Map &input, const Take &take) {
  const Window &w = run.window;
  const PoolAxis x{run.convolved.width, w.pad.left, w.size.x, w.stride.x, run.output.width};
  const PoolAxis y{run.convolved.height, w.pad.top, w.size.y, w.stride.y, run.output.height};
  const PoolAxis &major = transposed ? y : x, &minor = transposed ? x : y;
  parallel_for(size(input.chunks()), [&](std::size_t task) {
    const int chunk = static_cast<int>(task);
    std::vector<float> values(8 * run.output.positions());
    if (run.pool == Pool::kUpsample)
      upsample_chunk(input.chunk(chunk), major, minor, values.data());
    else
      pool_chunk(input.chunk(chunk), major, minor, run.pool, run.average_factor, values.data());
    take(chunk, 0, run.output.positions(), values.data());
  });
}

Activator::Activator(const Run &run) : run_(run) {
  if (run.activation != Activation::kPrelu) return;
  const PackedWeights packed(run, false);
  slopes_.resize(size((run.output.channels + 7) / 8) * 8);
  for (std::size_t first = 0; first < slopes_.size(); first += 8)
    packed.read_slopes(static_cast<int>(first / 8), &slopes_[first]);
}

void Activator::operator()(int chunk, std::size_t count, float *values) const {
  activate_part(run_, slopes_.empty() ? nullptr : &slopes_[8 * size(chunk)], values, count);
}

}  // namespace dv
