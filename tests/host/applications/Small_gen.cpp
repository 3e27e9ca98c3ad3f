#include "Small_gen.h"

CSmall::CSmall() {}
CSmall::~CSmall() {}

bool CSmall::Initialize() {
  is_weight_transposed = true;
  if (!ReserveMemory(1328, 4096)) {
    return false;
  }
  set_num_layers(4);
  set_num_output_layers(2);
  Layer_0();
  Layer_1();
  Layer_2();
  Layer_3();
  return true;
}

// A 1x1 convolution of 6x4 pixels: 3 channels to 9.
void CSmall::Layer_0() {
  get_layer(0).name = "conv";
  dmp_dv_cmdraw_conv_v1 &conf = get_layer(0).conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x1;
  cmd.w = 6;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 3;
  cmd.input_circular_offset = 0x8000;
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 512;
  cmd.eltwise_buf.mem = NULL;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;
  cmd.run[0].m = 9;
  cmd.run[0].conv_enable = 1;
  cmd.run[0].p = 0x1;
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 0;
  cmd.run[0].weight_fmt = 1;
  cmd.run[0].conv_stride = 0x101;
  cmd.run[0].pool_stride = 0x101;

  fpga_layer &layer = get_layer(0);
  layer.type = LT_CONV;
  layer.input_offs = 0;
  layer.output_offs = 512;
  layer.output_size = 432;
  layer.input_dim[0] = 6;
  layer.input_dim[1] = 4;
  layer.input_dim[2] = 3;
  layer.input_dim_size = 3;
  layer.output_dim[0] = 6;
  layer.output_dim[1] = 4;
  layer.output_dim[2] = 9;
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Flatten.
void CSmall::Layer_1() {
  fpga_layer &layer = get_layer(1);
  layer.name = "flatten";
  layer.type = LT_FLATTEN;
  layer.input_offs = 512;
  layer.output_offs = 1024;
  layer.output_size = 432;
  layer.input_dim[0] = 6;
  layer.input_dim[1] = 4;
  layer.input_dim[2] = 9;
  layer.input_dim_size = 3;
  layer.output_dim[0] = 216;
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Softmax of each pixel.
void CSmall::Layer_2() {
  fpga_layer &layer = get_layer(2);
  layer.name = "prob";
  layer.type = LT_SOFTMAX;
  layer.input_offs = 1024;
  layer.output_offs = 1536;
  layer.output_size = 432;
  layer.input_dim[0] = 24;
  layer.input_dim[1] = 9;
  layer.input_dim_size = 2;
  layer.output_dim[0] = 24;
  layer.output_dim[1] = 9;
  layer.output_dim_size = 2;
  layer.is_output = true;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  layer.softmax_axis = 1;
  output_layers_[0] = &layer;
}

// A custom layer, which the application defines.
void CSmall::Layer_3() {
  fpga_layer &layer = get_layer(3);
  layer.name = "gain";
  layer.type = LT_CUSTOM;
  layer.input_offs = 512;
  layer.output_offs = 2048;
  layer.output_size = 864;
  layer.input_dim[0] = 6;
  layer.input_dim[1] = 4;
  layer.input_dim[2] = 9;
  layer.input_dim_size = 3;
  layer.output_dim[0] = 6;
  layer.output_dim[1] = 4;
  layer.output_dim[2] = 9;
  layer.output_dim_size = 3;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  static custom_param_Gain custom_param = {-2.0f};
  layer.custom_proc_ptr = &custom_callback_Gain;
  layer.custom_param = &custom_param;
  output_layers_[1] = &layer;
}
