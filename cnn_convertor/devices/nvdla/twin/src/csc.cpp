// CSC: the registers of a convolution as one, and the input with its padding.
#include <algorithm>

#include "conv.h"

namespace nvdla {
namespace {

// Precisions and modes, which several blocks hold.
void check_modes(const Configuration &configuration, const ConvolutionGroups &g, uint32_t precision) {
  check_precision(configuration, g.cdma, CDMA::D_MISC_CFG_PROC_PRECISION);
  g.csc.must_be(CSC::D_MISC_CFG_PROC_PRECISION, g.csc(CSC::D_MISC_CFG_PROC_PRECISION), precision, "the precision, by CDMA,");
  g.csc.must_be(CSC::D_MISC_CFG_IN_PRECISION, g.csc(CSC::D_MISC_CFG_IN_PRECISION), precision, "the precision, by CDMA,");
  g.cmac_a.must_be(CMAC_A::D_MISC_CFG_PROC_PRECISION, g.cmac_a(CMAC_A::D_MISC_CFG_PROC_PRECISION), precision, "the precision, by CDMA,");
  g.cmac_b.must_be(CMAC_B::D_MISC_CFG_PROC_PRECISION, g.cmac_b(CMAC_B::D_MISC_CFG_PROC_PRECISION), precision, "the precision, by CDMA,");
  g.cacc.must_be(CACC::D_MISC_CFG_PROC_PRECISION, g.cacc(CACC::D_MISC_CFG_PROC_PRECISION), precision, "the precision, by CDMA,");
  const char *mode = "the mode (the twin has no Winograd convolutions)";
  g.cdma.must_be(CDMA::D_MISC_CFG_CONV_MODE, g.cdma(CDMA::D_MISC_CFG_CONV_MODE), 0, mode);
  g.csc.must_be(CSC::D_MISC_CFG_CONV_MODE, g.csc(CSC::D_MISC_CFG_CONV_MODE), 0, mode);
  g.cmac_a.must_be(CMAC_A::D_MISC_CFG_CONV_MODE, g.cmac_a(CMAC_A::D_MISC_CFG_CONV_MODE), 0, mode);
  g.cmac_b.must_be(CMAC_B::D_MISC_CFG_CONV_MODE, g.cmac_b(CMAC_B::D_MISC_CFG_CONV_MODE), 0, mode);
  g.cacc.must_be(CACC::D_MISC_CFG_CONV_MODE, g.cacc(CACC::D_MISC_CFG_CONV_MODE), 0, mode);
  const char *batch = "the batch (the twin has no batches)";
  g.cdma.must_be(CDMA::D_BATCH_NUMBER, g.cdma.count(CDMA::D_BATCH_NUMBER), 1, batch);
  g.csc.must_be(CSC::D_BATCH_NUMBER, g.csc.count(CSC::D_BATCH_NUMBER), 1, batch);
  g.cacc.must_be(CACC::D_BATCH_NUMBER, g.cacc.count(CACC::D_BATCH_NUMBER), 1, batch);
}

void check_reuse(const ConvolutionGroups &g) {
  const Field pairs[][2] = {
      {CDMA::D_MISC_CFG_DATA_REUSE, CSC::D_MISC_CFG_DATA_REUSE},
      {CDMA::D_MISC_CFG_WEIGHT_REUSE, CSC::D_MISC_CFG_WEIGHT_REUSE},
      {CDMA::D_MISC_CFG_SKIP_DATA_RLS, CSC::D_MISC_CFG_SKIP_DATA_RLS},
      {CDMA::D_MISC_CFG_SKIP_WEIGHT_RLS, CSC::D_MISC_CFG_SKIP_WEIGHT_RLS},
  };
  for (const auto &pair : pairs) g.csc.must_be(pair[1], g.csc(pair[1]), g.cdma(pair[0]), "the flag, by CDMA,");
}

// How many outputs there are, by the size of the input with its padding.
uint64_t outputs(uint64_t padded, uint64_t taps, uint64_t dilation, uint64_t stride) {
  const uint64_t reach = (taps - 1) * dilation + 1;
  return padded < reach ? 0 : (padded - reach) / stride + 1;
}

void check_output(const ConvolutionGroups &g, const Convolution &c) {
  const Group &cdma = g.cdma, &csc = g.csc, &cacc = g.cacc;
  const uint64_t right = cdma(CDMA::D_ZERO_PADDING_PAD_RIGHT), bottom = cdma(CDMA::D_ZERO_PADDING_PAD_BOTTOM);
  const uint64_t width = outputs(c.pad_left + c.width + right, c.columns, c.dilation_x, c.stride_x);
  const uint64_t height = outputs(c.pad_top + c.height + bottom, c.rows, c.dilation_y, c.stride_y);
  csc.must_be(CSC::D_DATAOUT_SIZE_0_DATAOUT_WIDTH, c.out_width, width, "the width, by input, padding and kernel,");
  csc.must_be(CSC::D_DATAOUT_SIZE_0_DATAOUT_HEIGHT, c.out_height, height, "the height, by input, padding and kernel,");
  csc.must_be(CSC::D_DATAOUT_SIZE_1, csc.count(CSC::D_DATAOUT_SIZE_1), c.kernels, "the number of channels, by the kernels,");
  csc.must_be(CSC::D_ATOMICS, csc.count(CSC::D_ATOMICS), width * height, "the number of positions");
  csc.at_most(CSC::D_RELEASE, csc.count(CSC::D_RELEASE), c.height, "the number of lines to release");
  cacc.must_be(CACC::D_DATAOUT_SIZE_0_DATAOUT_WIDTH, cacc.count(CACC::D_DATAOUT_SIZE_0_DATAOUT_WIDTH), width, "the width, by CSC,");
  cacc.must_be(CACC::D_DATAOUT_SIZE_0_DATAOUT_HEIGHT, cacc.count(CACC::D_DATAOUT_SIZE_0_DATAOUT_HEIGHT), height, "the height, by CSC,");
  cacc.must_be(CACC::D_DATAOUT_SIZE_1, cacc.count(CACC::D_DATAOUT_SIZE_1), c.kernels, "the number of channels, by CSC,");
}

void check_agreement(const Configuration &configuration, const ConvolutionGroups &g, const Convolution &c) {
  const Group &cdma = g.cdma, &csc = g.csc;
  csc.must_be(CSC::D_DATAIN_FORMAT, csc(CSC::D_DATAIN_FORMAT), c.pixels, "the format, by CDMA,");
  csc.must_be(CSC::D_DATAIN_SIZE_EXT_0_DATAIN_WIDTH_EXT, csc.count(CSC::D_DATAIN_SIZE_EXT_0_DATAIN_WIDTH_EXT), c.width, "the width, by CDMA,");
  csc.must_be(CSC::D_DATAIN_SIZE_EXT_0_DATAIN_HEIGHT_EXT, csc.count(CSC::D_DATAIN_SIZE_EXT_0_DATAIN_HEIGHT_EXT), c.height, "the height, by CDMA,");
  csc.must_be(CSC::D_DATAIN_SIZE_EXT_1, csc.count(CSC::D_DATAIN_SIZE_EXT_1), c.channels, "the number of channels, by CDMA,");
  cdma.must_be(CDMA::D_DATAIN_SIZE_EXT_0_DATAIN_WIDTH_EXT, cdma.count(CDMA::D_DATAIN_SIZE_EXT_0_DATAIN_WIDTH_EXT), c.width, "the width, by D_DATAIN_SIZE_0,");
  cdma.must_be(CDMA::D_DATAIN_SIZE_EXT_0_DATAIN_HEIGHT_EXT, cdma.count(CDMA::D_DATAIN_SIZE_EXT_0_DATAIN_HEIGHT_EXT), c.height, "the height, by D_DATAIN_SIZE_0,");
  csc.must_be(CSC::D_WEIGHT_FORMAT, csc(CSC::D_WEIGHT_FORMAT), 0, "the format (the twin reads no compressed weights)");
  csc.must_be(CSC::D_WEIGHT_BYTES, csc(CSC::D_WEIGHT_BYTES), cdma(CDMA::D_WEIGHT_BYTES), "the number of bytes, by CDMA,");
  csc.must_be(CSC::D_ENTRY_PER_SLICE, csc(CSC::D_ENTRY_PER_SLICE), cdma(CDMA::D_ENTRY_PER_SLICE), "the register, by CDMA,");
  csc.must_be(CSC::D_ZERO_PADDING_PAD_LEFT, c.pad_left, cdma(CDMA::D_ZERO_PADDING_PAD_LEFT), "the padding, by CDMA,");
  csc.must_be(CSC::D_ZERO_PADDING_PAD_TOP, c.pad_top, cdma(CDMA::D_ZERO_PADDING_PAD_TOP), "the padding, by CDMA,");
  csc.must_be(CSC::D_ZERO_PADDING_VALUE, csc(CSC::D_ZERO_PADDING_VALUE), cdma(CDMA::D_ZERO_PADDING_VALUE), "the value, by CDMA,");
  csc.must_be(CSC::D_CONV_STRIDE_EXT_CONV_X_STRIDE_EXT, c.stride_x, cdma.count(CDMA::D_CONV_STRIDE_CONV_X_STRIDE), "the stride, by CDMA,");
  csc.must_be(CSC::D_CONV_STRIDE_EXT_CONV_Y_STRIDE_EXT, c.stride_y, cdma.count(CDMA::D_CONV_STRIDE_CONV_Y_STRIDE), "the stride, by CDMA,");
  csc.must_be(CSC::D_BANK_DATA_BANK, csc(CSC::D_BANK_DATA_BANK), cdma(CDMA::D_BANK_DATA_BANK), "the register, by CDMA,");
  csc.must_be(CSC::D_BANK_WEIGHT_BANK, csc(CSC::D_BANK_WEIGHT_BANK), cdma(CDMA::D_BANK_WEIGHT_BANK), "the register, by CDMA,");
  const uint64_t banks = uint64_t{csc.count(CSC::D_BANK_DATA_BANK)} + csc.count(CSC::D_BANK_WEIGHT_BANK);
  csc.at_most(CSC::D_BANK_WEIGHT_BANK, banks, configuration.cbuf_banks, "the number of banks for data and weights");
}

void read_kernel(const Configuration &configuration, const Group &csc, Convolution &c) {
  c.kernels = csc.count(CSC::D_WEIGHT_SIZE_EXT_1_WEIGHT_KERNEL);
  c.rows = csc.count(CSC::D_WEIGHT_SIZE_EXT_0_WEIGHT_HEIGHT_EXT);
  c.columns = csc.count(CSC::D_WEIGHT_SIZE_EXT_0_WEIGHT_WIDTH_EXT);
  c.dilation_x = csc.count(CSC::D_DILATION_EXT_X_DILATION_EXT);
  c.dilation_y = csc.count(CSC::D_DILATION_EXT_Y_DILATION_EXT);
  const uint64_t elements = csc.count(CSC::D_WEIGHT_SIZE_EXT_1_WEIGHT_CHANNEL_EXT);
  const uint32_t extension = csc(CSC::D_POST_Y_EXTENSION);
  if (extension > 2) csc.refuse(CSC::D_POST_Y_EXTENSION, "there is no post-extension 3");
  c.row_group = std::size_t{1} << extension;
  if (!c.pixels) {
    csc.must_be(CSC::D_POST_Y_EXTENSION, extension, 0, "the post-extension, which is for pixels,");
    csc.must_be(CSC::D_WEIGHT_SIZE_EXT_1_WEIGHT_CHANNEL_EXT, elements, c.channels, "the number of channels, by the input,");
    return;
  }
  csc.must_be(CSC::D_WEIGHT_SIZE_EXT_0_WEIGHT_WIDTH_EXT, c.columns, 1, "the width of a kernel, whose columns are channels,");
  csc.must_be(CSC::D_DILATION_EXT_X_DILATION_EXT, c.dilation_x, 1, "the dilation, which pixels cannot have,");
  csc.must_be(CSC::D_DILATION_EXT_Y_DILATION_EXT, c.dilation_y, 1, "the dilation, which pixels cannot have,");
  if (elements % c.channels)
    csc.refuse(CSC::D_WEIGHT_SIZE_EXT_1_WEIGHT_CHANNEL_EXT, text(elements) + " is no multiple of the " + text(c.channels) + " components");
  c.columns = elements / c.channels;
  csc.at_most(CSC::D_WEIGHT_SIZE_EXT_1_WEIGHT_CHANNEL_EXT, c.columns, 32, "the width of a kernel");
  if (c.row_group > 1) {
    if (!configuration.post_extension)
      csc.refuse(CSC::D_POST_Y_EXTENSION, configuration.name + " has no post-extension: the recorded results of nv_small do not follow the specification there");
    csc.at_most(CSC::D_POST_Y_EXTENSION, c.row_group * elements, configuration.atomic_c, "the number of channels of a step");
  }
}

}  // namespace

Convolution convolution_of(const Configuration &configuration, const ConvolutionGroups &g) {
  const Group &cdma = g.cdma, &csc = g.csc;
  Convolution c;
  c.precision = cdma(CDMA::D_MISC_CFG_PROC_PRECISION);
  check_modes(configuration, g, c.precision);
  check_reuse(g);
  c.pixels = cdma(CDMA::D_DATAIN_FORMAT_DATAIN_FORMAT);
  c.width = cdma.count(CDMA::D_DATAIN_SIZE_0_DATAIN_WIDTH);
  c.height = cdma.count(CDMA::D_DATAIN_SIZE_0_DATAIN_HEIGHT);
  c.channels = cdma.count(CDMA::D_DATAIN_SIZE_1);
  c.stride_x = csc.count(CSC::D_CONV_STRIDE_EXT_CONV_X_STRIDE_EXT);
  c.stride_y = csc.count(CSC::D_CONV_STRIDE_EXT_CONV_Y_STRIDE_EXT);
  c.pad_left = csc(CSC::D_ZERO_PADDING_PAD_LEFT);
  c.pad_top = csc(CSC::D_ZERO_PADDING_PAD_TOP);
  const int32_t pad = csc.sign_extended(CSC::D_ZERO_PADDING_VALUE);
  c.pad_value = c.precision == kInt8 ? static_cast<int8_t>(pad) : pad;
  c.out_width = csc.count(CSC::D_DATAOUT_SIZE_0_DATAOUT_WIDTH);
  c.out_height = csc.count(CSC::D_DATAOUT_SIZE_0_DATAOUT_HEIGHT);
  c.truncate = g.cacc(CACC::D_CLIP_CFG);
  read_kernel(configuration, csc, c);
  check_agreement(configuration, g, c);
  check_output(g, c);
  return c;
}

uint64_t mac_cycles(const Configuration &configuration, const Convolution &c) {
  const uint64_t channels = c.pixels ? c.row_elements() : c.channels, columns = c.pixels ? 1 : c.columns;
  const uint64_t block = configuration.atomic_c, group = configuration.atomic_k[c.precision];
  const uint64_t steps = (channels + block - 1) / block * ((c.rows + c.row_group - 1) / c.row_group) * columns;
  return c.out_width * c.out_height * steps * ((c.kernels + group - 1) / group);
}

PaddedInput padded(const Convolution &c, const std::vector<int16_t> &input) {
  const std::size_t width = (c.out_width - 1) * c.stride_x + (c.columns - 1) * c.dilation_x + 1;
  const std::size_t height = (c.out_height - 1) * c.stride_y + (c.rows - 1) * c.dilation_y + 1;
  PaddedInput result;
  result.width = width * c.channels;
  result.values.assign(height * result.width, static_cast<int16_t>(c.pad_value));
  const std::size_t kept = width > c.pad_left ? std::min(c.width, width - c.pad_left) : 0;
  for (std::size_t y = c.pad_top; kept && y < std::min(height, c.pad_top + c.height); ++y) {
    const int16_t *from = input.data() + (y - c.pad_top) * c.width * c.channels;
    std::copy(from, from + kept * c.channels, result.values.data() + y * result.width + c.pad_left * c.channels);
  }
  return result;
}

Map convolve(const Parts &parts, const Convolution &c, const std::vector<int16_t> &input, const std::vector<int16_t> &weights) {
  Map output(c.out_height, c.out_width, c.kernels, parts.configuration.atom_bytes);
  const PaddedInput around = padded(c, input);
  if (c.precision == kFp16)
    convolve_halves(parts, c, around, weights, output);
  else
    convolve_integers(parts, c, around, weights, output);
  return output;
}

}  // namespace nvdla
