#include "convert_table.h"

#include <cstring>

#include "half.h"

namespace dv {
namespace {

double converted(convert_policy policy, int value) {
  switch (policy) {
    case CP_DIV_255: return value / 255.0;
    case CP_MINUS_128: return value - 128.0;
    case CP_MINUS_128_DIV_128: return (value - 128.0) / 128.0;
    case CP_MINUS_127_5_DIV_128: return (value - 127.5) / 128.0;
    default: return value;
  }
}

}  // namespace

bool fill_table(convert_policy policy, const uint16_t *user_table, uint8_t *table) {
  if (policy == CP_USER_SPECIFY) {
    std::memcpy(table, user_table, kTableBytes);
    return true;
  }
  if (policy < CP_DIV_255 || policy > CP_DIRECT_CVT) return false;
  for (int value = 0; value < 256; ++value) {
    const uint16_t half = narrow(static_cast<float>(converted(policy, value)));
    for (std::size_t channel = 0; channel < kTableChannels; ++channel, table += sizeof(half))
      std::memcpy(table, &half, sizeof(half));
  }
  return true;
}

}  // namespace dv
