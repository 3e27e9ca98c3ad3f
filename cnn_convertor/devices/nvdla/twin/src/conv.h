// The convolution pipe: CDMA, CSC, CMAC and CACC. Its output goes to SDP.
#ifndef NVDLA_CONV_H
#define NVDLA_CONV_H

#include <cstdint>
#include <vector>

#include "engine.h"

namespace nvdla {

// The registers of the five blocks that run one convolution.
struct ConvolutionGroups {
  Group cdma, csc, cmac_a, cmac_b, cacc;
};

// What a convolution is, once its registers have been checked.
struct Convolution {
  bool pixels = false;
  uint32_t precision = kInt8;
  std::size_t width = 0, height = 0, channels = 0;  // of the input
  std::size_t kernels = 0, rows = 0, columns = 0;   // the kernels' number and size
  std::size_t stride_x = 1, stride_y = 1, dilation_x = 1, dilation_y = 1;
  std::size_t pad_left = 0, pad_top = 0;
  std::size_t out_width = 0, out_height = 0;
  std::size_t row_group = 1;  // rows of a kernel in one step: post-extension
  int32_t pad_value = 0;
  unsigned truncate = 0;

  std::size_t row_elements() const { return columns * channels; }  // of a kernel
  std::size_t kernel_elements() const { return rows * row_elements(); }
};

// What the convolution buffer keeps for the next convolution.
struct ConvolutionBuffer {
  uint32_t banks = 0xffffffff;  // as registers hold them
  bool uneven_weights = false;  // the fetched bytes are more entries than the weights
  bool keeps_input = false, keeps_weights = false;
  Convolution of;
  std::vector<int16_t> input, weights;
  std::vector<float> exact_input, exact_weights;
};

// CDMA. Integers are sign-extended, halves keep their bits.
class Fetch {
 public:
  // Checks the registers that only CDMA has, and what they name in memory.
  Fetch(const Parts &parts, const Group &cdma, const Convolution &convolution, const ConvolutionBuffer &buffer);

  std::vector<int16_t> input() const;    // in the order height, width, channel
  std::vector<int16_t> weights() const;  // in the order kernel, row, column, channel
  std::vector<float> exact_input() const;
  std::vector<float> exact_weights() const;
  uint64_t input_bytes() const;
  uint64_t weight_bytes() const { return reuses_weights_ ? 0 : weight_bytes_; }
  const std::vector<Cube> &inputs() const { return inputs_; }

 private:
  void check_features();
  void check_pixels();
  void check_weights();
  void check_reuse();
  void read_converter();
  int32_t convert(int32_t value, std::size_t channel) const;
  void check_entries(std::size_t entries) const;

  const Parts &parts_;
  const Group &cdma_;
  const Convolution &convolution_;
  const ConvolutionBuffer &buffer_;
  uint32_t in_precision_ = kInt8;
  bool converts_ = false, flushes_nan_ = false, reuses_input_ = false, reuses_weights_ = false, signed_pixels_ = false;
  int32_t offsets_[4] = {}, scale_ = 1;
  unsigned truncate_ = 0;
  std::size_t pixel_format_ = 0;
  uint64_t weight_address_ = 0, weight_bytes_ = 0;
  std::vector<Cube> inputs_;  // planes, then the weights
};

// The registers as one convolution. Refuses those that disagree.
Convolution convolution_of(const Configuration &configuration, const ConvolutionGroups &groups);

// By the published cost formula, with the configuration's sizes: assumed.
uint64_t mac_cycles(const Configuration &configuration, const Convolution &convolution);

// Input lines with the padding around them.
struct PaddedInput {
  std::size_t width = 0;  // elements of a line
  std::vector<int16_t> values;
};
PaddedInput padded(const Convolution &convolution, const std::vector<int16_t> &input);

// CSC, CMAC and CACC: int32, or bits of fp32.
Map convolve(const Parts &parts, const Convolution &convolution, const std::vector<int16_t> &input,
             const std::vector<int16_t> &weights);
void convolve_integers(const Parts &parts, const Convolution &convolution, const PaddedInput &input,
                       const std::vector<int16_t> &weights, Map &output);
void convolve_halves(const Parts &parts, const Convolution &convolution, const PaddedInput &input,
                     const std::vector<int16_t> &weights, Map &output);

// Halves: bounds of what CACC gives, in fp32, from sums in double precision. False where there are no bounds: with NaN.
bool bound_halves(const Parts &parts, const Convolution &convolution, const PaddedInput &input,
                  const std::vector<int16_t> &weights, Map &low, Map &high);
// Exact values in place of the bounds, where `open` is not 0.
void settle_halves(const Parts &parts, const Convolution &convolution, const PaddedInput &input,
                   const std::vector<int16_t> &weights, const std::vector<uint8_t> &open, Map &values);

}  // namespace nvdla

#endif
