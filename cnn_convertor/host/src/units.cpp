#include "units.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

// Four channels, which every CPU computes at once. Compilers turn a choice between scalars into a branch, which the signs of
// values mispredict.
typedef float Quartet __attribute__((vector_size(16), aligned(4), may_alias));

// Applies a function of four channels to a piece of a map.
template <class Function>
void each_quartet(float *values, std::size_t count, const Function &function) {
  for (std::size_t i = 0; i < count; i += 4) function(*reinterpret_cast<Quartet *>(values + i), i);
}

// Applies a function of one value to a piece of a map.
template <class Function>
void each(float *values, std::size_t count, const Function &function) {
  for (std::size_t i = 0; i < count; ++i) values[i] = function(values[i]);
}

void activate_part(const Run &run, const float *slopes, float *values, std::size_t count) {
  const float slope = run.slope;
  switch (run.activation) {
    case Activation::kNone: break;
    case Activation::kTanh: each(values, count, [](float x) { return std::tanh(x); }); break;
    case Activation::kRelu: each_quartet(values, count, [slope](Quartet &x, std::size_t) { x = x < 0.0f ? x * slope : x; }); break;
    case Activation::kSigmoid: each(values, count, [](float x) { return 1.0f / (1.0f + std::exp(-x)); }); break;
    case Activation::kPrelu:
      each_quartet(values, count, [slopes](Quartet &x, std::size_t i) {
        x = x < 0.0f ? x * *reinterpret_cast<const Quartet *>(slopes + i % 8) : x;
      });
      break;
    case Activation::kElu: each(values, count, [](float x) { return x < 0.0f ? std::expm1(x) : x; }); break;
    case Activation::kRelu6: each_quartet(values, count, [](Quartet &x, std::size_t) {
      const Quartet none = {}, most = none + 6.0f, low = x < none ? none : x;
      x = most < low ? most : low;
    }); break;
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
