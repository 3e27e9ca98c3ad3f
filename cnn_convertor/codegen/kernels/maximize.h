// The class of each pixel: the channel with the largest value, by the device's maximizer or on the CPU.
#ifndef CPU_FUNCTIONS_MAXIMIZE_H
#define CPU_FUNCTIONS_MAXIMIZE_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <dmp_dv_cmdraw_v0.h>

#include "order.h"
#include "tensor.h"

namespace cpu_functions {

enum ByteFormat { kBytes };

// A map of one channel in the I/O memory, one byte a pixel.
class Bytes {
 public:
  Bytes(const Memory &io, std::size_t offset, int rows, int columns, int, ByteFormat)
      : data_(io.data + offset), row_(kRowByRow ? columns : 1), column_(kRowByRow ? 1 : rows) {}

  void Set(int y, int x, int value) const { data_[y * row_ + x * column_] = static_cast<uint8_t>(value); }

 private:
  uint8_t *data_;
  std::ptrdiff_t row_, column_;
};

// A committed list with the maximizer's command; null where the device has no such block.
inline dmp_dv_cmdlist MaximizerList(dmp_dv_context context, dmp_dv_mem memory, std::size_t input, std::size_t output,
                                    const Tensor &x) {
  const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(context);
  if (!list) return nullptr;
  dmp_dv_cmdraw_maximizer_v0 command;
  std::memset(&command, 0, sizeof(command));
  command.header.size = sizeof(command);
  command.header.device_type = DMP_DV_DEV_MAXIMIZER;
  command.input_buf.mem = command.output_buf.mem = memory;
  command.input_buf.offs = input;
  command.output_buf.offs = output;
  command.width = static_cast<uint16_t>(kRowByRow ? x.height : x.width);  // it counts column by column
  command.height = static_cast<uint16_t>(kRowByRow ? x.width : x.height);
  command.nclass = static_cast<uint8_t>(x.channels);
  if (dmp_dv_cmdlist_add_raw(list, &command.header) == 0 && dmp_dv_cmdlist_commit(list) == 0) return list;
  dmp_dv_cmdlist_release(list);
  return nullptr;
}

// Block: context, memory, list and is_tried of the layer, and how its maps change sides.
template <class Block>
bool RunMaximizer(Block &block, std::size_t input, std::size_t output, const Tensor &x) {
  if (!block.is_tried) block.list = MaximizerList(block.context, block.memory, input, output, x);
  block.is_tried = true;
  if (!block.list) return false;
  const std::size_t classes = static_cast<std::size_t>(x.height) * static_cast<std::size_t>(x.width);
  if (!block.HandOver(input, 2 * classes * static_cast<std::size_t>(x.channels), output, classes)) return false;
  const int64_t id = dmp_dv_cmdlist_exec(block.list);
  const bool is_done = id >= 0 && dmp_dv_cmdlist_wait(block.list, id) == 0;
  return block.TakeBack(output, classes) && is_done;
}

// input, output: the maps' offsets in bytes. The lowest class among equals.
template <class Block>
void Maximize(Block &block, const Tensor &x, const Bytes &y, std::size_t input, std::size_t output) {
  if (RunMaximizer(block, input, output, x)) return;
  x.ForPixels(x.channels, [&](int row, int column) {
    int best = 0;
    for (int c = 1; c < x.channels; ++c)
      if (x.Get(row, column, c) > x.Get(row, column, best)) best = c;
    y.Set(row, column, best);
  });
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_MAXIMIZE_H
