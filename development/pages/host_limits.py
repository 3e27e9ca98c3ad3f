"""The header cnn_convertor/host/src/limits.h: the limits of the device, for the emulated one."""

from __future__ import annotations

from cnn_convertor.devices.dv700.limits import Limits

HEADER = """\
// The limits of the device. Made by python -m development.pages from cnn_convertor/devices/dv700/limits.py: do not edit.
#ifndef DV_LIMITS_H
#define DV_LIMITS_H

#include <cstdint>

namespace dv {{

struct Range {{
  int least, most;
}};

// Everything that depends on the device's size takes it as an argument.
struct Limits {{
{fields}
}};

}}  // namespace dv

#endif
"""


def host_limits() -> str:
    return HEADER.format(fields="\n".join(_field(name, value) for name, value in Limits()._asdict().items()))


def _field(name: str, value: int | tuple[int, ...]) -> str:
    match value:
        case bool():
            return f"  bool {name} = {str(value).lower()};"
        case int():
            return f"  int64_t {name} = {value};" if name == "ub_size" else f"  int {name} = {value};"
        case (least, *_):
            assert value == tuple(range(least, value[-1] + 1)), f"{name} has gaps"
            return f"  Range {name}{{{least}, {value[-1]}}};"
    raise TypeError(f"{name} is neither a number nor a tuple")
