// What the emulated runtime offers besides the SDK's interface, for programs that run networks on a PC.
#ifndef DMP_NETWORK_HOST_H
#define DMP_NETWORK_HOST_H

#include <functional>
#include <string>
#include <vector>

#include "dmp_network.h"

namespace dmp_network_host {

// The runtime's last message on this thread; empty when there is none.
const std::string &last_message();

// Calls the function after each layer that this thread runs, while the output is still in memory: of an LT_CONCAT after the
// last of its inputs. Use it with WantLayerOutputs(), which runs every layer by itself.
void observe(std::function<void(const fpga_layer &)> function);

// True when the layer's command converts 8-bit input; known from Commit() on.
bool takes_bytes(const fpga_layer &layer);

// True when a callback writes one byte an element, which get_final_output cannot read.
bool has_byte_output(const fpga_layer &layer);

// A layer's output as FP32, in the order in which it lies in memory; unrounded with DMP_DV_EXACT=1. io_ptr: the
// network's I/O memory, here and below.
std::vector<float> read_output(const uint8_t *io_ptr, const fpga_layer &layer);

// Some elements from an offset of the I/O memory on as FP32: bytes, FP16 or FP32, of 1, 2 or 4 bytes each. reader: for
// reports.
std::vector<float> read_elements(const uint8_t *io_ptr, std::size_t offset, std::size_t count, int element_bytes,
                                 const char *reader);

// Writes FP32 values as FP16 from an offset of the I/O memory on; in exact mode, the values stay beside it.
void write_halves(const uint8_t *io_ptr, std::size_t offset, const std::vector<float> &values);

// Returns and forgets what DMP_DV_STRICT=1 and DMP_DV_CHECK_UNINITIALIZED=1 have reported. A process that ends with
// reports left exits with status 1.
std::vector<std::string> take_reports();

}  // namespace dmp_network_host

#endif
