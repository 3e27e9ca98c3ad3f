// Gives the driver's interface commands made of arbitrary bytes: it refuses them or executes them within their buffers.
//
// With libFuzzer: clang++ -fsanitize=fuzzer,address,undefined -DWITH_LIBFUZZER. Without: the program takes a number of inputs and
// a seed, makes random inputs, and prints how many commands were accepted and executed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

#include "dmp_dv_cmdraw_v1.h"
#include "dmp_dv_host.h"

namespace {

unsigned long accepted = 0, executed = 0, refused = 0;

// The input as a source of choices; zeros follow its end.
class Choices {
 public:
  Choices(const uint8_t *data, std::size_t size) : data_(data), left_(size) {}

  uint8_t byte() { return left_ ? (--left_, *data_++) : uint8_t{0}; }

  template <typename T>
  T raw() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>((value << 8 % (8 * sizeof(T))) | byte());
    return value;
  }

  // A value that makes sense mostly, sometimes any.
  template <typename T>
  T pick(std::initializer_list<long long> likely) {
    const uint8_t choice = byte();
    if (choice >= 252) return raw<T>();
    return static_cast<T>(likely.begin()[choice % likely.size()]);
  }

 private:
  const uint8_t *data_;
  std::size_t left_;
};

constexpr std::size_t kSizes[] = {16, 512, 4096, 16384};

struct Session {
  dmp_dv_context context = nullptr;
  std::vector<dmp_dv_mem> memories;

  explicit Session(Choices &choices) {
    const uint8_t modes = choices.byte();
    setenv("DMP_DV_BLOCKS", "CONV,MX,IPU", 1);
    setenv("DMP_DV_EXACT", modes & 1 ? "1" : "0", 1);
    setenv("DMP_DV_CHECK_UNINITIALIZED", modes & 2 ? "1" : "0", 1);
    setenv("DMP_DV_UB_SIZE", modes & 4 ? "8192" : "655360", 1);
    setenv("DMP_DV_POOLS_UNEVENLY", modes & 8 ? "0" : "1", 1);
    setenv("DMP_DV_PADS_BEYOND_MAP", modes & 16 ? "0" : "1", 1);
    context = dmp_dv_context_create();
    for (const std::size_t size : kSizes) {
      memories.push_back(dmp_dv_mem_alloc(context, size));
      if (uint8_t *bytes = dmp_dv_mem_map(memories.back()))
        for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 37 + modes);
      if (!(modes & 32)) dmp_dv_host_declare_written(memories.back(), 0, size);
    }
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
  void release_memories() {
    for (const dmp_dv_mem memory : memories) dmp_dv_mem_release(memory);
    memories.clear();
  }
  ~Session() {
    release_memories();
    dmp_dv_context_release(context);
  }
};

dmp_dv_buf buffer(Choices &choices, const Session &session, bool may_be_null = false) {
  dmp_dv_buf buf;
  std::memset(&buf, 0, sizeof buf);
  const uint8_t which = choices.byte();
  if (which >= 250) {
    buf.rsvd = choices.raw<uint64_t>();  // no memory at all
  } else if (!may_be_null || which % 2) {
    buf.mem = session.memories[(which / 2) % session.memories.size()];
  }
  buf.offs = choices.pick<uint64_t>({0, 0, 0, 16, 32, 512, 1, 2, 4096, 16380});
  return buf;
}

uint16_t pair(Choices &choices, std::initializer_list<long long> likely) {
  return static_cast<uint16_t>(choices.pick<uint8_t>(likely) | choices.pick<uint8_t>(likely) << 8);
}

dmp_dv_cmdraw header(Choices &choices, std::size_t size, int type, int version) {
  dmp_dv_cmdraw header;
  std::memset(&header, 0, sizeof header);
  header.size = choices.byte() >= 250 ? choices.raw<uint16_t>() : static_cast<uint32_t>(size);
  header.device_type = choices.byte() >= 250 ? choices.byte() : static_cast<uint8_t>(type);
  header.version = choices.byte() >= 250 ? choices.byte() : static_cast<uint8_t>(version);
  return header;
}

dmp_dv_cmdraw_conv_v0_run run(Choices &choices, const Session &session) {
  dmp_dv_cmdraw_conv_v0_run run;
  std::memset(&run, 0, sizeof run);
  run.weight_buf = buffer(choices, session);
  run.conv_pad = pair(choices, {0, 0, 1, 2, 3}) | static_cast<uint32_t>(pair(choices, {0, 0, 1, 2, 3})) << 16;
  run.pool_pad = pair(choices, {0, 0, 0, 1, 2}) | static_cast<uint32_t>(pair(choices, {0, 0, 0, 1, 2})) << 16;
  run.m = choices.pick<uint16_t>({1, 2, 3, 8, 9, 16, 24, 64});
  run.conv_enable = choices.pick<uint16_t>({0, 1, 1, 1, 3, 5, 7});
  run.p = pair(choices, {0, 1, 2, 3, 3, 4, 5, 7});
  run.pz = choices.pick<uint16_t>({1, 1, 1, 1, 0, 2});
  run.conv_stride = pair(choices, {1, 1, 1, 2, 3, 0, 5});
  run.conv_dilation = pair(choices, {0, 0, 1, 1, 2, 3});
  run.weight_fmt = choices.pick<uint16_t>({1, 1, 3, 3, 0});
  run.pool_enable = choices.pick<uint16_t>({0, 0, 1, 2, 4});
  run.pool_avg_param = choices.pick<uint16_t>({0x3C00, 0x3400, 0, 0x7C00, 0x7E00});
  run.pool_size = pair(choices, {1, 2, 3, 4, 0, 7});
  run.pool_stride = pair(choices, {1, 2, 2, 3, 0});
  run.actfunc = choices.pick<uint16_t>({0, 1, 2, 3, 4, 5, 6});
  run.actfunc_param = choices.pick<uint16_t>({0, 0, 0x2E66, 0x7C00});
  run.rectifi_en = choices.pick<uint16_t>({0, 0, 0, 1});
  run.lrn = choices.pick<uint16_t>({0});
  run.rsvd = choices.pick<uint16_t>({0});
  return run;
}

dmp_dv_cmdraw_conv_v0 conv(Choices &choices, const Session &session) {
  dmp_dv_cmdraw_conv_v0 conv;
  std::memset(&conv, 0, sizeof conv);
  conv.header = header(choices, sizeof conv, DMP_DV_DEV_CONV, 0);
  conv.input_buf = buffer(choices, session);
  conv.output_buf = buffer(choices, session);
  conv.eltwise_buf = buffer(choices, session, true);
  conv.topo = choices.pick<uint32_t>({1, 1, 1, 2, 3, 4, 5, 7, 0x80000000LL});
  conv.w = choices.pick<uint16_t>({1, 2, 3, 5, 8, 13, 31});
  conv.h = choices.pick<uint16_t>({1, 2, 3, 5, 8, 13, 31});
  conv.z = choices.pick<uint16_t>({1, 1, 1, 1, 1, 0, 2});
  conv.c = choices.pick<uint16_t>({1, 3, 7, 8, 9, 16, 24});
  conv.input_circular_offset = choices.pick<uint16_t>({0, 0x8000, 0x8000, 1, 0x8002, 0x8003});
  conv.output_mode = choices.pick<uint16_t>({0, 0, 0, 1});
  const int runs = choices.byte() >= 250 ? 32 : 3;
  for (int i = 0; i < runs; ++i) conv.run[i] = run(choices, session);
  return conv;
}

template <typename T>
std::vector<uint8_t> bytes_of(const T &command) {
  const auto *begin = reinterpret_cast<const uint8_t *>(&command);
  return {begin, begin + sizeof command};
}

std::vector<uint8_t> command(Choices &choices, const Session &session) {
  switch (choices.byte() % 8) {
    case 0: {
      dmp_dv_cmdraw_maximizer_v0 raw;
      std::memset(&raw, 0, sizeof raw);
      raw.header = header(choices, sizeof raw, DMP_DV_DEV_MAXIMIZER, 0);
      raw.input_buf = buffer(choices, session);
      raw.output_buf = buffer(choices, session);
      raw.width = choices.pick<uint16_t>({1, 2, 5, 16, 64});
      raw.height = choices.pick<uint16_t>({1, 2, 5, 16, 64});
      raw.nclass = choices.pick<uint8_t>({2, 3, 8, 9, 21, 255, 0, 1});
      return bytes_of(raw);
    }
    case 1: {
      dmp_dv_cmdraw_ipu_v0 raw;
      std::memset(&raw, 0, sizeof raw);
      raw.header = header(choices, sizeof raw, DMP_DV_DEV_IPU, 0);
      raw.tex = buffer(choices, session, true);
      raw.rd = buffer(choices, session, true);
      raw.wr = buffer(choices, session);
      raw.fmt_tex = choices.pick<uint8_t>({0, 1, 2, 7});
      raw.fmt_rd = choices.pick<uint8_t>({0, 1, 2, 7});
      raw.fmt_wr = choices.pick<uint8_t>({0, 1, 2, 2});
      raw.tex_width = choices.pick<uint16_t>({0, 1, 2, 5, 16, 40});
      raw.tex_height = choices.pick<uint16_t>({0, 1, 2, 5, 16, 40});
      raw.rect_width = choices.pick<uint16_t>({1, 2, 5, 16, 40, 0});
      raw.rect_height = choices.pick<uint16_t>({1, 2, 5, 16, 40, 0});
      raw.stride_rd = choices.pick<int32_t>({0, 3, 48, 64, -64, 240});
      raw.stride_wr = choices.pick<int32_t>({6, 48, 64, 96, 240, -64});
      for (uint32_t &color : raw.lut) color = choices.byte();
      raw.ncolor_lut = choices.pick<uint8_t>({0, 1, 16, 32, 33, 255});
      raw.alpha = choices.byte();
      raw.transpose = choices.pick<uint8_t>({0, 1});
      raw.use_const_alpha = choices.pick<uint8_t>({0, 1});
      raw.use_tex = choices.pick<uint8_t>({1, 1, 0});
      raw.use_rd = choices.pick<uint8_t>({0, 0, 1});
      raw.blf = choices.pick<uint8_t>({0, 1});
      raw.ridx = choices.pick<int8_t>({0, 1, 2, 3, -1});
      raw.gidx = choices.pick<int8_t>({1, 0, 2, 3, -1});
      raw.bidx = choices.pick<int8_t>({2, 0, 1, 3, -1});
      raw.aidx = choices.pick<int8_t>({3, -1, 0});
      raw.cnv_type = choices.pick<uint8_t>({0, 1});
      for (uint8_t &value : raw.cnv_param) value = choices.byte();
      return bytes_of(raw);
    }
    case 2: {
      dmp_dv_cmdraw_fc_v0 raw;
      std::memset(&raw, 0, sizeof raw);
      raw.header = header(choices, sizeof raw, DMP_DV_DEV_FC, 0);
      raw.weight_buf = buffer(choices, session);
      raw.input_buf = buffer(choices, session);
      raw.output_buf = buffer(choices, session);
      return bytes_of(raw);
    }
    case 3: {  // any bytes behind a header
      std::vector<uint8_t> raw(sizeof(dmp_dv_cmdraw) + choices.byte());
      for (uint8_t &value : raw) value = choices.byte();
      return raw;
    }
    case 4:
    case 5:
      return bytes_of(conv(choices, session));
    default: {
      dmp_dv_cmdraw_conv_v1 raw;
      std::memset(&raw, 0, sizeof raw);
      raw.header = header(choices, sizeof raw, DMP_DV_DEV_CONV, 1);
      if (choices.byte() >= 192) raw.u8tofp16_table = buffer(choices, session, true);
      raw.to_bgr = choices.pick<uint16_t>({0, 0, 1});
      raw.conv_cmd = conv(choices, session);
      return bytes_of(raw);
    }
  }
}

// Puts arbitrary bytes in a few places.
void damage(std::vector<uint8_t> &command, Choices &choices) {
  for (int count = choices.byte() >= 224 ? choices.byte() % 8 : 0; count; --count)
    command[choices.raw<uint16_t>() % command.size()] = choices.byte();
}

// A copy of exactly as many bytes as its header names, so that a sanitizer sees whoever reads more.
std::unique_ptr<uint64_t[]> exact(const std::vector<uint8_t> &command, std::size_t &size) {
  uint32_t named = 0;
  std::memcpy(&named, command.data(), sizeof named);
  size = named < sizeof(dmp_dv_cmdraw) ? sizeof(dmp_dv_cmdraw) : named > 65536 ? 65536 : named;
  std::unique_ptr<uint64_t[]> copy(new uint64_t[(size + 7) / 8]());
  std::memcpy(copy.get(), command.data(), size < command.size() ? size : command.size());
  return copy;
}

void host_functions(Choices &choices, const Session &session) {
  const dmp_dv_mem memory = session.memories[choices.byte() % session.memories.size()];
  const auto offset = choices.pick<uint64_t>({0, 2, 16, 511, 16384});
  const auto count = choices.pick<uint64_t>({0, 1, 8, 256, 8192, 1LL << 62, (1LL << 62) + 1, -1});
  const std::vector<float> values(8192, 0.5f);
  std::vector<float> read(8192);
  // No memory holds more than these values, so that larger counts are refused before any is touched.
  dmp_dv_host_write(memory, offset, count, values.data());
  dmp_dv_host_read(memory, offset, count, read.data());
  dmp_dv_host_declare_written(memory, offset, count);
  dmp_dv_host_check_written(memory, offset, count);
  dmp_dv_mem_to_device(memory, static_cast<std::size_t>(offset), static_cast<std::size_t>(count), choices.byte());
  dmp_dv_mem_to_cpu(memory, static_cast<std::size_t>(offset), static_cast<std::size_t>(count), choices.byte());
}

void pack(Choices &choices) {
  int n[6];
  constexpr int kExtents[] = {1, 2, 3, 5, 7, 8, 9, 16, 0, -1};  // the caller has as many weights as its sizes say
  std::size_t count = 1;
  for (int &size : n) {
    size = kExtents[choices.byte() % 10];
    if (size > 0) count *= static_cast<std::size_t>(size);
  }
  const bool has_palette = choices.byte() & 1;
  const std::vector<uint16_t> weights(count + 1), bias(4096), prelu(4096), palette(256);
  const uint16_t *map = has_palette ? palette.data() : nullptr, *slopes = choices.byte() & 1 ? prelu.data() : nullptr;
  std::size_t need = 0, room = 0;
  const auto call = [&](uint8_t *packed, std::size_t *size) {
    switch (choices.byte() % 3) {
      case 0:
        return dmp_dv_pack_conv_weights(n[0], n[1], n[2], n[3], map, weights.data(), bias.data(), slopes, packed, size);
      case 1:
        return dmp_dv_pack_dil_weights(n[0], n[1], n[2], n[3], map, weights.data(), bias.data(), slopes, packed, size);
      default:
        return dmp_dv_pack_fc_weights(n[0], n[1], n[2], n[3], n[4], n[5], map, weights.data(), bias.data(), packed, size);
    }
  };
  call(nullptr, &need);
  if (need == 0) return;
  room = choices.byte() & 1 ? need : need / 2;
  std::vector<uint8_t> packed(room);
  call(packed.data(), &room);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, std::size_t size) {
  Choices choices(data, size);
  Session session(choices);
  if (choices.byte() % 16 == 0) {
    pack(choices);
    return 0;
  }
  const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(session.context);
  for (int count = 1 + choices.byte() % 3; count; --count) {
    std::vector<uint8_t> raw = command(choices, session);
    damage(raw, choices);
    std::size_t bytes = 0;
    const auto copy = exact(raw, bytes);
    auto *given = reinterpret_cast<dmp_dv_cmdraw *>(copy.get());
    int64_t need = 0;
    int strips = 0;
    if (bytes >= sizeof(dmp_dv_cmdraw)) dmp_dv_host_unified_buffer(given, choices.pick<int64_t>({655360, 8192, 1, 0}), &need, &strips);
    for (int times = choices.byte() >= 253 ? 100 + choices.raw<uint16_t>() % 2000 : 1; times; --times)
      (dmp_dv_cmdlist_add_raw(list, given) == 0 ? accepted : refused)++;
  }
  if (choices.byte() % 8 == 0) host_functions(choices, session);
  dmp_dv_cmdlist_commit(list);
  if (choices.byte() % 8 == 0) session.release_memories();  // the list keeps what it needs
  const int64_t id = dmp_dv_cmdlist_exec(list);
  executed += id >= 0;
  dmp_dv_cmdlist_wait(list, choices.byte() % 8 ? id : choices.raw<int64_t>());
  dmp_dv_cmdlist_get_last_exec_time(list);
  dmp_dv_cmdlist_release(list);
  return 0;
}

#ifndef WITH_LIBFUZZER
int main(int argc, char **argv) {
  const unsigned long inputs = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  std::mt19937_64 random(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0);
  for (unsigned long i = 0; i < inputs; ++i) {
    std::vector<uint8_t> data(random() % 1024);
    for (uint8_t &byte : data) byte = static_cast<uint8_t>(random());
    // Some inputs take the likely choice everywhere, or nearly so.
    if (random() % 2)
      for (uint8_t &byte : data) byte = static_cast<uint8_t>(byte % 250);
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  std::printf("%lu inputs: %lu commands accepted, %lu refused, %lu lists executed\n", inputs, accepted, refused, executed);
}
#endif
