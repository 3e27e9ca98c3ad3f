// What the emulated memory learns of an execution by a generated runtime.
#include "any_network.h"
#include "completion.h"
#include "memory.h"
#include "message.h"
#include "report.h"

namespace dv {

void Watch::begin(fpga_layer *layers, int count, uint8_t *io) {
  layers_ = layers;
  count_ = count;
  io_ = io;
  told_.assign(static_cast<std::size_t>(count), false);
  if (const auto memory = memory_at(io)) declare_inputs(layers, count, *memory, Content::kHalf);
}

void Watch::follow(fpga_layer &layer, bool is_done) {
  const auto memory = memory_at(io_);
  if (!memory) return;
  const Subject subject("layer " + dv::quoted(layer.name));
  const bool is_on_cpu = layer.type == LT_FLATTEN || layer.type == LT_COPY_CONCAT || layer.type == LT_CUSTOM;
  if (!is_done) {
    for (const Part &part : reads_)
      if (&layers_[part.layer] == &layer) memory->check_seen(part.offset, part.bytes, "the CPU");
    return;
  }
  if (is_on_cpu) memory->declare_written(layer.output_offs, layer.output_size, content_of(layer));
  if (observer_) tell(layers_, count_, told_, layer, observer_);
}

}  // namespace dv
