// Maps are 4 wide and 3 high. The environment says in which order they lie, and what is wrong with the network.
#include "network_gen.h"

#include <cstdlib>
#include <cstring>

namespace {

bool is_transposed() { return std::getenv("NETWORK_TRANSPOSED") != nullptr; }

// True for the fault that NETWORK_FAULT asks for.
bool has(const char *fault) {
  const char *asked = std::getenv("NETWORK_FAULT");
  return asked && std::strcmp(asked, fault) == 0;
}

// Byte offsets in the I/O memory; some bytes in front of each map stay unused.
const std::size_t kData = 32, kExtra = 256, kConv = 512, kJoined = 1024, kFlat = 1536, kPixels = 1824, kSoftmax = 2112;
const std::size_t kNegated = 3072, kRows = 3712, kUnused = 4096;

void set_dims(int *dim, int *size, int channels) {
  dim[0] = 4;
  dim[1] = 3;
  dim[2] = channels;
  *size = 3;
}

}  // namespace

CNetwork::CNetwork() {}
CNetwork::~CNetwork() {}

bool CNetwork::Initialize() {
  is_weight_transposed = is_transposed();
  if (!ReserveMemory(1168, 4608)) return false;
  set_num_layers(9);
  set_num_output_layers(4);
  Layer_0();
  Layer_1();
  Layer_2();
  Layer_3();
  Layer_4();
  Layer_5();
  Layer_6();
  Layer_7();
  Layer_8();
  return true;
}

// data: 8 channels
void CNetwork::Layer_0() {
  fpga_layer &layer = get_layer(0);
  layer.name = "data";
  layer.type = LT_INPUT;
  layer.input_offs = layer.output_offs = kData;
  layer.output_size = 192;
  set_dims(layer.input_dim, &layer.input_dim_size, 8);
  set_dims(layer.output_dim, &layer.output_dim_size, 8);
}

// extra: 3 channels
void CNetwork::Layer_1() {
  fpga_layer &layer = get_layer(1);
  layer.name = "extra";
  layer.type = LT_INPUT;
  layer.input_offs = layer.output_offs = kExtra;
  layer.output_size = 72;
  set_dims(layer.input_dim, &layer.input_dim_size, 3);
  set_dims(layer.output_dim, &layer.output_dim_size, 3);
}

// conv: 3x3, padding 1, from data
void CNetwork::Layer_2() {
  fpga_layer &layer = get_layer(2);
  layer.name = "conv";
  layer.type = LT_CONV;
  layer.input_offs = kData;
  layer.output_offs = kConv;
  layer.output_size = 192;
  set_dims(layer.input_dim, &layer.input_dim_size, 8);
  set_dims(layer.output_dim, &layer.output_dim_size, 8);
  layer.is_input_hw_layout = true;
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  conf.conv_cmd.header.size = sizeof(conf.conv_cmd);
  conf.conv_cmd.header.device_type = DMP_DV_DEV_CONV;
  conf.conv_cmd.header.version = 0;
  conf.conv_cmd.topo = 1;
  conf.conv_cmd.w = 4;
  conf.conv_cmd.h = 3;
  conf.conv_cmd.z = 1;
  conf.conv_cmd.c = 8;
  conf.conv_cmd.input_circular_offset = is_transposed() ? 0x8000 : 0;
  conf.conv_cmd.input_buf.mem = io_mem_;
  conf.conv_cmd.input_buf.offs = has("uninitialized") ? kUnused : kData;
  conf.conv_cmd.output_buf.mem = io_mem_;
  conf.conv_cmd.output_buf.offs = kConv;
  conf.conv_cmd.run[0].m = 8;
  conf.conv_cmd.run[0].conv_enable = 1;
  conf.conv_cmd.run[0].p = has("kernel") ? 0x0909 : 0x0303;
  conf.conv_cmd.run[0].pz = 1;
  conf.conv_cmd.run[0].weight_buf.mem = weights_mem_;
  conf.conv_cmd.run[0].weight_fmt = 1;
  conf.conv_cmd.run[0].conv_pad = 0x01010101;
  conf.conv_cmd.run[0].conv_stride = 0x0101;
  conf.conv_cmd.run[0].pool_stride = 0x0101;
}

// joined: conv, then extra
void CNetwork::Layer_3() {
  fpga_layer &layer = get_layer(3);
  layer.name = "joined";
  layer.type = LT_COPY_CONCAT;
  layer.output_offs = kJoined;
  layer.output_size = 264;
  set_dims(layer.output_dim, &layer.output_dim_size, 11);
  layer.is_input_hw_layout = true;
  inputs_of_layer_3_[0] = &get_layer(2);
  inputs_of_layer_3_[1] = &get_layer(1);
  layer.input_layer_num = 2;
  layer.input_layers = inputs_of_layer_3_;
}

// flat: joined in HWC order
void CNetwork::Layer_4() {
  fpga_layer &layer = get_layer(4);
  layer.name = "flat";
  layer.type = LT_FLATTEN;
  layer.input_offs = kJoined;
  layer.output_offs = kFlat;
  layer.output_size = 264;
  set_dims(layer.input_dim, &layer.input_dim_size, 11);
  layer.output_dim[0] = has("size") ? 131 : 132;
  layer.output_dim_size = 1;
  if (has("size")) layer.output_size = 262;
  layer.is_input_hw_layout = true;
  layer.is_output = true;
  output_layers_[0] = &layer;
}

// pixels: the same, for the softmax to overwrite
void CNetwork::Layer_5() {
  fpga_layer &layer = get_layer(5);
  layer.name = "pixels";
  layer.type = LT_FLATTEN;
  layer.input_offs = kJoined;
  layer.output_offs = kPixels;
  layer.output_size = 264;
  set_dims(layer.input_dim, &layer.input_dim_size, 11);
  layer.output_dim[0] = 132;
  layer.output_dim_size = 1;
  layer.is_input_hw_layout = true;
}

// softmax: of pixels, over the channels
void CNetwork::Layer_6() {
  fpga_layer &layer = get_layer(6);
  layer.name = "softmax";
  layer.type = LT_SOFTMAX;
  layer.input_offs = kPixels;
  layer.output_offs = kSoftmax;
  layer.output_size = 264;
  layer.input_dim[0] = 12;
  layer.input_dim[1] = 11;
  layer.input_dim_size = 2;
  set_dims(layer.output_dim, &layer.output_dim_size, 11);
  layer.softmax_axis = has("axis") ? 3 : 1;
  layer.is_input_hw_layout = true;
  layer.is_output = true;
  output_layers_[1] = &layer;
}

// negated: softmax times -2, by a custom layer
void CNetwork::Layer_7() {
  fpga_layer &layer = get_layer(7);
  if (has("crash")) layer.name = std::string("short");
  layer.name = "negated";
  layer.type = LT_CUSTOM;
  layer.input_offs = kSoftmax;
  layer.output_offs = kNegated;
  layer.output_size = 528;
  set_dims(layer.input_dim, &layer.input_dim_size, 11);
  set_dims(layer.output_dim, &layer.output_dim_size, 11);
  layer.is_f32_output = true;
  layer.is_output = true;
  static custom_param_Negate param = {-2.0f};
  layer.custom_param = &param;
  layer.custom_proc_ptr = custom_callback_Negate;
  if (has("union")) layer.input_layer_num = 2;
  output_layers_[2] = &layer;
}

// rows: softmax of conv, which has one chunk, over its height
void CNetwork::Layer_8() {
  fpga_layer &layer = get_layer(8);
  layer.name = "rows";
  layer.type = LT_SOFTMAX;
  layer.input_offs = kConv;
  layer.output_offs = kRows;
  layer.output_size = 192;
  set_dims(layer.input_dim, &layer.input_dim_size, 8);
  if (is_transposed()) std::swap(layer.input_dim[0], layer.input_dim[1]);
  set_dims(layer.output_dim, &layer.output_dim_size, 8);
  layer.softmax_axis = is_transposed() ? 0 : 1;
  layer.is_input_hw_layout = true;
  layer.is_output = true;
  output_layers_[3] = &layer;
}

void custom_callback_Negate(fpga_layer &layer, void *custom_param, uint8_t *io_ptr) {
  std::vector<float> values;
  get_layer_input(layer, values, io_ptr);
  for (float &value : values) value *= static_cast<custom_param_Negate *>(custom_param)->scale;
  put_layer_output(layer, values, io_ptr);
}
