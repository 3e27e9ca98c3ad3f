/* Uses every constant and every function of the driver's interface, as an application for the board does; C11 and C++11.
 *
 * The image unit draws a frame, a convolution exchanges its channels, and the maximizer names each pixel's largest one;
 * then the image unit colors these classes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dmp_dv.h"
#include "dmp_dv_cmdraw_v0.h"
#include "dmp_dv_cmdraw_v1.h"

enum { kWidth = 3, kHeight = 2, kChannels = 3, kPixels = kWidth * kHeight };

/* Bytes from the start of the memory. */
enum { kFrame = 0, kColors = 64, kMap = 128, kScores = 256, kClasses = 384, kWeights = 512, kSize = 1024 };

static int failures = 0;

static void expect(int is_good, const char *what, int line) {
  if (is_good) return;
  ++failures;
  fprintf(stderr, "line %d: %s; last error: %s\n", line, what, dmp_dv_get_last_error_message());
}

#define EXPECT(condition) expect((condition), #condition, __LINE__)

static struct dmp_dv_cmdraw header(size_t size, uint8_t device_type, uint8_t version) {
  struct dmp_dv_cmdraw raw;
  memset(&raw, 0, sizeof(raw));
  raw.size = (uint32_t)size;
  raw.device_type = device_type;
  raw.version = version;
  return raw;
}

static struct dmp_dv_buf place(dmp_dv_mem mem, uint64_t offs) {
  struct dmp_dv_buf buf;
  memset(&buf, 0, sizeof(buf));
  buf.mem = mem;
  buf.offs = offs;
  return buf;
}

/* Draws an image of the frame's size. */
static struct dmp_dv_cmdraw_ipu_v0 drawing(dmp_dv_mem mem, uint64_t from, uint8_t from_format, uint64_t to, uint8_t to_format) {
  struct dmp_dv_cmdraw_ipu_v0 command;
  memset(&command, 0, sizeof(command));
  command.header = header(sizeof(command), DMP_DV_DEV_IPU, 0);
  command.tex = place(mem, from);
  command.wr = place(mem, to);
  command.fmt_tex = from_format;
  command.fmt_wr = to_format;
  command.tex_width = command.rect_width = kWidth;
  command.tex_height = command.rect_height = kHeight;
  command.stride_wr = kWidth * kChannels;
  command.use_tex = 1;
  command.gidx = 1;
  command.bidx = 2;
  command.aidx = 3;
  if (to_format == DMP_DV_RGBFP16) { /* a map in the device's order: column by column */
    command.transpose = 1;
    command.stride_wr = kHeight * kChannels * 2;
  }
  return command;
}

/* A command of one run from the map to the scores. */
static struct dmp_dv_cmdraw_conv_v0 convolution(dmp_dv_mem mem) {
  struct dmp_dv_cmdraw_conv_v0 command;
  memset(&command, 0, sizeof(command));
  command.header = header(sizeof(command), DMP_DV_DEV_CONV, 0);
  command.input_buf = place(mem, kMap);
  command.output_buf = place(mem, kScores);
  command.topo = 1;
  command.w = kWidth;
  command.h = kHeight;
  command.z = 1;
  command.c = command.run[0].m = kChannels;
  command.run[0].conv_stride = command.run[0].pool_stride = 0x0101;
  return command;
}

static void errors_have_texts(void) {
  int parts[3];
  EXPECT(sscanf(dmp_dv_get_version_string(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]) == 3);
  dmp_dv_set_last_error_message("%s %d", "layer", 7);
  EXPECT(strcmp(dmp_dv_get_last_error_message(), "layer 7") == 0);
}

static void the_device_describes_itself(dmp_dv_context context) {
  struct dmp_dv_info_v0 info;
  int block;
  memset(&info, 0, sizeof(info));
  info.header.size = sizeof(info);
  info.header.version = 0;
  EXPECT(dmp_dv_context_get_info(context, &info.header) == 0);
  EXPECT(info.ub_size > 0 && info.max_kernel_size == 7);
  EXPECT(strlen(dmp_dv_context_get_info_string(context)) > 0);
  for (block = DMP_DV_DEV_CONV; block < DMP_DV_DEV_COUNT; ++block)
    EXPECT(dmp_dv_device_exists(context, block) == (block != DMP_DV_DEV_FC));
  EXPECT(dmp_dv_fpga_device_exists(context, DMP_DV_DEV_MAXIMIZER) == 1);
  EXPECT(dmp_dv_fpga_device_exists(context, DMP_DV_DEV_IPU) == 1);
}

/* Kernel m copies channel (m + 1) % 3. */
static void pack_weights(uint8_t *packed, size_t room) {
  static const uint16_t weights[kChannels][kChannels] = {{0, 0x3c00, 0}, {0, 0, 0x3c00}, {0x3c00, 0, 0}};
  static const uint16_t bias[kChannels] = {0, 0, 0};
  uint8_t other[512];
  size_t size = 0, other_size = sizeof(other);
  EXPECT(dmp_dv_pack_conv_weights(kChannels, 1, 1, kChannels, NULL, weights, bias, NULL, NULL, &size) == 0);
  EXPECT(size > 0 && size <= room);
  EXPECT(dmp_dv_pack_conv_weights(kChannels, 1, 1, kChannels, NULL, weights, bias, NULL, packed, &size) == 0);
  EXPECT(dmp_dv_pack_dil_weights(kChannels, 1, 1, kChannels, NULL, weights, bias, NULL, other, &other_size) == 0);
  EXPECT(other_size == size && memcmp(other, packed, size) == 0); /* a dilated kernel of one tap is an ordinary one */
  other_size = 0;
  EXPECT(dmp_dv_pack_fc_weights(kChannels, 1, 1, kChannels, 1, 1, NULL, weights, bias, NULL, &other_size) == 0);
  EXPECT(other_size == 48); /* 9 weights, and 3 biases, each rounded up to 16 bytes */
}

static int run(dmp_dv_cmdlist list) {
  const int64_t id = dmp_dv_cmdlist_exec(list);
  return id >= 0 && dmp_dv_cmdlist_wait(list, id) == 0 && dmp_dv_cmdlist_get_last_exec_time(list) >= 0;
}

/* The channel of a pixel that the frame sets. */
static int channel_of(int y, int x) { return (2 * y + x) % kChannels; }

static void a_frame_becomes_classes(dmp_dv_context context, dmp_dv_mem mem, uint8_t *data) {
  const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(context);
  struct dmp_dv_cmdraw_ipu_v0 draw = drawing(mem, kFrame, DMP_DV_RGBA8888, kMap, DMP_DV_RGBFP16);
  struct dmp_dv_cmdraw_conv_v0 convolve = convolution(mem);
  struct dmp_dv_cmdraw_maximizer_v0 maximize;
  struct dmp_dv_cmdraw_fc_v0 connect;
  int y, x;
  EXPECT(dmp_dv_mem_sync_start(mem, 0, 1) == 0);
  memset(data, 0, kSize);
  for (y = 0; y < kHeight; ++y)
    for (x = 0; x < kWidth; ++x) data[kFrame + 4 * (y * kWidth + x) + channel_of(y, x)] = 255;
  pack_weights(data + kWeights, kSize - kWeights);
  EXPECT(dmp_dv_mem_sync_end(mem) == 0);

  draw.cnv_type = DMP_DV_CNV_FP16_DIV_255;
  EXPECT(dmp_dv_cmdlist_add_raw(list, &draw.header) == 0);
  convolve.run[0].conv_enable = convolve.run[0].weight_fmt = 1;
  convolve.run[0].p = 0x0101;
  convolve.run[0].pz = 1;
  convolve.run[0].weight_buf = place(mem, kWeights);
  EXPECT(dmp_dv_cmdlist_add_raw(list, &convolve.header) == 0);
  memset(&maximize, 0, sizeof(maximize));
  maximize.header = header(sizeof(maximize), DMP_DV_DEV_MAXIMIZER, 0);
  maximize.input_buf = place(mem, kScores);
  maximize.output_buf = place(mem, kClasses);
  maximize.width = kWidth;
  maximize.height = kHeight;
  maximize.nclass = kChannels;
  EXPECT(dmp_dv_cmdlist_add_raw(list, &maximize.header) == 0);
  memset(&connect, 0, sizeof(connect));
  connect.header = header(sizeof(connect), DMP_DV_DEV_FC, 0);
  EXPECT(dmp_dv_cmdlist_add_raw(list, &connect.header) != 0); /* the device has no such block */
  EXPECT(dmp_dv_cmdlist_commit(list) == 0 && run(list));

  EXPECT(dmp_dv_mem_to_cpu(mem, kClasses, kPixels, 0) == 0);
  for (y = 0; y < kHeight; ++y)
    for (x = 0; x < kWidth; ++x)
      EXPECT(data[kClasses + x * kHeight + y] == (channel_of(y, x) + kChannels - 1) % kChannels);
  EXPECT(dmp_dv_cmdlist_retain(list) == 2);
  EXPECT(dmp_dv_cmdlist_release(list) == 1);
  EXPECT(dmp_dv_cmdlist_release(list) == 0);
}

static void classes_become_colors(dmp_dv_context context, dmp_dv_mem mem, uint8_t *data) {
  static const uint8_t colors[kChannels][kChannels] = {{1, 2, 3}, {2, 3, 5}, {3, 5, 1}};
  static const uint16_t halves[6] = {0, 0, 0x3c00, 0x4000, 0, 0x4400}; /* of a number less 1 */
  const dmp_dv_cmdlist list = dmp_dv_cmdlist_create(context);
  struct dmp_dv_cmdraw_ipu_v0 color = drawing(mem, kFrame, DMP_DV_LUT, kColors, DMP_DV_RGB888);
  struct dmp_dv_cmdraw_ipu_v0 draw = drawing(mem, kColors, DMP_DV_RGB888, kMap, DMP_DV_RGBFP16);
  struct dmp_dv_cmdraw_conv_v1 copy;
  int y, x, i;
  for (i = 0; i < kPixels; ++i) data[kFrame + i] = (uint8_t)(i % kChannels);
  EXPECT(dmp_dv_mem_to_device(mem, kFrame, kPixels, DMP_DV_MEM_CPU_WONT_READ) == 0);
  EXPECT(dmp_dv_mem_to_device(mem, kColors, kWeights - kColors, DMP_DV_MEM_CPU_WONT_READ | DMP_DV_MEM_AS_DEV_OUTPUT) == 0);

  color.ncolor_lut = kChannels;
  for (i = 0; i < kChannels; ++i) color.lut[i] = colors[i][0] | (uint32_t)colors[i][1] << 8 | (uint32_t)colors[i][2] << 16;
  EXPECT(dmp_dv_cmdlist_add_raw(list, &color.header) == 0);
  draw.cnv_type = DMP_DV_CNV_FP16_SUB;
  memset(draw.cnv_param, 1, sizeof(draw.cnv_param));
  EXPECT(dmp_dv_cmdlist_add_raw(list, &draw.header) == 0);
  memset(&copy, 0, sizeof(copy));
  copy.header = header(sizeof(copy), DMP_DV_DEV_CONV, 1);
  copy.conv_cmd = convolution(mem);
  copy.conv_cmd.run[0].pool_enable = 2; /* an average of one value */
  copy.conv_cmd.run[0].pool_size = 0x0101;
  copy.conv_cmd.run[0].pool_avg_param = 0x3c00;
  EXPECT(dmp_dv_cmdlist_add_raw(list, &copy.header) == 0);
  EXPECT(dmp_dv_cmdlist_commit(list) == 0 && run(list));

  EXPECT(dmp_dv_mem_to_cpu(mem, kScores, kPixels * kChannels * 2, DMP_DV_MEM_CPU_HADNT_READ) == 0);
  EXPECT(dmp_dv_mem_to_cpu(mem, kColors, kPixels * kChannels, 0) == 0);
  for (y = 0; y < kHeight; ++y)
    for (x = 0; x < kWidth; ++x)
      for (i = 0; i < kChannels; ++i) {
        const int pixel = y * kWidth + x;
        const uint8_t value = colors[pixel % kChannels][i];
        EXPECT(data[kColors + pixel * kChannels + i] == value);
        EXPECT(memcmp(data + kScores + 2 * ((x * kHeight + y) * kChannels + i), &halves[value], 2) == 0);
      }
  EXPECT(dmp_dv_cmdlist_release(list) == 0);
}

int main(void) {
  const int64_t before = dmp_dv_mem_get_total_size();
  const dmp_dv_context context = dmp_dv_context_create();
  const dmp_dv_mem mem = dmp_dv_mem_alloc(context, kSize);
  uint8_t *data;
  EXPECT(context && mem);
  EXPECT(dmp_dv_context_retain(context) == 2);
  EXPECT(dmp_dv_context_release(context) == 1);
  EXPECT(dmp_dv_mem_retain(mem) == 2);
  EXPECT(dmp_dv_mem_release(mem) == 1);
  EXPECT(dmp_dv_mem_get_size(mem) >= kSize);
  EXPECT(dmp_dv_mem_get_total_size() >= before + kSize);
  EXPECT(dmp_dv_mem_sync_start(mem, 1, 1) == EINVAL); /* not mapped */
  data = dmp_dv_mem_map(mem);
  EXPECT(data != NULL);
  EXPECT(dmp_dv_mem_sync_start(mem, 0, 0) == EINVAL);
  if (failures) return 1;

  errors_have_texts();
  the_device_describes_itself(context);
  a_frame_becomes_classes(context, mem, data);
  classes_become_colors(context, mem, data);

  dmp_dv_mem_unmap(mem);
  EXPECT(dmp_dv_mem_release(mem) == 0);
  EXPECT(dmp_dv_mem_get_total_size() == before);
  EXPECT(dmp_dv_context_release(context) == 0);
  return failures != 0;
}
