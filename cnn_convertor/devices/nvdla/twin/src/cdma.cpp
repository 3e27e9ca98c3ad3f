// CDMA: what a convolution reads from memory, and the input converter.
#include <algorithm>

#include "conv.h"
#include "floats.h"
#include "pixels.h"
#include "weight_order.h"

namespace nvdla {
namespace {

// Entries of the buffer for a line of features.
std::size_t feature_entries(const Configuration &configuration, const Convolution &c) {
  const std::size_t atoms = rounded_up(c.channels * element_bytes(c.precision), configuration.atom_bytes) / configuration.atom_bytes;
  const std::size_t of_entry = configuration.cbuf_entry_bytes / configuration.atom_bytes;
  const std::size_t rest = atoms % of_entry;
  const std::size_t tail = rest == 3 ? c.width : (rest * c.width + of_entry - 1) / of_entry;
  return atoms / of_entry * c.width + tail;
}

}  // namespace

Fetch::Fetch(const Parts &parts, const Group &cdma, const Convolution &convolution, const ConvolutionBuffer &buffer)
    : parts_(parts), cdma_(cdma), convolution_(convolution), buffer_(buffer) {
  in_precision_ = cdma_(CDMA::D_MISC_CFG_IN_PRECISION);
  reuses_input_ = cdma_(CDMA::D_MISC_CFG_DATA_REUSE);
  reuses_weights_ = cdma_(CDMA::D_MISC_CFG_WEIGHT_REUSE);
  flushes_nan_ = cdma_.or_zero(CDMA::D_NAN_FLUSH_TO_ZERO);
  check_precision(parts_.configuration, cdma_, CDMA::D_MISC_CFG_IN_PRECISION);
  read_converter();
  inputs_.reserve(3);
  if (convolution_.pixels)
    check_pixels();
  else
    check_features();
  check_port(parts_.configuration, cdma_, CDMA::D_DAIN_RAM_TYPE);
  check_port(parts_.configuration, cdma_, CDMA::D_WEIGHT_RAM_TYPE);
  check_weights();
  check_reuse();
}

void Fetch::read_converter() {
  converts_ = cdma_(CDMA::D_CVT_CFG_CVT_EN);
  if (in_precision_ != convolution_.precision && !converts_)
    cdma_.refuse(CDMA::D_CVT_CFG_CVT_EN, "the input's precision is not that of the convolution, so the converter must be on");
  if (!converts_) return;
  truncate_ = cdma_(CDMA::D_CVT_CFG_CVT_TRUNCATE);
  scale_ = cdma_.sign_extended(CDMA::D_CVT_SCALE);
  if (cdma_(CDMA::D_MEAN_FORMAT)) {
    if (!convolution_.pixels) cdma_.refuse(CDMA::D_MEAN_FORMAT, "means are for pixels");
    offsets_[0] = cdma_.sign_extended(CDMA::D_MEAN_GLOBAL_0_MEAN_RY);
    offsets_[1] = cdma_.sign_extended(CDMA::D_MEAN_GLOBAL_0_MEAN_GU);
    offsets_[2] = cdma_.sign_extended(CDMA::D_MEAN_GLOBAL_1_MEAN_BV);
    offsets_[3] = cdma_.sign_extended(CDMA::D_MEAN_GLOBAL_1_MEAN_AX);
  } else {
    std::fill(offsets_, offsets_ + 4, cdma_.sign_extended(CDMA::D_CVT_OFFSET));
  }
}

void Fetch::check_entries(std::size_t entries) const {
  const Configuration &configuration = parts_.configuration;
  cdma_.must_be(CDMA::D_ENTRY_PER_SLICE, cdma_.count(CDMA::D_ENTRY_PER_SLICE), entries, "the number of entries of a line");
  const uint64_t held = uint64_t{cdma_.count(CDMA::D_BANK_DATA_BANK)} * configuration.cbuf_entries;
  cdma_.at_most(CDMA::D_BANK_DATA_BANK, entries * convolution_.height, held, "the number of entries that the input needs");
}

void Fetch::check_features() {
  const Configuration &configuration = parts_.configuration;
  if (in_precision_ != convolution_.precision)
    cdma_.refuse(CDMA::D_MISC_CFG_IN_PRECISION, "features have the precision of the convolution");
  check_entries(feature_entries(configuration, convolution_));
  Cube cube = feature_cube(convolution_.width, convolution_.height, convolution_.channels, in_precision_, configuration.atom_bytes);
  cube = placed(cube, cdma_, CDMA::D_DAIN_ADDR_HIGH_0, CDMA::D_DAIN_ADDR_LOW_0, CDMA::D_LINE_STRIDE, CDMA::D_SURF_STRIDE);
  const bool lines_packed = cube.line_stride == cube.line_bytes;
  const bool surfaces_packed = cube.surface_stride == cube.line_bytes * cube.lines;
  cdma_.must_be(CDMA::D_DAIN_MAP_LINE_PACKED, cdma_(CDMA::D_DAIN_MAP_LINE_PACKED), lines_packed, "the flag, by D_LINE_STRIDE,");
  cdma_.must_be(CDMA::D_DAIN_MAP_SURF_PACKED, cdma_(CDMA::D_DAIN_MAP_SURF_PACKED), surfaces_packed, "the flag, by D_SURF_STRIDE,");
  if (!lines_packed) cdma_.must_be(CDMA::D_FETCH_GRAIN, cdma_.count(CDMA::D_FETCH_GRAIN), 1, "the number of lines, which are not packed,");
  parts_.memory.check(cube, configuration.atom_bytes);
  inputs_.push_back(cube);
}

void Fetch::check_pixels() {
  const Configuration &configuration = parts_.configuration;
  const uint32_t number = cdma_(CDMA::D_DATAIN_FORMAT_PIXEL_FORMAT);
  if (number >= kPixelFormats) cdma_.refuse(CDMA::D_DATAIN_FORMAT_PIXEL_FORMAT, "there is no format " + text(number));
  cdma_.must_be(CDMA::D_DATAIN_FORMAT_PIXEL_MAPPING, cdma_(CDMA::D_DATAIN_FORMAT_PIXEL_MAPPING), 0, "the mapping");
  const PixelFormat &format = pixel_format(number);
  pixel_format_ = number;
  signed_pixels_ = cdma_(CDMA::D_DATAIN_FORMAT_PIXEL_SIGN_OVERRIDE);
  cdma_.must_be(CDMA::D_MISC_CFG_IN_PRECISION, in_precision_, format.precision, "the precision, by the format of pixels,");
  if (in_precision_ == kFp16 && convolution_.precision != kFp16)
    cdma_.refuse(CDMA::D_MISC_CFG_PROC_PRECISION, "pixels of fp16 stay fp16");
  cdma_.must_be(CDMA::D_DATAIN_SIZE_1, convolution_.channels, format.channels, "the number of components");
  const uint64_t padded_width = convolution_.width + convolution_.pad_left + cdma_(CDMA::D_ZERO_PADDING_PAD_RIGHT);
  const uint64_t bytes = padded_width * format.channels * element_bytes(convolution_.precision);
  check_entries((bytes + configuration.cbuf_entry_bytes - 1) / configuration.cbuf_entry_bytes);
  cdma_.must_be(CDMA::D_PIXEL_OFFSET_PIXEL_Y_OFFSET, cdma_.or_zero(CDMA::D_PIXEL_OFFSET_PIXEL_Y_OFFSET), 0, "the offset");
  const uint64_t offset = cdma_.or_zero(CDMA::D_PIXEL_OFFSET_PIXEL_X_OFFSET);
  cdma_.at_most(CDMA::D_PIXEL_OFFSET_PIXEL_X_OFFSET, offset, configuration.atom_bytes / format.bytes(0) - 1, "the offset");
  for (std::size_t plane = 0; plane < format.planes; ++plane) {
    Cube cube;
    const Field &high = plane ? CDMA::D_DAIN_ADDR_HIGH_1 : CDMA::D_DAIN_ADDR_HIGH_0;
    const Field &low = plane ? CDMA::D_DAIN_ADDR_LOW_1 : CDMA::D_DAIN_ADDR_LOW_0;
    const Field &line = plane ? CDMA::D_LINE_UV_STRIDE : CDMA::D_LINE_STRIDE;
    cube = placed(cube, cdma_, high, low, line, CDMA::D_SURF_STRIDE);
    cube.surface_field = nullptr;
    cube.surface_stride = 0;
    const uint64_t before = offset * format.bytes(plane);
    const uint64_t skipped = plane ? before % configuration.atom_bytes : before;
    cube.line_bytes = skipped + convolution_.width * format.bytes(plane);
    cube.lines = convolution_.height;
    cube.surfaces = 1;
    parts_.memory.check(cube, configuration.atom_bytes);
    cube.address += skipped;  // from here on: of the first pixel
    cube.line_bytes -= skipped;
    inputs_.push_back(cube);
  }
}

void Fetch::check_weights() {
  const Configuration &configuration = parts_.configuration;
  const uint64_t kernel_bytes = convolution_.kernel_elements() * element_bytes(convolution_.precision);
  cdma_.must_be(CDMA::D_WEIGHT_SIZE_0, cdma_.count(CDMA::D_WEIGHT_SIZE_0), kernel_bytes, "the number of bytes of a kernel");
  cdma_.must_be(CDMA::D_WEIGHT_SIZE_1, cdma_.count(CDMA::D_WEIGHT_SIZE_1), convolution_.kernels, "the number of kernels");
  cdma_.must_be(CDMA::D_WEIGHT_FORMAT, cdma_(CDMA::D_WEIGHT_FORMAT), 0, "the format (the twin reads no compressed weights)");
  const uint64_t entry = configuration.cbuf_entry_bytes, needed = rounded_up(kernel_bytes * convolution_.kernels, entry);
  weight_bytes_ = cdma_(CDMA::D_WEIGHT_BYTES);
  if (weight_bytes_ % entry) cdma_.refuse(CDMA::D_WEIGHT_BYTES, text(weight_bytes_) + " is no multiple of an entry, " + text(entry));
  if (weight_bytes_ < needed)
    cdma_.refuse(CDMA::D_WEIGHT_BYTES, text(weight_bytes_) + " bytes, but the kernels have " + text(needed));
  const uint64_t group = std::min<uint64_t>(configuration.atomic_k[convolution_.precision], convolution_.kernels);
  const uint64_t banks = cdma_.count(CDMA::D_BANK_WEIGHT_BANK);
  const uint64_t held = banks * configuration.cbuf_entries * entry;
  cdma_.at_most(CDMA::D_BANK_WEIGHT_BANK, group * kernel_bytes, held, "the number of bytes of a group of kernels");
  if (cdma_(CDMA::D_MISC_CFG_SKIP_WEIGHT_RLS))
    cdma_.at_most(CDMA::D_MISC_CFG_SKIP_WEIGHT_RLS, needed, held, "the number of bytes of weights that stay in the buffer");
  Cube cube;
  cube.address = cdma_.address(CDMA::D_WEIGHT_ADDR_HIGH, CDMA::D_WEIGHT_ADDR_LOW);
  cube.line_bytes = weight_bytes_;
  cube.lines = cube.surfaces = 1;
  cube.group = &cdma_;
  cube.address_field = &CDMA::D_WEIGHT_ADDR_LOW;
  parts_.memory.check(cube, configuration.atom_bytes);
  weight_address_ = cube.address;
  inputs_.push_back(cube);
}

// What stays in the buffer is of the convolution before, whose registers must agree.
void Fetch::check_reuse() {
  const uint32_t banks = cdma_(CDMA::D_BANK_DATA_BANK) << 16 | cdma_(CDMA::D_BANK_WEIGHT_BANK);
  const Convolution &last = buffer_.of, &own = convolution_;
  if (buffer_.uneven_weights && banks == buffer_.banks && !reuses_weights_)
    cdma_.refuse(CDMA::D_WEIGHT_BYTES, "the convolution before had more bytes than its kernels have entries, so these weights are read at a wrong entry");
  const bool same_banks = banks == buffer_.banks && last.precision == own.precision;
  const bool same_input = last.width == own.width && last.height == own.height && last.channels == own.channels;
  if (reuses_input_ && !(buffer_.keeps_input && same_banks && same_input && last.pixels == own.pixels))
    cdma_.refuse(CDMA::D_MISC_CFG_DATA_REUSE, "the convolution before keeps no such input in the buffer");
  const bool same_kernels = last.kernels == own.kernels && last.rows == own.rows && last.row_elements() == own.row_elements();
  if (reuses_weights_ && !(buffer_.keeps_weights && same_banks && same_kernels && last.row_group == own.row_group))
    cdma_.refuse(CDMA::D_MISC_CFG_WEIGHT_REUSE, "the convolution before keeps no such weights in the buffer");
}

uint64_t Fetch::input_bytes() const {
  if (reuses_input_) return 0;
  uint64_t bytes = 0;
  for (std::size_t i = 0; i + 1 < inputs_.size(); ++i) bytes += inputs_[i].bytes();
  return bytes;
}

int32_t Fetch::convert(int32_t value, std::size_t channel) const {
  if (in_precision_ == kFp16) return flushes_nan_ && Fp16::is_nan(value & 0xffff) ? 0 : value;
  if (!converts_) return value;
  const int64_t scaled = saturated(rounded(int64_t{value - offsets_[channel]} * scale_, truncate_), 17);
  switch (convolution_.precision) {
    case kInt8: return static_cast<int32_t>(saturated(scaled, 8));
    case kInt16: return static_cast<int32_t>(saturated(scaled, 16));
    default: return static_cast<int32_t>(half_of_integer(scaled));
  }
}

std::vector<int16_t> Fetch::input() const {
  if (reuses_input_) return buffer_.input;
  const Convolution &c = convolution_;
  const uint32_t atom = parts_.configuration.atom_bytes;
  std::vector<int16_t> values(c.height * c.width * c.channels);
  if (c.pixels) {
    const PixelFormat &format = pixel_format(static_cast<uint32_t>(pixel_format_));
    for (std::size_t y = 0; y < c.height; ++y) {
      const uint8_t *plane0 = parts_.memory.at(inputs_[0].line(0, y), inputs_[0].line_bytes);
      const uint8_t *plane1 = format.planes == 2 ? parts_.memory.at(inputs_[1].line(0, y), inputs_[1].line_bytes) : plane0;
      int16_t *to = values.data() + y * c.width * c.channels;
      for (std::size_t x = 0; x < c.width; ++x) {
        int32_t pixel[4];
        read_pixel(format, plane0 + x * format.bytes(0), plane1 + x * format.bytes(1), signed_pixels_, pixel);
        for (std::size_t i = 0; i < c.channels; ++i) {
          const int32_t converted = convert(pixel[i], i);
          // A byte that is not converted is taken as it is.
          to[x * c.channels + i] = c.precision == kInt8 ? static_cast<int8_t>(converted) : static_cast<int16_t>(converted);
        }
      }
    }
    return values;
  }
  parallel(parts_.threads, c.height, [&](std::size_t y) {
    Map line(1, c.width, c.channels, atom);
    Cube cube = inputs_[0];
    cube.address += y * cube.line_stride;
    read_line(parts_.memory, cube, in_precision_, atom, line, 0);
    int16_t *to = values.data() + y * c.width * c.channels;
    for (std::size_t x = 0; x < c.width; ++x)
      for (std::size_t i = 0; i < c.channels; ++i)
        to[x * c.channels + i] = static_cast<int16_t>(convert(line.values[x * line.lanes + i], 0));
  });
  return values;
}

std::vector<int16_t> Fetch::weights() const {
  if (reuses_weights_) return buffer_.weights;
  const Convolution &c = convolution_;
  const uint8_t *from = parts_.memory.at(weight_address_, weight_bytes_);
  if (element_bytes(c.precision) == 1) return in_order<int8_t, int16_t>(parts_.configuration, c, from);
  std::vector<int16_t> values = in_order<int16_t, int16_t>(parts_.configuration, c, from);
  if (c.precision == kFp16 && flushes_nan_)
    for (int16_t &value : values)
      if (Fp16::is_nan(value & 0xffff)) value = 0;
  return values;
}

}  // namespace nvdla
