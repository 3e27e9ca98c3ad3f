// The limits of the device. Made by python -m development.pages from cnn_convertor/devices/dv700/limits.py: do not edit.
#ifndef DV_LIMITS_H
#define DV_LIMITS_H

#include <cstdint>

namespace dv {

struct Range {
  int least, most;
};

// Everything that depends on the device's size takes it as an argument.
struct Limits {
  int max_kernel_size = 7;
  int64_t ub_size = 655360;
  int max_width = 2047;
  int max_height = 1024;
  int max_channels = 32768;
  int max_field = 65535;
  int max_runs = 32;
  int max_stride = 255;
  int max_dilation = 255;
  int max_padding_left_top = 127;
  int max_padding_right_bottom = 255;
  Range max_pool_widths{2, 3};
  Range max_pool_heights{1, 3};
  int max_average_pool = 7;
  int max_exact_integer = 2048;
  bool deconvolves = true;
  bool pools_unevenly = true;
  bool pads_beyond_map = true;
  bool pools_tiles = false;
};

// Calls f(variable, limit, least, most) for each limit that differs between boards.
template <class F>
void each_limit_of_board(Limits &limits, const F &f) {
  f("DMP_DV_MAX_KERNEL_SIZE", limits.max_kernel_size, 1, 7);
  f("DMP_DV_UB_SIZE", limits.ub_size, 1, INT32_MAX);
  f("DMP_DV_DECONVOLVES", limits.deconvolves, 0, 1);
  f("DMP_DV_POOLS_UNEVENLY", limits.pools_unevenly, 0, 1);
  f("DMP_DV_PADS_BEYOND_MAP", limits.pads_beyond_map, 0, 1);
  f("DMP_DV_POOLS_TILES", limits.pools_tiles, 0, 1);
}

}  // namespace dv

#endif
