// What the programs that run networks of any device have in common: arguments, files and errors.
#ifndef DV_RUNNING_H
#define DV_RUNNING_H

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "header_maps.h"

namespace dv {

[[noreturn]] void fail(const std::string &text);

// A text as JSON has it.
std::string json_text(const std::string &text);

// Entries of a list in JSON, each on a line.
std::string joined(const std::vector<std::string> &entries);

// A map in an index: where its values begin in their file, and how many there are.
std::string map_entry(const std::string &name, const std::vector<int> &dims, std::size_t count, std::size_t offset);

// The bytes of a file; then it reads from the start.
std::size_t size_of(std::ifstream &file);

// A file of FP32 values that grows.
class Values {
 public:
  explicit Values(const std::string &path) : path_(path), file_(path, std::ios::binary) {}
  void append(const std::vector<float> &values);
  std::size_t count() const { return count_; }
  void close();

 private:
  std::string path_;
  std::ofstream file_;
  std::size_t count_ = 0;
};

// Outputs of layers from elsewhere. The file has a byte for each layer, which is 0 for those that keep their own; then, for
// each sample, the outputs of the others.
class Given {
 public:
  // sizes: bytes of each layer's output in the file. An empty path gives none.
  Given(const std::string &path, const std::vector<std::size_t> &sizes);
  // The file, which then reads an output; null where a layer keeps its own.
  std::ifstream *at(std::size_t sample, std::size_t layer);

 private:
  std::ifstream file_;
  std::vector<uint8_t> known_;
  std::vector<std::size_t> starts_;  // bytes, in those of a sample
  std::size_t sample_bytes_ = 0;
};

// WEIGHTS.bin INPUT.bin OUT_DIR [--layers [GIVEN.bin]]
struct Arguments {
  std::string weights, input, directory, given;
  bool with_layers;
};

// The call that a crash interrupts.
extern const char *volatile doing;

// Runs a program with its arguments, or prints what --pixels asks for. Returns the exit status; errors are on stderr.
int run_program(int argc, char **argv, const Header *header, const std::function<void(const Arguments &)> &run);

}  // namespace dv

#endif
