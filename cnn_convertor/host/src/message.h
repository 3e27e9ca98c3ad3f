// Messages of the runtime.
#ifndef DV_MESSAGE_H
#define DV_MESSAGE_H

#include <string>

namespace dv {

// Prints a message to stderr and keeps it as this thread's last one. Returns false, for functions that fail.
bool message(const std::string &text);

// A layer's name as a message shows it.
std::string quoted(const std::string &name);

}  // namespace dv

#endif
