// CDMP_Network: layers that run on the CPU, from the network's memory to its memory.
#include <cstring>

#include "cpu_layers.h"
#include "dmp_dv_host.h"
#include "dmp_network.h"

namespace {

// A map in the I/O memory.
struct Place {
  std::size_t offset;
  std::size_t count;
  bool is_f32;
};

Place output_of(const fpga_layer &layer) {
  return {layer.output_offs, layer.output_size / (layer.is_f32_output ? 4 : 2), layer.is_f32_output};
}

Place input_of(const fpga_layer &layer) {
  const bool is_f32 = layer.input_layer_num > 0 && layer.input_layers[0]->is_f32_output;
  return {layer.input_offs, dv::element_count(layer.input_dim, layer.input_dim_size), is_f32};
}

std::size_t bytes(const Place &place) { return place.count * (place.is_f32 ? 4 : 2); }

bool read(dmp_dv_mem mem, const uint8_t *base, const Place &place, std::vector<float> &values) {
  values.resize(place.count);
  if (!place.is_f32) return dmp_dv_host_read(mem, place.offset, place.count, values.data()) == 0;
  if (dmp_dv_host_check_written(mem, place.offset, bytes(place))) return false;
  std::memcpy(values.data(), base + place.offset, bytes(place));
  return true;
}

bool write(dmp_dv_mem mem, uint8_t *base, const Place &place, const float *values) {
  if (!place.is_f32) return dmp_dv_host_write(mem, place.offset, place.count, values) == 0;
  std::memcpy(base + place.offset, values, bytes(place));
  return dmp_dv_host_declare_written(mem, place.offset, bytes(place)) == 0;
}

// The network's own input is in the device's order, like the output of a device layer.
bool has_device_order(const fpga_layer &layer, bool is_first) {
  if (layer.is_input_hw_layout) return true;
  return layer.input_layer_num > 0 ? layer.input_layers[0]->type == LT_INPUT : is_first;
}

// Inputs one after the other, as they lie in memory.
std::vector<Place> inputs_of(const fpga_layer &layer) {
  std::vector<Place> places;
  for (int i = 0; i < layer.input_layer_num; ++i) places.push_back(output_of(*layer.input_layers[i]));
  if (places.empty()) places.push_back(input_of(layer));
  return places;
}

// Row-major extents of what a layer writes, height first.
std::vector<int> extents_of(const fpga_layer &layer, bool is_width_outside) {
  if (layer.input_dim_size < 3) return {layer.input_dim, layer.input_dim + layer.input_dim_size};
  const int *dim = layer.input_dim;
  return is_width_outside ? std::vector<int>{dim[0], dim[1], dim[2]} : std::vector<int>{dim[1], dim[0], dim[2]};
}

}  // namespace

bool CDMP_Network::RunOnCpu(fpga_layer &layer) {
  const auto failed = [&](const std::string &why) { return Fail("layer \"" + layer.name + "\": " + why); };
  const auto driver = [&] { return failed(dmp_dv_get_last_error_message()); };
  const Place output = output_of(layer);

  if (layer.type == LT_CUSTOM) {
    for (const Place &place : inputs_of(layer))
      if (dmp_dv_host_check_written(io_mem_, place.offset, bytes(place))) return driver();
    layer.custom_proc_ptr(layer, layer.custom_param, io_ptr_);
    return dmp_dv_host_declare_written(io_mem_, output.offset, bytes(output)) == 0 || driver();
  }

  std::vector<float> values, part;
  if (layer.type == LT_COPY_CONCAT) {
    for (const Place &place : inputs_of(layer)) {
      if (!read(io_mem_, io_ptr_, place, part)) return driver();
      values.insert(values.end(), part.begin(), part.end());
    }
  } else {
    if (!read(io_mem_, io_ptr_, input_of(layer), values)) return driver();
    const bool is_device_order = has_device_order(layer, &layer == layers_.data());
    const bool chunked = dv::is_chunked(layer.input_dim, layer.input_dim_size);
    const bool reorders = is_device_order && (layer.type == LT_FLATTEN || chunked);
    if (reorders) values = dv::to_hwc(values, layer.input_dim, layer.input_dim_size, is_weight_transposed);
    if (layer.type == LT_SOFTMAX) {
      const bool is_width_outside = is_device_order && !reorders && !is_weight_transposed;
      const std::vector<int> extents = extents_of(layer, is_width_outside);
      const int rank = static_cast<int>(extents.size());
      int axis = layer.softmax_axis < 0 ? layer.softmax_axis + rank : layer.softmax_axis;
      if (axis < 0 || axis >= rank)
        return failed("softmax_axis = " + std::to_string(layer.softmax_axis) + " of a map with " +
                      std::to_string(rank) + " dimensions");
      if (is_width_outside && rank == 3 && axis < 2) axis = 1 - axis;
      dv::softmax(values, extents, axis);
    }
  }
  if (values.size() != output.count)
    return failed("the output has " + std::to_string(output.count) + " values, the input " +
                  std::to_string(values.size()));
  return write(io_mem_, io_ptr_, output, values.data()) || driver();
}
