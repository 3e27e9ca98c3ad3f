#include "cpu_layers.h"

#include <cmath>
#include <cstring>

#include "completion.h"
#include "dmp_network_host.h"
#include "half.h"
#include "message.h"
#include "report.h"

namespace dv {
namespace {

std::size_t extent(int value) { return value > 0 ? static_cast<std::size_t>(value) : 0; }

// Elements of a map in the device's order. Position p is the number of a pixel in that order.
struct DeviceOrder {
  std::size_t positions, channels;
  std::size_t held(std::size_t c) const { return std::min<std::size_t>(8, channels - c / 8 * 8); }
  std::size_t index(std::size_t p, std::size_t c) const { return c / 8 * 8 * positions + p * held(c) + c % 8; }
};

// A map in the device's order: column by column, or row by row.
struct DeviceMap {
  std::size_t width, height, channels;
  bool by_columns;

  // Missing dimensions are 1.
  DeviceMap(const int *dim, int dim_size, bool columns)
      : width(extent(dim[0])),
        height(dim_size > 1 ? extent(dim[1]) : 1),
        channels(dim_size > 2 ? extent(dim[2]) : 1),
        by_columns(columns) {}

  DeviceOrder order() const { return {width * height, channels}; }

  // Calls function(number in HWC order, number in the device's order) for every element.
  template <class Function>
  void for_each(const Function &function) const {
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t c = 0; c < channels; ++c)
          function((y * width + x) * channels + c, order().index(by_columns ? x * height + y : y * width + x, c));
  }
};

// FP16 elements, or what is not rounded to FP16. Those outside of the memory read as zero and are not written.
class Halves {
 public:
  Halves(Memory &io, std::size_t offset)
      : bytes_(io.data() + offset),
        count_(offset < io.size() ? (io.size() - offset) / 2 : 0),
        exact_(io.context().residuals.empty() ? nullptr : &io),
        offset_(offset) {}
  // Without a known end.
  explicit Halves(uint8_t *bytes) : bytes_(bytes), count_(SIZE_MAX) {}

  float get(std::size_t index) const {
    float value = 0.0f;
    if (exact_ && index < count_) exact_->read(offset_ + 2 * index, 1, &value);
    if (exact_) return value;
    uint16_t half = 0;
    if (index < count_) std::memcpy(&half, bytes_ + 2 * index, sizeof(half));
    return widen(half);
  }
  // Returns the value as it is stored.
  float set(std::size_t index, float value) {
    if (exact_ && index < count_) exact_->write(offset_ + 2 * index, 1, &value);
    if (exact_) return value;
    const uint16_t half = narrow(value);
    if (index < count_) std::memcpy(bytes_ + 2 * index, &half, sizeof(half));
    return widen(half);
  }

 private:
  uint8_t *bytes_;
  std::size_t count_;
  Memory *exact_ = nullptr;
  std::size_t offset_ = 0;
};

// The elements at an offset from an application's pointer, which is a network's I/O memory or any other.
Halves halves_at(const std::shared_ptr<Memory> &io, uint8_t *pointer, std::size_t offset) {
  return io ? Halves(*io, offset) : Halves(pointer + offset);
}

// The memory order of the network whose LT_CUSTOM layer this thread runs.
enum class Running { kNothing, kPlain, kTransposed };
thread_local Running running = Running::kNothing;

void report_if(bool wrong, const std::string &text) {
  if (wrong && is_strict()) report(text);
}

// Copies the inputs of an LT_COPY_CONCAT. In strict mode, notes which bytes of the output come from elsewhere: an input with
// such a byte may be overwritten before it is read, since the order in which a board copies is not known. What is copied onto
// itself does no harm.
class Copies {
 public:
  Copies(const fpga_layer &layer, Memory &io, std::size_t bytes)
      : layer_(layer), io_(io), overwritten_(is_strict() ? bytes : 0) {}

  void copy(std::size_t from, std::size_t to, std::size_t bytes) {
    io_.copy(from, to, bytes);
    const std::size_t first = to - layer_.output_offs;
    for (std::size_t i = first; from != to && i < std::min(first + bytes, overwritten_.size()); ++i)
      overwritten_[i] = true;
  }

  void check(const fpga_layer &input, std::size_t bytes) const {
    const std::size_t start = layer_.output_offs, end = start + overwritten_.size();
    std::size_t at = std::max(start, input.output_offs);
    const std::size_t last = std::min(end, input.output_offs + bytes);
    while (at < last && !overwritten_[at - start]) ++at;
    report_if(at < last, "LT_COPY_CONCAT overwrites its input " + quoted(input.name) +
                             ", which does not lie at its place in the output");
  }

 private:
  const fpga_layer &layer_;
  Memory &io_;
  std::vector<bool> overwritten_;  // of the output's bytes
};

// Channel by channel into the chunks of the output.
void concat_maps(const fpga_layer &layer, Memory &io) {
  const std::size_t positions = extent(layer.output_dim[0]) * extent(layer.output_dim[1]);
  const DeviceOrder to{positions, extent(layer.output_dim[2])};
  Copies copies(layer, io, 2 * positions * to.channels);
  std::size_t first = 0;
  for (int i = 0; i < layer.input_layer_num; ++i) {
    const fpga_layer &input = *layer.input_layers[i];
    const DeviceOrder from{positions, extent(input.output_dim[2])};
    io.check_halves(input.output_offs, 2 * positions * from.channels, "LT_COPY_CONCAT");
    for (std::size_t c = 0; c < from.channels && first + c < to.channels; ++c)
      for (std::size_t p = 0; p < positions; ++p)
        copies.copy(input.output_offs + 2 * from.index(p, c), layer.output_offs + 2 * to.index(p, first + c), 2);
    first += from.channels;
  }
  for (int i = 0; i < layer.input_layer_num; ++i) {
    const fpga_layer &input = *layer.input_layers[i];
    copies.check(input, 2 * positions * extent(input.output_dim[2]));
  }
  report_if(first != to.channels, "LT_COPY_CONCAT joins " + std::to_string(first) + " channels, the output has " +
                                      std::to_string(to.channels));
  io.mark(layer.output_offs, 2 * positions * to.channels, Content::kMap);
}

// Bytes one after the other.
void concat_vectors(const fpga_layer &layer, Memory &io) {
  Copies copies(layer, io, layer.output_size);
  std::size_t to = layer.output_offs;
  for (int i = 0; i < layer.input_layer_num; ++i) {
    const fpga_layer &input = *layer.input_layers[i];
    layer.is_f32_output ? io.check_floats(input.output_offs, input.output_size, "LT_COPY_CONCAT")
                        : io.check_halves(input.output_offs, input.output_size, "LT_COPY_CONCAT");
    copies.copy(input.output_offs, to, input.output_size);
    to += input.output_size;
  }
  for (int i = 0; i < layer.input_layer_num; ++i) copies.check(*layer.input_layers[i], layer.input_layers[i]->output_size);
  const std::size_t bytes = to - layer.output_offs;
  report_if(bytes != layer.output_size, "LT_COPY_CONCAT joins " + std::to_string(bytes) + " bytes, output_size is " +
                                            std::to_string(layer.output_size));
  io.mark(layer.output_offs, bytes, layer.is_f32_output ? Content::kFloat : Content::kHalf);
}

// The array that a softmax works on: lines of `length` elements along the axis.
struct SoftmaxShape {
  std::size_t d[3];
  int axis;

  std::size_t length() const { return d[axis]; }
  std::size_t lines() const { return length() ? d[0] * d[1] * d[2] / length() : 0; }
  // Row-major number of an element.
  std::size_t index(std::size_t line, std::size_t k) const {
    std::size_t inner = 1;
    for (int i = axis + 1; i < 3; ++i) inner *= d[i];
    return (line / inner * length() + k) * inner + line % inner;
  }
};

SoftmaxShape softmax_shape(const fpga_layer &layer) {
  const int *dim = layer.input_dim;
  SoftmaxShape shape{{extent(dim[0]), extent(dim[1]), extent(dim[2])}, layer.softmax_axis};
  if (shape.axis == 0 && layer.input_dim_size < 2) shape.d[1] = 1;
  if (shape.axis < 2 && layer.input_dim_size < 3) shape.d[2] = 1;
  return shape;
}

// Where the runtime looks for element number `index` of a map in chunks. This is wrong for 8 channels and more.
std::size_t faulty_index(const SoftmaxShape &shape, std::size_t index, bool transposed) {
  const std::size_t *d = shape.d;
  const std::size_t k = index % d[2], j = index / d[2] % d[1], i = index / d[2] / d[1];
  const std::size_t whole = d[2] / 8 * 8, p = transposed ? j * d[0] + i : i * d[1] + j;
  return d[0] * d[1] * whole + p * (k >= whole ? d[2] % 8 : 8) + k - whole;
}

void check_softmax(const fpga_layer &layer, const SoftmaxShape &shape, const Memory &io, bool transposed) {
  const std::size_t elements = shape.length() * shape.lines(), positions = shape.d[0] * shape.d[1];
  io.check_halves(layer.input_offs, 2 * elements, "LT_SOFTMAX");
  if (!is_strict()) return;
  if (elements == 0) report("LT_SOFTMAX writes nothing: input_dim has no size along softmax_axis");
  if (layer.is_f32_output) report("LT_SOFTMAX writes FP16, but is_f32_output is set");
  const bool turned = transposed && shape.d[0] > 1 && shape.d[1] > 1;
  if (!layer.is_input_hw_layout && ((shape.d[2] > 7 && positions > 1) || turned))
    report("LT_SOFTMAX reads the wrong elements of this map without is_input_hw_layout");
  const std::size_t channels = layer.input_dim_size > 1 ? extent(layer.input_dim[layer.input_dim_size - 1]) : 1;
  if (layer.is_input_hw_layout && channels > 8 && elements > channels &&
      io.holds(Content::kMap, layer.input_offs, 2 * elements))
    report("LT_SOFTMAX mixes the pixels of a map with more than 8 channels: put LT_FLATTEN in front");
}

}  // namespace

std::size_t element_count(const int *dim, int dim_size) {
  std::size_t count = dim_size > 0 ? 1 : 0;
  for (int i = 0; i < std::min(dim_size, 3); ++i) count *= extent(dim[i]);
  return count;
}

void flatten(const fpga_layer &layer, Memory &io, bool transposed) {
  const std::size_t from = layer.input_offs, to = layer.output_offs;
  const DeviceMap map(layer.input_dim, 3, !transposed);
  const std::size_t bytes = 2 * map.order().positions * map.channels;
  if (!layer.is_input_hw_layout) {
    report_if(from != to && element_count(layer.input_dim, layer.input_dim_size) > 0,
              "LT_FLATTEN does nothing without is_input_hw_layout");
    report_if(from == to && map.channels > 8 && map.order().positions > 1 && io.holds(Content::kMap, from, bytes),
              "LT_FLATTEN leaves a map in the device's order without is_input_hw_layout");
    return;
  }
  io.check_halves(from, bytes, "LT_FLATTEN");
  report_if(bytes == 0, "LT_FLATTEN writes nothing: it needs three dimensions");
  report_if(bytes != layer.output_size, "LT_FLATTEN writes " + std::to_string(bytes) + " bytes, output_size is " +
                                            std::to_string(layer.output_size));
  if (map.channels <= 8 && transposed) {
    io.copy(from, to, bytes);
  } else {
    report_if(from < to + bytes && to < from + bytes, "LT_FLATTEN overwrites its own input");
    map.for_each([&](std::size_t hwc, std::size_t place) { io.copy(from + 2 * place, to + 2 * hwc, 2); });
  }
  io.mark(to, bytes, Content::kHalf);
}

void copy_concat(const fpga_layer &layer, Memory &io) {
  switch (layer.output_dim_size) {
    case 1: return concat_vectors(layer, io);
    case 2: message("CopyConcatenation for 2D tensor is not implemented yet"); break;
    case 3: return concat_maps(layer, io);
    default: break;
  }
  report_if(true, "LT_COPY_CONCAT with output_dim_size " + std::to_string(layer.output_dim_size) + " copies nothing");
}

void softmax(const fpga_layer &layer, Memory &io, bool transposed) {
  if (layer.softmax_axis < 0 || layer.softmax_axis > 2) {
    const std::string axis = std::to_string(layer.softmax_axis);
    message("Unexpected softmax_axis is given: " + axis);
    return report_if(true, "LT_SOFTMAX writes nothing: softmax_axis is " + axis + ", not 0, 1 or 2");
  }
  const SoftmaxShape shape = softmax_shape(layer);
  check_softmax(layer, shape, io, transposed);
  if (layer.is_f32_output) message("LT_SOFTMAX: is_f32_output is not supported, the output is FP16");
  Halves input(io, layer.input_offs), output(io, layer.output_offs);
  const auto place = [&](std::size_t index) {
    return layer.is_input_hw_layout ? index : faulty_index(shape, index, transposed);
  };
  for (std::size_t line = 0; line < shape.lines(); ++line) {
    float most = input.get(place(shape.index(line, 0)));
    for (std::size_t k = 1; k < shape.length(); ++k) most = std::max(most, input.get(place(shape.index(line, k))));
    for (std::size_t k = 0; k < shape.length(); ++k) {
      const std::size_t from = place(shape.index(line, k));
      input.set(from, input.get(from) - most);
    }
    const auto rounded = [&](float value) { return io.context().residuals.empty() ? widen(narrow(value)) : value; };
    float sum = 0.0f;
    for (std::size_t k = 0; k < shape.length(); ++k) {
      const std::size_t index = shape.index(line, k);
      sum = rounded(sum + output.set(index, std::exp(input.get(place(index)))));
    }
    const float reciprocal = rounded(1.0f / sum);
    for (std::size_t k = 0; k < shape.length(); ++k) {
      const std::size_t index = shape.index(line, k);
      output.set(index, shape.axis == 2 ? output.get(index) * reciprocal : output.get(index) / sum);
    }
  }
  const std::size_t bytes = 2 * shape.length() * shape.lines();
  if (layer.input_offs != layer.output_offs) io.mark(layer.input_offs, bytes, Content::kSpoiled);
  io.mark(layer.output_offs, bytes, Content::kHalf);
}

void custom(fpga_layer &layer, Memory &io, bool transposed) {
  const std::size_t bytes = 2 * element_count(layer.input_dim, layer.input_dim_size);
  io.check_written(layer.input_offs, bytes, "LT_CUSTOM");
  report_if(io.holds(Content::kSpoiled, layer.input_offs, bytes),
            "LT_CUSTOM reads a map that a softmax of the runtime has overwritten");
  running = transposed ? Running::kTransposed : Running::kPlain;
  layer.custom_proc_ptr(layer, layer.custom_param, io.data());
  running = Running::kNothing;
  io.declare_written(layer.output_offs, layer.output_size, content_of(layer));
}

}  // namespace dv

void get_layer_input(fpga_layer &layer, std::vector<float> &layer_input, uint8_t *io_ptr, bool need_transpose) {
  using namespace dv;
  const std::size_t count = element_count(layer.input_dim, layer.input_dim_size);
  const auto io = memory_at(io_ptr);
  if (io) io->check_halves(layer.input_offs, 2 * count, "get_layer_input");
  const Halves input = halves_at(io, io_ptr, layer.input_offs);
  layer_input.resize(count);
  if (!layer.is_input_hw_layout) {
    for (std::size_t i = 0; i < count; ++i) layer_input[i] = input.get(i);
    return;
  }
  const DeviceMap map(layer.input_dim, layer.input_dim_size, need_transpose);
  report_if(layer.input_dim_size != 3, "get_layer_input with is_input_hw_layout needs three dimensions");
  report_if(running == (need_transpose ? Running::kTransposed : Running::kPlain) && map.width > 1 && map.height > 1,
            "get_layer_input turns the map: need_transpose must be !is_weight_transposed");
  map.for_each([&](std::size_t hwc, std::size_t place) { layer_input[hwc] = input.get(place); });
}

void put_layer_output(fpga_layer &layer, std::vector<float> &layer_output, uint8_t *io_ptr, bool is_output_hw_layout,
                      bool need_transpose) {
  using namespace dv;
  const auto io = memory_at(io_ptr);
  const std::size_t offset = layer.output_offs, given = 4 * layer_output.size();
  if (!is_output_hw_layout) {
    report_if(layer.output_size > given, "put_layer_output copies " + std::to_string(layer.output_size) +
                                             " bytes of a vector of " + std::to_string(given));
    report_if(!layer.is_f32_output, "put_layer_output writes FP32, but is_f32_output is not set");
    const std::size_t room = !io ? SIZE_MAX : offset < io->size() ? io->size() - offset : 0;
    const std::size_t bytes = std::min({layer.output_size, given, room});
    if (bytes > 0) std::memcpy(io_ptr + offset, layer_output.data(), bytes);
    return;
  }
  report_if(true, "put_layer_output with is_output_hw_layout writes behind the output");
  const std::size_t count = element_count(layer.output_dim, layer.output_dim_size);
  Halves output = halves_at(io, io_ptr, offset + 2 * count), scratch = halves_at(io, io_ptr, offset + 4 * count);
  for (std::size_t i = 0; i < std::min(count, layer_output.size()); ++i) scratch.set(i, layer_output[i]);
  const DeviceMap map(layer.output_dim, layer.output_dim_size, need_transpose);
  map.for_each([&](std::size_t hwc, std::size_t place) { output.set(place, scratch.get(hwc)); });
}
