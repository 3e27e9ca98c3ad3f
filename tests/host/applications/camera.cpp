// Feeds an 8-bit image, blue first, and lets the device convert it.
#include "Small_gen.h"

void custom_callback_Gain(fpga_layer &layer, void *, uint8_t *io_ptr) {
  std::vector<float> values;
  get_layer_input(layer, values, io_ptr, false);
  put_layer_output(layer, values, io_ptr);
}

int main() {
  CSmall network;
  if (!network.SetConvertPolicy(CP_MINUS_127_5_DIV_128, true)) return 1;
  if (!network.Initialize() || !network.LoadWeights("Small_weights.bin") || !network.Commit()) return 1;
  std::ifstream file("image.bgr", std::ios::binary);
  file.read((char *)network.get_network_input_addr_cpu(), 6 * 4 * 3);
  if (!file || !network.RunNetwork()) return 1;
  std::vector<float> output;
  network.get_final_output(output, 1);
  for (float value : output) std::cout << value << " ";
  std::cout << std::endl;
  return 0;
}
