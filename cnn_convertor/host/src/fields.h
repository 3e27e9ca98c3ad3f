// Values of the fields of a convolution command.
#ifndef DV_FIELDS_H
#define DV_FIELDS_H

namespace dv {

// Parts of dmp_dv_cmdraw_conv_v0.input_circular_offset.
constexpr int kTransposed = 0x8000;  // maps store H outside W, kernels are transposed
constexpr int kBatch = 0x7fff;       // samples; 0 means one

// Values of dmp_dv_cmdraw_conv_v0.output_mode.
constexpr int kOutputAdd = 1;  // element-wise add of eltwise_buf

// Values of dmp_dv_cmdraw_conv_v0_run.conv_enable.
constexpr int kConvOff = 0;
constexpr int kConvNormal = 1;
constexpr int kConvDepthwise = 3;
constexpr int kConvDeconv = 5;
constexpr int kConvDepthwiseDeconv = 7;

// Values of dmp_dv_cmdraw_conv_v0_run.weight_fmt.
constexpr int kWeightBlocks = 0;  // only of a depthwise convolution, where it is the same as FP16
constexpr int kWeightFp16 = 1;
constexpr int kWeightPalette8 = 3;

// Values of dmp_dv_cmdraw_conv_v0_run.pool_enable.
constexpr int kPoolNone = 0;
constexpr int kPoolMax = 1;
constexpr int kPoolAverage = 2;
constexpr int kPoolUpsample = 4;

// Values of dmp_dv_cmdraw_conv_v0_run.actfunc.
constexpr int kActRelu6 = 6;

}  // namespace dv

#endif
