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
  int input, before, window, stride;
  Reach reach(int output) const {
    const int start = output * stride - before;
    return {std::max(start, 0), std::min(start + window, input)};
  }
};

void pool_chunk(const float *from, const PoolAxis &major, const PoolAxis &minor, Pool kind, float factor, const Map &result,
                float *to) {
  const bool is_max = kind == Pool::kMax;
  const float start = is_max ? -std::numeric_limits<float>::infinity() : 0.0f;
  for (int a = 0; a < result.major(); ++a) {
    const Reach outer = major.reach(a);
    for (int b = 0; b < result.minor(); ++b, to += 8) {
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

void upsample_chunk(const float *from, const Map &input, const Map &result, float *to) {
  for (int a = 0; a < result.major(); ++a)
    for (int b = 0; b < result.minor(); ++b, to += 8) {
      const float *source = from + 8 * (size(a / 2) * size(input.minor()) + size(b / 2));
      std::copy(source, source + 8, to);
    }
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
    case Activation::kRelu: each(values, count, [slope](float x) { return x < 0.0f ? x * slope : x; }); break;
    case Activation::kSigmoid: each(values, count, [](float x) { return 1.0f / (1.0f + std::exp(-x)); }); break;
    case Activation::kPrelu:
      for (std::size_t i = 0; i < count; ++i) values[i] = values[i] < 0.0f ? values[i] * slopes[i % 8] : values[i];
      break;
    case Activation::kElu: each(values, count, [](float x) { return x < 0.0f ? std::expm1(x) : x; }); break;
    case Activation::kRelu6: each(values, count, [](float x) { return std::min(std::max(x, 0.0f), 6.0f); }); break;
  }
  if (run.absolute) each(values, count, [](float x) { return std::fabs(x); });
}

}  // namespace

void pool(const Run &run, bool transposed, const Map &input, Map &result) {
  result.resize(run.output, transposed);
  const Window &w = run.window;
  const PoolAxis x{run.convolved.width, w.pad.left, w.size.x, w.stride.x};
  const PoolAxis y{run.convolved.height, w.pad.top, w.size.y, w.stride.y};
  parallel_for(size(result.chunks()), [&](std::size_t task) {
    const int chunk = static_cast<int>(task);
    if (run.pool == Pool::kUpsample)
      upsample_chunk(input.chunk(chunk), input, result, result.chunk(chunk));
    else
      pool_chunk(input.chunk(chunk), transposed ? y : x, transposed ? x : y, run.pool, run.average_factor, result,
                 result.chunk(chunk));
  });
}

void add(const Map &operand, Map &map) {
  parallel_for(size(map.chunks()), [&](std::size_t task) {
    const float *from = operand.chunk(static_cast<int>(task));
    float *to = map.chunk(static_cast<int>(task));
    for (std::size_t i = 0; i < map.chunk_size(); ++i) to[i] += from[i];
  });
}

void activate(const Run &run, Map &map) {
  if (run.activation == Activation::kNone && !run.absolute) return;
  parallel_for(size(map.chunks()), [&](std::size_t task) {
    const int chunk = static_cast<int>(task);
    float slopes[8] = {};
    if (run.activation == Activation::kPrelu) PackedWeights(run, false).read_slopes(chunk, slopes);
    activate_part(run, slopes, map.chunk(chunk), map.chunk_size());
  });
}

}  // namespace dv
