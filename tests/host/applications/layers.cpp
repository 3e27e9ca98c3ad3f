// Prints the output of every layer, and the outputs by index.
#include "Small_gen.h"

void custom_callback_Gain(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) {
  std::vector<float> input;
  get_layer_input(layer, input, io_ptr, /*need_transpose=*/false);
  std::vector<float> output(input.size());
  const custom_param_Gain *param = (const custom_param_Gain *)custom_param;
  std::transform(input.begin(), input.end(), output.begin(), [param](float value) { return param->gain * value; });
  put_layer_output(layer, output, io_ptr, false, false);
}

int main() {
  CSmall network;
  network.WantLayerOutputs();
  network.Verbose(2);
  if (!network.Initialize()) return -1;
  if (!network.LoadWeights("Small_weights.bin")) return -1;
  if (!network.Commit()) return -1;
  __fp16 *input = (__fp16 *)network.get_network_input_addr_cpu();
  for (int i = 0; i < 6 * 4 * 3; ++i) input[i] = (i % 16 - 8) * 0.25f;
  if (!network.RunNetwork()) return -1;

  for (int i = 0; i < network.get_total_layer_count(); ++i) {
    fpga_layer &layer = network.get_layer(i);
    std::cout << "layer " << layer.name << " " << layer.cmdlist_size;
    if (layer.is_f32_output) {
      std::vector<float> values(layer.output.size() / 2);
      memcpy(values.data(), layer.output.data(), values.size() * sizeof(float));
      for (float value : values) std::cout << " " << value;
    } else {
      for (float value : layer.output) std::cout << " " << value;
    }
    std::cout << std::endl;
  }
  std::vector<fpga_layer *> &outputs = network.get_output_layers();
  std::vector<float> values;
  for (int i = 0; i < (int)outputs.size(); ++i) {
    network.get_final_output(values, i);
    std::cout << "output " << outputs[i]->name << " " << values.size() << std::endl;
  }
  const int usec = network.get_conv_usec() + network.get_fc_usec() + network.get_cpu_usec();
  std::cerr << usec << " us at " << network.get_dv_info().conv_freq << " MHz" << std::endl;
  return 0;
}
