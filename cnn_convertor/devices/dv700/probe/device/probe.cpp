// Runs every command of commands.h on the device and compares the results with the expected ones. Prints one line for each form
// of command, and writes board.json:
//   probe [-v] [probe.bin [board.json]]
// The exit code is 0 when board.json is written, with any results. If the device does not return from a command, start
// the probe again: it counts the command as failed and continues with the next one.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "board.h"
#include "commands.h"
#include "dmp_dv_cmdraw_v1.h"
#include "functions.h"

namespace {

const uint8_t kNotWritten[] = {0x5a, 0x7e};  // FP16: a NaN, which no command gives
const std::size_t kGuard = 64;        // bytes behind an output that must stay as they are
const int kExecutions = 3;            // the least time counts

struct Result {
  std::string word;  // passed, wrong, refused or failed
  std::string reason;
  long long usec;
  std::string traffic;
};

std::string LastError() { return dmp_dv_get_last_error_message(); }

std::size_t Aligned(std::size_t offset) { return (offset + 15) / 16 * 16; }

float Widen(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                          : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                          : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

// Device memory with the CPU's address.
class Memory {
 public:
  Memory() : mem_(nullptr), data_(nullptr) {}
  ~Memory() {
    if (mem_) dmp_dv_mem_release(mem_);
  }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  bool Allocate(dmp_dv_context context, std::size_t size) {
    mem_ = dmp_dv_mem_alloc(context, size);
    data_ = mem_ ? dmp_dv_mem_map(mem_) : nullptr;
    return data_ != nullptr;
  }
  bool ForCpu() { return dmp_dv_mem_sync_start(mem_, 1, 1) == 0; }
  bool ForDevice() { return dmp_dv_mem_sync_end(mem_) == 0; }
  dmp_dv_mem mem() const { return mem_; }
  uint8_t *data() const { return data_; }

 private:
  dmp_dv_mem mem_;
  uint8_t *data_;
};

// The memory of all commands. An operand lies behind the input, and then factors that the CPU packs.
struct Memories {
  Memory input, output, data;
};

std::size_t OperandOffset(const Command &command) { return Aligned(command.input_bytes); }

std::size_t FactorOffset(const Command &command) { return Aligned(OperandOffset(command) + command.operand_bytes); }

void DrawHalves(const Command &command, uint32_t seed, uint8_t *to, std::size_t bytes) {
  board::Generator generator(seed);
  for (std::size_t i = 0; i < bytes; i += 2) {
    const uint16_t level = kLevels[command.levels][generator.Next() >> 28];
    std::memcpy(to + i, &level, 2);
  }
}

void Fill(const Command &command, Memories &memories) {
  uint8_t *input = memories.input.data(), *output = memories.output.data();
  if (command.is_u8) {
    board::Generator generator(kInputSeed);
    for (std::size_t i = 0; i < command.input_bytes; ++i) input[i] = static_cast<uint8_t>(generator.Next() >> 24);
  } else {
    DrawHalves(command, kInputSeed, input, command.input_bytes);
  }
  DrawHalves(command, kOperandSeed, input + OperandOffset(command), command.operand_bytes);
  for (std::size_t i = 0; i < command.output_bytes + kGuard; ++i) output[i] = kNotWritten[i % 2];
}

void SetRun(const Run &run, dmp_dv_mem weights, dmp_dv_cmdraw_conv_v0_run *raw) {
  raw->weight_buf.mem = run.weight_fmt ? weights : nullptr;
  raw->weight_buf.offs = run.weight_offs;
  raw->conv_pad = run.conv_pad;
  raw->pool_pad = run.pool_pad;
  raw->m = run.m;
  raw->conv_enable = run.conv_enable;
  raw->p = run.p;
  raw->pz = run.pz;
  raw->conv_stride = run.conv_stride;
  raw->conv_dilation = run.conv_dilation;
  raw->weight_fmt = run.weight_fmt;
  raw->pool_enable = run.pool_enable;
  raw->pool_avg_param = run.pool_avg_param;
  raw->pool_size = run.pool_size;
  raw->pool_stride = run.pool_stride;
  raw->actfunc = run.actfunc;
  raw->actfunc_param = run.actfunc_param;
  raw->rectifi_en = run.rectifi_en;
  raw->lrn = run.lrn;
}

// What the CPU packs once the list is committed: the device must read it when it runs.
void PackFactors(const Command &command, Memories &memories) {
  const uint8_t *packed = memories.data.data() + (command.factor_bytes ? kRuns[command.first_part].weight_offs : 0);
  std::memcpy(memories.input.data() + FactorOffset(command), packed, command.factor_bytes);
}

dmp_dv_cmdraw HeaderOf(std::size_t size, int device, int version) {
  dmp_dv_cmdraw header;
  std::memset(&header, 0, sizeof(header));
  header.size = static_cast<uint32_t>(size);
  header.device_type = static_cast<uint8_t>(device);
  header.version = static_cast<uint8_t>(version);
  return header;
}

dmp_dv_buf Place(const Memory &memory, std::size_t offset) {
  dmp_dv_buf buffer;
  std::memset(&buffer, 0, sizeof(buffer));
  buffer.mem = memory.mem();
  buffer.offs = offset;
  return buffer;
}

int AddConv(const Command &command, const Memories &memories, dmp_dv_cmdlist list) {
  dmp_dv_cmdraw_conv_v1 raw;
  std::memset(&raw, 0, sizeof(raw));
  raw.header = HeaderOf(sizeof(raw), DMP_DV_DEV_CONV, 1);
  if (command.is_u8) raw.u8tofp16_table = Place(memories.data, kTableOffset);
  dmp_dv_cmdraw_conv_v0 &conv = raw.conv_cmd;
  conv.header = HeaderOf(sizeof(conv), DMP_DV_DEV_CONV, 0);
  conv.input_buf = Place(memories.input, 0);
  conv.output_buf = Place(memories.output, 0);
  if (command.operand_bytes) conv.eltwise_buf = Place(memories.input, OperandOffset(command));
  conv.topo = command.topo;
  conv.w = command.w;
  conv.h = command.h;
  conv.z = 1;
  conv.c = command.c;
  conv.input_circular_offset = command.input_circular_offset;
  conv.output_mode = command.operand_bytes ? 1 : 0;
  for (uint32_t i = 0; i < command.parts; ++i) SetRun(kRuns[command.first_part + i], memories.data.mem(), &conv.run[i]);
  if (command.factor_bytes) conv.run[0].weight_buf = Place(memories.input, FactorOffset(command));
  return dmp_dv_cmdlist_add_raw(list, &raw.header);
}

int AddMaximizer(const Command &command, const Memories &memories, dmp_dv_cmdlist list) {
  dmp_dv_cmdraw_maximizer_v0 raw;
  std::memset(&raw, 0, sizeof(raw));
  raw.header = HeaderOf(sizeof(raw), DMP_DV_DEV_MAXIMIZER, 0);
  raw.input_buf = Place(memories.input, 0);
  raw.output_buf = Place(memories.output, 0);
  raw.width = command.w;
  raw.height = command.h;
  raw.nclass = static_cast<uint8_t>(command.c);
  return dmp_dv_cmdlist_add_raw(list, &raw.header);
}

int AddIpu(const Command &command, const Memories &memories, dmp_dv_cmdlist list) {
  const Image &image = kImages[command.first_part];
  dmp_dv_cmdraw_ipu_v0 raw;
  std::memset(&raw, 0, sizeof(raw));
  raw.header = HeaderOf(sizeof(raw), DMP_DV_DEV_IPU, 0);
  raw.tex = Place(memories.input, 0);
  raw.wr = Place(memories.output, 0);
  raw.fmt_tex = image.fmt_tex;
  raw.fmt_wr = image.fmt_wr;
  raw.tex_width = raw.rect_width = command.w;
  raw.tex_height = raw.rect_height = command.h;
  raw.stride_wr = image.stride_wr;
  raw.transpose = image.transpose;
  raw.use_tex = 1;
  raw.ridx = image.ridx;
  raw.gidx = image.gidx;
  raw.bidx = image.bidx;
  raw.aidx = 3;
  raw.cnv_type = image.cnv_type;
  std::memcpy(raw.cnv_param, image.cnv_param, sizeof(image.cnv_param));
  return dmp_dv_cmdlist_add_raw(list, &raw.header);
}

int AddOnce(const Command &command, const Memories &memories, dmp_dv_cmdlist list) {
  switch (command.block) {
    case kMaximizerBlock: return AddMaximizer(command, memories, list);
    case kIpuBlock: return AddIpu(command, memories, list);
    default: return AddConv(command, memories, list);
  }
}

int AddCommand(const Command &command, const Memories &memories, dmp_dv_cmdlist list) {
  for (uint32_t i = 0; i < command.repeats; ++i)
    if (const int error = AddOnce(command, memories, list)) return error;
  return 0;
}

bool IsClose(uint16_t got, uint16_t expected) {
  const float exact = Widen(expected), error = std::fabs(Widen(got) - exact);
  return error <= kTolerance * std::max(1.0f, std::fabs(exact));  // false for NaN
}

// An element of an output: a byte, or FP16 without minus zero.
uint16_t ElementAt(const Command &command, const uint8_t *output, std::size_t index) {
  if (command.element_bytes == 1) return output[index];
  uint16_t half = 0;
  std::memcpy(&half, output + 2 * index, 2);
  return half == 0x8000 ? 0 : half;
}

uint32_t CrcOf(const Command &command, const uint8_t *output) {
  std::vector<uint8_t> bytes(command.output_bytes);
  for (std::size_t i = 0; i < bytes.size() / command.element_bytes; ++i) {
    const uint16_t element = ElementAt(command, output, i);
    std::memcpy(bytes.data() + i * command.element_bytes, &element, command.element_bytes);
  }
  return board::Crc32(bytes.data(), bytes.size());
}

// Why the output is wrong; empty when it is right.
std::string Judge(const Command &command, const uint8_t *output) {
  for (std::size_t i = command.output_bytes; i < command.output_bytes + kGuard; ++i)
    if (output[i] != kNotWritten[i % 2]) return "writes behind its output";
  if (command.is_exact && CrcOf(command, output) == command.crc) return "";
  const std::size_t last = command.output_bytes / command.element_bytes - 1;
  std::size_t wrong = 0;
  for (uint32_t i = 0; i < command.samples; ++i) {
    const uint16_t got = ElementAt(command, output, command.samples > 1 ? i * last / (command.samples - 1) : 0);
    const uint16_t expected = kExpected[command.first_sample + i];
    if (command.is_exact ? got != expected : !IsClose(got, expected)) ++wrong;
  }
  if (!wrong && !command.is_exact) return "";
  return wrong ? std::to_string(wrong) + " of " + std::to_string(command.samples) + " samples differ"
               : std::string("elements between the samples differ");
}

Result Execute(const Command &command, Memory &output, dmp_dv_cmdlist list) {
  Result result = {"failed", "", 0, ""};
  for (int i = 0; i < kExecutions; ++i) {
    const board::Traffic before = board::ReadTraffic();
    const int64_t id = dmp_dv_cmdlist_exec(list);
    if (id < 0 || dmp_dv_cmdlist_wait(list, id)) {
      result.reason = LastError();
      return result;
    }
    const long long usec = dmp_dv_cmdlist_get_last_exec_time(list);
    result.usec = i ? std::min(result.usec, usec) : usec;
    result.traffic = board::TrafficSince(before);
  }
  if (!output.ForCpu()) {
    result.reason = LastError();
    return result;
  }
  result.reason = Judge(command, output.data());
  result.word = result.reason.empty() ? "passed" : "wrong";
  return result;
}

Result Try(const Command &command, dmp_dv_context context, Memories &memories) {
  Result result = {"failed", "", 0, ""};
  const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(context);
  if (!list || !memories.input.ForCpu() || !memories.output.ForCpu()) {
    result.reason = LastError();
  } else {
    Fill(command, memories);
    if (AddCommand(command, memories, list)) {
      result.word = "refused";
      result.reason = LastError();
    } else if (dmp_dv_cmdlist_commit(list)) {
      result.reason = LastError();
    } else {
      PackFactors(command, memories);
      if (memories.input.ForDevice() && memories.output.ForDevice())
        result = Execute(command, memories.output, list);
      else
        result.reason = LastError();
    }
  }
  if (list) dmp_dv_cmdlist_release(list);
  if (result.traffic.empty()) result.traffic = board::TrafficSince({false, 0, 0, 0});
  return result;
}

// Whether a command finds what the CPU has written, and the CPU its result, if the cache is maintained for the ranges of the maps
// alone. Before that, the device has had zeros, and the cache holds the lines of the output with other contents.
bool RunsByRanges(const Command &command, dmp_dv_cmdlist list, Memories &memories) {
  Memory &input = memories.input, &output = memories.output;
  const std::size_t read = FactorOffset(command), written = command.output_bytes + kGuard;
  if (!input.ForCpu() || !output.ForCpu()) return false;
  std::memset(input.data(), 0, read);
  std::memset(output.data(), 0, written);
  if (!input.ForDevice() || !output.ForDevice()) return false;
  Fill(command, memories);
  if (dmp_dv_mem_to_device(input.mem(), 0, read, 0) || dmp_dv_mem_to_device(output.mem(), command.output_bytes, kGuard, 0) ||
      dmp_dv_mem_to_device(output.mem(), 0, command.output_bytes, DMP_DV_MEM_AS_DEV_OUTPUT))
    return false;
  const int64_t id = dmp_dv_cmdlist_exec(list);
  if (id < 0 || dmp_dv_cmdlist_wait(list, id)) return false;
  return dmp_dv_mem_to_cpu(output.mem(), 0, written, 0) == 0 && Judge(command, output.data()).empty();
}

// "passed" or "failed"; "untested" where the command does not pass in the usual way.
std::string TryRanges(const Command &command, const Result &usual, dmp_dv_context context, Memories &memories) {
  if (usual.word != "passed") return "untested";
  const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(context);
  bool runs = list && AddCommand(command, memories, list) == 0 && dmp_dv_cmdlist_commit(list) == 0;
  for (int i = 0; runs && i < 100; ++i) runs = RunsByRanges(command, list, memories);
  if (list) dmp_dv_cmdlist_release(list);
  return runs ? "passed" : "failed";
}

// The results so far, a line each, in a file. A line without an end is of a command from which the device did not return: the
// next start counts it as failed, and continues with the next one.
class Journal {
 public:
  explicit Journal(const std::string &path) : path_(path) {}

  std::vector<Result> Read() {
    std::vector<uint8_t> bytes;
    std::vector<Result> results;
    if (board::ReadFile(path_, &bytes)) {
      const std::string text(bytes.begin(), bytes.end());
      if (text.compare(0, Title().size(), Title()) == 0) results = Parsed(text.substr(Title().size()));
    }
    if (results.empty()) Append("wb", Title());
    else if (!bytes.empty() && bytes.back() != '\n') Append("ab", "\n");
    return results;
  }
  void Begin() { Append("ab", "> "); }
  void End(const Result &result) {
    std::string reason = result.reason;
    for (char &c : reason)
      if (c == '\n' || c == '\t') c = ' ';
    Append("ab", result.word + "\t" + std::to_string(result.usec) + "\t" + result.traffic + "\t" + reason + "\n");
  }
  void Remove() { std::remove(path_.c_str()); }

 private:
  static std::string Title() { return std::to_string(kSuite) + "\n"; }

  static std::vector<Result> Parsed(const std::string &text) {
    std::vector<Result> results;
    for (std::size_t at = 0; at < text.size() && results.size() < kCommandCount;) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string parts[4] = {"", "", "", ""};
      std::size_t part = 0;
      for (std::size_t i = std::min(at + 2, end); i < end; ++i)  // behind "> "
        if (text[i] == '\t' && part < 3) ++part;
        else parts[part] += text[i];
      if (part == 3)
        results.push_back({parts[0], parts[3], std::atoll(parts[1].c_str()), parts[2]});
      else
        results.push_back({"failed", "the device does not return", 0, board::TrafficSince({false, 0, 0, 0})});
      at = end + 1;
    }
    return results;
  }

  // Closes the file, so that what is written stays when the board has to be switched off.
  void Append(const char *mode, const std::string &text) {
    if (std::FILE *file = std::fopen(path_.c_str(), mode)) {
      std::fwrite(text.data(), 1, text.size(), file);
      std::fflush(file);
      fsync(fileno(file));
      std::fclose(file);
    }
  }

  std::string path_;
};

// What the results say about each aspect. A command that does not pass puts down the aspects that no other command shows to
// work, or its subject if there are none: at least one of its aspects fails, so that its form is never used.
std::vector<const char *> JudgeAspects(const std::vector<Result> &results) {
  uint32_t works = 0, fails = 0;
  for (std::size_t i = 0; i < kCommandCount; ++i)
    if (results[i].word == "passed") works |= kCommands[i].aspects;
  for (std::size_t i = 0; i < kCommandCount; ++i) {
    if (results[i].word == "passed") continue;
    const uint32_t unknown = kCommands[i].aspects & ~works;
    fails |= unknown ? unknown : 1u << kCommands[i].subject;
  }
  std::vector<const char *> words(kAspectCount);
  for (uint32_t i = 0; i < kAspectCount; ++i)
    words[i] = fails >> i & 1 ? "failed" : works >> i & 1 ? "passed" : "untested";
  return words;
}

void PrintAspects(const std::vector<const char *> &words, const std::vector<Result> &results) {
  for (uint32_t aspect = 0; aspect < kAspectCount; ++aspect) {
    std::size_t count = 0, bad = 0, first = kCommandCount;
    for (std::size_t i = 0; i < kCommandCount; ++i) {
      if (kCommands[i].subject != aspect) continue;
      ++count;
      if (results[i].word == "passed") continue;
      ++bad;
      first = std::min(first, i);
    }
    std::printf("%-8s  %s (", words[aspect], kAspects[aspect].words);
    if (bad)
      std::printf("%zu of %zu commands; \"%s\" is %s: %s)\n", bad, count, kCommands[first].name, results[first].word.c_str(),
                  results[first].reason.c_str());
    else
      std::printf("%zu commands)\n", count);
  }
}

std::string AspectsJson(const std::vector<const char *> &words, uint32_t first, uint32_t end) {
  std::string json = "{";
  for (uint32_t i = first; i < end; ++i)
    json += std::string(i > first ? "," : "") + "\n    \"" + kAspects[i].name + "\": \"" + words[i] + "\"";
  return json + "\n  }";
}

// An amount, a microsecond that a command takes longer than one of a pixel; null when that is too short to count.
std::string Rate(std::size_t index, const std::vector<Result> &results, double amount) {
  const long long idle = results[kIdle].word == "passed" ? results[kIdle].usec : 0, usec = results[index].usec - idle;
  if (results[index].word != "passed" || usec < 1) return "null";
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", amount / static_cast<double>(usec));
  return text;
}

// What a command costs beside its work, and a list beside its commands, in microseconds. The work of one pixel counts for nothing.
std::string OverheadJson(const std::vector<Result> &results) {
  const Result &one = results[kIdle], &all = results[kRepeated];
  if (one.word != "passed" || all.word != "passed" || all.usec < 1) return "\"command_usec\": null, \"list_usec\": null";
  const double more = static_cast<double>(kCommands[kRepeated].repeats - 1);
  const double command = std::max(0.0, static_cast<double>(all.usec - one.usec) / more);
  char text[96];
  std::snprintf(text, sizeof(text), "\"command_usec\": %.6g, \"list_usec\": %.6g", command,
                std::max(0.0, static_cast<double>(one.usec) - command));
  return text;
}

// The least time of some work, in microseconds.
template <class F>
double Time(F work) {
  double least = INFINITY;
  for (int i = 0; i < kExecutions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(least, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

// What the CPU takes: to hand memory to the device and back, and for a unit of each function's work, in nanoseconds.
std::string CpuJson(dmp_dv_context context) {
  const int kRows = 256;
  Memory memory;
  if (!memory.Allocate(context, cpu_functions::kMemory) || !memory.ForCpu()) return "\"cache_bytes_per_second\": null";
  std::string json;
  for (const cpu_functions::Function &function : cpu_functions::kFunctions) {
    cpu_functions::Fill(memory.data(), kRows, true);
    const double usec = Time([&] { function.run(memory.data(), kRows); });
    json += std::string(json.empty() ? "" : ",") + "\n    \"" + function.name + "\": " + Number(1e3 * usec / (function.work * kRows));
  }
  const double usec = Time([&] {
    memory.ForDevice();
    memory.ForCpu();
  });
  return "\"cache_bytes_per_second\": " + (usec > 0 ? Number(1e6 * 2 * cpu_functions::kMemory / usec) : "null") + ",\n  \"functions\": {" + json +
         "\n  }";
}

std::string BoardJson(const std::string &device, const std::string &cpu, const std::string &ranges, const std::vector<const char *> &words,
                      const std::vector<Result> &results) {
  std::string json = "{\n  \"format\": \"cnn-convertor board\",\n  \"version\": 1,\n  \"device\": " + device +
                     ",\n  \"probed\": {\"ub_size\": " + std::to_string(kUbSize) +
                     ", \"max_kernel_size\": " + std::to_string(kMaxKernelSize) +
                     "},\n  \"forms\": " + AspectsJson(words, 0, kFormCount) +
                     ",\n  \"features\": " + AspectsJson(words, kFormCount, kAspectCount) +
                     ",\n  \"measured\": {\"conv_mhz\": " +
                     Rate(kComputeBound, results, static_cast<double>(kCommands[kComputeBound].cycles)) +
                     ", \"bytes_per_second\": " +
                     Rate(kMemoryBound, results, 1e6 * static_cast<double>(kCommands[kMemoryBound].bytes)) +
                     ", " + OverheadJson(results) + ", \"cache_ranges\": \"" + ranges + "\", " + cpu + "},\n  \"commands\": [";
  for (std::size_t i = 0; i < kCommandCount; ++i) {
    const Command &command = kCommands[i];
    json += std::string(i ? "," : "") + "\n    {\"name\": " + board::Quoted(command.name) + ", \"form\": \"" +
            kAspects[command.subject].name + "\", \"result\": \"" + results[i].word +
            "\",\n     \"repeats\": " + std::to_string(command.repeats) +
            ", \"usec\": " + std::to_string(results[i].usec) + ", \"cycles\": " + std::to_string(command.cycles) +
            ", \"bytes\": " + std::to_string(command.bytes) + ",\n     " + results[i].traffic + "}";
  }
  return json + "\n  ]\n}\n";
}

int Fail(const std::string &why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  return 1;
}

// Memory for the largest of all commands, and for what they read besides their maps.
bool Allocate(dmp_dv_context context, const std::vector<uint8_t> &data, Memories *memories) {
  std::size_t input = 0, output = 0;
  for (const Command &command : kCommands) {
    input = std::max(input, FactorOffset(command) + command.factor_bytes);
    output = std::max(output, command.output_bytes + kGuard);
  }
  if (!memories->input.Allocate(context, input) || !memories->output.Allocate(context, output) ||
      !memories->data.Allocate(context, data.size()) || !memories->data.ForCpu())
    return false;
  std::memcpy(memories->data.data(), data.data(), data.size());
  return memories->data.ForDevice();
}

int Probe(bool is_verbose, const std::string &data_path, const std::string &json_path, dmp_dv_context context) {
  dmp_dv_info_v0 info;
  std::string device;
  if (!board::DescribeDevice(context, &info, &device)) return Fail("cannot describe the device: " + LastError());
  if (info.ub_size != kUbSize || info.max_kernel_size != kMaxKernelSize)
    std::printf("note: the device has --ub-size %d --max-kernel-size %d, but the probe is made for %d and %d\n",
                static_cast<int>(info.ub_size), static_cast<int>(info.max_kernel_size), static_cast<int>(kUbSize),
                static_cast<int>(kMaxKernelSize));

  std::vector<uint8_t> bytes;
  if (!board::ReadFile(data_path, &bytes) || bytes.size() != kDataBytes) return Fail("cannot read " + data_path);
  Memories memories;
  if (!Allocate(context, bytes, &memories)) return Fail("cannot allocate memory: " + LastError());

  Journal journal(json_path + ".unfinished");
  std::vector<Result> results = journal.Read();
  if (!results.empty()) std::printf("note: goes on behind command %zu\n", results.size());
  for (std::size_t i = results.size(); i < kCommandCount; ++i) {
    const Command &command = kCommands[i];
    if (is_verbose) std::printf("%s: ", command.name), std::fflush(stdout);
    journal.Begin();
    results.push_back(Try(command, context, memories));
    const Result &result = results.back();
    journal.End(result);
    if (is_verbose)
      std::printf("%s%s%s, %lld us\n", result.word.c_str(), result.reason.empty() ? "" : ": ", result.reason.c_str(),
                  result.usec);
  }
  journal.Remove();
  const std::vector<const char *> words = JudgeAspects(results);
  PrintAspects(words, results);
  const std::string ranges = TryRanges(kCommands[0], results[0], context, memories);
  std::printf("%-8s  cache maintenance of a range, for runtime = generated\n", ranges.c_str());
  return board::WriteFile(json_path, BoardJson(device, CpuJson(context), ranges, words, results)) ? 0 : Fail("cannot write " + json_path);
}

}  // namespace

int main(int argc, char **argv) {
  const bool is_verbose = argc > 1 && !std::strcmp(argv[1], "-v");
  const int first = is_verbose ? 2 : 1;
  const dmp_dv_context context = dmp_dv_context_create();
  if (!context) return Fail("cannot open the device: " + LastError());
  const int code = Probe(is_verbose, argc > first ? argv[first] : "probe.bin", argc > first + 1 ? argv[first + 1] : "board.json", context);
  dmp_dv_context_release(context);
  return code;
}
