#include "completion.h"

#include <algorithm>

#include "cpu_layers.h"
#include "dmp_network_host.h"

namespace dv {

void declare_inputs(const fpga_layer *layers, int count, Memory &io, Content content) {
  io.begin_execution();
  bool declared = false;
  for (const fpga_layer *layer = layers; layer != layers + count; ++layer)
    if (layer->type == LT_INPUT) {
      io.declare_written(layer->output_offs, layer->output_size, content);
      declared = true;
    }
  if (declared || count == 0) return;
  const fpga_layer &first = *layers;
  const std::size_t elements = element_count(first.input_dim, first.input_dim_size);
  if (dmp_network_host::takes_bytes(first))
    io.declare_written(first.input_offs, elements, Content::kBytes);
  else
    io.declare_written(first.input_offs, 2 * elements, content);
}

Content content_of(const fpga_layer &layer) {
  if (layer.is_f32_output) return Content::kFloat;
  return dmp_network_host::has_byte_output(layer) ? Content::kBytes : Content::kHalf;
}

void tell(const fpga_layer *layers, int count, std::vector<bool> &told, const fpga_layer &layer,
          const std::function<void(const fpga_layer &)> &observer) {
  const auto index = [&](const fpga_layer *each) { return static_cast<std::size_t>(each - layers); };
  const auto is_told = [&](const fpga_layer *each) { return index(each) < told.size() && told[index(each)]; };
  if (is_told(&layer)) return;
  observer(layer);
  told[index(&layer)] = true;
  for (const fpga_layer *other = layers; other != layers + count; ++other)
    if (other->type == LT_CONCAT && other->input_layer_num > 0 &&
        std::all_of(other->input_layers, other->input_layers + other->input_layer_num, is_told))
      tell(layers, count, told, *other, observer);
}

}  // namespace dv
