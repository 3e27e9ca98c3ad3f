// The inputs and outputs of a network as an application reaches them: by the constants of the generated header.
#ifndef DV_HEADER_MAPS_H
#define DV_HEADER_MAPS_H

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "generated_header.h"

namespace dv {

// A name in kInputs and kOutputs. Maps lie in chunks of so many channels, one after the other, row by row or column by column;
// 0: there are no chunks. The last chunk has the channels that are left, unless it is whole.
struct HeaderLayout {
  const char *name;
  std::size_t chunk;
  bool by_columns, whole;
};

// The I/O memory of a network. read: elements from an offset on as FP32; their number, and the bytes of each.
struct IoMemory {
  uint8_t *data;
  std::size_t bytes;
  std::function<std::vector<float>(std::size_t, std::size_t, int)> read;
};

// Fails where the constants do not describe the maps that the application looks for.
class Application {
 public:
  // samples: a file of FP32 in the order H, W, C. outputs: how many the network has.
  Application(const Header &header, std::vector<HeaderLayout> layouts, IoMemory io, std::size_t outputs, const std::string &samples);

  // The position of an output by its constant.
  int position(std::size_t output) const { return header_.wanted_outputs[output].position; }
  // Writes the next sample over that in memory.
  void write(const std::vector<IoRange> &places);
  // An output in the order H, W, C.
  std::vector<float> read(std::size_t output) const;

 private:
  // A map, and the places of its elements in the order H, W, C.
  struct Described {
    HeaderMap map;
    std::vector<std::size_t> places;
  };

  Described described(const char *constant, std::ptrdiff_t index, const std::vector<HeaderMap> &maps, const Wanted &wanted) const;

  const Header &header_;
  std::vector<HeaderLayout> layouts_;
  IoMemory io_;
  std::string path_;
  std::ifstream samples_;
  std::vector<Described> inputs_, outputs_;
};

// Prints kChannelOrder, and what kMean and kScale make of each byte, in each channel that has its own.
void print_pixels(const Header &header);

}  // namespace dv

#endif
