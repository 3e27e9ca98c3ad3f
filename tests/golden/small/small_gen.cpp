// made by cnn-convertor 1.2.3 from net.h5, do not edit
#include "small_gen.h"

#include "small_cpu.h"

// Sizes are height x width x channels, or height x width.
//
// Values of the registers:
//   topo: bit i is 1 if run i writes to external memory, and 0 if run i + 1 reads its output
//   conv_enable: 0 off, 1 convolution, 3 depthwise, 5 deconvolution, 7 depthwise deconvolution
//   weight_fmt: 0 none, 1 FP16, 3 8-bit palette
//   pool_enable: 0 off, 1 max, 2 average, 4 upsample
//   actfunc: 0 none, 1 Tanh, 2 Relu, 3 Sigmoid, 4 PRelu, 5 Elu, 6 Relu6

bool Csmall::Initialize() {
  is_weight_transposed = true;
  if (!ReserveMemory(5120, 640)) {
    return false;
  }
  set_num_layers(3);
  set_num_output_layers(1);
  Layer_0();
  Layer_1();
  Layer_2();
  return true;
}

// Layer_0: convolution block
//   "conv2d" (Conv2D)
//   "batch_normalization" (BatchNormalization)
//   "re_lu" (Activation)
//   "max_pooling2d" (MaxPooling2D)
//   8x8x1 at 512 -> 4x4x16 at 0
void Csmall::Layer_0() {
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
  cmd.input_buf.offs = 512;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "conv2d" (Conv2D)
  // "batch_normalization" (BatchNormalization)
  // "re_lu" (Activation)
  // "max_pooling2d" (MaxPooling2D)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 0;                   // 1696 bytes
  cmd.run[0].weight_fmt = 3;                        // 8-bit palette
  cmd.run[0].conv_pad = 0x01010101;                 // left 1, right 1, top 1, bottom 1
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

  layer.name = "max_pooling2d";
  layer.type = LT_CONV;
  layer.input_offs = 512;                           // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 512;                          // bytes
  layer.input_dim[0] = 8;                           // W
  layer.input_dim[1] = 8;                           // H
  layer.input_dim[2] = 1;                           // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 16;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = false;
}

// Layer_1: convolution block
//   "flatten" (Reshape)
//   "dense" (Dense)
//   4x4x16 at 0 -> 10 at 512
void Csmall::Layer_1() {
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
  cmd.w = 1;
  cmd.h = 1;
  cmd.z = 1;
  cmd.c = 256;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 512;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "flatten" (Reshape)
  // "dense" (Dense)
  cmd.run[0].m = 10;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 1696;                // 3424 bytes
  cmd.run[0].weight_fmt = 3;                        // 8-bit palette
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

  layer.name = "dense";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 512;                          // bytes
  layer.output_size = 20;                           // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_2: softmax, on the CPU
//   "softmax" (Softmax)
//   10 at 512 -> 10 at 0
void Csmall::Layer_2() {
  fpga_layer &layer = get_layer(2);
  layer.name = "softmax";
  layer.type = LT_CUSTOM;
  layer.input_offs = 512;                           // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 40;                           // bytes
  layer.input_dim[0] = 10;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = Csmall_cpu::Layer_2;
  output_layers_[0] = &layer;
}
