// Runs networks of CPU layers as a text describes them, each on given I/O memory: replay FOLDER < text.
//
//   case NAME IO_BYTES IS_TRANSPOSED NEED_TRANSPOSE
//   layer TYPE DIMS.. 0 DIMS.. 0 INPUT_OFFS OUTPUT_OFFS OUTPUT_SIZE HW_LAYOUT F32 AXIS INPUT_LAYERS.. -1
//   output LAYER
//   run
//
// FOLDER/NAME.before holds the I/O memory. NAME.after, NAME.out0 .., NAME.callback (what get_layer_input gives, FP32),
// NAME.message (the last one) and NAME.reports are written there. LT_CUSTOM passes its input on.
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "dmp_network.h"
#include "dmp_network_host.h"

namespace {

std::vector<float> callback_input;

void pass_on(fpga_layer &layer, void *need_transpose, uint8_t *io) {
  get_layer_input(layer, callback_input, io, need_transpose != nullptr);
  put_layer_output(layer, callback_input, io);
}

struct LayerText {
  int type = 0;
  std::vector<int> input_dim, output_dim;
  std::size_t input_offs = 0, output_offs = 0, output_size = 0;
  int hw = 0, f32 = 0, axis = 0;
  std::vector<int> inputs;
};

std::vector<int> list_until(std::istream &words, int end) {
  std::vector<int> values;
  for (int value; words >> value && value != end;) values.push_back(value);
  return values;
}

LayerText layer_of(std::istream &words) {
  LayerText layer;
  words >> layer.type;
  layer.input_dim = list_until(words, 0);
  layer.output_dim = list_until(words, 0);
  words >> layer.input_offs >> layer.output_offs >> layer.output_size >> layer.hw >> layer.f32 >> layer.axis;
  layer.inputs = list_until(words, -1);
  return layer;
}

class CReplay : public CDMP_Network {
 public:
  std::string name;
  std::size_t io_bytes = 0;
  bool transposed = false, need_transpose = false;
  std::vector<LayerText> texts;
  std::vector<int> outputs;

  virtual bool Initialize() {
    is_weight_transposed = transposed;
    if (!ReserveMemory(16, io_bytes)) return false;
    set_num_layers(static_cast<int>(texts.size()));
    set_num_output_layers(static_cast<int>(outputs.size()));
    for (std::size_t i = 0; i < texts.size(); ++i) Fill(layers_[i], texts[i], "layer" + std::to_string(i));
    for (std::size_t i = 0; i < outputs.size(); ++i) output_layers_[i] = &get_layer(outputs[i]);
    return true;
  }

 private:
  void Fill(fpga_layer &layer, const LayerText &text, const std::string &title) {
    layer.name = title;
    layer.type = static_cast<layer_type>(text.type);
    std::copy(text.input_dim.begin(), text.input_dim.end(), layer.input_dim);
    std::copy(text.output_dim.begin(), text.output_dim.end(), layer.output_dim);
    layer.input_dim_size = static_cast<int>(text.input_dim.size());
    layer.output_dim_size = static_cast<int>(text.output_dim.size());
    layer.input_offs = text.input_offs;
    layer.output_offs = text.output_offs;
    layer.output_size = text.output_size;
    layer.is_input_hw_layout = text.hw;
    layer.is_f32_output = text.f32;
    if (layer.type == LT_SOFTMAX) layer.softmax_axis = text.axis;
    if (layer.type == LT_CUSTOM) {
      layer.custom_proc_ptr = pass_on;
      layer.custom_param = need_transpose ? this : nullptr;
    }
    if (layer.type == LT_COPY_CONCAT) {
      inputs_.emplace_back();
      for (const int input : text.inputs) inputs_.back().push_back(&get_layer(input));
      layer.input_layer_num = static_cast<int>(text.inputs.size());
      layer.input_layers = inputs_.back().data();
    }
  }

  std::deque<std::vector<fpga_layer *>> inputs_;
};

void save(const std::string &path, const void *data, std::size_t bytes) {
  std::ofstream(path, std::ios::binary).write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
}

bool run(CReplay &network, const std::string &folder) {
  const std::string path = folder + "/" + network.name;
  std::ifstream file(path + ".before", std::ios::binary);
  const std::vector<char> before((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::ofstream weights(folder + "/weights", std::ios::binary);
  weights << std::string(16, '\0') << std::flush;
  if (!network.Initialize() || !network.LoadWeights(folder + "/weights") || !network.Commit()) return false;
  std::copy(before.begin(), before.end(), network.get_io_ptr());
  callback_input.clear();
  if (!network.RunNetwork()) return false;
  save(path + ".after", network.get_io_ptr(), network.io_bytes);
  save(path + ".callback", callback_input.data(), 4 * callback_input.size());
  for (int i = 0; i < network.get_output_layer_count(); ++i) {
    std::vector<float> values;
    network.get_final_output(values, i);
    save(path + ".out" + std::to_string(i), values.data(), 4 * values.size());
  }
  std::ofstream reports(path + ".reports");
  for (const std::string &report : dmp_network_host::take_reports()) reports << report << "\n";
  const std::string &message = dmp_network_host::last_message();
  save(path + ".message", message.data(), message.size());
  return true;
}

}  // namespace

int main(int, char **argv) {
  std::unique_ptr<CReplay> network;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "case") {
      network.reset(new CReplay);
      words >> network->name >> network->io_bytes >> network->transposed >> network->need_transpose;
    } else if (word == "layer") {
      network->texts.push_back(layer_of(words));
    } else if (word == "output") {
      network->outputs = list_until(words, -1);
    } else if (!run(*network, argv[1])) {
      return 1;
    }
  }
  return 0;
}
