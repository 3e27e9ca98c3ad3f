#include "ipu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "counters.h"
#include "half.h"

namespace dv {
namespace {

using Raw = dmp_dv_cmdraw_ipu_v0;
using Pixel = std::array<float, 4>;  // red, green, blue, alpha: 0 to 255

constexpr int kLargestSize = 4095, kLargestStride = 32767;
constexpr std::size_t kColors = 32;

[[noreturn]] void refuse(const char *field, int64_t value, const std::string &why) {
  throw Error(field + (" = " + std::to_string(value)) + ": " + why);
}

uint64_t pixel_bytes(int format) {
  switch (format) {
    case DMP_DV_RGBA8888: return 4;
    case DMP_DV_RGB888: return 3;
    case DMP_DV_RGBFP16: return 6;
    default: return 1;
  }
}

void check_channels(const Raw &raw, int channels) {
  const std::pair<const char *, int> indices[] = {
      {"ridx", raw.ridx}, {"gidx", raw.gidx}, {"bidx", raw.bidx}, {"aidx", raw.aidx}};
  for (int i = 0; i < channels; ++i) {
    const auto &[name, index] = indices[i];
    if (index < 0 || index >= channels) refuse(name, index, "0 to " + std::to_string(channels - 1) + " is possible");
    for (int other = 0; other < i; ++other)
      if (indices[other].second == index) refuse(name, index, "the same as " + std::string(indices[other].first));
  }
}

void check_texture(const Raw &raw) {
  if (!raw.use_tex) refuse("use_tex", 0, "without a texture nothing is drawn");
  if (raw.use_rd) refuse("use_rd", raw.use_rd, "how an image below the texture is mixed in is not documented");
  if (raw.fmt_tex != DMP_DV_RGBA8888 && raw.fmt_tex != DMP_DV_RGB888 && raw.fmt_tex != DMP_DV_LUT)
    refuse("fmt_tex", raw.fmt_tex, "0 (RGBA8888), 1 (RGB888) or 7 (LUT) is possible");
  for (const auto &[name, size] : {std::pair("tex_width", raw.tex_width), std::pair("tex_height", raw.tex_height)})
    if (size < 1 || size > kLargestSize) refuse(name, size, "1 to 4095 is possible");
  if (raw.fmt_tex == DMP_DV_LUT && (raw.ncolor_lut < 1 || raw.ncolor_lut > kColors))
    refuse("ncolor_lut", raw.ncolor_lut, "1 to 32 is possible");
  check_channels(raw, raw.fmt_tex == DMP_DV_RGB888 ? 3 : 4);
}

// Extent of the output's lines: columns and rows, exchanged when transposed.
std::pair<uint64_t, uint64_t> lines(const Raw &raw) {
  return raw.transpose ? std::pair<uint64_t, uint64_t>(raw.rect_height, raw.rect_width)
                       : std::pair<uint64_t, uint64_t>(raw.rect_width, raw.rect_height);
}

uint64_t line_bytes(const Raw &raw) { return lines(raw).first * pixel_bytes(raw.fmt_wr); }

void check_output(const Raw &raw) {
  if (raw.fmt_wr > DMP_DV_RGBFP16)
    refuse("fmt_wr", raw.fmt_wr, "0 (RGBA8888), 1 (RGB888) or 2 (RGBFP16) is possible");
  for (const auto &[name, size] : {std::pair("rect_width", raw.rect_width), std::pair("rect_height", raw.rect_height)})
    if (size < 1 || size >= kLargestSize) refuse(name, size, "1 to 4094 is possible");
  if (raw.stride_wr > kLargestStride || raw.stride_wr < -kLargestStride - 1)
    refuse("stride_wr", raw.stride_wr, "-32768 to 32767 is possible");
  if (raw.stride_wr < 0) refuse("stride_wr", raw.stride_wr, "where lines that run backwards start is not documented");
  if (lines(raw).second > 1 && static_cast<uint64_t>(raw.stride_wr) < line_bytes(raw))
    refuse("stride_wr", raw.stride_wr, "lines have " + std::to_string(line_bytes(raw)) + " bytes and would overlap");
  if (raw.cnv_type > DMP_DV_CNV_FP16_DIV_255)
    refuse("cnv_type", raw.cnv_type, "0 (subtraction) or 1 (division by 255) is possible");
}

uint64_t texture_bytes(const Raw &raw) {
  return static_cast<uint64_t>(raw.tex_width) * raw.tex_height * pixel_bytes(raw.fmt_tex);
}

// A pixel of the texture. Its four channels are bytes of the texture or of its color.
Pixel texel(const Ipu &command, int x, int y) {
  const Raw &raw = command.raw;
  const std::size_t bytes = pixel_bytes(raw.fmt_tex);
  const auto at = static_cast<std::size_t>(y) * raw.tex_width + static_cast<std::size_t>(x);
  const uint8_t *from = command.texture->device_data() + raw.tex.offs + at * bytes;
  uint8_t color[4] = {0, 0, 0, 255};
  if (raw.fmt_tex == DMP_DV_LUT) {
    if (*from >= raw.ncolor_lut)
      refuse("ncolor_lut", raw.ncolor_lut, "the texture has the color " + std::to_string(*from));
    for (std::size_t i = 0; i < 4; ++i) color[i] = static_cast<uint8_t>(raw.lut[*from] >> (8 * i));
  } else {
    std::memcpy(color, from, bytes);
  }
  const int8_t indices[4] = {raw.ridx, raw.gidx, raw.bidx, static_cast<int8_t>(bytes == 3 ? 3 : raw.aidx)};
  Pixel pixel;
  for (std::size_t i = 0; i < 4; ++i) pixel[i] = color[indices[i]];
  return pixel;
}

// The texture where the center of a pixel of the rectangle lies on it.
Pixel sample(const Ipu &command, int x, int y) {
  const Raw &raw = command.raw;
  const auto position = [](int at, int size, int scaled) {
    return (static_cast<float>(at) + 0.5f) * static_cast<float>(size) / static_cast<float>(scaled);
  };
  const float px = position(x, raw.tex_width, raw.rect_width), py = position(y, raw.tex_height, raw.rect_height);
  const int last_x = raw.tex_width - 1, last_y = raw.tex_height - 1;
  if (!raw.blf) return texel(command, std::min(static_cast<int>(px), last_x), std::min(static_cast<int>(py), last_y));
  const float left = std::floor(px - 0.5f), top = std::floor(py - 0.5f);
  const float right_share = px - 0.5f - left, bottom_share = py - 0.5f - top;
  const auto at = [&](int dx, int dy) {
    return texel(command, std::clamp(static_cast<int>(left) + dx, 0, last_x),
                 std::clamp(static_cast<int>(top) + dy, 0, last_y));
  };
  const Pixel a = at(0, 0), b = at(1, 0), c = at(0, 1), d = at(1, 1);
  Pixel result;
  for (std::size_t i = 0; i < 4; ++i) {
    const float upper = a[i] + right_share * (b[i] - a[i]), lower = c[i] + right_share * (d[i] - c[i]);
    result[i] = std::floor(upper + bottom_share * (lower - upper) + 0.5f);  // 8 bits again
  }
  return result;
}

void write_pixel(const Raw &raw, const Pixel &pixel, uint8_t *to) {
  if (raw.fmt_wr != DMP_DV_RGBFP16) {
    for (std::size_t i = 0; i < pixel_bytes(raw.fmt_wr); ++i) to[i] = static_cast<uint8_t>(pixel[i]);
    if (raw.fmt_wr == DMP_DV_RGBA8888 && raw.use_const_alpha) to[3] = raw.alpha;
    return;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const uint16_t half =
        narrow(raw.cnv_type == DMP_DV_CNV_FP16_SUB ? pixel[i] - raw.cnv_param[i] : pixel[i] / 255.0f);
    std::memcpy(to + 2 * i, &half, sizeof(half));
  }
}

}  // namespace

Ipu accept_ipu(const dmp_dv_cmdraw &header) {
  if (header.version != 0) throw Error("header.version = " + std::to_string(header.version) + ": 0 is known");
  check_size(header, "header", sizeof(Raw));
  Ipu command{reinterpret_cast<const Raw &>(header), nullptr, nullptr};
  const Raw &raw = command.raw;
  check_texture(raw);
  check_output(raw);
  if (raw.fmt_wr == DMP_DV_RGBFP16 && (raw.wr.offs % 2 != 0 || raw.stride_wr % 2 != 0))
    refuse("wr.offs", static_cast<int64_t>(raw.wr.offs), "FP16 values start at even offsets, with an even stride_wr");
  command.texture = buffer_memory("tex", raw.tex, texture_bytes(raw));
  const uint64_t extent = (lines(raw).second - 1) * static_cast<uint64_t>(raw.stride_wr) + line_bytes(raw);
  command.output = buffer_memory("wr", raw.wr, extent);
  return command;
}

void execute(const Ipu &command) {
  const Raw &raw = command.raw;
  command.texture->check_written(raw.tex.offs, texture_bytes(raw), "the texture");
  command.texture->before_device(raw.tex.offs, texture_bytes(raw), "the texture");
  const uint64_t extent = (lines(raw).second - 1) * static_cast<uint64_t>(raw.stride_wr) + line_bytes(raw);
  command.output->before_device(raw.wr.offs, extent, "the output");
  const bool is_map = raw.fmt_wr == DMP_DV_RGBFP16;
  const uint64_t bytes = pixel_bytes(raw.fmt_wr), stride = static_cast<uint64_t>(raw.stride_wr);
  for (int y = 0; y < raw.rect_height; ++y)
    for (int x = 0; x < raw.rect_width; ++x) {
      const auto column = static_cast<uint64_t>(raw.transpose ? y : x), line = static_cast<uint64_t>(raw.transpose ? x : y);
      write_pixel(raw, sample(command, x, y), command.output->device_data() + raw.wr.offs + line * stride + column * bytes);
    }
  for (uint64_t line = 0; line < lines(raw).second; ++line)
    command.output->mark_by_device(raw.wr.offs + line * stride, line_bytes(raw), is_map ? Content::kMap : Content::kBytes);
  const uint64_t written = lines(raw).second * line_bytes(raw);
  count(DMP_DV_DEV_IPU, {1, texture_bytes(raw), 0, written, 0});
}

}  // namespace dv
