#include "pdp.h"

#include <algorithm>

#include "floats.h"

namespace nvdla {
namespace {

constexpr int kValueBits[2][8] = {{0, 8, 9, 10, 10, 11, 11, 11}, {0, 16, 17, 18, 18, 19, 19, 19}};

const Field kPadValues[] = {PDP::D_POOLING_PADDING_VALUE_1_CFG, PDP::D_POOLING_PADDING_VALUE_2_CFG,
                            PDP::D_POOLING_PADDING_VALUE_3_CFG, PDP::D_POOLING_PADDING_VALUE_4_CFG,
                            PDP::D_POOLING_PADDING_VALUE_5_CFG, PDP::D_POOLING_PADDING_VALUE_6_CFG,
                            PDP::D_POOLING_PADDING_VALUE_7_CFG};

// Cuts of the width: what each piece reads besides what it shares with the one before, and what it writes.
void check_pieces(const Group &pdp, const PdpPlan &plan, uint64_t pieces, uint64_t pad_right) {
  if (pieces == 1) return;
  pdp.at_most(PDP::D_OPERATION_MODE_CFG_SPLIT_NUM, pieces, 64, "the number of pieces");
  const uint64_t middles = pieces - 2;
  const uint64_t first_out = pdp.count(PDP::D_PARTIAL_WIDTH_OUT_PARTIAL_WIDTH_OUT_FIRST);
  const uint64_t last_out = pdp.count(PDP::D_PARTIAL_WIDTH_OUT_PARTIAL_WIDTH_OUT_LAST);
  const uint64_t mid_out = middles ? pdp.count(PDP::D_PARTIAL_WIDTH_OUT_PARTIAL_WIDTH_OUT_MID) : 0;
  pdp.must_be(PDP::D_PARTIAL_WIDTH_OUT_PARTIAL_WIDTH_OUT_FIRST, first_out + middles * mid_out + last_out, plan.out_width, "the sum of the pieces' widths");
  const int64_t shared = static_cast<int64_t>(plan.kernel_width) - static_cast<int64_t>(plan.stride_x);
  const auto reads = [&](uint64_t out) { return static_cast<int64_t>((out - 1) * plan.stride_x + plan.kernel_width); };
  const int64_t first = reads(first_out) - static_cast<int64_t>(plan.pad_left);
  const int64_t last = reads(last_out) - static_cast<int64_t>(pad_right) - shared;
  const auto check = [&](const Field &field, int64_t due) {
    if (due <= 0) pdp.refuse(field, "the piece would read " + std::to_string(due) + " columns");
    pdp.must_be(field, pdp.count(field), static_cast<uint64_t>(due), "the number of columns that the piece reads");
  };
  check(PDP::D_PARTIAL_WIDTH_IN_PARTIAL_WIDTH_IN_FIRST, first);
  if (middles) check(PDP::D_PARTIAL_WIDTH_IN_PARTIAL_WIDTH_IN_MID, static_cast<int64_t>(mid_out * plan.stride_x));
  // The input may be wider than what the kernel reaches.
  const int64_t whole = first + static_cast<int64_t>(middles * mid_out * plan.stride_x) + last;
  check(PDP::D_PARTIAL_WIDTH_IN_PARTIAL_WIDTH_IN_LAST, last + static_cast<int64_t>(plan.width) - whole);
}

void check_rdma(const Group &pdp, const PdpPlan &plan, const Group &rdma, uint64_t pieces) {
  rdma.must_be(PDP_RDMA::D_DATA_CUBE_IN_WIDTH, rdma.count(PDP_RDMA::D_DATA_CUBE_IN_WIDTH), plan.width, "the width, by PDP,");
  rdma.must_be(PDP_RDMA::D_DATA_CUBE_IN_HEIGHT, rdma.count(PDP_RDMA::D_DATA_CUBE_IN_HEIGHT), plan.height, "the height, by PDP,");
  rdma.must_be(PDP_RDMA::D_DATA_CUBE_IN_CHANNEL, rdma.count(PDP_RDMA::D_DATA_CUBE_IN_CHANNEL), plan.channels, "the number of channels, by PDP,");
  rdma.must_be(PDP_RDMA::D_DATA_FORMAT, rdma(PDP_RDMA::D_DATA_FORMAT), plan.precision, "the precision, by PDP,");
  rdma.must_be(PDP_RDMA::D_OPERATION_MODE_CFG, rdma.count(PDP_RDMA::D_OPERATION_MODE_CFG), pieces, "the number of pieces, by PDP,");
  rdma.must_be(PDP_RDMA::D_POOLING_KERNEL_CFG_KERNEL_WIDTH, rdma.count(PDP_RDMA::D_POOLING_KERNEL_CFG_KERNEL_WIDTH), plan.kernel_width, "the kernel's width, by PDP,");
  rdma.must_be(PDP_RDMA::D_POOLING_KERNEL_CFG_KERNEL_STRIDE_WIDTH, rdma.count(PDP_RDMA::D_POOLING_KERNEL_CFG_KERNEL_STRIDE_WIDTH), plan.stride_x, "the stride, by PDP,");
  rdma.must_be(PDP_RDMA::D_POOLING_PADDING_CFG, rdma(PDP_RDMA::D_POOLING_PADDING_CFG), plan.pad_left, "the padding, by PDP,");
  if (pieces > 1)
    rdma.must_be(PDP_RDMA::D_PARTIAL_WIDTH_IN_PARTIAL_WIDTH_IN_FIRST, rdma(PDP_RDMA::D_PARTIAL_WIDTH_IN_PARTIAL_WIDTH_IN_FIRST),
                 pdp(PDP::D_PARTIAL_WIDTH_IN_PARTIAL_WIDTH_IN_FIRST), "the register, by PDP,");
}

void plan_kernel(const Group &pdp, PdpPlan &plan, uint64_t &pad_right) {
  plan.kernel_width = pdp.count(PDP::D_POOLING_KERNEL_CFG_KERNEL_WIDTH);
  plan.kernel_height = pdp.count(PDP::D_POOLING_KERNEL_CFG_KERNEL_HEIGHT);
  pdp.at_most(PDP::D_POOLING_KERNEL_CFG_KERNEL_WIDTH, plan.kernel_width, 8, "the kernel's width");
  pdp.at_most(PDP::D_POOLING_KERNEL_CFG_KERNEL_HEIGHT, plan.kernel_height, 8, "the kernel's height");
  plan.stride_x = pdp.count(PDP::D_POOLING_KERNEL_CFG_KERNEL_STRIDE_WIDTH);
  plan.stride_y = pdp.count(PDP::D_POOLING_KERNEL_CFG_KERNEL_STRIDE_HEIGHT);
  plan.pad_left = pdp(PDP::D_POOLING_PADDING_CFG_PAD_LEFT);
  plan.pad_top = pdp(PDP::D_POOLING_PADDING_CFG_PAD_TOP);
  pad_right = pdp(PDP::D_POOLING_PADDING_CFG_PAD_RIGHT);
  const uint64_t pad_bottom = pdp(PDP::D_POOLING_PADDING_CFG_PAD_BOTTOM);
  pdp.at_most(PDP::D_POOLING_PADDING_CFG_PAD_LEFT, plan.pad_left, plan.kernel_width - 1, "the padding");
  pdp.at_most(PDP::D_POOLING_PADDING_CFG_PAD_RIGHT, pad_right, plan.kernel_width - 1, "the padding");
  pdp.at_most(PDP::D_POOLING_PADDING_CFG_PAD_TOP, plan.pad_top, plan.kernel_height - 1, "the padding");
  pdp.at_most(PDP::D_POOLING_PADDING_CFG_PAD_BOTTOM, pad_bottom, plan.kernel_height - 1, "the padding");
  const uint64_t across = plan.pad_left + plan.width + pad_right, down = plan.pad_top + plan.height + pad_bottom;
  const uint64_t width = across < plan.kernel_width ? 0 : (across - plan.kernel_width) / plan.stride_x + 1;
  const uint64_t height = down < plan.kernel_height ? 0 : (down - plan.kernel_height) / plan.stride_y + 1;
  pdp.must_be(PDP::D_DATA_CUBE_OUT_WIDTH, plan.out_width, width, "the width, by input, padding and kernel,");
  pdp.must_be(PDP::D_DATA_CUBE_OUT_HEIGHT, plan.out_height, height, "the height, by input, padding and kernel,");
}

void plan_average(const Group &pdp, PdpPlan &plan) {
  if (plan.method != kAverage) return;
  plan.reciprocals[0] = pdp(PDP::D_RECIP_KERNEL_WIDTH);
  plan.reciprocals[1] = pdp(PDP::D_RECIP_KERNEL_HEIGHT);
  for (int n = 1; n < 8; ++n) {
    const uint32_t value = pdp(kPadValues[n - 1]);
    if (plan.precision == kFp16) {
      pdp.must_be(kPadValues[n - 1], value, 0, "the value of padding (the twin adds none to halves)");
      continue;
    }
    const int bits = kValueBits[plan.precision][n];
    plan.pad_values[n] = static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
  }
}

// Part of a line of the input, or of its window: from the first to the end.
struct Span {
  std::size_t first, end, padded;
};

Span window(std::size_t out, std::size_t stride, std::size_t kernel, std::size_t pad, std::size_t size) {
  const int64_t start = static_cast<int64_t>(out * stride) - static_cast<int64_t>(pad), end = start + static_cast<int64_t>(kernel);
  const std::size_t first = static_cast<std::size_t>(std::max<int64_t>(start, 0));
  const std::size_t last = static_cast<std::size_t>(std::min<int64_t>(end, static_cast<int64_t>(size)));
  return {first, last, kernel - (last - first)};
}

void extreme(const PdpPlan &plan, const Map &input, const Span &rows, const Span &columns, int32_t *to) {
  const bool most = plan.method == kMaximum;
  for (std::size_t i = 0; i < input.lanes; ++i) {
    int32_t all = 0;
    for (std::size_t y = rows.first; y < rows.end; ++y) {
      const int32_t *line = input.line(y) + i;
      int32_t row = line[columns.first * input.lanes];
      for (std::size_t x = columns.first + 1; x < columns.end; ++x) {
        const int32_t value = line[x * input.lanes];
        if (plan.precision != kFp16)
          row = most ? std::max(row, value) : std::min(row, value);
        else
          row = static_cast<int32_t>(most ? Fp16::maximum(row, value) : Fp16::minimum(row, value));
      }
      if (y == rows.first)
        all = row;
      else if (plan.precision != kFp16)
        all = most ? std::max(all, row) : std::min(all, row);
      else
        all = static_cast<int32_t>(most ? Fp16::maximum(row, all) : Fp16::minimum(row, all));
    }
    to[i] = all;
  }
}

void average_integers(const PdpPlan &plan, const Map &input, const Span &rows, const Span &columns, int32_t *to) {
  const int64_t row_padding = plan.pad_values[columns.padded] * static_cast<int64_t>(rows.end - rows.first);
  const int64_t padding = row_padding + plan.pad_values[rows.padded] * static_cast<int64_t>(plan.kernel_width);
  for (std::size_t i = 0; i < input.lanes; ++i) {
    int64_t sum = padding;
    for (std::size_t y = rows.first; y < rows.end; ++y)
      for (std::size_t x = columns.first; x < columns.end; ++x) sum += input.line(y)[x * input.lanes + i];
    const int64_t across = rounded(sum * plan.reciprocals[0], 16);
    const int64_t value = rounded(across * plan.reciprocals[1], 16);
    to[i] = plan.precision == kInt8 ? static_cast<int8_t>(value) : static_cast<int16_t>(value);  // wraps
  }
}

void average_halves(const PdpPlan &plan, const Map &input, const Span &rows, const Span &columns, int32_t *to) {
  for (std::size_t i = 0; i < input.lanes; ++i) {
    uint32_t all = 0;
    for (std::size_t y = rows.first; y < rows.end; ++y) {
      const int32_t *line = input.line(y) + i;
      uint32_t row = converted<Fp17, Fp16>(line[columns.first * input.lanes]);
      for (std::size_t x = columns.first + 1; x < columns.end; ++x) row = Fp17::add(row, converted<Fp17, Fp16>(line[x * input.lanes]));
      all = y == rows.first ? row : Fp17::add(row, all);
    }
    if (rows.padded) all = Fp17::add(0, all);
    to[i] = static_cast<int32_t>(
        converted<Fp16, Fp17>(Fp17::multiply(Fp17::multiply(all, plan.reciprocals[0]), plan.reciprocals[1])));
  }
}

}  // namespace

PdpPlan plan_pdp(const Parts &parts, const Group &pdp, const Group *rdma) {
  const uint32_t atom = parts.configuration.atom_bytes;
  PdpPlan plan;
  plan.flying = !pdp(PDP::D_OPERATION_MODE_CFG_FLYING_MODE);
  plan.flushes_nan = pdp.or_zero(PDP::D_NAN_FLUSH_TO_ZERO);
  plan.method = pdp(PDP::D_OPERATION_MODE_CFG_POOLING_METHOD);
  if (plan.method > kMinimum) pdp.refuse(PDP::D_OPERATION_MODE_CFG_POOLING_METHOD, "there is no method 3");
  check_precision(parts.configuration, pdp, PDP::D_DATA_FORMAT);
  plan.precision = pdp(PDP::D_DATA_FORMAT);
  plan.width = pdp.count(PDP::D_DATA_CUBE_IN_WIDTH);
  plan.height = pdp.count(PDP::D_DATA_CUBE_IN_HEIGHT);
  plan.channels = pdp.count(PDP::D_DATA_CUBE_IN_CHANNEL);
  plan.out_width = pdp.count(PDP::D_DATA_CUBE_OUT_WIDTH);
  plan.out_height = pdp.count(PDP::D_DATA_CUBE_OUT_HEIGHT);
  pdp.must_be(PDP::D_DATA_CUBE_OUT_CHANNEL, pdp.count(PDP::D_DATA_CUBE_OUT_CHANNEL), plan.channels, "the number of channels, by the input,");
  uint64_t pad_right = 0;
  plan_kernel(pdp, plan, pad_right);
  const uint64_t pieces = pdp.count(PDP::D_OPERATION_MODE_CFG_SPLIT_NUM);
  if (plan.flying) pdp.must_be(PDP::D_OPERATION_MODE_CFG_SPLIT_NUM, pieces, 1, "the number of pieces on the fly");
  check_pieces(pdp, plan, pieces, pad_right);
  plan_average(pdp, plan);
  plan.destination = placed(feature_cube(plan.out_width, plan.out_height, plan.channels, plan.precision, atom), pdp,
                            PDP::D_DST_BASE_ADDR_HIGH, PDP::D_DST_BASE_ADDR_LOW, PDP::D_DST_LINE_STRIDE, PDP::D_DST_SURFACE_STRIDE);
  parts.memory.check(plan.destination, atom);
  check_port(parts.configuration, pdp, PDP::D_DST_RAM_CFG);
  if (plan.flying) return plan;
  check_port(parts.configuration, *rdma, PDP_RDMA::D_SRC_RAM_CFG);
  check_rdma(pdp, plan, *rdma, pieces);
  plan.source = placed(feature_cube(plan.width, plan.height, plan.channels, plan.precision, atom), *rdma, PDP_RDMA::D_SRC_BASE_ADDR_HIGH,
                       PDP_RDMA::D_SRC_BASE_ADDR_LOW, PDP_RDMA::D_SRC_LINE_STRIDE, PDP_RDMA::D_SRC_SURFACE_STRIDE);
  parts.memory.check(plan.source, atom);
  check_apart(plan.destination, plan.source);
  return plan;
}

void run_pdp(const Parts &parts, const PdpPlan &plan, const Map *flying) {
  const uint32_t atom = parts.configuration.atom_bytes;
  Map read;
  if (!flying) {
    read = Map(plan.height, plan.width, plan.channels, atom);
    parallel(parts.threads, plan.height, [&](std::size_t y) { read_line(parts.memory, plan.source, plan.precision, atom, read, y); });
  }
  if (plan.flushes_nan && plan.precision == kFp16) {
    if (flying) read = *flying;
    flying = nullptr;
    for (int32_t &value : read.values)
      if (Fp16::is_nan(value & 0xffff)) value = 0;
  }
  const Map &input = flying ? *flying : read;
  Map output(plan.out_height, plan.out_width, plan.channels, atom);
  parallel(parts.threads, plan.out_height, [&](std::size_t y) {
    const Span rows = window(y, plan.stride_y, plan.kernel_height, plan.pad_top, plan.height);
    for (std::size_t x = 0; x < plan.out_width; ++x) {
      const Span columns = window(x, plan.stride_x, plan.kernel_width, plan.pad_left, plan.width);
      int32_t *to = output.line(y) + x * output.lanes;
      if (plan.method != kAverage)
        extreme(plan, input, rows, columns, to);
      else if (plan.precision == kFp16)
        average_halves(plan, input, rows, columns, to);
      else
        average_integers(plan, input, rows, columns, to);
    }
    write_line(parts.memory, plan.destination, plan.precision, atom, output, y);
  });
}

}  // namespace nvdla
