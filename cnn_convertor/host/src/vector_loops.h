// FP16 arrays to FP32 and back.
#ifndef DV_VECTOR_LOOPS_H
#define DV_VECTOR_LOOPS_H

#include <cstddef>
#include <cstdint>

namespace dv {

void widen_all(const uint8_t *halves, std::size_t count, float *values);
void narrow_all(const float *values, std::size_t count, uint8_t *halves);
// Eight rows of count halves: column i goes as eight values to values + places[i] * stride.
void widen_columns(const uint8_t *const *rows, std::size_t count, const int *places, int stride, float *values);
// Rounds FP32 values to FP16 in place.
void round_all(float *values, std::size_t count);

}  // namespace dv

#endif
