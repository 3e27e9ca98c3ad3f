// An application that reads one handwritten digit. The same source compiles for the board and for the PC.
#include <cstdio>
#include <cstring>
#include <vector>

#include "digits_gen.h"

namespace {

// Ink of each pixel, 0 to 16, row by row. The network was converted with transpose_weight = 1, so it reads the image row by
// row; otherwise it reads the image column by column.
const int kImage[8][8] = {
    {0, 0, 6, 14, 16, 16, 2, 0},  //
    {0, 5, 16, 13, 11, 16, 0, 0},
    {0, 0, 7, 2, 15, 12, 0, 0},
    {0, 0, 0, 7, 16, 13, 1, 0},
    {0, 0, 0, 0, 6, 15, 10, 0},
    {0, 0, 0, 0, 0, 15, 9, 0},
    {0, 0, 3, 11, 8, 16, 6, 0},
    {0, 0, 7, 16, 16, 8, 0, 0},
};

// FP16 bits of value / 16, for 0 to 16: the network's input goes from 0 to 1.
uint16_t half_of_sixteenths(int value) {
  if (value == 0) return 0;
  int exponent = 11;  // that of 1/16
  int fraction = value << 10;
  while (fraction >= 2 << 10) {
    fraction >>= 1;
    ++exponent;
  }
  return static_cast<uint16_t>(exponent << 10 | (fraction & 0x3ff));
}

int fail(const char *what) {
  std::fprintf(stderr, "%s failed\n", what);
  return 1;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s digits_weights.bin\n", argv[0]);
    return 2;
  }
  Cdigits network;
  if (!network.Initialize()) return fail("Initialize");
  if (!network.LoadWeights(argv[1])) return fail("LoadWeights");
  if (!network.Commit()) return fail("Commit");

  uint16_t input[8][8];
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) input[y][x] = half_of_sixteenths(kImage[y][x]);
  std::memcpy(network.get_network_input_addr_cpu(), input, sizeof(input));

  if (!network.RunNetwork()) return fail("RunNetwork");
  std::vector<float> probabilities;
  network.get_final_output(probabilities);

  std::size_t best = 0;
  for (std::size_t i = 1; i < probabilities.size(); ++i)
    if (probabilities[i] > probabilities[best]) best = i;
  std::printf("this is a %zu (%.1f %%)\n", best, 100 * static_cast<double>(probabilities[best]));
  return 0;
}
