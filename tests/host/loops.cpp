// Runs the loops for each kind of CPU on the same values, and prints which of them give other bits than plain arithmetic.
#include <cstdio>
#include <random>

#include "convolve.cpp"
#include "half.h"
#include "units.cpp"
#include "vector_loops.cpp"

namespace {

std::mt19937 generator(1);

float random_half() { return dv::widen(static_cast<uint16_t>(generator() % 0x3c00u | (generator() & 1) << 15)); }

int failures = 0;

void expect(bool is_same, const char *what) {
  if (!is_same) std::printf("%s differs\n", what), ++failures;
}

bool same(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Every half, NaN and infinity too, at every place of a vector; and floats around the borders between halves.
void compare_conversions() {
  std::vector<uint8_t> halves(2 * 65536 + 2 * 13), back(halves.size()), expected_back(halves.size());
  for (std::size_t i = 0; i < halves.size() / 2; ++i) {
    const auto half = static_cast<uint16_t>(i * 40503u);
    std::memcpy(&halves[2 * i], &half, sizeof(half));
  }
  std::vector<float> values(halves.size() / 2), expected(values.size());
  dv::widen_all(halves.data(), values.size(), values.data());
  dv::widen_loop(halves.data(), values.size(), expected.data());
  expect(same(values, expected), "widen_all");
  const uint8_t *rows[8];
  for (std::size_t row = 0; row < 8; ++row) rows[row] = &halves[2 * 8001 * row];
  // Column i to place 7 * i, at eight floats of eleven.
  std::vector<int> places(8005);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(7 * i % places.size());
  std::vector<float> columns(11 * places.size()), expected_columns(columns.size());
  dv::widen_columns(rows, places.size(), places.data(), 11, columns.data());
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t row = 0; row < 8; ++row)
      expected_columns[11 * static_cast<std::size_t>(places[i]) + row] = expected[8001 * row + i];
  expect(same(columns, expected_columns), "widen_columns");
  for (const uint32_t step : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x3001u, 0xffffffffu}) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = dv::float_of_bits(dv::bits_of_float(expected[i]) + step);
    dv::narrow_all(values.data(), values.size(), back.data());
    dv::narrow_loop(values.data(), values.size(), expected_back.data());
    expect(back == expected_back, "narrow_all");
    std::vector<float> rounded = values, expected_rounded = values;
    dv::round_all(rounded.data(), rounded.size());
    dv::round_loop(expected_rounded.data(), expected_rounded.size());
    expect(same(rounded, expected_rounded), "round_all");
  }
}

void compare_activations() {
  std::vector<float> slopes(8), values(8 * 37);
  for (float &slope : slopes) slope = random_half();
  for (float &value : values) value = 16.0f * random_half();
  values[3] = -0.0f, values[4] = dv::float_of_bits(0x7fc00000u), values[5] = dv::float_of_bits(0xff800000u);
  for (const dv::Activation activation : {dv::Activation::kRelu6, dv::Activation::kPrelu}) {
    std::vector<float> place(1), fast, expected = values;
    place.insert(place.end(), values.begin(), values.end());  // at an odd address, as pieces of maps may be
    dv::choose_avx2(activation, slopes.data(), &place[1], values.size());
    fast.assign(place.begin() + 1, place.end());
    for (std::size_t i = 0; i < values.size(); ++i) {
      float &x = expected[i];
      if (activation == dv::Activation::kPrelu)
        x = x < 0.0f ? x * slopes[i % 8] : x;
      else
        x = x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x;
    }
    expect(same(fast, expected), "choose_avx2");
  }
}

struct Problem {
  const dv::Map &map;
  dv::Places places;
  std::vector<float> weights, bias;  // [chunk][tap][channel][output], for the most outputs
};

constexpr std::size_t kOutputs = 8 * dv::kMostBlocks;

void compare(const Problem &problem, const dv::Loop &loop, std::size_t count, const char *name) {
  const std::size_t outputs = 8 * static_cast<std::size_t>(loop.blocks), first_pixel = 3;
  std::vector<float> weights, sums(count * outputs), expected(sums.size());
  for (std::size_t i = 0; i < problem.weights.size(); i += kOutputs)
    weights.insert(weights.end(), &problem.weights[i], &problem.weights[i] + outputs);
  const dv::Map &map = problem.map;
  const dv::Places &places = problem.places;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t o = 0; o < outputs; ++o) {
      float sum = problem.bias[o];
      const float *weight = weights.data() + o;
      for (int chunk = 0; chunk < map.chunks(); ++chunk)
        for (const std::size_t tap : places.taps) {
          const float *x = map.chunk(chunk) + places.pixels[first_pixel + i] + tap;
          for (int k = 0; k < map.width(chunk); ++k) {
            const volatile float product = x[k] * weight[static_cast<std::size_t>(k) * outputs];  // exact
            sum += product;
          }
          weight += 8 * outputs;
        }
      expected[i * outputs + o] = sum;
    }
  // In two slices, as a convolution of many channels does it.
  const std::size_t slice = 2 * places.taps.size() * 8 * outputs;
  loop.accumulate({map, places, 0, 2, weights.data(), first_pixel, count, problem.bias.data(), 0, sums.data()});
  loop.accumulate({map, places, 2, map.chunks(), weights.data() + slice, first_pixel, count, sums.data(), outputs,
                     sums.data()});
  expect(same(sums, expected), name);
}

void compare_kernels() {
  dv::Map map;
  map.resize(9, 8, 27);
  for (float *value = map.chunk(0); value != map.chunk(map.chunks()); ++value) *value = random_half();
  const dv::Axis major{9, 0, 0, 3, 1, 1, 1}, minor{8, 0, 0, 2, 1, 1, 1};
  Problem problem{map, dv::locate(major, minor, {7, 7, 1}, false), {}, {}};
  for (std::size_t i = 0; i < 4 * 6 * 8 * kOutputs; ++i) problem.weights.push_back(random_half());
  for (std::size_t i = 0; i < kOutputs; ++i) problem.bias.push_back(random_half());
  const auto each = [&](const dv::Loops &kernels, const char *name) {
    for (const dv::Loop &loop : kernels)
      for (const std::size_t count : {1, 5, 6, 13, 14, 15, 30, 46}) compare(problem, loop, count, name);
  };
  each(dv::kAny, "the loop for any CPU");
  if (dv::has_avx2()) each(dv::kAvx2, "the loop for AVX2");
  if (dv::has_avx512()) each(dv::kAvx512, "the loop for AVX-512");
}

}  // namespace

int main() {
  compare_conversions();
  if (dv::has_avx2()) compare_activations();
  compare_kernels();
  std::printf("%s\n", failures ? "fail" : "pass");
  return failures != 0;
}
