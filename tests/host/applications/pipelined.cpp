// Runs two networks at once, each in its own thread, on FP16 images that the program computes.
#include <pthread.h>

#include "Small_gen.h"

#define IMAGE_W 6
#define IMAGE_H 4

using namespace std;

CSmall first_network, second_network;
__fp16 imgProc[IMAGE_W * IMAGE_H * 3];

void custom_callback_Gain(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) {
  vector<float> values;
  get_layer_input(layer, values, io_ptr, false);
  for (auto &value : values) value *= ((custom_param_Gain *)custom_param)->gain;
  put_layer_output(layer, values, io_ptr);
}

void *run_network(void *network) {
  for (int i = 0; i < 20; ++i) {
    if (!((CSmall *)network)->RunNetwork()) return NULL;
  }
  return network;
}

void preproc_image(float scale) {
  for (int i = 0; i < IMAGE_W * IMAGE_H * 3; ++i) imgProc[i] = (i % 16 - 8) * scale;
}

int main() {
  for (CSmall *network : {&first_network, &second_network}) {
    network->Verbose(0);
    if (!network->Initialize() || !network->LoadWeights("Small_weights.bin") || !network->Commit()) return -1;
    preproc_image(network == &first_network ? 0.25f : 0.5f);
    memcpy(network->get_network_input_addr_cpu(), (void *)imgProc, sizeof(imgProc));
  }
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, run_network, &first_network);
  pthread_create(&threads[1], NULL, run_network, &second_network);
  void *results[2];
  pthread_join(threads[0], &results[0]);
  pthread_join(threads[1], &results[1]);
  if (!results[0] || !results[1]) return -1;

  vector<float> output;
  for (CSmall *network : {&first_network, &second_network}) {
    for (int i = 0; i < network->get_output_layer_count(); ++i) {
      network->get_final_output(output, i);
      for (float value : output) cout << setprecision(9) << value << " ";
      cout << endl;
    }
  }
  return 0;
}
