package vulkan_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
)

// TestConvolutionRanges: convolutions whose batch is larger than a device shows are
// done some samples at a time, to the bits that they have whole.
func TestConvolutionRanges(t *testing.T) {
	gpu := device(t)
	for _, c := range []struct {
		limit  int64
		sides  []string
		shapes []convolutionShapes
	}{
		{4096, []string{"Conv", "ConvGradX", "ConvGradW"}, []convolutionShapes{
			{"20,2,8,8", "4,2,3,3", "20,4,8,8", "pads=[1, 1, 1, 1]"},
			{"80,1,5,5", "2,1,3,3", "80,2,3,3", ""}, // a piece is 32 samples
			{"70,2,8,4", "4,1,2,2", "70,4,4,2", "strides=[2, 2] group=2"},
		}},
		// Channels that stand alone.
		{4096, []string{"Conv", "ConvGradX"}, []convolutionShapes{{"20,4,8,8", "4,1,3,3", "20,4,8,8", "group=4 pads=[1, 1, 1, 1]"}}},
		{1 << 15, []string{"Conv", "ConvGradX"}, []convolutionShapes{{"50,3,9,7", "3,1,3,5", "50,3,4,3", "group=3 strides=[2, 1]"}}},
		{17 << 19, []string{"ConvGradW"}, []convolutionShapes{{"9,64,64,64", "64,1,2,1", "9,64,63,64", "group=64"}}},
		// Products; their lines take work space, too.
		{1 << 16, []string{"Conv", "ConvGradX", "ConvGradW"}, []convolutionShapes{
			{"16,16,16,16", "16,16,3,3", "16,16,16,16", "pads=[1, 1, 1, 1]"},
			{"17,16,15,13", "20,16,3,2", "17,20,15,14", "pads=[1, 1, 1, 1]"},
			{"16,20,17,16", "32,10,3,2", "16,32,8,8", "strides=[2, 2] group=2"},
			{"15,33,15,13", "24,33,1,1", "15,24,15,13", ""},
			{"9,8,5,9,11", "8,8,3,3,3", "9,8,5,9,11", "pads=[1, 1, 1, 1, 1, 1]"},
		}},
	} {
		samples := convolutionSides(c.shapes)
		for _, side := range c.sides {
			t.Run(fmt.Sprint(side, "/", c.shapes[0].x, "/", c.limit), func(t *testing.T) {
				sameInPieces(t, gpu, convolutionOp(side, samples[side]), c.limit)
			})
		}
	}
}

// TestBatchNormRanges: batches that are larger than a device shows are normalised some
// chunks at a time, to the bits that they have whole.
func TestBatchNormRanges(t *testing.T) {
	gpu := device(t)
	const limit = 10 << 20 // chunks have 8 MiB
	for name, texts := range map[string][]string{
		"BatchNormalization": {
			"f32[9,5,60001], f32[5], f32[5], f32[5], f32[5]>0; training_mode=1 momentum=0.7", // samples that begin anywhere
			"f16[9,5,60001], f16[5], f16[5], f32[5], f32[5]>0 -> y",
		},
		"memopt.BatchNormalizationGrad":        {"f32[9,5,60001], f32[9,5,60001], f32[5]; training_mode=1"},
		"com.microsoft.BatchNormalizationGrad": {"f32[9,4,80000], f32[9,4,80000], f32[4], f32[4], f32[4]>0 -> x, _, b"},
	} {
		t.Run(name, func(t *testing.T) {
			domain, name := "", name
			if at := strings.LastIndex(name, "."); at > 0 {
				domain, name = name[:at], name[at+1:]
			}
			op := *kernels.Library.Find(domain, name, 25)
			for _, text := range texts {
				op.Samples = []string{text}
				sameInPieces(t, gpu, &op, limit)
			}
		})
	}
}

// TestReductionRanges: what is reduced is seen some results and some parts of their
// terms at a time, also where neither are neighbours.
func TestReductionRanges(t *testing.T) {
	gpu := device(t)
	for limit, samples := range map[int64][]string{
		1 << 19: {
			"f32[9,5,8001], i64{0,2}; keepdims=0", // parts end amid rows
			"f32[3,90001], i64{1}",                // a row is more than is shown
			"f32[2,3,4,20003], i64{1,3}",
			"f16[19,5,8001], i64{0,2}",
			"f32[200000]",
		},
		100 << 20: {"f32[3,1100,9001], i64{0,2}", "f32[9000,3001], i64{0}"}, // many results
	} {
		for _, name := range []string{"ReduceSum", "ReduceMax"} {
			op := *kernels.Library.Find("", name, 25)
			if op.Samples = samples; limit > 1<<20 && name != "ReduceSum" {
				continue
			}
			t.Run(fmt.Sprint(name, limit), func(t *testing.T) { sameInPieces(t, gpu, &op, limit) })
		}
	}
}

// TestLambRanges: its norms are sums of parts, and parts go a few at a time.
func TestLambRanges(t *testing.T) {
	gpu := device(t)
	op := *kernels.Library.Find("memopt", "Lamb", 0)
	op.Samples = []string{
		"f32[70000], f32[70000], f32[]{0.1}, _, i64[]{2}, f32[70000], f32[70000]>0",
		"f32[310001], f32[310001], f32[]{0.1}, f32[]{0.5}, i64[]{3}, f32[310001], f32[310001]>0; weight_decay=0.1", // parts of odd lengths
	}
	sameInPieces(t, gpu, &op, 1<<18)
	op.Samples = []string{"f32[131072], f32[131072], f32[]{0.1}, _, i64[]{2}, f32[131072], f32[131072]>0"}
	sameInPieces(t, gpu, &op, 1<<15) // a part at a time
}

// sameInPieces has an operator's samples done whole, and in pieces that a device with
// that limit shows, and compares bits.
func sameInPieces(t *testing.T, gpu *vk.Physical, op *graph.Op, limit int64) {
	t.Helper()
	sameBits(t, op, gpu, withoutAddresses(t, gpu), vulkan.Options{Range: limit})
}

// withoutAddresses is a device on which what is too large for it can only be done in
// pieces, whatever fast paths tests are run with.
func withoutAddresses(t *testing.T, gpu *vk.Physical) *vk.Physical {
	t.Helper()
	const variable = "MEMOPT_FAST_PATHS"
	asked := strings.Split(os.Getenv(variable), ",")
	t.Setenv(variable, strings.Join(slices.DeleteFunc(asked, func(path string) bool { return path == vulkan.BufferAddresses }), ","))
	less := *gpu
	less.Addresses = false
	return &less
}

// sameBits has an operator's samples done by a device as it is and by it as it is told
// to be, and compares bits.
func sameBits(t *testing.T, op *graph.Op, gpu, told *vk.Physical, o vulkan.Options) {
	t.Helper()
	cases, err := kernels.Cases(op)
	if err != nil {
		t.Fatal(err)
	}
	want := conform(t, gpu, op, cases, vulkan.Options{})
	got := conform(t, told, op, cases, o)
	for i, outs := range want {
		for k, y := range outs {
			if y != nil && !bytes.Equal(got[i][k].Bytes, y.Bytes) {
				t.Errorf("%s: output %d has other bits", cases[i].Text, k)
			}
		}
	}
}
