package kernels

var _ = defineSumMask(sumMask{
	name:   "BiasDropout",
	doc:    "Dropout of data + bias, plus a residual",
	biased: true,
},
	"f32[5,7], f32[7], f32[5,7], f32[]{0.4}, bool[]{1}",
	"f32[5,7], f32[7], _, f32[]{0.4}, bool[]{1}; seed=3 -> y",
	"f32[3,50], f32[3,50], f32[3,50], _, bool[]{1}",
	"f32[4], f32[4], f32[4], f32[]{0}, bool[]{1}",
	"f32[4], f32[4], f32[4], f32[]{0.4}",
	"f32[2,3], f32[1], f32[2,3]",
	"f16[5], f16[5], f16[5], f32[]{0.4}, bool[]{1}",
	"f32[0,3], f32[3], _, f32[]{0.4}, bool[]{1}",
)

var _ = defineSumMask(sumMask{
	name:   "BitmaskBiasDropout",
	doc:    "BiasDropout with a mask of bits",
	biased: true,
	bits:   true,
},
	"f32[5,7], f32[7], f32[5,7], f32[]{0.4}, bool[]{1}",
	"f32[5,7], f32[7], _, f32[]{0.4}, bool[]{1}; seed=3 -> y",
	"f32[3,50], f32[3,50], f32[3,50], _, bool[]{1}",
	"f32[4], f32[4], f32[4], f32[]{0.4}",
)
