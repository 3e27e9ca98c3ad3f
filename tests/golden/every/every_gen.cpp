// made by cnn-convertor 1.2.3 from net.h5, do not edit
#include "every_gen.h"

#include <cmath>

#include "every_cpu.h"

// Sizes are height x width x channels, or height x width.
//
// Values of the registers:
//   topo: bit i is 1 if run i writes to external memory, and 0 if run i + 1 reads its output
//   conv_enable: 0 off, 1 convolution, 3 depthwise, 5 deconvolution, 7 depthwise deconvolution
//   weight_fmt: 0 none, 1 FP16, 3 8-bit palette
//   pool_enable: 0 off, 1 max, 2 average, 4 upsample
//   actfunc: 0 none, 1 Tanh, 2 Relu, 3 Sigmoid, 4 PRelu, 5 Elu, 6 Relu6

bool Cevery::Initialize() {
  is_weight_transposed = true;
  if (!ReserveMemory(33312, 4096)) {
    return false;
  }
  set_num_layers(14);
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
  Layer_9();
  Layer_10();
  Layer_11();
  Layer_12();
  Layer_13();
  return true;
}

// Layer_0: network input
//   "image" (Input)
//   8x8x3 at 0
void Cevery::Layer_0() {
  fpga_layer &layer = get_layer(0);
  layer.name = "image";
  layer.type = LT_INPUT;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 384;                          // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 3;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 3;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_1: network input
//   "mask" (Input)
//   8x8x8 at 1024
void Cevery::Layer_1() {
  fpga_layer &layer = get_layer(1);
  layer.name = "mask";
  layer.type = LT_INPUT;
  layer.input_offs = 1024;                          // bytes
  layer.output_offs = 1024;                         // bytes
  layer.output_size = 1024;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 8;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 8;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_2: convolution block
//   "conv1" (Conv2D)
//   "relu1" (Activation)
//   8x8x3 at 0 -> 8x8x8 at 2048
void Cevery::Layer_2() {
  fpga_layer &layer = get_layer(2);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 8;
  cmd.h = 8;
  cmd.z = 1;
  cmd.c = 3;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 2048;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "conv1" (Conv2D)
  // "relu1" (Activation)
  cmd.run[0].m = 8;                                 // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 0;                   // 1168 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x01010101;                 // left 1, right 1, top 1, bottom 1
  cmd.run[0].conv_stride = 0x0101;                  // 1x1
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 2;                           // Relu
  cmd.run[0].actfunc_param = 0x3400;                // slope 0.25
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "relu1";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 2048;                         // bytes
  layer.output_size = 1024;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 3;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 8;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_3: convolution block
//   "conv2" (Conv2D)
//   8x8x8 at 2048 -> 8x8x8 at 3072
void Cevery::Layer_3() {
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
  cmd.w = 8;
  cmd.h = 8;
  cmd.z = 1;
  cmd.c = 8;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 2048;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 3072;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "conv2" (Conv2D)
  cmd.run[0].m = 8;                                 // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0305;                            // kernel 3x5
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 1168;                // 17520 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x02020202;                 // left 2, right 2, top 2, bottom 2
  cmd.run[0].conv_stride = 0x0101;                  // 1x1
  cmd.run[0].conv_dilation = 0x0201;                // 2x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "conv2";
  layer.type = LT_CONV;
  layer.input_offs = 2048;                          // bytes
  layer.output_offs = 3072;                         // bytes
  layer.output_size = 1024;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 8;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 8;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_4: convolution block
//   "add" (Add)
//   8x8x8 at 3072, 8x8x8 at 2048 -> 8x8x8 at 0
void Cevery::Layer_4() {
  fpga_layer &layer = get_layer(4);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 8;
  cmd.h = 8;
  cmd.z = 1;
  cmd.c = 8;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 3072;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = io_mem_;
  cmd.eltwise_buf.offs = 2048;
  cmd.output_mode = 1;                              // adds eltwise_buf

  // "add" (Add)
  cmd.run[0].m = 8;                                 // output channels
  cmd.run[0].conv_enable = 0;
  cmd.run[0].p = 0x0101;
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = nullptr;
  cmd.run[0].weight_buf.offs = 0;
  cmd.run[0].weight_fmt = 0;
  cmd.run[0].conv_pad = 0x00000000;
  cmd.run[0].conv_stride = 0x0101;
  cmd.run[0].conv_dilation = 0x0000;
  cmd.run[0].pool_enable = 2;                       // average
  cmd.run[0].pool_size = 0x0101;                    // 1x1
  cmd.run[0].pool_stride = 0x0101;                  // 1x1
  cmd.run[0].pool_pad = 0x00000000;                 // left 0, right 0, top 0, bottom 0
  cmd.run[0].pool_avg_param = 0x3C00;               // 1
  cmd.run[0].actfunc = 6;                           // Relu6
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "add";
  layer.type = LT_CONV;
  layer.input_offs = 3072;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 1024;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 8;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 8;                          // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_5: convolution block
//   "up" (ConvTranspose2d)
//   "prelu" (Activation)
//   "pool" (MaxPooling2D)
//   8x8x16 at 0 -> 8x6x12 at 2400
void Cevery::Layer_5() {
  fpga_layer &layer = get_layer(5);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 8;
  cmd.h = 8;
  cmd.z = 1;
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 2400;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "up" (ConvTranspose2d)
  // "prelu" (Activation)
  // "pool" (MaxPooling2D)
  cmd.run[0].m = 12;                                // output channels
  cmd.run[0].conv_enable = 5;                       // deconvolution
  cmd.run[0].p = 0x0404;                            // kernel 4x4
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 18688;               // 13888 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x02020202;                 // left 2, right 2, top 2, bottom 2
  cmd.run[0].conv_stride = 0x0202;                  // 2x2
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 1;                       // max
  cmd.run[0].pool_size = 0x0203;                    // 2x3
  cmd.run[0].pool_stride = 0x0203;                  // 2x3
  cmd.run[0].pool_pad = 0x00000200;                 // left 0, right 2, top 0, bottom 0
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 4;                           // PRelu
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "pool";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 2400;                         // bytes
  layer.output_size = 1152;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 6;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 12;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_6: convolution block
//   "gap" (AveragePool2d)
//   8x6x12 at 2400 -> 12 at 48
void Cevery::Layer_6() {
  fpga_layer &layer = get_layer(6);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000002;                            // runs that write to external memory
  cmd.w = 6;
  cmd.h = 8;
  cmd.z = 1;
  cmd.c = 12;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 2400;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 48;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "gap" (AveragePool2d)
  cmd.run[0].m = 12;                                // output channels
  cmd.run[0].conv_enable = 0;
  cmd.run[0].p = 0x0101;
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = nullptr;
  cmd.run[0].weight_buf.offs = 0;
  cmd.run[0].weight_fmt = 0;
  cmd.run[0].conv_pad = 0x00000000;
  cmd.run[0].conv_stride = 0x0101;
  cmd.run[0].conv_dilation = 0x0000;
  cmd.run[0].pool_enable = 2;                       // average
  cmd.run[0].pool_size = 0x0406;                    // 4x6
  cmd.run[0].pool_stride = 0x0401;                  // 4x1
  cmd.run[0].pool_pad = 0x00000000;                 // left 0, right 0, top 0, bottom 0
  cmd.run[0].pool_avg_param = 0x2955;               // 0.04166667
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  // "gap" (AveragePool2d)
  cmd.run[1].m = 12;                                // output channels
  cmd.run[1].conv_enable = 0;
  cmd.run[1].p = 0x0101;
  cmd.run[1].pz = 1;
  cmd.run[1].weight_buf.mem = nullptr;
  cmd.run[1].weight_buf.offs = 0;
  cmd.run[1].weight_fmt = 0;
  cmd.run[1].conv_pad = 0x00000000;
  cmd.run[1].conv_stride = 0x0101;
  cmd.run[1].conv_dilation = 0x0000;
  cmd.run[1].pool_enable = 2;                       // average
  cmd.run[1].pool_size = 0x0201;                    // 2x1
  cmd.run[1].pool_stride = 0x0101;                  // 1x1
  cmd.run[1].pool_pad = 0x00000000;                 // left 0, right 0, top 0, bottom 0
  cmd.run[1].pool_avg_param = 0x3800;               // 0.5
  cmd.run[1].actfunc = 0;
  cmd.run[1].actfunc_param = 0x0000;
  cmd.run[1].rectifi_en = 0;
  cmd.run[1].lrn = 0;

  layer.name = "gap";
  layer.type = LT_CONV;
  layer.input_offs = 2400;                          // bytes
  layer.output_offs = 48;                           // bytes
  layer.output_size = 24;                           // bytes
  layer.input_dim[0] = 6;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 12;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 12;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_7: convolution block
//   "fc" (Dense)
//   12 at 48 -> 5 at 1152
void Cevery::Layer_7() {
  fpga_layer &layer = get_layer(7);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000001;                            // runs that write to external memory
  cmd.w = 1;
  cmd.h = 1;
  cmd.z = 1;
  cmd.c = 12;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 48;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 1152;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "fc" (Dense)
  cmd.run[0].m = 5;                                 // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 32576;               // 736 bytes
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

  layer.name = "fc";
  layer.type = LT_CONV;
  layer.input_offs = 48;                            // bytes
  layer.output_offs = 1152;                         // bytes
  layer.output_size = 10;                           // bytes
  layer.input_dim[0] = 12;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 5;                          // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_8: concatenation, copied by the CPU
//   "both" (Concat)
//   5 at 1152, 12 at 48 -> 17 at 0
void Cevery::Layer_8() {
  fpga_layer &layer = get_layer(8);
  layer.name = "both";
  layer.type = LT_COPY_CONCAT;
  layer.input_offs = 1152;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 34;                           // bytes
  layer.input_dim[0] = 5;                           // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 17;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  inputs_of_layer_8_[0] = &get_layer(7);
  inputs_of_layer_8_[1] = &get_layer(6);
  layer.input_layer_num = 2;
  layer.input_layers = inputs_of_layer_8_;
}

// Layer_9: softmax, on the CPU
//   "prob" (Softmax)
//   17 at 0 -> 17 at 2304
void Cevery::Layer_9() {
  fpga_layer &layer = get_layer(9);
  layer.name = "prob";
  layer.type = LT_CUSTOM;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 2304;                         // bytes
  layer.output_size = 68;                           // bytes
  layer.input_dim[0] = 17;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 17;                         // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = Cevery_cpu::Layer_9;
  output_layers_[0] = &layer;
}

// Layer_10: flatten to HWC order, on the CPU
//   "flat" (Reshape)
//   8x6x12 at 2400 -> 576 at 0
void Cevery::Layer_10() {
  fpga_layer &layer = get_layer(10);
  layer.name = "flat";
  layer.type = LT_FLATTEN;
  layer.input_offs = 2400;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 1152;                         // bytes
  layer.input_dim[0] = 6;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 12;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 576;                        // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  output_layers_[1] = &layer;
}

// Layer_11: custom layer, on the CPU
//   "mine" (Custom)
//   5 at 1152 -> 2 at 2384
void Cevery::Layer_11() {
  fpga_layer &layer = get_layer(11);
  layer.name = "mine";
  layer.type = LT_CUSTOM;
  layer.input_offs = 1152;                          // bytes
  layer.output_offs = 2384;                         // bytes
  layer.output_size = 8;                            // bytes
  layer.input_dim[0] = 5;                           // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 2;                          // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = false;
  static custom_param_Mine param = {1, 0.5f, true, {1, 2}, {{"fc", 1152, 10, 1, 1, 5, 2, "hwc8"}}};
  layer.custom_proc_ptr = custom_callback_Mine;
  layer.custom_param = &param;
  output_layers_[2] = &layer;
}

// Layer_12: flatten to HWC order, on the CPU
//   "pool" (MaxPooling2D)
//   8x6x12 at 2400 -> 576 at 1152
void Cevery::Layer_12() {
  fpga_layer &layer = get_layer(12);
  layer.name = "pool/flatten";
  layer.type = LT_FLATTEN;
  layer.input_offs = 2400;                          // bytes
  layer.output_offs = 1152;                         // bytes
  layer.output_size = 1152;                         // bytes
  layer.input_dim[0] = 6;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 12;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 576;                        // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  output_layers_[3] = &layer;
}

// Layer_13: concatenation, in place
//   "join" (Concat)
//   8x8x8 at 0, 8x8x8 at 1024 -> 8x8x16 at 0
void Cevery::Layer_13() {
  fpga_layer &layer = get_layer(13);
  layer.name = "join";
  layer.type = LT_CONCAT;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 2048;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 8;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
  inputs_of_layer_13_[0] = &get_layer(4);
  inputs_of_layer_13_[1] = &get_layer(1);
  layer.input_layer_num = 2;
  layer.input_layers = inputs_of_layer_13_;
}
