// The driver's C interface: reference counts, mapping, information, errors per thread, dead handles.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "dmp_dv_cmdraw_v0.h"
#include "dmp_dv_host.h"
#include "half.h"

namespace {

void expect(bool good, const char *what, int line) {
  if (good) return;
  std::fprintf(stderr, "line %d: %s; last error: %s\n", line, what, dmp_dv_get_last_error_message());
  std::exit(1);
}

#define EXPECT(condition) expect((condition), #condition, __LINE__)

bool last_error_is(const char *text) { return std::strcmp(dmp_dv_get_last_error_message(), text) == 0; }

void contexts_count_references() {
  const dmp_dv_context context = dmp_dv_context_create();
  EXPECT(context);
  EXPECT(dmp_dv_context_retain(context) == 2);
  EXPECT(dmp_dv_context_release(context) == 1);
  EXPECT(dmp_dv_context_release(context) == 0);
  EXPECT(dmp_dv_context_release(context) == -1);
  EXPECT(last_error_is("released or foreign context handle"));
  EXPECT(dmp_dv_context_retain(nullptr) == -1);
  EXPECT(last_error_is("null context handle"));
}

void the_device_describes_itself() {
  int numbers[3];
  EXPECT(std::sscanf(dmp_dv_get_version_string(), "%d.%d.%d", numbers, numbers + 1, numbers + 2) == 3);
  EXPECT(numbers[0] == 7 && numbers[1] == 2 && numbers[2] >= 20190716);
  const dmp_dv_context context = dmp_dv_context_create();
  dmp_dv_info_v0 info;
  std::memset(&info, 0, sizeof(info));
  EXPECT(dmp_dv_context_get_info(context, &info.header) == -1);
  EXPECT(last_error_is("info.size = 0: version 0 has 32 bytes"));
  info.header.size = sizeof(info);
  info.header.version = 1;
  EXPECT(dmp_dv_context_get_info(context, &info.header) == -1);
  EXPECT(last_error_is("info.version = 1: only version 0 is known"));
  info.header.version = 0;
  EXPECT(dmp_dv_context_get_info(context, &info.header) == 0);
  EXPECT(info.ub_size == 655360 && info.max_kernel_size == 7);
  EXPECT(dmp_dv_context_get_info(context, nullptr) == -1);
  EXPECT(std::string(dmp_dv_context_get_info_string(context)).find("655360") != std::string::npos);
  dmp_dv_context_release(context);
}

void memory_is_mapped_and_counted() {
  const dmp_dv_context context = dmp_dv_context_create();
  EXPECT(!dmp_dv_mem_alloc(context, 0));
  EXPECT(last_error_is("size = 0: an allocation has at least one byte"));
  EXPECT(!dmp_dv_mem_alloc(context, SIZE_MAX));
  const dmp_dv_mem memory = dmp_dv_mem_alloc(context, 1000);
  EXPECT(dmp_dv_mem_get_size(memory) == 1000);
  EXPECT(dmp_dv_mem_sync_start(memory, 1, 1) == EINVAL);
  EXPECT(last_error_is("the memory is not mapped"));
  uint8_t *address = dmp_dv_mem_map(memory);
  EXPECT(address && dmp_dv_mem_map(memory) == address);
  EXPECT(reinterpret_cast<uintptr_t>(address) % 16 == 0);
  EXPECT(dmp_dv_mem_sync_end(memory) == 0);
  EXPECT(dmp_dv_mem_sync_start(memory, 0, 0) == EINVAL);
  EXPECT(last_error_is("rd = 0 and wr = 0: the CPU reads, writes, or does both"));
  EXPECT(dmp_dv_mem_sync_start(memory, 0, 1) == 0);
  address[999] = 1;
  EXPECT(dmp_dv_mem_sync_end(memory) == 0 && dmp_dv_mem_sync_end(memory) == 0);
  EXPECT(dmp_dv_mem_sync_start(memory, 1, 0) == 0 && dmp_dv_mem_sync_start(memory, 1, 1) == 0);
  dmp_dv_mem_unmap(memory);
  dmp_dv_mem_unmap(memory);
  EXPECT(dmp_dv_mem_sync_start(memory, 1, 1) == EINVAL);
  EXPECT(dmp_dv_mem_retain(memory) == 2 && dmp_dv_mem_release(memory) == 1);
  EXPECT(dmp_dv_context_release(context) == 0);  // the memory keeps what it needs
  EXPECT(dmp_dv_mem_release(memory) == 0);
  EXPECT(dmp_dv_mem_release(memory) == -1);
  EXPECT(dmp_dv_mem_get_size(memory) == 0);
  EXPECT(last_error_is("released or foreign memory handle"));
  EXPECT(dmp_dv_mem_release(nullptr) == 0 && dmp_dv_context_release(nullptr) == 0);
  EXPECT(dmp_dv_cmdlist_release(nullptr) == 0);
}

void parts_of_memory_are_handed_over() {
  const dmp_dv_context context = dmp_dv_context_create();
  const dmp_dv_mem memory = dmp_dv_mem_alloc(context, 100);
  EXPECT(dmp_dv_mem_to_device(memory, 0, 100, 0) == EINVAL);
  EXPECT(last_error_is("the memory is not mapped"));
  EXPECT(dmp_dv_mem_to_cpu(memory, 0, 100, DMP_DV_MEM_CPU_HADNT_READ) == EINVAL);
  dmp_dv_mem_map(memory);
  EXPECT(dmp_dv_mem_to_device(memory, 10, 90, DMP_DV_MEM_AS_DEV_OUTPUT) == 0);
  EXPECT(dmp_dv_mem_to_cpu(memory, 0, 100, 0) == 0 && dmp_dv_mem_to_cpu(memory, 100, 0, 0) == 0);
  EXPECT(dmp_dv_mem_to_cpu(memory, 11, 90, 0) == EINVAL);
  EXPECT(last_error_is("to_cpu: bytes 11 to 101 are outside a memory of 100 bytes"));
  EXPECT(dmp_dv_mem_to_device(memory, 101, 0, 0) == EINVAL && dmp_dv_mem_to_device(memory, 1, SIZE_MAX, 0) == EINVAL);
  dmp_dv_mem_unmap(memory);
  EXPECT(dmp_dv_mem_to_cpu(memory, 0, 100, 0) == EINVAL && dmp_dv_mem_to_device(memory, 0, 100, 0) == EINVAL);
  dmp_dv_mem_release(memory);
  EXPECT(dmp_dv_mem_to_cpu(memory, 0, 100, 0) == EINVAL && dmp_dv_mem_sync_start(memory, 1, 1) == EINVAL);
  dmp_dv_context_release(context);
}

void allocations_of_all_contexts_are_counted() {
  const dmp_dv_context one = dmp_dv_context_create(), other = dmp_dv_context_create();
  const dmp_dv_mem first = dmp_dv_mem_alloc(one, 100), second = dmp_dv_mem_alloc(other, 30);
  EXPECT(dmp_dv_mem_get_total_size() == 130);
  dmp_dv_context_release(one);
  dmp_dv_context_release(other);
  EXPECT(dmp_dv_mem_get_total_size() == 130);
  dmp_dv_mem_release(first);
  EXPECT(dmp_dv_mem_get_total_size() == 30);
  dmp_dv_mem_release(second);
  EXPECT(dmp_dv_mem_get_total_size() == 0);
}

void an_application_sets_the_last_error() {
  dmp_dv_set_last_error_message("%s %d", "layer", 7);
  EXPECT(last_error_is("layer 7"));
  dmp_dv_set_last_error_message("%s", std::string(1000, 'x').c_str());
  EXPECT(std::strlen(dmp_dv_get_last_error_message()) == 255);
}

void blocks_are_asked_for() {
  const dmp_dv_context context = dmp_dv_context_create();
  EXPECT(dmp_dv_device_exists(context, DMP_DV_DEV_CONV) == 1 && dmp_dv_device_exists(context, DMP_DV_DEV_FC) == 0);
  EXPECT(dmp_dv_fpga_device_exists(context, DMP_DV_DEV_MAXIMIZER) == 1);
  EXPECT(dmp_dv_device_exists(nullptr, DMP_DV_DEV_CONV) == -1);
  dmp_dv_context_release(context);
}

void host_access_is_checked() {
  const dmp_dv_context context = dmp_dv_context_create();
  const dmp_dv_mem memory = dmp_dv_mem_alloc(context, 16);
  const float values[2] = {1.5f, 100000.0f};
  float read[2];
  EXPECT(dmp_dv_host_write(memory, 2, 2, values) == 0);
  EXPECT(dmp_dv_host_read(memory, 2, 2, read) == 0);
  EXPECT(read[0] == 1.5f && read[1] > 1e30f);
  EXPECT(dmp_dv_host_read(memory, 1, 1, read) == -1);
  EXPECT(last_error_is("read: offs = 1 is odd"));
  EXPECT(dmp_dv_host_write(memory, 14, 2, values) == -1);
  EXPECT(last_error_is("write: bytes 14 to 18 are outside a memory of 16 bytes"));
  for (const uint64_t count : {uint64_t{1} << 63, (uint64_t{1} << 63) + 1, UINT64_MAX}) {
    EXPECT(dmp_dv_host_read(memory, 0, count, read) == -1);
    EXPECT(last_error_is("read: bytes 0 to 2^64 or more are outside a memory of 16 bytes"));
    EXPECT(dmp_dv_host_write(memory, 2, count, values) == -1);
    EXPECT(last_error_is("write: bytes 2 to 2^64 or more are outside a memory of 16 bytes"));
  }
  EXPECT(dmp_dv_host_declare_written(memory, 8, 9) == -1);
  EXPECT(dmp_dv_host_check_written(memory, 0, 16) == 0);
  dmp_dv_mem_release(memory);
  dmp_dv_context_release(context);
}

// Doubles four FP16 values.
dmp_dv_cmdraw_conv_v0 doubling(dmp_dv_mem memory) {
  dmp_dv_cmdraw_conv_v0 command;
  std::memset(&command, 0, sizeof(command));
  command.header.size = sizeof(command);
  command.header.device_type = DMP_DV_DEV_CONV;
  command.input_buf.mem = command.output_buf.mem = memory;
  command.output_buf.offs = 8;
  command.topo = 1;
  command.w = command.h = command.z = 1;
  command.c = command.run[0].m = 4;
  command.run[0].pool_enable = 2;
  command.run[0].pool_size = command.run[0].pool_stride = 0x0101;
  command.run[0].pool_avg_param = 0x4000;
  return command;
}

void lists_keep_their_memories() {
  const dmp_dv_context context = dmp_dv_context_create();
  const dmp_dv_mem memory = dmp_dv_mem_alloc(context, 16);
  uint8_t *bytes = dmp_dv_mem_map(memory);
  const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(context);
  dmp_dv_cmdraw_conv_v0 command = doubling(memory);
  EXPECT(dmp_dv_cmdlist_exec(list) == -1);
  EXPECT(last_error_is("exec: the list is not committed"));
  EXPECT(dmp_dv_cmdlist_add_raw(list, nullptr) == -1);
  EXPECT(dmp_dv_cmdlist_add_raw(list, &command.header) == 0);
  EXPECT(dmp_dv_cmdlist_get_last_exec_time(list) == -1);
  EXPECT(dmp_dv_cmdlist_commit(list) == 0);
  EXPECT(dmp_dv_mem_release(memory) == 0);
  bytes[1] = 0x3c;  // 1.0
  const int64_t first = dmp_dv_cmdlist_exec(list), second = dmp_dv_cmdlist_exec(list);
  EXPECT(first == 0 && second == 1);
  EXPECT(dmp_dv_cmdlist_wait(list, second) == 0 && dmp_dv_cmdlist_wait(list, first) == 0);
  EXPECT(dmp_dv_cmdlist_wait(list, 2) == -1);
  EXPECT(last_error_is("wait: no execution has the id 2"));
  EXPECT(dmp_dv_cmdlist_get_last_exec_time(list) >= 0);
  EXPECT(bytes[8] == 0 && bytes[9] == 0x40);  // 2.0
  const dmp_dv_cmdlist other = dmp_dv_cmdlist_create(context);
  EXPECT(dmp_dv_cmdlist_add_raw(other, &command.header) == -1);
  EXPECT(last_error_is("released or foreign memory handle"));
  EXPECT(dmp_dv_cmdlist_release(other) == 0);
  EXPECT(dmp_dv_cmdlist_retain(list) == 2 && dmp_dv_cmdlist_release(list) == 1);
  EXPECT(dmp_dv_mem_get_total_size() == 16);  // the list keeps it
  EXPECT(dmp_dv_cmdlist_release(list) == 0);
  EXPECT(dmp_dv_mem_get_total_size() == 0);
  dmp_dv_context_release(context);
}

void errors_belong_to_their_thread() {
  EXPECT(dmp_dv_mem_retain(nullptr) == -1);
  std::string before, after;
  std::thread([&] {
    before = dmp_dv_get_last_error_message();
    dmp_dv_cmdlist_retain(nullptr);
    after = dmp_dv_get_last_error_message();
  }).join();
  EXPECT(before.empty());
  EXPECT(after == "null command list handle");
  EXPECT(last_error_is("null memory handle"));
}

void threads_share_the_device() {
  const dmp_dv_context context = dmp_dv_context_create();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([context] {
      for (int i = 0; i < 50; ++i) {
        const dmp_dv_mem memory = dmp_dv_mem_alloc(context, 16);
        uint8_t *bytes = dmp_dv_mem_map(memory);
        bytes[1] = 0x3c;
        const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(context);
        dmp_dv_cmdraw_conv_v0 command = doubling(memory);
        EXPECT(dmp_dv_cmdlist_add_raw(list, &command.header) == 0 && dmp_dv_cmdlist_commit(list) == 0);
        EXPECT(dmp_dv_cmdlist_wait(list, dmp_dv_cmdlist_exec(list)) == 0);
        EXPECT(bytes[9] == 0x40);
        EXPECT(dmp_dv_cmdlist_release(list) == 0 && dmp_dv_mem_release(memory) == 0);
      }
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT(dmp_dv_context_release(context) == 0);
}

// Both directions against arithmetic that shares nothing with the conversion.
void halves_convert_both_ways() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const int exponent = (half >> 10) & 31, fraction = half & 1023;
    const float value = dv::widen(half);
    if (exponent == 31) {
      EXPECT(fraction ? value != value : value > 1e30f || value < -1e30f);
      if (fraction) continue;
    } else {
      float expected = exponent ? static_cast<float>(1024 + fraction) : static_cast<float>(fraction);
      for (int i = exponent ? exponent : 1; i < 25; ++i) expected /= 2;
      for (int i = 25; i < exponent; ++i) expected *= 2;
      EXPECT(value == (half & 0x8000 ? -expected : expected));
    }
    EXPECT(dv::narrow(value) == half);
  }
  EXPECT(dv::narrow(65519.996f) == 0x7bff && dv::narrow(65520.0f) == 0x7c00);
  EXPECT(dv::narrow(2049.0f) == 0x6800 && dv::narrow(2051.0f) == 0x6802);
  EXPECT(dv::narrow(2.98023224e-8f) == 0 && dv::narrow(2.98023260e-8f) == 1);
}

}  // namespace

int main() {
  contexts_count_references();
  the_device_describes_itself();
  memory_is_mapped_and_counted();
  parts_of_memory_are_handed_over();
  allocations_of_all_contexts_are_counted();
  an_application_sets_the_last_error();
  blocks_are_asked_for();
  host_access_is_checked();
  lists_keep_their_memories();
  errors_belong_to_their_thread();
  threads_share_the_device();
  halves_convert_both_ways();
  return 0;
}
