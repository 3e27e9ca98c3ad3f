// made by cnn-convertor 0.2.0 from digits.onnx, do not edit
#include "digits_pytorch_gen.h"

#include "digits_pytorch_cpu.h"

// Sizes are height x width x channels, or height x width.
//
// Values of the registers:
//   topo: bit i is 1 if run i writes to external memory, and 0 if run i + 1 reads its output
//   conv_enable: 0 off, 1 convolution, 3 depthwise, 5 deconvolution, 7 depthwise deconvolution
//   weight_fmt: 0 none, 1 FP16, 3 8-bit palette
//   pool_enable: 0 off, 1 max, 2 average, 4 upsample
//   actfunc: 0 none, 1 Tanh, 2 Relu, 3 Sigmoid, 4 PRelu, 5 Elu, 6 Relu6

bool Cdigits_pytorch::Initialize() {
  is_weight_transposed = true;
  if (!ReserveMemory(20916, 2304)) {
    return false;
  }
  set_num_layers(19);
  set_num_output_layers(1);
  Layer_0();
  Layer_1();
  Layer_2();
  Layer_3();
  Layer_4();
  Layer_5();
  Layer_6();
  Layer_7();
  Layer_8();
  Layer_9();
  Layer_10();
  Layer_11();
  Layer_12();
  Layer_13();
  Layer_14();
  Layer_15();
  Layer_16();
  Layer_17();
  Layer_18();
  return true;
}

// Layer_0: transpose, on the CPU
//   "cat" (Focus)
//   8x8x1 at 0 -> 4x4x4 at 128
void Cdigits_pytorch::Layer_0() {
  fpga_layer &layer = get_layer(0);
  layer.name = "cat";
  layer.type = LT_CUSTOM;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 128;                          // bytes
  layer.output_size = 128;                          // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 1;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 4;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_0;
}

// Layer_1: convolution block
//   "getitem" (Conv)
//   4x4x4 at 128 -> 4x4x16 at 1088
void Cdigits_pytorch::Layer_1() {
  fpga_layer &layer = get_layer(1);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 4;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 128;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 1088;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "getitem" (Conv)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 0;                   // 2336 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x01010101;                 // left 1, right 1, top 1, bottom 1
  cmd.run[0].conv_stride = 0x0101;                  // 1x1
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "getitem";
  layer.type = LT_CONV;
  layer.input_offs = 128;                           // bytes
  layer.output_offs = 1088;                         // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 4;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_2: swish, on the CPU
//   "silu" (Swish)
//   4x4x16 at 1088 -> 4x4x16 at 1088
void Cdigits_pytorch::Layer_2() {
  fpga_layer &layer = get_layer(2);
  layer.name = "silu";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1088;                          // bytes
  layer.output_offs = 1088;                         // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_2;
}

// Layer_3: convolution block
//   "getitem_3" (Conv)
//   4x4x16 at 1088 -> 4x4x16 at 1600
void Cdigits_pytorch::Layer_3() {
  fpga_layer &layer = get_layer(3);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 1088;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 1600;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "getitem_3" (Conv)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 3;                       // depthwise
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 2336;                // 2336 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x01010101;                 // left 1, right 1, top 1, bottom 1
  cmd.run[0].conv_stride = 0x0101;                  // 1x1
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "getitem_3";
  layer.type = LT_CONV;
  layer.input_offs = 1088;                          // bytes
  layer.output_offs = 1600;                         // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_4: hard swish, average pool 4x4, on the CPU
//   "hardswish" (HardSwish)
//   "mean" (ReduceMean)
//   4x4x16 at 1600 -> 272 at 0
void Cdigits_pytorch::Layer_4() {
  fpga_layer &layer = get_layer(4);
  layer.name = "hardswish/with its average";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1600;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 1088;                         // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 272;                        // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_4;
}

// Layer_5: fully connected, on the CPU
//   "conv2d_2" (Conv)
//   "relu" (Relu)
//   16 at 1024 -> 4 at 1664
void Cdigits_pytorch::Layer_5() {
  fpga_layer &layer = get_layer(5);
  layer.name = "relu/linear";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1024;                          // bytes
  layer.output_offs = 1664;                         // bytes
  layer.output_size = 16;                           // bytes
  layer.input_dim[0] = 16;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 4;                          // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_5;
  layer.custom_param = weights_mem_;
}

// Layer_6: clip, on the CPU
//   "conv2d_2" (Conv)
//   "relu" (Relu)
//   4 at 1664 -> 4 at 1664
void Cdigits_pytorch::Layer_6() {
  fpga_layer &layer = get_layer(6);
  layer.name = "relu";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1664;                          // bytes
  layer.output_offs = 1664;                         // bytes
  layer.output_size = 16;                           // bytes
  layer.input_dim[0] = 4;                           // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 4;                          // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_6;
}

// Layer_7: fully connected, on the CPU
//   "conv2d_3" (Conv)
//   "hardsigmoid" (HardSigmoid)
//   4 at 1664 -> 16 at 1600
void Cdigits_pytorch::Layer_7() {
  fpga_layer &layer = get_layer(7);
  layer.name = "hardsigmoid/clipped/linear";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1664;                          // bytes
  layer.output_offs = 1600;                         // bytes
  layer.output_size = 64;                           // bytes
  layer.input_dim[0] = 4;                           // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 16;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_7;
  layer.custom_param = weights_mem_;
}

// Layer_8: clip, on the CPU
//   "conv2d_3" (Conv)
//   "hardsigmoid" (HardSigmoid)
//   16 at 1600 -> 16 at 1600
void Cdigits_pytorch::Layer_8() {
  fpga_layer &layer = get_layer(8);
  layer.name = "hardsigmoid/clipped";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1600;                          // bytes
  layer.output_offs = 1600;                         // bytes
  layer.output_size = 64;                           // bytes
  layer.input_dim[0] = 16;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 16;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_8;
}

// Layer_9: scale, on the CPU
//   "hardsigmoid" (HardSigmoid)
//   16 at 1600 -> 16 at 2112
void Cdigits_pytorch::Layer_9() {
  fpga_layer &layer = get_layer(9);
  layer.name = "hardsigmoid";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1600;                          // bytes
  layer.output_offs = 2112;                         // bytes
  layer.output_size = 64;                           // bytes
  layer.input_dim[0] = 16;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 16;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_9;
  layer.custom_param = weights_mem_;
}

// Layer_10: x * y, on the CPU
//   "mul" (Mul)
//   4x4x16 at 0, 16 at 2112 -> 4x4x16 at 1600
void Cdigits_pytorch::Layer_10() {
  fpga_layer &layer = get_layer(10);
  layer.name = "mul";
  layer.type = LT_CUSTOM;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 1600;                         // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_10;
}

// Layer_11: convolution block
//   "getitem_6" (Conv)
//   "add" (Add)
//   4x4x16 at 1600, 4x4x16 at 1088 -> 4x4x16 at 0
void Cdigits_pytorch::Layer_11() {
  fpga_layer &layer = get_layer(11);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 1600;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = io_mem_;
  cmd.eltwise_buf.offs = 1088;
  cmd.output_mode = 1;                              // adds eltwise_buf

  // "getitem_6" (Conv)
  // "add" (Add)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 4672;                // 2336 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x00000000;                 // left 0, right 0, top 0, bottom 0
  cmd.run[0].conv_stride = 0x0101;                  // 1x1
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "add";
  layer.type = LT_CONV;
  layer.input_offs = 1600;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_12: convolution block
//   "conv2d_5" (Conv)
//   4x4x16 at 0 -> 4x4x8 at 1536
void Cdigits_pytorch::Layer_12() {
  fpga_layer &layer = get_layer(12);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 1536;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "conv2d_5" (Conv)
  cmd.run[0].m = 8;                                 // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 7008;                // 1168 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x00000000;                 // left 0, right 0, top 0, bottom 0
  cmd.run[0].conv_stride = 0x0101;                  // 1x1
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "conv2d_5";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 1536;                         // bytes
  layer.output_size = 256;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 8;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_13: convolution block
//   "conv2d_6" (Conv)
//   "prelu" (PRelu)
//   4x4x16 at 0 -> 4x4x16 at 1792
void Cdigits_pytorch::Layer_13() {
  fpga_layer &layer = get_layer(13);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 1792;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "conv2d_6" (Conv)
  // "prelu" (PRelu)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 8176;                // 4672 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x01010101;                 // left 1, right 1, top 1, bottom 1
  cmd.run[0].conv_stride = 0x0101;                  // 1x1
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 4;                           // PRelu
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "prelu";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 1792;                         // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_14: gelu, on the CPU
//   "gelu" (Gelu)
//   4x4x8 at 1536 -> 4x4x8 at 1536
void Cdigits_pytorch::Layer_14() {
  fpga_layer &layer = get_layer(14);
  layer.name = "gelu";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1536;                          // bytes
  layer.output_offs = 1536;                         // bytes
  layer.output_size = 256;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 8;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 8;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_14;
}

// Layer_15: transpose, on the CPU
//   "transpose" (Transpose)
//   "view_1" (Reshape)
//   4x4x24 at 1536 -> 384 at 0
void Cdigits_pytorch::Layer_15() {
  fpga_layer &layer = get_layer(15);
  layer.name = "view_1";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1536;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 1536;                         // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 24;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 384;                        // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_15;
}

// Layer_16: fully connected, on the CPU
//   "linear" (Gemm)
//   384 at 0 -> 10 at 1536
void Cdigits_pytorch::Layer_16() {
  fpga_layer &layer = get_layer(16);
  layer.name = "linear";
  layer.type = LT_CUSTOM;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 1536;                         // bytes
  layer.output_size = 40;                           // bytes
  layer.input_dim[0] = 384;                         // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_16;
  layer.custom_param = weights_mem_;
}

// Layer_17: softmax, on the CPU
//   "digit" (Softmax)
//   10 at 1536 -> 10 at 0
void Cdigits_pytorch::Layer_17() {
  fpga_layer &layer = get_layer(17);
  layer.name = "digit";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1536;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 40;                           // bytes
  layer.input_dim[0] = 10;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  layer.custom_proc_ptr = Cdigits_pytorch_cpu::Layer_17;
  output_layers_[0] = &layer;
}

// Layer_18: concatenation, in place
//   "cat_1" (Concat)
//   4x4x8 at 1536, 4x4x16 at 1792 -> 4x4x24 at 1536
void Cdigits_pytorch::Layer_18() {
  fpga_layer &layer = get_layer(18);
  layer.name = "cat_1";
  layer.type = LT_CONCAT;
  layer.input_offs = 1536;                          // bytes
  layer.output_offs = 1536;                         // bytes
  layer.output_size = 768;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 8;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 24;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  inputs_of_layer_18_[0] = &get_layer(14);
  inputs_of_layer_18_[1] = &get_layer(13);
  layer.input_layer_num = 2;
  layer.input_layers = inputs_of_layer_18_;
}
