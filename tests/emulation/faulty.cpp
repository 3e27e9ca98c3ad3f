// Lets each call of the driver fail, one after the other: the failure is an error with a reason, and the network goes on with the
// next call that is made again. NETWORK_SOURCE and NETWORK_CLASS: the sources of a network with a generated runtime.
//   faulty WEIGHTS.bin
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "dmp_dv.h"

static int calls = 0, failing = 0;

static bool Fails(const char *call) {
  if (++calls != failing) return false;
  dmp_dv_set_last_error_message("%s fails by request", call);
  return true;
}

#define POINTER(call, ...) (Fails(#call) ? nullptr : call(__VA_ARGS__))
#define NUMBER(call, ...) (Fails(#call) ? -1 : call(__VA_ARGS__))
#define dmp_dv_context_create() (Fails("dmp_dv_context_create") ? nullptr : dmp_dv_context_create())
#define dmp_dv_context_get_info(...) NUMBER(dmp_dv_context_get_info, __VA_ARGS__)
#define dmp_dv_mem_alloc(...) POINTER(dmp_dv_mem_alloc, __VA_ARGS__)
#define dmp_dv_mem_map(...) POINTER(dmp_dv_mem_map, __VA_ARGS__)
#define dmp_dv_mem_sync_start(...) NUMBER(dmp_dv_mem_sync_start, __VA_ARGS__)
#define dmp_dv_mem_sync_end(...) NUMBER(dmp_dv_mem_sync_end, __VA_ARGS__)
#define dmp_dv_mem_to_device(...) NUMBER(dmp_dv_mem_to_device, __VA_ARGS__)
#define dmp_dv_mem_to_cpu(...) NUMBER(dmp_dv_mem_to_cpu, __VA_ARGS__)
#define dmp_dv_cmdlist_create(...) POINTER(dmp_dv_cmdlist_create, __VA_ARGS__)
#define dmp_dv_cmdlist_add_raw(...) NUMBER(dmp_dv_cmdlist_add_raw, __VA_ARGS__)
#define dmp_dv_cmdlist_commit(...) NUMBER(dmp_dv_cmdlist_commit, __VA_ARGS__)
#define dmp_dv_cmdlist_exec(...) NUMBER(dmp_dv_cmdlist_exec, __VA_ARGS__)
#define dmp_dv_cmdlist_wait(...) NUMBER(dmp_dv_cmdlist_wait, __VA_ARGS__)
#define dmp_dv_cmdlist_get_last_exec_time(...) NUMBER(dmp_dv_cmdlist_get_last_exec_time, __VA_ARGS__)
#include NETWORK_SOURCE

namespace {

int problems = 0;

void Expect(bool holds, const std::string &what) {
  if (holds) return;
  std::printf("call %d: %s\n", failing, what.c_str());
  ++problems;
}

// A call that may fail, and succeeds when it is made again.
template <class Call>
bool Twice(NETWORK_CLASS &network, const char *name, const Call &call) {
  const int before = calls;
  if (call()) return before < failing && failing <= calls;  // a failure that nobody noticed
  Expect(before < failing && failing <= calls, std::string(name) + " fails without a failure of the driver: " + network.get_error());
  Expect(network.get_error().find("fails by request") != std::string::npos, std::string(name) + " does not say why: " + network.get_error());
  Expect(call(), std::string(name) + " does not succeed afterwards: " + network.get_error());
  return false;
}

// The outputs of two executions; the call of that number fails.
std::vector<float> Outputs(const std::string &weights, int number, bool wants_layers) {
  calls = 0;
  failing = number;
  NETWORK_CLASS network;
  bool is_hidden = Twice(network, "Initialize", [&] { return network.Initialize(); });
  is_hidden |= Twice(network, "LoadWeights", [&] { return network.LoadWeights(weights); });
  if (wants_layers) network.WantLayerOutputs();
  is_hidden |= Twice(network, "Commit", [&] { return network.Commit(); });
  std::vector<float> all;
  for (int sample = 0; sample < 2; ++sample) {
    const auto run = [&] {
      auto *const input = static_cast<uint16_t *>(network.get_network_input_addr_cpu());
      for (int i = 0; i < INPUT_SIZE; ++i) input[i] = static_cast<uint16_t>(0x3000 + 7 * (i + sample) % 1024);
      return network.RunNetwork();
    };
    is_hidden |= Twice(network, "RunNetwork", run);
    for (int i = 0; i < network.get_output_layer_count(); ++i) {
      std::vector<float> output;
      network.get_final_output(output, i);
      all.insert(all.end(), output.begin(), output.end());
    }
  }
  Expect(!is_hidden, "the failure is not reported");
  return all;
}

}  // namespace

int main(int, char **arguments) {
  for (const bool wants_layers : {false, true}) {
    const std::vector<float> expected = Outputs(arguments[1], 0, wants_layers);
    const int count = calls;
    for (int number = 1; number <= count; ++number)
      Expect(Outputs(arguments[1], number, wants_layers) == expected, "the outputs are others afterwards");
    std::printf("%d calls\n", count);
  }
  return problems != 0;
}
