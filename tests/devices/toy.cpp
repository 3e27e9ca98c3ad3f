// A network on the toy: WEIGHTS INPUT FOLDER [--layers [GIVEN]], or --pixels. All maps are FP32, in the order C, H, W.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

struct Conv {
  int channels, kernels, pixels;
  long weights, input, output;
};
#include "NAME_gen.h"

static std::vector<char> Read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

static std::vector<float> Floats(const std::vector<char> &bytes, size_t from = 0) {
  std::vector<float> values((bytes.size() - from) / 4);
  memcpy(values.data(), bytes.data() + from, 4 * values.size());
  return values;
}

static void Compute(const Conv &conv, const float *weights, float *memory) {
  const float *bias = weights + conv.kernels * conv.channels;
  for (int o = 0; o < conv.kernels; ++o)
    for (int p = 0; p < conv.pixels; ++p) {
      float sum = bias[o];
      for (int i = 0; i < conv.channels; ++i) sum += weights[o * conv.channels + i] * memory[conv.input + i * conv.pixels + p];
      memory[conv.output + o * conv.pixels + p] = sum;
    }
}

int main(int argc, char **argv) {
  if (!strcmp(argv[1], "--pixels")) {
    printf("%s\n", kOrder);
    for (int pixel = 0; pixel < 256; ++pixel) printf("%.17g\n", (pixel - kMean) * kScale);
    return 0;
  }
  const std::vector<float> weights = Floats(Read(argv[1])), inputs = Floats(Read(argv[2]));
  const std::string folder = std::string(argv[3]) + "/";
  const std::vector<char> given = argc > 5 ? Read(argv[5]) : std::vector<char>();
  const size_t count = sizeof(kConvs) / sizeof(Conv);
  const std::vector<float> maps = given.empty() ? std::vector<float>() : Floats(given, count);
  const float *next = maps.data();
  std::ofstream outputs(folder + "outputs.bin"), read(folder + "maps.bin"), layers(folder + "layers.bin");
  std::vector<float> memory(kMemory);
  for (size_t sample = 0; sample < inputs.size() / kInputSize; ++sample) {
    memcpy(&memory[kInput], &inputs[sample * kInputSize], 4 * kInputSize);
    for (size_t index = 0; index < count; ++index) {
      const Conv &conv = kConvs[index];
      const long size = long(conv.kernels) * conv.pixels;
      Compute(conv, &weights[conv.weights], memory.data());
      layers.write(reinterpret_cast<char *>(&memory[conv.output]), 4 * size);
      if (given.empty() || !given[index]) continue;
      memcpy(&memory[conv.output], next, 4 * size);
      next += size;
    }
    for (int index : kOutputs) {
      const Conv &conv = kConvs[index];
      const float *map = &memory[conv.output];
      outputs.write(reinterpret_cast<const char *>(map), 4l * conv.kernels * conv.pixels);
      for (int p = 0; p < conv.pixels; ++p)
        for (int o = 0; o < conv.kernels; ++o) read.write(reinterpret_cast<const char *>(&map[o * conv.pixels + p]), 4);
    }
  }
  std::string sizes, traffic;
  for (const Conv &conv : kConvs) {
    sizes += (sizes.empty() ? "" : ",") + ("{\"count\":" + std::to_string(conv.kernels * conv.pixels) + "}");
    traffic += (traffic.empty() ? "" : ",") + std::string("{\"commands\":1,\"input\":0,\"operand\":0,\"output\":0,\"weights\":0}");
  }
  std::ofstream(folder + "index.json") << "{\"layers\":[" << sizes << "],\"layer_traffic\":[" << traffic << "]}";
  return 0;
}
