// made by cnn-convertor 0.2.0 from digits.keras, do not edit
#include "digits_gen.h"

#include "digits_cpu.h"

// Sizes are height x width x channels, or height x width.
//
// Values of the registers:
//   topo: bit i is 1 if run i writes to external memory, and 0 if run i + 1 reads its output
//   conv_enable: 0 off, 1 convolution, 3 depthwise, 5 deconvolution, 7 depthwise deconvolution
//   weight_fmt: 0 none, 1 FP16, 3 8-bit palette
//   pool_enable: 0 off, 1 max, 2 average, 4 upsample
//   actfunc: 0 none, 1 Tanh, 2 Relu, 3 Sigmoid, 4 PRelu, 5 Elu, 6 Relu6

bool Cdigits::Initialize() {
  is_weight_transposed = true;
  if (!ReserveMemory(21264, 4608)) {
    return false;
  }
  set_num_layers(7);
  set_num_output_layers(1);
  Layer_0();
  Layer_1();
  Layer_2();
  Layer_3();
  Layer_4();
  Layer_5();
  Layer_6();
  return true;
}

// Layer_0: convolution block
//   "stem" (Conv2D)
//   "stem_norm" (BatchNormalization)
//   "stem_relu" (ReLU)
//   8x8x1 at 2048 -> 8x8x16 at 0
void Cdigits::Layer_0() {
  fpga_layer &layer = get_layer(0);
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
  cmd.c = 1;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 2048;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "stem" (Conv2D)
  // "stem_norm" (BatchNormalization)
  // "stem_relu" (ReLU)
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
  cmd.run[0].actfunc = 2;                           // Relu
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "stem_relu";
  layer.type = LT_CONV;
  layer.input_offs = 2048;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 2048;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 1;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_1: convolution block
//   "depthwise" (DepthwiseConv2D)
//   "depthwise_norm" (BatchNormalization)
//   "depthwise_leaky" (LeakyReLU)
//   8x8x16 at 0 -> 8x8x16 at 2048
void Cdigits::Layer_1() {
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
  cmd.w = 8;
  cmd.h = 8;
  cmd.z = 1;
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 2048;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "depthwise" (DepthwiseConv2D)
  // "depthwise_norm" (BatchNormalization)
  // "depthwise_leaky" (LeakyReLU)
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
  cmd.run[0].actfunc = 2;                           // Relu
  cmd.run[0].actfunc_param = 0x3000;                // slope 0.125
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "depthwise_leaky";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 2048;                         // bytes
  layer.output_size = 2048;                         // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 8;                          // W
  layer.output_dim[1] = 8;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_2: convolution block
//   "pointwise" (Conv2D)
//   "pointwise_norm" (BatchNormalization)
//   "shortcut" (Add)
//   "shortcut_relu" (Activation)
//   "halve" (MaxPooling2D)
//   8x8x16 at 2048, 8x8x16 at 0 -> 4x4x16 at 4096
void Cdigits::Layer_2() {
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
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 2048;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 4096;
  cmd.eltwise_buf.mem = io_mem_;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 1;                              // adds eltwise_buf

  // "pointwise" (Conv2D)
  // "pointwise_norm" (BatchNormalization)
  // "shortcut" (Add)
  // "shortcut_relu" (Activation)
  // "halve" (MaxPooling2D)
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
  cmd.run[0].pool_enable = 1;                       // max
  cmd.run[0].pool_size = 0x0202;                    // 2x2
  cmd.run[0].pool_stride = 0x0202;                  // 2x2
  cmd.run[0].pool_pad = 0x00000000;                 // left 0, right 0, top 0, bottom 0
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 2;                           // Relu
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "halve";
  layer.type = LT_CONV;
  layer.input_offs = 2048;                          // bytes
  layer.output_offs = 4096;                         // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
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

// Layer_3: convolution block
//   "narrow" (Conv2D)
//   "wide" (Conv2D)
//   "wide_prelu" (PReLU)
//   "branches" (Concatenate)
//   4x4x16 at 4096 -> 4x4x24 at 0
void Cdigits::Layer_3() {
  fpga_layer &layer = get_layer(3);
  dmp_dv_cmdraw_conv_v1 &conf = layer.conv_conf_v1;
  conf.header.size = sizeof(conf);
  conf.header.device_type = DMP_DV_DEV_CONV;
  conf.header.version = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf.conv_cmd;
  cmd.header.size = sizeof(cmd);
  cmd.header.device_type = DMP_DV_DEV_CONV;
  cmd.header.version = 0;
  cmd.topo = 0x00000003;                            // runs that write to external memory
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 16;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 4096;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "narrow" (Conv2D)
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
  cmd.run[0].actfunc = 2;                           // Relu
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  // "wide" (Conv2D)
  // "wide_prelu" (PReLU)
  cmd.run[1].m = 16;                                // output channels
  cmd.run[1].conv_enable = 1;                       // convolution
  cmd.run[1].p = 0x0303;                            // kernel 3x3
  cmd.run[1].pz = 1;
  cmd.run[1].weight_buf.mem = weights_mem_;
  cmd.run[1].weight_buf.offs = 8176;                // 4672 bytes
  cmd.run[1].weight_fmt = 1;                        // FP16
  cmd.run[1].conv_pad = 0x01010101;                 // left 1, right 1, top 1, bottom 1
  cmd.run[1].conv_stride = 0x0101;                  // 1x1
  cmd.run[1].conv_dilation = 0x0000;                // 1x1
  cmd.run[1].pool_enable = 0;
  cmd.run[1].pool_size = 0x0000;
  cmd.run[1].pool_stride = 0x0101;
  cmd.run[1].pool_pad = 0x00000000;
  cmd.run[1].pool_avg_param = 0x0000;
  cmd.run[1].actfunc = 4;                           // PRelu
  cmd.run[1].actfunc_param = 0x0000;
  cmd.run[1].rectifi_en = 0;
  cmd.run[1].lrn = 0;

  layer.name = "branches";
  layer.type = LT_CONV;
  layer.input_offs = 4096;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 768;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 24;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_4: convolution block
//   "tail" (Conv2D)
//   4x4x24 at 0 -> 2x2x16 at 768
void Cdigits::Layer_4() {
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
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 24;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 768;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "tail" (Conv2D)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 12848;               // 6944 bytes
  cmd.run[0].weight_fmt = 1;                        // FP16
  cmd.run[0].conv_pad = 0x01000100;                 // left 0, right 1, top 0, bottom 1
  cmd.run[0].conv_stride = 0x0202;                  // 2x2
  cmd.run[0].conv_dilation = 0x0000;                // 1x1
  cmd.run[0].pool_enable = 0;
  cmd.run[0].pool_size = 0x0000;
  cmd.run[0].pool_stride = 0x0101;
  cmd.run[0].pool_pad = 0x00000000;
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 2;                           // Relu
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "tail";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 768;                          // bytes
  layer.output_size = 128;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 24;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 2;                          // W
  layer.output_dim[1] = 2;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_5: convolution block
//   "flatten" (Flatten)
//   "digit" (Dense)
//   2x2x16 at 768 -> 10 at 48
void Cdigits::Layer_5() {
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
  cmd.w = 1;
  cmd.h = 1;
  cmd.z = 1;
  cmd.c = 64;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 768;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 48;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "flatten" (Flatten)
  // "digit" (Dense)
  cmd.run[0].m = 10;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 19792;               // 1472 bytes
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

  layer.name = "digit/linear";
  layer.type = LT_CONV;
  layer.input_offs = 768;                           // bytes
  layer.output_offs = 48;                           // bytes
  layer.output_size = 20;                           // bytes
  layer.input_dim[0] = 2;                           // W
  layer.input_dim[1] = 2;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_6: softmax, on the CPU
//   "digit" (Dense)
//   10 at 48 -> 10 at 0
void Cdigits::Layer_6() {
  fpga_layer &layer = get_layer(6);
  layer.name = "digit";
  layer.type = LT_CUSTOM;
  layer.input_offs = 48;                            // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 40;                           // bytes
  layer.input_dim[0] = 10;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = Cdigits_cpu::Layer_6;
  output_layers_[0] = &layer;
}
