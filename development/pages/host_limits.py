"""The header cnn_convertor/host/src/limits.h: the limits of the device, for the emulated one."""

from __future__ import annotations

from cnn_convertor.devices.dv700.limits import OF_BOARD, Limits

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

// Calls f(variable, limit, least, most) for each limit that differs between boards.
template <class F>
void each_limit_of_board(Limits &limits, const F &f) {{
{of_board}
}}

}}  // namespace dv

#endif
"""


def host_limits() -> str:
    values = Limits()._asdict()
    fields = [_field(name, value) for name, value in values.items()]
    of_board = [_of_board(name, values[name]) for name in OF_BOARD]
    return HEADER.format(fields="\n".join(fields), of_board="\n".join(of_board))


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


def _of_board(name: str, value: int) -> str:
    ends = "0, 1" if isinstance(value, bool) else "1, INT32_MAX" if name == "ub_size" else f"1, {value}"
    return f'  f("DMP_DV_{name.upper()}", limits.{name}, {ends});'
