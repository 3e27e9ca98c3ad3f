// An application without an operating system: it loads a network into the memory of NVDLA, runs it on images of handwritten
// digits, and prints the digits.
#include "board.h"
#include "digits_gen.h"
#include "images.h"

namespace {

namespace io = Cdigits_io;

constexpr int kPixelCount = 8 * 8, kClasses = 10;

int gray(char pixel) { return 15 * (pixel <= '9' ? pixel - '0' : pixel - 'a' + 10); }

void write_image(uint8_t *memory, const char *pixels) {
  float values[kPixelCount];
  for (int i = 0; i < kPixelCount; ++i) values[i] = (static_cast<float>(gray(pixels[i])) - io::kMean[0]) * io::kScale;
  io::Write(io::kInputs[0], memory, values);
}

int best_class(const uint8_t *memory) {
  float scores[kClasses];
  io::Read(io::kOutputs[Cdigits::kOutput_ip6], memory, scores);
  int best = 0;
  for (int i = 1; i < kClasses; ++i)
    if (scores[i] > scores[best]) best = i;
  return best;
}

void print_class(int digit) {
  const char text[] = {'t', 'h', 'i', 's', ' ', 'i', 's', ' ', 'a', ' ', static_cast<char>('0' + digit), '\n', 0};
  board_print(text);
}

int fail(const char *why) {
  board_print(why);
  board_print("\n");
  return 1;
}

}  // namespace

int main() {
  const BoardMemory weights = board_memory(Cdigits::kWeightBytes), maps = board_memory(Cdigits::kIoBytes);
  // Without a hook that waits for an interrupt, the network polls.
  const Cdigits::Hooks hooks = {nullptr, board_to_device, board_to_cpu, nullptr};
  Cdigits network(board_registers(), {weights.data, weights.address}, {maps.data, maps.address}, hooks);

  const BoardWeights packed = board_weights();
  if (!network.LoadWeights(packed.data, packed.bytes)) return fail(network.error());
  for (const char(&pixels)[kPixelCount + 1] : kPixels) {
    write_image(network.io(), pixels);
    if (!network.Run()) return fail(network.error());
    print_class(best_class(network.io()));
  }
  return 0;
}
