// made by cnn-convertor 0.1.0 from m.h5, do not edit
#include "two_inputs_gen.h"

#include "two_inputs_cpu.h"

Ctwo_inputs::Ctwo_inputs() {}

Ctwo_inputs::~Ctwo_inputs() {}

bool Ctwo_inputs::Initialize() {
  if (!ReserveMemory(0, 864)) {
    return false;
  }
  set_num_layers(6);
  set_num_output_layers(1);
  Layer_0();
  Layer_1();
  Layer_2();
  Layer_3();
  Layer_4();
  Layer_5();
  return true;
}

// Layer_0: network input
//   "left" (Input)
//   6x4x8 at 0
void Ctwo_inputs::Layer_0() {
  fpga_layer &layer = get_layer(0);
  layer.name = "left";
  layer.type = LT_INPUT;
  layer.input_offs = 0;              // bytes
  layer.output_offs = 0;             // bytes
  layer.output_size = 384;           // bytes
  layer.input_dim[0] = 6;            // W
  layer.input_dim[1] = 4;            // H
  layer.input_dim[2] = 8;            // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 6;           // W
  layer.output_dim[1] = 4;           // H
  layer.output_dim[2] = 8;           // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_1: network input
//   "right" (Input)
//   6x4x8 at 384
void Ctwo_inputs::Layer_1() {
  fpga_layer &layer = get_layer(1);
  layer.name = "right";
  layer.type = LT_INPUT;
  layer.input_offs = 384;            // bytes
  layer.output_offs = 384;           // bytes
  layer.output_size = 384;           // bytes
  layer.input_dim[0] = 6;            // W
  layer.input_dim[1] = 4;            // H
  layer.input_dim[2] = 8;            // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 6;           // W
  layer.output_dim[1] = 4;           // H
  layer.output_dim[2] = 8;           // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_2: convolution block
//   "pool" (MaxPool2d)
//   6x4x8 at 0 -> 3x2x8 at 768
void Ctwo_inputs::Layer_2() {
  fpga_layer &layer = get_layer(2);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;               // runs that write to external memory
  cmd.w = 6;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 8;
  cmd.input_circular_offset = 0x0000;  // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 768;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;
  cmd.run[0].m = 8;                     // output channels
  cmd.run[0].conv_enable = 0;
  cmd.run[0].p = 0x0101;
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = nullptr;
  cmd.run[0].weight_buf.offs = 0;
  cmd.run[0].weight_fmt = 0;
  cmd.run[0].conv_pad = 0x00000000;
  cmd.run[0].conv_stride = 0x0101;
  cmd.run[0].conv_dilation = 0x0000;
  cmd.run[0].pool_enable = 1;           // max
  cmd.run[0].pool_size = 0x0202;        // 2x2 (width x height)
  cmd.run[0].pool_stride = 0x0202;      // 2x2
  cmd.run[0].pool_pad = 0x00000000;     // left 0, right 0, top 0, bottom 0
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "pool";
  layer.type = LT_CONV;
  layer.input_offs = 0;              // bytes
  layer.output_offs = 768;           // bytes
  layer.output_size = 96;            // bytes
  layer.input_dim[0] = 6;            // W
  layer.input_dim[1] = 4;            // H
  layer.input_dim[2] = 8;            // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 3;           // W
  layer.output_dim[1] = 2;           // H
  layer.output_dim[2] = 8;           // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_3: convolution block
//   "gate" (MaxPool2d)
//   6x4x8 at 384 -> 3x2x8 at 0
void Ctwo_inputs::Layer_3() {
  fpga_layer &layer = get_layer(3);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;               // runs that write to external memory
  cmd.w = 6;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 8;
  cmd.input_circular_offset = 0x0000;  // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 384;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;
  cmd.run[0].m = 8;                     // output channels
  cmd.run[0].conv_enable = 0;
  cmd.run[0].p = 0x0101;
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = nullptr;
  cmd.run[0].weight_buf.offs = 0;
  cmd.run[0].weight_fmt = 0;
  cmd.run[0].conv_pad = 0x00000000;
  cmd.run[0].conv_stride = 0x0101;
  cmd.run[0].conv_dilation = 0x0000;
  cmd.run[0].pool_enable = 1;           // max
  cmd.run[0].pool_size = 0x0202;        // 2x2 (width x height)
  cmd.run[0].pool_stride = 0x0202;      // 2x2
  cmd.run[0].pool_pad = 0x00000000;     // left 0, right 0, top 0, bottom 0
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "gate";
  layer.type = LT_CONV;
  layer.input_offs = 384;            // bytes
  layer.output_offs = 0;             // bytes
  layer.output_size = 96;            // bytes
  layer.input_dim[0] = 6;            // W
  layer.input_dim[1] = 4;            // H
  layer.input_dim[2] = 8;            // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 3;           // W
  layer.output_dim[1] = 2;           // H
  layer.output_dim[2] = 8;           // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_4: Multiply, on the CPU
//   "product" (Combine)
//   3x2x8 at 768, 3x2x8 at 0 -> 3x2x8 at 192
void Ctwo_inputs::Layer_4() {
  fpga_layer &layer = get_layer(4);
  layer.name = "product";
  layer.type = LT_CUSTOM;
  layer.input_offs = 768;           // bytes
  layer.output_offs = 192;          // bytes
  layer.output_size = 96;           // bytes
  layer.input_dim[0] = 3;           // W
  layer.input_dim[1] = 2;           // H
  layer.input_dim[2] = 8;           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 3;          // W
  layer.output_dim[1] = 2;          // H
  layer.output_dim[2] = 8;          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = two_inputs_cpu::Layer_4;
  inputs_of_layer_4_[0] = &get_layer(2);
  inputs_of_layer_4_[1] = &get_layer(3);
  layer.input_layer_num = 2;
  layer.input_layers = inputs_of_layer_4_;
}

// Layer_5: softmax, on the CPU
//   "scores" (Softmax)
//   3x2x8 at 192 -> 3x2x8 at 0
void Ctwo_inputs::Layer_5() {
  fpga_layer &layer = get_layer(5);
  layer.name = "scores";
  layer.type = LT_SOFTMAX;
  layer.input_offs = 192;           // bytes
  layer.output_offs = 0;            // bytes
  layer.output_size = 192;          // bytes
  layer.input_dim[0] = 3;           // W
  layer.input_dim[1] = 2;           // H
  layer.input_dim[2] = 8;           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 3;          // W
  layer.output_dim[1] = 2;          // H
  layer.output_dim[2] = 8;          // C
  layer.output_dim_size = 3;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  layer.softmax_axis = -1;          // channels
  output_layers_[0] = &layer;
}
