#include "running.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace dv {
namespace {

[[noreturn]] void crashed(int) {
  const auto print = [](const char *text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); };
  print("error: the network's code crashes in ");
  print(doing);
  print(", as it does on a board\n");
  _exit(1);
}

}  // namespace

const char *volatile doing = "the constructor";

void fail(const std::string &text) { throw std::runtime_error(text); }

std::string json_text(const std::string &text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned>(static_cast<unsigned char>(c));
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", code);
    if (code < 0x20 || c == '"' || c == '\\')
      result += escape;
    else
      result += c;
  }
  return result + "\"";
}

std::string joined(const std::vector<std::string> &entries) {
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) text += (i ? ",\n" : "\n") + entries[i];
  return text;
}

std::string map_entry(const std::string &name, const std::vector<int> &dims, std::size_t count, std::size_t offset) {
  std::string sizes;
  for (std::size_t i = 0; i < dims.size(); ++i) sizes += (i ? ", " : "") + std::to_string(dims[i]);
  return "    {\"name\": " + json_text(name) + ", \"dims\": [" + sizes + "], \"count\": " + std::to_string(count) +
         ", \"offset\": " + std::to_string(offset) + "}";
}

std::size_t size_of(std::ifstream &file) {
  file.seekg(0, std::ios::end);
  const std::streamoff end = file.tellg();
  file.seekg(0);
  return static_cast<std::size_t>(std::max<std::streamoff>(end, 0));
}

void Values::append(const std::vector<float> &values) {
  file_.write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  count_ += values.size();
}

void Values::close() {
  file_.close();
  if (!file_) fail("cannot write " + path_);
}

Given::Given(const std::string &path, const std::vector<std::size_t> &sizes) : file_(path, std::ios::binary), known_(sizes.size()) {
  if (path.empty()) return;
  if (!file_.read(reinterpret_cast<char *>(known_.data()), static_cast<std::streamsize>(known_.size()))) fail("cannot read " + path);
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
    starts_.push_back(sample_bytes_);
    if (known_[layer]) sample_bytes_ += sizes[layer];
  }
}

std::ifstream *Given::at(std::size_t sample, std::size_t layer) {
  if (!known_.at(layer)) return nullptr;
  file_.seekg(static_cast<std::streamoff>(known_.size() + sample * sample_bytes_ + starts_[layer]));
  return &file_;
}

int run_program(int argc, char **argv, const Header *header, const std::function<void(const Arguments &)> &run) {
  if (header && argc == 2 && std::strcmp(argv[1], "--pixels") == 0) {
    print_pixels(*header);
    return 0;
  }
  const bool with_layers = (argc == 5 || argc == 6) && std::strcmp(argv[4], "--layers") == 0;
  if (argc != 4 && !with_layers) {
    std::fprintf(stderr, "usage: %s WEIGHTS.bin INPUT.bin OUT_DIR [--layers [GIVEN.bin]]\n", argv[0]);
    return 2;
  }
  std::signal(SIGSEGV, crashed);
  std::signal(SIGBUS, crashed);
  try {
    run({argv[1], argv[2], argv[3], argc == 6 ? argv[5] : "", with_layers});
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace dv
