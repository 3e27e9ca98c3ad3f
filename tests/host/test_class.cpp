// CDMP_Network: its layout, its calls to the driver and their order, its results. The driver's functions are wrapped
// (-Wl,--wrap): each call is logged, and command lists are not executed.
//
//   test_class            runs the tests
//   test_class POLICY     prints the calls of Commit with 8-bit input, then the table's 768 FP16 values in hexadecimal
#include <cstdio>
#include <cstdlib>
#include <map>

#include "dmp_network.h"
#include "dmp_network_host.h"

namespace {

std::vector<std::string> calls;
std::map<const void *, std::string> names;
const char *failing = "";  // the call that fails

bool fails(const std::string &call) { return call.rfind(failing, 0) == 0 && *failing; }

std::string name(const void *handle) { return handle ? names[handle] : "null"; }

template <class Handle>
Handle named(Handle handle, const char *kind) {
  int count = 0;
  for (const auto &known : names) count += known.second[0] == *kind;
  names[handle] = kind + std::to_string(count);
  return handle;
}

int log(const std::string &call) {
  calls.push_back(call);
  return fails(call) ? -1 : 0;
}

}  // namespace

extern "C" {
dmp_dv_context __real_dmp_dv_context_create();
int __real_dmp_dv_context_get_info(dmp_dv_context, dmp_dv_info *);
int __real_dmp_dv_context_release(dmp_dv_context);
dmp_dv_mem __real_dmp_dv_mem_alloc(dmp_dv_context, size_t);
uint8_t *__real_dmp_dv_mem_map(dmp_dv_mem);
int __real_dmp_dv_mem_release(dmp_dv_mem);
dmp_dv_cmdlist __real_dmp_dv_cmdlist_create(dmp_dv_context);
int __real_dmp_dv_cmdlist_release(dmp_dv_cmdlist);

dmp_dv_context __wrap_dmp_dv_context_create() {
  log("context_create");
  return __real_dmp_dv_context_create();
}
int __wrap_dmp_dv_context_get_info(dmp_dv_context context, dmp_dv_info *info) {
  log("context_get_info size=" + std::to_string(info->size) + " version=" + std::to_string(info->version));
  return __real_dmp_dv_context_get_info(context, info);
}
int __wrap_dmp_dv_context_release(dmp_dv_context context) {
  log("context_release");
  return __real_dmp_dv_context_release(context);
}
dmp_dv_mem __wrap_dmp_dv_mem_alloc(dmp_dv_context context, size_t size) {
  const dmp_dv_mem mem = named(__real_dmp_dv_mem_alloc(context, size), "m");
  return log("mem_alloc " + std::to_string(size) + " -> " + name(mem)) ? nullptr : mem;
}
uint8_t *__wrap_dmp_dv_mem_map(dmp_dv_mem mem) {
  return log("mem_map " + name(mem)) ? nullptr : __real_dmp_dv_mem_map(mem);
}
void __wrap_dmp_dv_mem_unmap(dmp_dv_mem mem) { log("mem_unmap " + name(mem)); }
int __wrap_dmp_dv_mem_release(dmp_dv_mem mem) {
  log("mem_release " + name(mem));
  return __real_dmp_dv_mem_release(mem);
}
int __wrap_dmp_dv_mem_sync_start(dmp_dv_mem mem, int rd, int wr) {
  return log("mem_sync_start " + name(mem) + " rd=" + std::to_string(rd) + " wr=" + std::to_string(wr));
}
int __wrap_dmp_dv_mem_sync_end(dmp_dv_mem mem) { return log("mem_sync_end " + name(mem)); }
dmp_dv_cmdlist __wrap_dmp_dv_cmdlist_create(dmp_dv_context context) {
  const dmp_dv_cmdlist list = named(__real_dmp_dv_cmdlist_create(context), "l");
  return log("cmdlist_create -> " + name(list)) ? nullptr : list;
}
int __wrap_dmp_dv_cmdlist_add_raw(dmp_dv_cmdlist list, dmp_dv_cmdraw *raw) {
  std::string text = "cmdlist_add_raw " + name(list) + " size=" + std::to_string(raw->size) +
                     " dev=" + std::to_string(raw->device_type) + " ver=" + std::to_string(raw->version);
  if (raw->version == 1) {
    const auto &v1 = *reinterpret_cast<const dmp_dv_cmdraw_conv_v1 *>(raw);
    text += " table=" + name(v1.u8tofp16_table.mem) + " offs=" + std::to_string(v1.u8tofp16_table.offs) +
            " to_bgr=" + std::to_string(v1.to_bgr) + " first_c=" + std::to_string(v1.conv_cmd.c);
  }
  return log(text);
}
int __wrap_dmp_dv_cmdlist_commit(dmp_dv_cmdlist list) { return log("cmdlist_commit " + name(list)); }
int64_t __wrap_dmp_dv_cmdlist_exec(dmp_dv_cmdlist list) { return log("cmdlist_exec " + name(list)); }
int __wrap_dmp_dv_cmdlist_wait(dmp_dv_cmdlist list, int64_t) { return log("cmdlist_wait " + name(list)); }
int64_t __wrap_dmp_dv_cmdlist_get_last_exec_time(dmp_dv_cmdlist list) {
  log("cmdlist_get_last_exec_time " + name(list));
  return 7;
}
int __wrap_dmp_dv_cmdlist_release(dmp_dv_cmdlist list) {
  log("cmdlist_release " + name(list));
  return __real_dmp_dv_cmdlist_release(list);
}
}

namespace {

void expect(bool good, const char *what, int line) {
  if (good) return;
  std::fprintf(stderr, "line %d: %s\n", line, what);
  for (const std::string &call : calls) std::fprintf(stderr, "  %s\n", call.c_str());
  std::exit(1);
}

#define EXPECT(condition) expect((condition), #condition, __LINE__)

// Forgets the log.
std::vector<std::string> taken() {
  std::vector<std::string> old;
  old.swap(calls);
  return old;
}

using Calls = std::vector<std::string>;
using Types = std::vector<layer_type>;

int callbacks = 0;
void callback(fpga_layer &, void *, uint8_t *) { ++callbacks; }

// Layers of the given types, in 64 bytes of I/O memory.
class CTyped : public CDMP_Network {
 public:
  explicit CTyped(const Types &types, size_t weights = 16, bool generates = false)
      : types_(types), weights_(weights), generates_(generates) {
    names.clear();
    calls.clear();
  }
  virtual bool Initialize() {
    if (!ReserveMemory(weights_, 64)) return false;
    set_num_layers(static_cast<int>(types_.size()));
    set_num_output_layers(1);
    for (int i = 0; i < get_total_layer_count(); ++i) {
      fpga_layer &layer = get_layer(i);
      layer.type = types_[static_cast<std::size_t>(i)];
      if (layer.type == LT_CUSTOM) layer.custom_proc_ptr = callback;
      if (layer.type == LT_CONV || layer.type == LT_FC) {
        layer.conv_conf_v1.header.size = sizeof(layer.conv_conf_v1);
        layer.conv_conf_v1.header.device_type = DMP_DV_DEV_CONV;
        layer.conv_conf_v1.header.version = 1;
        layer.conv_conf_v1.conv_cmd.c = static_cast<uint16_t>(i + 1);
      }
    }
    return !generates_ || GenerateCommandLists();
  }
  void AddLayersAgain() {
    set_num_layers(7);
    set_num_output_layers(7);
  }
  bool ReserveAgain() { return ReserveMemory(1, 1); }
  bool Start() { return Initialize() && LoadWeights("weights.bin") && Commit(); }

 private:
  Types types_;
  size_t weights_;
  bool generates_;
};

bool last_message_is(const char *text) { return dmp_network_host::last_message() == text; }

void a_fresh_layer_is_zero_bytes() {
  CTyped network({LT_INPUT, LT_INPUT});
  EXPECT(network.Initialize());
  const char zeros[sizeof(fpga_layer)] = {};
  EXPECT(std::memcmp(&network.get_layer(1), zeros, sizeof(fpga_layer)) == 0);
  network.get_layer(1).name = "a literal";
  const std::string text = "text";
  network.get_layer(0).name = text;
  EXPECT(network.get_layer(1).name == "a literal" && network.get_layer(0).name == "text");
}

void memory_is_reserved_once() {
  CTyped network({LT_INPUT});
  EXPECT(network.Initialize());
  EXPECT((taken() == Calls{"context_create", "context_get_info size=32 version=0", "mem_alloc 16 -> m0",
                           "mem_alloc 64 -> m1", "mem_map m1", "mem_sync_start m1 rd=1 wr=1"}));
  for (int i = 0; i < 64; ++i) EXPECT(network.get_io_ptr()[i] == 0);
  EXPECT(network.get_dv_info().ub_size == 655360);
  EXPECT(!network.ReserveAgain() && taken().empty());
  network.AddLayersAgain();
  EXPECT(network.get_total_layer_count() == 1 && network.get_output_layer_count() == 1);
  EXPECT(network.get_output_layers().size() == 1 && !network.get_output_layers()[0]);
  CTyped empty({LT_INPUT}, 0);
  EXPECT(!empty.Initialize());
  EXPECT(last_message_is("cannot allocate memory for weights: size = 0: an allocation has at least one byte"));
}

void weights_are_loaded_after_memory_is_reserved() {
  CTyped network({LT_INPUT});
  EXPECT(!network.LoadWeights("weights.bin"));
  EXPECT(network.Initialize());
  taken();
  EXPECT(!network.LoadWeights("nowhere.bin"));
  EXPECT(!network.RunNetwork() && last_message_is("RunNetwork: call LoadWeights first"));
  EXPECT(network.LoadWeights("weights.bin"));
  EXPECT((taken() == Calls{"mem_map m0", "mem_sync_start m0 rd=0 wr=1", "mem_unmap m0"}));
}

const Types kMixed = {LT_CONV, LT_CONV, LT_FC, LT_CUSTOM, LT_CUSTOM, LT_INPUT, LT_CONCAT, LT_CONV};

void consecutive_layers_of_a_type_share_a_list() {
  CTyped network(kMixed);
  EXPECT(network.Initialize() && network.LoadWeights("weights.bin"));
  taken();
  EXPECT(network.Commit());
  const std::string add = " size=1896 dev=1 ver=1 table=null offs=0 to_bgr=0 first_c=";
  EXPECT((taken() == Calls{"cmdlist_create -> l0", "cmdlist_add_raw l0" + add + "1", "cmdlist_add_raw l0" + add + "2",
                           "cmdlist_create -> l1", "cmdlist_add_raw l1" + add + "3", "cmdlist_create -> l2",
                           "cmdlist_add_raw l2" + add + "8", "cmdlist_commit l0", "cmdlist_commit l1",
                           "cmdlist_commit l2"}));
  EXPECT(network.get_layer(1).cmdlist_pos == 1 && network.get_layer(1).cmdlist_size == 2);
  EXPECT(network.get_layer(0).cmdlist == network.get_layer(1).cmdlist && !network.get_layer(3).cmdlist);
  callbacks = 0;
  EXPECT(network.RunNetwork() && callbacks == 2);
  const std::string start = "mem_sync_start m1 rd=1 wr=1", end = "mem_sync_end m1";
  EXPECT((taken() == Calls{end, "cmdlist_exec l0", "cmdlist_wait l0", "cmdlist_get_last_exec_time l0", end,
                           "cmdlist_exec l1", "cmdlist_wait l1", "cmdlist_get_last_exec_time l1", start, start, end,
                           "cmdlist_exec l2", "cmdlist_wait l2", "cmdlist_get_last_exec_time l2", start}));
  EXPECT(network.get_conv_usec() == 14 && network.get_fc_usec() == 7);
}

void wanted_outputs_give_every_layer_a_list() {
  CTyped network({LT_CONV, LT_CONV, LT_INPUT});
  network.WantLayerOutputs();
  EXPECT(network.Start());
  taken();
  network.get_layer(2).output_size = 4;
  network.get_layer(2).output_offs = 8;
  network.get_io_ptr()[11] = 0x3c;
  EXPECT(network.RunNetwork());
  const std::string start = "mem_sync_start m1 rd=1 wr=1", end = "mem_sync_end m1";
  EXPECT((taken() == Calls{end, "cmdlist_exec l0", "cmdlist_wait l0", "cmdlist_get_last_exec_time l0", start, end,
                           "cmdlist_exec l1", "cmdlist_wait l1", "cmdlist_get_last_exec_time l1", start, start,
                           start}));
  EXPECT(network.get_layer(2).output.size() == 2 && network.get_layer(2).output[1] == 1.0f);
}

void command_lists_are_generated_once() {
  CTyped network({LT_CONV});
  EXPECT(network.Start() && !network.Commit() && network.RunNetwork());
  CTyped early({LT_CONV}, 16, true);
  EXPECT(early.Initialize() && early.LoadWeights("weights.bin") && !early.Commit() && early.RunNetwork());
  CTyped none({LT_INPUT});
  EXPECT(none.Start() && none.Commit());
  CTyped uncommitted({LT_CONV});
  EXPECT(uncommitted.Initialize() && uncommitted.LoadWeights("weights.bin") && !uncommitted.RunNetwork());
}

void failures_of_the_driver_are_returned() {
  for (const char *call : {"cmdlist_create", "cmdlist_add_raw", "cmdlist_commit", "cmdlist_exec", "cmdlist_wait",
                           "mem_sync_end", "mem_sync_start", "mem_alloc 16", "mem_alloc 64", "mem_map"}) {
    failing = call;
    CTyped network({LT_CONV});
    EXPECT(!(network.Start() && network.RunNetwork()));
    failing = "";
  }
}

void a_failed_commit_does_not_block() {
  CTyped network({LT_CONV});
  failing = "cmdlist_commit";
  EXPECT(!network.Start());
  failing = "";
  EXPECT(network.RunNetwork());
}

void resources_are_released_in_order() {
  {
    CTyped network({LT_CONV, LT_FC});
    EXPECT(network.Start());
    taken();
  }
  EXPECT((taken() == Calls{"cmdlist_release l1", "cmdlist_release l0", "mem_release m1", "mem_release m0",
                           "context_release"}));
}

void outputs_are_widened_or_copied() {
  CTyped network({LT_INPUT});
  EXPECT(network.Initialize());
  fpga_layer &layer = network.get_layer(0);
  network.get_output_layers()[0] = &layer;
  const uint16_t halves[2] = {0x3c00, 0xc000};
  std::memcpy(network.get_io_ptr() + 4, halves, sizeof(halves));
  layer.output_offs = 4;
  layer.output_size = 4;
  std::vector<float> values(9);
  network.get_final_output(values);
  EXPECT((values == std::vector<float>{1.0f, -2.0f}));
  const float single = 0.1f;
  std::memcpy(network.get_io_ptr() + 4, &single, sizeof(single));
  layer.is_f32_output = true;
  network.get_final_output(values, 0);
  EXPECT((values == std::vector<float>{0.1f}));
  layer.input_offs = 6;
  EXPECT(network.get_network_input_addr_cpu() == network.get_io_ptr() + 6);
}

void a_layer_that_does_not_exist_is_a_dummy() {
  CTyped network({LT_INPUT});
  EXPECT(network.Initialize());
  EXPECT(&network.get_layer(1) == &network.get_layer(-1) && &network.get_layer(1) != &network.get_layer(0));
}

void policies_need_their_table() {
  CTyped network({LT_CONV});
  EXPECT(!network.SetConvertPolicy(CP_USER_SPECIFY, false));
  EXPECT(network.SetConvertPolicy(static_cast<convert_policy>(7), false));
  EXPECT(network.Start());
}

void eight_bit_input_overwrites_the_first_layer() {
  CTyped network({LT_CUSTOM, LT_CONV});
  EXPECT(network.SetConvertPolicy(CP_DIV_255, true) && network.Start());
  EXPECT(network.get_layer(0).custom_proc_ptr == callback && network.get_layer(0).custom_param);
  EXPECT(!network.get_layer(1).conv_conf_v1.u8tofp16_table.mem);
}

void halves_convert_to_floats() {
  __fp16 pixels[2] = {0.5f, 3};
  EXPECT(sizeof(pixels) == 4 && pixels[0] + pixels[1] == 3.5f);
  pixels[0] += 1;
  pixels[0] *= pixels[1];
  pixels[0] -= 0.5;
  pixels[0] /= 3;
  EXPECT(pixels[0] == __fp16(4.0f / 3));
}

void print_policy(convert_policy policy) {
  CTyped network({LT_CONV, LT_CONV});
  uint16_t table[768];
  for (int i = 0; i < 768; ++i) table[i] = static_cast<uint16_t>(0x1000 + i);
  EXPECT(network.Initialize() && network.LoadWeights("weights.bin"));
  taken();
  EXPECT(network.SetConvertPolicy(policy, true, policy == CP_USER_SPECIFY ? table : nullptr) && network.Commit());
  for (const std::string &call : taken())
    if (call.rfind("mem", 0) == 0 || call.rfind("cmdlist_add_raw", 0) == 0) std::puts(call.c_str());
  const uint8_t *bytes = __real_dmp_dv_mem_map(network.get_layer(0).conv_conf_v1.u8tofp16_table.mem);
  std::memcpy(table, bytes, sizeof(table));
  for (const uint16_t value : table) std::printf("%04x\n", static_cast<unsigned>(value));
}

}  // namespace

int main(int argc, char **argv) {
  std::ofstream("weights.bin") << std::string(16, '\0');
  if (argc == 2) {
    print_policy(static_cast<convert_policy>(std::atoi(argv[1])));
    return 0;
  }
  a_fresh_layer_is_zero_bytes();
  memory_is_reserved_once();
  weights_are_loaded_after_memory_is_reserved();
  consecutive_layers_of_a_type_share_a_list();
  wanted_outputs_give_every_layer_a_list();
  command_lists_are_generated_once();
  failures_of_the_driver_are_returned();
  a_failed_commit_does_not_block();
  resources_are_released_in_order();
  outputs_are_widened_or_copied();
  a_layer_that_does_not_exist_is_a_dummy();
  policies_need_their_table();
  eight_bit_input_overwrites_the_first_layer();
  halves_convert_to_floats();
  return 0;
}
