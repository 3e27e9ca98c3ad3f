// Windows that move over a map.
#ifndef CPU_FUNCTIONS_WINDOW_H
#define CPU_FUNCTIONS_WINDOW_H

namespace cpu_functions {

// How a window moves. top, left: padding.
struct Window {
  int kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width, top, left;
  int Size() const { return kernel_height * kernel_width; }
};

// Calls f(h, w) for the places of the window at (y, x) that lie in a map of height x width.
template <class F>
void ForWindow(const Window &window, int y, int x, int height, int width, F f) {
  for (int i = 0; i < window.kernel_height; ++i) {
    const int h = y * window.stride_height - window.top + i * window.dilation_height;
    if (h < 0 || h >= height) continue;
    for (int j = 0; j < window.kernel_width; ++j) {
      const int w = x * window.stride_width - window.left + j * window.dilation_width;
      if (w >= 0 && w < width) f(h, w);
    }
  }
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_WINDOW_H
