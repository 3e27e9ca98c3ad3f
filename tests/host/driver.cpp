// Executes what a test says through the driver's C interface: requests come on stdin, answers go to stdout.
//
// A request is a line of words, for some followed by raw bytes. The answer is "ok", with values or followed by raw
// bytes, or "error" and the driver's message. In raw commands the memory handles are numbers: 1 for the first allocation.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "dmp_dv_cmdraw_v1.h"
#include "dmp_dv_host.h"

namespace {

struct Session {
  dmp_dv_context context = dmp_dv_context_create();
  std::vector<dmp_dv_mem> memories;
  std::vector<dmp_dv_cmdlist> lists;

  void reset() {
    for (const dmp_dv_cmdlist list : lists) dmp_dv_cmdlist_release(list);
    for (const dmp_dv_mem memory : memories) dmp_dv_mem_release(memory);
    lists.clear();
    memories.clear();
  }
  ~Session() {
    reset();
    dmp_dv_context_release(context);
  }
};

std::vector<char> receive(std::size_t bytes) {
  std::vector<char> data(bytes);
  std::cin.read(data.data(), static_cast<std::streamsize>(bytes));
  return data;
}

void translate(dmp_dv_buf &buf, const Session &session) {
  const uint64_t number = buf.rsvd;
  buf.rsvd = 0;
  if (number) buf.mem = session.memories.at(number - 1);
}

// A command with handles in place of numbers. Kept in 64-bit words, because the driver reads it as structures.
std::vector<uint64_t> command_of(const std::vector<char> &bytes, const Session &session) {
  std::vector<uint64_t> words(sizeof(dmp_dv_cmdraw_conv_v1) / 8 + 1);
  std::memcpy(words.data(), bytes.data(), std::min(bytes.size(), words.size() * 8));
  if (bytes.size() == sizeof(dmp_dv_cmdraw_maximizer_v0)) {
    auto *maximizer = reinterpret_cast<dmp_dv_cmdraw_maximizer_v0 *>(words.data());
    translate(maximizer->input_buf, session);
    translate(maximizer->output_buf, session);
    return words;
  }
  if (bytes.size() == sizeof(dmp_dv_cmdraw_ipu_v0)) {
    auto *ipu = reinterpret_cast<dmp_dv_cmdraw_ipu_v0 *>(words.data());
    for (dmp_dv_buf *buf : {&ipu->tex, &ipu->rd, &ipu->wr}) translate(*buf, session);
    return words;
  }
  auto *v1 = reinterpret_cast<dmp_dv_cmdraw_conv_v1 *>(words.data());
  auto *conv = reinterpret_cast<dmp_dv_cmdraw_conv_v0 *>(words.data());
  if (bytes.size() == sizeof(*v1)) {
    conv = &v1->conv_cmd;
    translate(v1->u8tofp16_table, session);
  }
  translate(conv->input_buf, session);
  translate(conv->output_buf, session);
  translate(conv->eltwise_buf, session);
  for (dmp_dv_cmdraw_conv_v0_run &run : conv->run) translate(run.weight_buf, session);
  return words;
}

// Packs weights: words and raw bytes as Python sends them.
std::vector<uint8_t> pack(std::istringstream &words, int &status) {
  std::string kind;
  int n[6] = {}, palette_bytes = 0, weight_bytes = 0, bias_bytes = 0, slope_bytes = 0;
  words >> kind;
  for (int i = 0; i < (kind == "fc" ? 6 : 4); ++i) words >> n[i];
  words >> palette_bytes >> weight_bytes >> bias_bytes >> slope_bytes;
  const auto take = [](int bytes) { return receive(static_cast<std::size_t>(bytes)); };
  const std::vector<char> palette = take(palette_bytes), weights = take(weight_bytes), bias = take(bias_bytes),
                          slopes = take(slope_bytes);
  const auto halves = [](const std::vector<char> &data) {
    return data.empty() ? nullptr : reinterpret_cast<const uint16_t *>(data.data());
  };
  size_t bytes = 0;
  const auto call = [&](uint8_t *to, bool values) {
    const char *w = values ? weights.data() : nullptr;
    const uint16_t *b = values ? halves(bias) : nullptr;
    if (kind == "fc")
      return dmp_dv_pack_fc_weights(n[0], n[1], n[2], n[3], n[4], n[5], halves(palette), w, b, to, &bytes);
    const auto function = kind == "conv" ? dmp_dv_pack_conv_weights : dmp_dv_pack_dil_weights;
    return function(n[0], n[1], n[2], n[3], halves(palette), w, b, halves(slopes), to, &bytes);
  };
  std::vector<uint8_t> packed;
  status = call(nullptr, false);
  packed.resize(bytes);
  if (status == 0) status = call(packed.data(), true);
  return packed;
}

bool answer(bool good, const std::string &values = "") {
  if (good)
    std::cout << "ok " << values << std::endl;
  else
    std::cout << "error " << dmp_dv_get_last_error_message() << std::endl;
  return good;
}

void serve(const std::string &request, std::istringstream &words, Session &session) {
  uint64_t id = 0, offset = 0, bytes = 0;
  if (request == "alloc") {
    words >> bytes;
    const dmp_dv_mem memory = dmp_dv_mem_alloc(session.context, bytes);
    if (memory) session.memories.push_back(memory);
    answer(memory != nullptr);
  } else if (request == "write" || request == "read") {
    words >> id >> offset >> bytes;
    const dmp_dv_mem memory = session.memories.at(id - 1);
    const std::vector<char> data = request == "write" ? receive(bytes) : std::vector<char>();
    char *at = reinterpret_cast<char *>(dmp_dv_mem_map(memory)) + offset;
    bool good = dmp_dv_mem_sync_start(memory, request == "read", request == "write") == 0;
    if (request == "write") {
      std::memcpy(at, data.data(), bytes);
      good = good && dmp_dv_host_declare_written(memory, offset, bytes) == 0;
    }
    if (answer(good) && request == "read") std::cout.write(at, static_cast<std::streamsize>(bytes)).flush();
    dmp_dv_mem_sync_end(memory);
    dmp_dv_mem_unmap(memory);
  } else if (request == "values") {  // as FP32, unrounded in exact mode
    words >> id >> offset >> bytes;
    std::vector<float> values(bytes / 4);
    if (answer(dmp_dv_host_read(session.memories.at(id - 1), offset, values.size(), values.data()) == 0))
      std::cout.write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(bytes)).flush();
  } else if (request == "forget") {
    words >> id;
    answer(dmp_dv_host_begin_execution(session.memories.at(id - 1)) == 0);
  } else if (request == "list") {
    session.lists.push_back(dmp_dv_cmdlist_create(session.context));
    answer(session.lists.back() != nullptr);
  } else if (request == "add") {
    words >> bytes;
    std::vector<uint64_t> command = command_of(receive(bytes), session);
    answer(dmp_dv_cmdlist_add_raw(session.lists.back(), reinterpret_cast<dmp_dv_cmdraw *>(command.data())) == 0);
  } else if (request == "run") {
    const dmp_dv_cmdlist list = session.lists.back();
    const bool committed = dmp_dv_cmdlist_commit(list) == 0;
    const int64_t id_of_execution = committed ? dmp_dv_cmdlist_exec(list) : -1;
    answer(id_of_execution >= 0 && dmp_dv_cmdlist_wait(list, id_of_execution) == 0);
  } else if (request == "needs") {
    int64_t need = 0;
    int strips = 0;
    words >> offset >> bytes;
    const std::vector<uint64_t> command = command_of(receive(bytes), session);
    const int failed = dmp_dv_host_unified_buffer(reinterpret_cast<const dmp_dv_cmdraw *>(command.data()),
                                                  static_cast<int64_t>(offset), &need, &strips);
    answer(failed == 0, std::to_string(need) + " " + std::to_string(strips));
  } else if (request == "counters") {
    dmp_dv_host_counters now;
    words >> id;
    const bool good = dmp_dv_host_get_counters(static_cast<int>(id), &now) == 0;
    answer(good, std::to_string(now.commands) + " " + std::to_string(now.input_bytes) + " " +
                     std::to_string(now.operand_bytes) + " " + std::to_string(now.output_bytes) + " " +
                     std::to_string(now.weights_bytes));
  } else if (request == "exists") {
    words >> id;
    const int exists = dmp_dv_device_exists(session.context, static_cast<int>(id));
    answer(exists >= 0, std::to_string(exists));
  } else if (request == "pack") {
    int status = 0;
    const std::vector<uint8_t> packed = pack(words, status);
    if (answer(status == 0, std::to_string(packed.size())))
      std::cout.write(reinterpret_cast<const char *>(packed.data()), static_cast<std::streamsize>(packed.size())).flush();
  } else if (request == "reset") {
    session.reset();
    answer(true);
  } else {
    std::cout << "error unknown request " << request << std::endl;
  }
}

}  // namespace

int main() {
  Session session;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string request;
    words >> request;
    serve(request, words, session);
  }
  return 0;
}
