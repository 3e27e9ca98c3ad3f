// The detections of SSD.
// Timed DetectionOutput: DetectionOutput(Tensor(io, 0, 1, 1, 256 * rows, kHalf), Tensor(io, 0, 1, 1, 256 * rows,
//   kHalf), Tensor(io, kSecond, 256 * rows, 1, 2, kFloat), Tensor(io, kResult, 9, 7, 1, kFloat), 4, 0, true,
//   kCenterSize, false, 0.45f, 8, 1.0f, 7.9f, 9)
#ifndef CPU_FUNCTIONS_DETECTION_OUTPUT_H
#define CPU_FUNCTIONS_DETECTION_OUTPUT_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "tensor.h"
#include "threads.h"

namespace cpu_functions {

// A box, in parts of the image.
struct Box {
  float left, top, right, bottom;
  float Area() const { return right < left || bottom < top ? 0.0f : (right - left) * (bottom - top); }
};

// The shared part of the area of both boxes.
inline float Overlap(const Box &a, const Box &b) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0.0f || height <= 0.0f) return 0.0f;
  return width * height / (a.Area() + b.Area() - width * height);
}

enum BoxCode { kCorner, kCenterSize, kCornerSize };

// One detection: of a class, the number of its box, and how sure it is.
struct Detection {
  int label, box;
  float confidence;
};

inline bool IsSurer(const Detection &a, const Detection &b) { return a.confidence > b.confidence; }

// SSD's detections: one row for each of (0, label, confidence, left, top, right, bottom), other rows begin with -1.
// If nothing is found, the first row is (0, -1, -1, ...), as in Caffe.
inline void DetectionOutput(const Tensor &locations, const Tensor &confidences, const Tensor &priors, const Tensor &y,
                            int classes, int background, bool share_location, BoxCode code, bool variance_encoded,
                            float nms_threshold, int top_k, float eta, float confidence_threshold, int keep_top_k) {
  const int boxes = priors.height / 4, sets = share_location ? 1 : classes;
  const auto decode = [&](int box, int label) {
    float p[4], v[4], d[4];
    for (int k = 0; k < 4; ++k) {
      p[k] = priors.Get(4 * box + k, 0, 0);
      v[k] = variance_encoded ? 1.0f : priors.Get(4 * box + k, 0, 1);
      d[k] = v[k] * locations.Get(0, 0, (box * sets + (share_location ? 0 : label)) * 4 + k);
    }
    const float width = p[2] - p[0], height = p[3] - p[1];
    if (code == kCorner) return Box{p[0] + d[0], p[1] + d[1], p[2] + d[2], p[3] + d[3]};
    if (code == kCornerSize)
      return Box{p[0] + d[0] * width, p[1] + d[1] * height, p[2] + d[2] * width, p[3] + d[3] * height};
    const float x = d[0] * width + (p[0] + p[2]) / 2.0f, half_width = std::exp(d[2]) * width / 2.0f;
    const float row = d[1] * height + (p[1] + p[3]) / 2.0f, half_height = std::exp(d[3]) * height / 2.0f;
    return Box{x - half_width, row - half_height, x + half_width, row + half_height};
  };

  std::vector<std::vector<Detection>> found(static_cast<std::size_t>(classes));
  const auto find = [&](int label, std::vector<Detection> &kept) {
    std::vector<Detection> candidates;
    for (int box = 0; box < boxes; ++box) {
      const float confidence = confidences.Get(0, 0, box * classes + label);
      if (confidence > confidence_threshold) candidates.push_back({label, box, confidence});
    }
    std::stable_sort(candidates.begin(), candidates.end(), IsSurer);
    if (top_k >= 0 && candidates.size() > static_cast<std::size_t>(top_k)) candidates.resize(static_cast<std::size_t>(top_k));
    float threshold = nms_threshold;
    std::vector<Box> taken;
    for (const Detection &candidate : candidates) {
      const Box box = decode(candidate.box, label);
      const bool is_new = std::all_of(taken.begin(), taken.end(),
                                      [&](const Box &other) { return Overlap(box, other) <= threshold; });
      if (!is_new) continue;
      taken.push_back(box);
      kept.push_back(candidate);
      if (eta < 1.0f && threshold > 0.5f) threshold *= eta;
    }
  };
  Share(y.threads, found.size(), static_cast<std::size_t>(boxes), [&](std::size_t first, std::size_t last) {
    for (std::size_t label = first; label < last; ++label)
      if (static_cast<int>(label) != background) find(static_cast<int>(label), found[label]);
  });
  std::vector<Detection> kept;
  for (const std::vector<Detection> &of_class : found) kept.insert(kept.end(), of_class.begin(), of_class.end());
  if (keep_top_k >= 0 && kept.size() > static_cast<std::size_t>(keep_top_k)) {
    std::stable_sort(kept.begin(), kept.end(), IsSurer);
    kept.resize(static_cast<std::size_t>(keep_top_k));
    std::stable_sort(kept.begin(), kept.end(), [](const Detection &a, const Detection &b) { return a.label < b.label; });
  }
  for (int row = 0; row < y.height; ++row) {
    const bool is_there = static_cast<std::size_t>(row) < kept.size();
    float values[7] = {-1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (kept.empty() && row == 0) {
      std::fill(values + 1, values + 7, -1.0f);
      values[0] = 0.0f;
    } else if (is_there) {
      const Detection &next = kept[static_cast<std::size_t>(row)];
      const Box box = decode(next.box, next.label);
      const float row_values[7] = {0.0f,    static_cast<float>(next.label), next.confidence, box.left, box.top,
                                   box.right, box.bottom};
      std::copy(row_values, row_values + 7, values);
    }
    for (int k = 0; k < 7; ++k) y.Set(row, k, 0, values[k]);
  }
  y.ClearRest();
}

}  // namespace cpu_functions

#endif  // CPU_FUNCTIONS_DETECTION_OUTPUT_H
