// The table that converts 8-bit input to FP16.
#ifndef DV_CONVERT_TABLE_H
#define DV_CONVERT_TABLE_H

#include "command.h"
#include "dmp_network.h"

namespace dv {

// Fills kTableBytes bytes: three equal FP16 values for each input value, or the user's table. Returns false for an
// unknown policy.
bool fill_table(convert_policy policy, const uint16_t *user_table, uint8_t *table);

}  // namespace dv

#endif
