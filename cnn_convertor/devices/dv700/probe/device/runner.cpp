// Runs a network on the device, on the inputs of inputs.bin, and stores what it finds in a folder:
//   runner [results]
//   layers.bin    the output of every layer, run by itself, as it lies in memory, sample after sample
//   outputs.bin   the outputs of the whole network in FP32, sample after sample
//   results.json  the device's figures, and the time and memory traffic of each layer
// It needs the SDK alone: dmp_network.h and dmp_dv.h.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "board.h"
#include "kit.h"

namespace {

const int kExecutions = 3;  // the least time counts

int Fail(const std::string &why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  return 1;
}

// A file that grows.
class Output {
 public:
  explicit Output(const std::string &path) : file_(std::fopen(path.c_str(), "wb")), is_good_(file_ != nullptr) {}
  ~Output() {
    if (file_) std::fclose(file_);
  }
  Output(const Output &) = delete;
  Output &operator=(const Output &) = delete;

  void Append(const void *bytes, std::size_t count) {
    is_good_ = is_good_ && std::fwrite(bytes, 1, count, file_) == count;
  }
  bool Close() {
    is_good_ = is_good_ && std::fclose(file_) == 0;
    file_ = nullptr;
    return is_good_;
  }

 private:
  std::FILE *file_;
  bool is_good_;
};

// The network, and its memory for feature maps.
class Network : public NETWORK_CLASS {
 public:
  dmp_dv_mem io_mem() const { return io_mem_; }
};

bool Start(NETWORK_CLASS *network, bool with_layers) {
  if (!network->Initialize() || !network->LoadWeights(kWeights)) return false;
  if (with_layers) network->WantLayerOutputs();
  return network->Commit();
}

// Microseconds of some work.
template <class F>
long long Time(F work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
}

void CopyInputs(NETWORK_CLASS *network, const std::vector<uint8_t> &inputs, int sample) {
  const uint8_t *from = inputs.data() + static_cast<std::size_t>(sample) * kSampleBytes;
  for (const Input &input : kInputs) {
    std::memcpy(network->get_io_ptr() + input.offset, from, input.bytes);
    from += input.bytes;
  }
}

// usec: that the whole run takes.
bool Run(NETWORK_CLASS *network, const std::vector<uint8_t> &inputs, int sample, long long *usec = nullptr) {
  CopyInputs(network, inputs, sample);
  bool runs = false;
  const long long spent = Time([&] { runs = network->RunNetwork(); });
  if (usec) *usec = spent;
  return runs;
}

const uint8_t *MemoryOf(const NETWORK_CLASS &network, const fpga_layer &layer) { return network.get_io_ptr() + layer.output_offs; }

// The output of a layer. The runtime keeps copies of whole FP16 elements. One byte an element has an output of the network
// alone, which no later layer overwrites.
void AppendLayer(const NETWORK_CLASS &network, const fpga_layer &layer, Output *layers) {
  if (layer.type == LT_CONCAT)  // the runtime copies it too late
    for (int i = 0; i < layer.input_layer_num; ++i) AppendLayer(network, *layer.input_layers[i], layers);
  else if (2 * layer.output.size() == layer.output_size)
    layers->Append(layer.output.data(), layer.output_size);
  else
    layers->Append(MemoryOf(network, layer), layer.output_size);
}

// What the executions of a layer took: the least time, or none, and what one of them moved.
struct Measured {
  long long usec = -1;
  std::string traffic = board::TrafficSince({false, 0, 0, 0});

  void Add(long long spent) { usec = usec < 0 ? spent : std::min(usec, spent); }
};

// All of the maps change sides.
void HandToDevice(const Network &network) { dmp_dv_mem_to_device(network.io_mem(), 0, dmp_dv_mem_get_size(network.io_mem()), 0); }
void HandToCpu(const Network &network) { dmp_dv_mem_to_cpu(network.io_mem(), 0, dmp_dv_mem_get_size(network.io_mem()), 0); }

// Executes a layer once more. The runtime alone executes its own layers, which have no time: their output is the copy of the last run.
void Measure(const Network &network, fpga_layer &layer, Measured *measured) {
  uint8_t *io = network.get_io_ptr();
  if (layer.type == LT_CUSTOM) {
    HandToCpu(network);
    measured->Add(Time([&] { layer.custom_proc_ptr(layer, layer.custom_param, io); }));
    HandToDevice(network);
  } else if (layer.cmdlist) {
    const board::Traffic before = board::ReadTraffic();
    const int64_t id = dmp_dv_cmdlist_exec(layer.cmdlist);
    if (id < 0 || dmp_dv_cmdlist_wait(layer.cmdlist, id)) return;
    measured->Add(dmp_dv_cmdlist_get_last_exec_time(layer.cmdlist));
    measured->traffic = board::TrafficSince(before);
  } else if (2 * layer.output.size() == layer.output_size) {
    HandToCpu(network);
    std::memcpy(io + layer.output_offs, layer.output.data(), layer.output_size);
    HandToDevice(network);
  }
}

// The layers in their order, so that each reads what those before it have written.
std::vector<Measured> MeasureLayers(Network *network, const std::vector<uint8_t> &inputs) {
  std::vector<Measured> layers(static_cast<std::size_t>(network->get_total_layer_count()));
  for (int execution = 0; execution < kExecutions; ++execution) {
    HandToCpu(*network);
    CopyInputs(network, inputs, 0);
    HandToDevice(*network);
    for (std::size_t i = 0; i < layers.size(); ++i)
      Measure(*network, network->get_layer(static_cast<int>(i)), &layers[i]);
  }
  return layers;
}

// Every layer by itself: its output for each sample, its time and its traffic.
int RunLayers(const std::string &folder, const std::vector<uint8_t> &inputs, std::string *json) {
  Network network;
  if (!Start(&network, true)) return Fail("the device refuses the network");
  Output layers(folder + "/layers.bin");
  for (int sample = 0; sample < kSamples; ++sample) {
    if (!Run(&network, inputs, sample)) return Fail("the network does not run");
    for (int i = 0; i < network.get_total_layer_count(); ++i) AppendLayer(network, network.get_layer(i), &layers);
    std::printf("sample %d of %d\n", sample + 1, kSamples);
  }
  if (!layers.Close()) return Fail("cannot write to " + folder);
  const std::vector<Measured> measured = MeasureLayers(&network, inputs);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const fpga_layer &layer = network.get_layer(static_cast<int>(i));
    *json += std::string(i ? "," : "") + "\n    {\"name\": " + board::Quoted(layer.name.c_str()) +
             ", \"bytes\": " + std::to_string(layer.output_size) + ",\n     \"usec\": " +
             (measured[i].usec < 0 ? "null" : std::to_string(measured[i].usec)) + ", " + measured[i].traffic + "}";
  }
  return 0;
}

void AppendOutputs(NETWORK_CLASS *network, Output *outputs) {
  for (int i = 0; i < network->get_output_layer_count(); ++i) {
    std::vector<float> values;
    const fpga_layer &layer = *network->get_output_layers()[static_cast<std::size_t>(i)];
    if (kHasBytes[i])  // get_final_output reads FP16 and FP32 alone
      values.assign(MemoryOf(*network, layer), MemoryOf(*network, layer) + layer.output_size);
    else
      network->get_final_output(values, i);
    outputs->Append(values.data(), sizeof(float) * values.size());
  }
}

// The whole network, as an application runs it: its outputs for each sample, its least time and its traffic.
int RunWhole(const std::string &folder, const std::vector<uint8_t> &inputs, std::string *json) {
  Network network;
  if (!Start(&network, false)) return Fail("the device refuses the network");
  Output outputs(folder + "/outputs.bin");
  int conv = 0, fc = 0, cpu = 0;
  long long between = 0;  // what the changes between device and CPU take
  std::string traffic;
  for (int i = 0; i < std::max(kSamples, kExecutions); ++i) {
    const board::Traffic before = board::ReadTraffic();
    long long usec = 0;
    if (!Run(&network, inputs, i % kSamples, &usec)) return Fail("the network does not run");
    traffic = board::TrafficSince(before);
    conv = i ? std::min(conv, network.get_conv_usec()) : network.get_conv_usec();
    fc = i ? std::min(fc, network.get_fc_usec()) : network.get_fc_usec();
    cpu = i ? std::min(cpu, network.get_cpu_usec()) : network.get_cpu_usec();
    usec = std::max(0LL, usec - network.get_conv_usec() - network.get_fc_usec() - network.get_cpu_usec());
    between = i ? std::min(between, usec) : usec;
    if (i < kSamples) AppendOutputs(&network, &outputs);
  }
  if (!outputs.Close()) return Fail("cannot write to " + folder);
  *json = "\"conv_usec\": " + std::to_string(conv) + ", \"fc_usec\": " + std::to_string(fc) +
          ", \"cpu_usec\": " + std::to_string(cpu) + ", \"between_usec\": " + std::to_string(between) + ",\n  " + traffic;
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string folder = argc > 1 ? argv[1] : "results";
  mkdir(folder.c_str(), 0777);  // it may exist
  std::vector<uint8_t> inputs;
  if (!board::ReadFile("inputs.bin", &inputs) || inputs.size() != static_cast<std::size_t>(kSamples) * kSampleBytes)
    return Fail("cannot read inputs.bin");
  const dmp_dv_context context = dmp_dv_context_create();
  dmp_dv_info_v0 info;
  std::string device, layers, whole;
  if (!context || !board::DescribeDevice(context, &info, &device))
    return Fail(std::string("cannot open the device: ") + dmp_dv_get_last_error_message());
  dmp_dv_context_release(context);
  if (RunLayers(folder, inputs, &layers) || RunWhole(folder, inputs, &whole)) return 1;
  const std::string json = "{\n  \"format\": \"cnn-convertor results\",\n  \"version\": 1,\n  \"network\": \"" +
                           std::string(kNetwork) + "\",\n  \"inputs\": \"" + kInputsHash + "\",\n  \"samples\": " +
                           std::to_string(kSamples) + ",\n  \"seed\": " + std::to_string(kSeed) + ",\n  \"device\": " + device +
                           ",\n  " + whole + ",\n  \"layers\": [" + layers + "\n  ]\n}\n";
  return board::WriteFile(folder + "/results.json", json) ? 0 : Fail("cannot write to " + folder);
}
