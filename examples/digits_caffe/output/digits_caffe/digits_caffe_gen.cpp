// made by cnn-convertor 0.2.0 from digits.prototxt, do not edit
#include "digits_caffe_gen.h"

#include "digits_caffe_cpu.h"

// Sizes are height x width x channels, or height x width.
//
// Values of the registers:
//   topo: bit i is 1 if run i writes to external memory, and 0 if run i + 1 reads its output
//   conv_enable: 0 off, 1 convolution, 3 depthwise, 5 deconvolution, 7 depthwise deconvolution
//   weight_fmt: 0 none, 1 FP16, 3 8-bit palette
//   pool_enable: 0 off, 1 max, 2 average, 4 upsample
//   actfunc: 0 none, 1 Tanh, 2 Relu, 3 Sigmoid, 4 PRelu, 5 Elu, 6 Relu6

bool Cdigits_caffe::Initialize() {
  is_weight_transposed = true;
  if (!ReserveMemory(30528, 4096)) {
    return false;
  }
  set_num_layers(9);
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
  return true;
}

// Layer_0: convolution block
//   "conv1" (Convolution)
//   "bn1" (BatchNorm)
//   "scale1" (Scale)
//   "relu1" (ReLU)
//   8x8x1 at 2048 -> 8x8x16 at 0
void Cdigits_caffe::Layer_0() {
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

  // "conv1" (Convolution)
  // "bn1" (BatchNorm)
  // "scale1" (Scale)
  // "relu1" (ReLU)
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

  layer.name = "relu1";
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
//   "conv2" (Convolution)
//   "prelu2" (PReLU)
//   8x8x16 at 0 -> 8x8x16 at 2048
void Cdigits_caffe::Layer_1() {
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

  // "conv2" (Convolution)
  // "prelu2" (PReLU)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 2336;                // 4672 bytes
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

  layer.name = "prelu2";
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
//   "pool2" (Pooling)
//   8x8x16 at 2048 -> 4x4x16 at 0
void Cdigits_caffe::Layer_2() {
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
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "pool2" (Pooling)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 0;
  cmd.run[0].p = 0x0101;
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = nullptr;
  cmd.run[0].weight_buf.offs = 0;
  cmd.run[0].weight_fmt = 0;
  cmd.run[0].conv_pad = 0x00000000;
  cmd.run[0].conv_stride = 0x0101;
  cmd.run[0].conv_dilation = 0x0000;
  cmd.run[0].pool_enable = 1;                       // max
  cmd.run[0].pool_size = 0x0303;                    // 3x3
  cmd.run[0].pool_stride = 0x0202;                  // 2x2
  cmd.run[0].pool_pad = 0x01000100;                 // left 0, right 1, top 0, bottom 1
  cmd.run[0].pool_avg_param = 0x0000;
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "pool2";
  layer.type = LT_CONV;
  layer.input_offs = 2048;                          // bytes
  layer.output_offs = 0;                            // bytes
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
//   "conv3" (Convolution)
//   "bn3" (BatchNorm)
//   "scale3" (Scale)
//   "sum3" (Eltwise)
//   "relu3" (ReLU)
//   4x4x16 at 0, 4x4x16 at 0 -> 4x4x16 at 1024
void Cdigits_caffe::Layer_3() {
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
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 1024;
  cmd.eltwise_buf.mem = io_mem_;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 1;                              // adds eltwise_buf

  // "conv3" (Convolution)
  // "bn3" (BatchNorm)
  // "scale3" (Scale)
  // "sum3" (Eltwise)
  // "relu3" (ReLU)
  cmd.run[0].m = 16;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0303;                            // kernel 3x3
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 7008;                // 4640 bytes
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

  layer.name = "relu3";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 1024;                         // bytes
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

// Layer_4: convolution block
//   "conv4a" (Convolution)
//   "relu4a" (ReLU)
//   "conv4b" (Convolution)
//   "relu4b" (ReLU)
//   "concat4" (Concat)
//   4x4x16 at 1024 -> 4x4x32 at 0
void Cdigits_caffe::Layer_4() {
  fpga_layer &layer = get_layer(4);
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
  cmd.input_buf.offs = 1024;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "conv4a" (Convolution)
  // "relu4a" (ReLU)
  cmd.run[0].m = 8;                                 // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 11648;               // 1168 bytes
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

  // "conv4b" (Convolution)
  // "relu4b" (ReLU)
  cmd.run[1].m = 24;                                // output channels
  cmd.run[1].conv_enable = 1;                       // convolution
  cmd.run[1].p = 0x0301;                            // kernel 3x1
  cmd.run[1].pz = 1;
  cmd.run[1].weight_buf.mem = weights_mem_;
  cmd.run[1].weight_buf.offs = 12816;               // 6960 bytes
  cmd.run[1].weight_fmt = 1;                        // FP16
  cmd.run[1].conv_pad = 0x01010000;                 // left 0, right 0, top 1, bottom 1
  cmd.run[1].conv_stride = 0x0101;                  // 1x1
  cmd.run[1].conv_dilation = 0x0000;                // 1x1
  cmd.run[1].pool_enable = 0;
  cmd.run[1].pool_size = 0x0000;
  cmd.run[1].pool_stride = 0x0101;
  cmd.run[1].pool_pad = 0x00000000;
  cmd.run[1].pool_avg_param = 0x0000;
  cmd.run[1].actfunc = 2;                           // Relu
  cmd.run[1].actfunc_param = 0x3000;                // slope 0.125
  cmd.run[1].rectifi_en = 0;
  cmd.run[1].lrn = 0;

  layer.name = "concat4";
  layer.type = LT_CONV;
  layer.input_offs = 1024;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 1024;                         // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 16;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 4;                          // W
  layer.output_dim[1] = 4;                          // H
  layer.output_dim[2] = 32;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_5: convolution block
//   "pool4" (Pooling)
//   4x4x32 at 0 -> 2x2x32 at 1024
void Cdigits_caffe::Layer_5() {
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
  cmd.w = 4;
  cmd.h = 4;
  cmd.z = 1;
  cmd.c = 32;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 1024;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "pool4" (Pooling)
  cmd.run[0].m = 32;                                // output channels
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
  cmd.run[0].pool_size = 0x0202;                    // 2x2
  cmd.run[0].pool_stride = 0x0202;                  // 2x2
  cmd.run[0].pool_pad = 0x00000000;                 // left 0, right 0, top 0, bottom 0
  cmd.run[0].pool_avg_param = 0x3400;               // 0.25
  cmd.run[0].actfunc = 0;
  cmd.run[0].actfunc_param = 0x0000;
  cmd.run[0].rectifi_en = 0;
  cmd.run[0].lrn = 0;

  layer.name = "pool4";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 1024;                         // bytes
  layer.output_size = 256;                          // bytes
  layer.input_dim[0] = 4;                           // W
  layer.input_dim[1] = 4;                           // H
  layer.input_dim[2] = 32;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 2;                          // W
  layer.output_dim[1] = 2;                          // H
  layer.output_dim[2] = 32;                         // C
  layer.output_dim_size = 3;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_6: convolution block
//   "ip5" (InnerProduct)
//   "relu5" (ReLU)
//   2x2x32 at 1024 -> 32 at 0
void Cdigits_caffe::Layer_6() {
  fpga_layer &layer = get_layer(6);
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
  cmd.c = 128;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 1024;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 0;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "ip5" (InnerProduct)
  // "relu5" (ReLU)
  cmd.run[0].m = 32;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 19776;               // 9280 bytes
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

  layer.name = "relu5";
  layer.type = LT_CONV;
  layer.input_offs = 1024;                          // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 64;                           // bytes
  layer.input_dim[0] = 2;                           // W
  layer.input_dim[1] = 2;                           // H
  layer.input_dim[2] = 32;                          // C
  layer.input_dim_size = 3;
  layer.output_dim[0] = 32;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_7: convolution block
//   "ip6" (InnerProduct)
//   32 at 0 -> 10 at 64
void Cdigits_caffe::Layer_7() {
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
  cmd.c = 32;
  cmd.input_circular_offset = 0x8000;               // 0x8000: maps lie in HWC order
  cmd.input_buf.mem = io_mem_;
  cmd.input_buf.offs = 0;
  cmd.output_buf.mem = io_mem_;
  cmd.output_buf.offs = 64;
  cmd.eltwise_buf.mem = nullptr;
  cmd.eltwise_buf.offs = 0;
  cmd.output_mode = 0;

  // "ip6" (InnerProduct)
  cmd.run[0].m = 10;                                // output channels
  cmd.run[0].conv_enable = 1;                       // convolution
  cmd.run[0].p = 0x0101;                            // kernel 1x1
  cmd.run[0].pz = 1;
  cmd.run[0].weight_buf.mem = weights_mem_;
  cmd.run[0].weight_buf.offs = 29056;               // 1472 bytes
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

  layer.name = "ip6";
  layer.type = LT_CONV;
  layer.input_offs = 0;                             // bytes
  layer.output_offs = 64;                           // bytes
  layer.output_size = 20;                           // bytes
  layer.input_dim[0] = 32;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = false;
  layer.is_f32_output = false;
  layer.is_input_hw_layout = true;
}

// Layer_8: softmax, on the CPU
//   "prob" (Softmax)
//   10 at 64 -> 10 at 0
void Cdigits_caffe::Layer_8() {
  fpga_layer &layer = get_layer(8);
  layer.name = "prob";
  layer.type = LT_CUSTOM;
  layer.input_offs = 64;                            // bytes
  layer.output_offs = 0;                            // bytes
  layer.output_size = 40;                           // bytes
  layer.input_dim[0] = 10;                          // C
  layer.input_dim_size = 1;
  layer.output_dim[0] = 10;                         // C
  layer.output_dim_size = 1;
  layer.is_output = true;
  layer.is_f32_output = true;
  layer.is_input_hw_layout = true;
  layer.custom_proc_ptr = Cdigits_caffe_cpu::Layer_8;
  output_layers_[0] = &layer;
}
