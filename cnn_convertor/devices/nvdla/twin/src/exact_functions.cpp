// The functions that tables hold, by their formulas. named_functions.py has their numbers.
#include <algorithm>
#include <cmath>

#include "exact.h"

namespace nvdla {
namespace {

using Parameters = const float (&)[3];

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

constexpr double (*kFunctions[])(double, Parameters) = {
    [](double x, Parameters) { return sigmoid(x); },
    [](double x, Parameters) { return std::tanh(x); },
    [](double x, Parameters) { return x > 0 ? x : std::expm1(x); },
    [](double x, Parameters p) { return x * sigmoid(p[0] * x); },
    [](double x, Parameters p) { return std::min(std::max(p[0] * x + p[1], 0.0), 1.0); },
    [](double x, Parameters) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; },
    [](double x, Parameters p) {
      if (p[0] != 0) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    },
    [](double x, Parameters) { return x * std::tanh(softplus(x)); },
    [](double x, Parameters) { return softplus(x); },
    [](double x, Parameters) { return x / (1 + std::abs(x)); },
    [](double x, Parameters p) { return p[1] * (x > 0 ? x : p[0] * std::expm1(x)); },
    [](double x, Parameters p) { return std::exp(p[0] * x + p[1]); },
    [](double x, Parameters p) { return p[0] * std::log(p[1] * x + p[2]); },
    [](double x, Parameters p) { return std::pow(p[1] * x + p[2], double{p[0]}); },
    [](double x, Parameters) { return std::abs(x); },
    [](double x, Parameters) { return std::sin(x); },
    [](double x, Parameters) { return std::cos(x); },
    [](double x, Parameters) { return std::atan(x); },
    [](double x, Parameters) { return std::erf(x); },
    [](double x, Parameters) { return std::floor(x); },
    [](double x, Parameters) { return std::nearbyint(x); },
    [](double x, Parameters p) { return x > p[0] ? 1.0 : 0.0; },
    [](double x, Parameters p) { return std::min(std::max(x, double{p[0]}), double{p[1]}); },
    [](double x, Parameters p) { return x > p[1] ? std::min(x, double{p[2]}) : p[0] * (x - p[1]); },
};

}  // namespace

std::function<double(double)> exact_function(uint32_t number, const float *parameters) {
  if (number >= sizeof kFunctions / sizeof kFunctions[0]) throw Refusal("CSB: exact mode has no function " + text(number));
  const auto function = kFunctions[number];
  const float p0 = parameters[0], p1 = parameters[1], p2 = parameters[2];
  return [=](double x) {
    const float p[3] = {p0, p1, p2};
    return function(x, p);
  };
}

}  // namespace nvdla
