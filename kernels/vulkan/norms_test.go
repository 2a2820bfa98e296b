package vulkan_test

import (
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/kernels/vulkan"
)

// TestNormGradients: gradients of rows that fit registers and of wider ones, in one part and several, do what Eval does
// where groups share memory.
func TestNormGradients(t *testing.T) {
	gpu := device(t)
	for name, samples := range map[string][]string{
		"memopt.LayerNormalizationGrad": {
			"f32[300,100], f32[300,100], f32[100], f32[100]", "f32[700,256], f32[700,256], f32[256], f32[256] -> _, s, b", "f32[70,256], f32[70,256], f32[256], f32[256] -> x, _, b",
			"f32[130,1028], f32[130,1028], f32[1028], f32[1028]", "f32[9,12], f32[9,12], f32[12] -> x",
			"f32[3,9004], f32[3,9004], f32[9004], f32[9004]", "f32[70,1023], f32[70,1023], f32[1023], f32[1023]", "f32[2,20001], f32[2,20001], f32[20001], f32[20001]", "f32[2,20004], f32[2,20004], f32[20004], f32[20004]",
			"f32[3,2,3,20], f32[3,2,3,20], f32[2,3,1], f32[2,3,1]; axis=2", "f32[3,2,3,15], f32[3,2,3,15], f32[2,3,1], f32[2,3,1]; axis=2", "f32[2,2,3,2000], f32[2,2,3,2000], f32[2,3,1], f32[2,3,1]; axis=2", "f32[2,1,2,20000], f32[2,1,2,20000], f32[1,2,1], f32[1,2,1]; axis=2", "f32[2,2,2,10001], f32[2,2,2,10001], f32[2,2,1], f32[2,2,1]; axis=2", "f32[5,3,1,50], f32[5,3,1,50], f32[3,1,1], f32[3,1,1]; axis=2",
			"f32[3,2,3,20], f32[3,2,3,20], f32[2,3,1], f32[2,3,1]; axis=2 -> x", "f32[3,2,3,20], f32[3,2,3,20], f32[2,3,1], f32[2,3,1]; axis=2 -> x, _, b", "f32[3,20001], f32[3,20001], f32[20001], f32[20001] -> x",
			// Sums of columns in several parts, with dx in the same pass: by fours, and one by one.
			"f32[130,8200], f32[130,8200], f32[8200], f32[8200]", "f32[700,257], f32[700,257], f32[257], f32[257]", "f32[300,201], f32[300,201], f32[201], f32[201] -> x, _, b",
		},
		"memopt.RMSNormalizationGrad":                    {"f32[300,100], f32[300,100], f32[100]", "f32[5,60,4], f32[5,60,4], f32[4]", "f32[300,301], f32[300,301], f32[301]", "f32[2,20001], f32[2,20001], f32[20001]", "f32[2,20004], f32[2,20004], f32[20004]"},
		"com.microsoft.LayerNormalizationGrad":           {"f32[300,64], f32[300,64], f32[64], f32[300,1], f32[300,1]", "f32[300,301], f32[300,301], f32[301], f32[300,1], f32[300,1]", "f32[2,20001], f32[2,20001], f32[20001], f32[2,1], f32[2,1]", "f32[3,63], f32[3,63], f32[63], f32[3,1], f32[3,1]"},
		"com.microsoft.SimplifiedLayerNormalizationGrad": {"f32[300,64], f32[300,64], f32[64], f32[300,1]"},
	} {
		t.Run(name, func(t *testing.T) {
			domain, op := "memopt", name[len("memopt."):]
			if name[:3] == "com" {
				domain, op = "com.microsoft", name[len("com.microsoft."):]
			}
			x := *kernels.Library.Find(domain, op, 0)
			x.Samples = samples
			cases := must(kernels.Cases(&x))
			conform(t, gpu, &x, append(cases[:len(cases):len(cases)], kernels.HalfCases(&x, graph.BFloat16)[:1]...), vulkan.Options{Groups: vulkan.GroupsShared})
		})
	}
}

// TestTeams: rows of each length that a team may have, held by a subgroup, by a small group and a large one, or not held, do
// what Eval does, where groups share memory; also beside the operators' own samples, over their inputs, and in
// 16 bits.
func TestTeams(t *testing.T) {
	gpu := device(t)
	rows := []string{"f32[70,20]", "f32[9,301]", "f32[3,5004]", "f32[2,40004]", "f32[2,40005]"}
	ofRows := func(more string) (all []string) {
		for _, r := range rows {
			all = append(all, strings.ReplaceAll(strings.ReplaceAll(more, "ROWS", r), "WIDTH", r[strings.Index(r, ",")+1:len(r)-1]))
		}
		return all
	}
	apart := []string{"f32[3,5,70]; axis=1", "f32[2,40,9]; axis=1", "f32[40,3]; axis=0"}
	for _, c := range []struct {
		domain, name string
		version      int
		samples      []string
	}{
		{"", "Softmax", 13, append(ofRows("ROWS"), apart...)},
		{"", "LogSoftmax", 13, append(ofRows("ROWS"), apart...)},
		{"memopt", "SafeSoftmax", 0, ofRows("ROWS")},
		{"com.microsoft", "SoftmaxGrad_13", 0, append(ofRows("ROWS, ROWS"), "f32[3,5,70], f32[3,5,70]; axis=1", "f32[2,40,9], f32[2,40,9]; axis=1")},
		{"com.microsoft", "LogSoftmaxGrad_13", 0, append(ofRows("ROWS, ROWS"), "f32[3,5,70], f32[3,5,70]; axis=1", "f32[2,40,9], f32[2,40,9]; axis=1")},
		{"", "LayerNormalization", 17, append(ofRows("ROWS, f32[WIDTH], f32[WIDTH] -> y, m, i"),
			"f32[2,2,3,20], f32[2,3,1], f32[2,3,1]; axis=2", "f32[2,3,2,15], f32[3,2,1], f32[3,2,1]; axis=2", "f32[1,2,2,20002], f32[2,2,1], f32[2,2,1]; axis=2")},
		{"", "BatchNormalization", 15, []string{"f32[3,5,4,4], f32[5], f32[5], f32[5], f32[5]; training_mode=1", "f32[3,5,3,3], f32[5], f32[5], f32[5], f32[5]; training_mode=1",
			"f32[2,3,200,100], f32[3], f32[3], f32[3], f32[3]; training_mode=1", "f32[2,2,200,101], f32[2], f32[2], f32[2], f32[2]>0 -> y"}},
		{"memopt", "BatchNormalizationGrad", 0, []string{"f32[2,3,200,100], f32[2,3,200,100], f32[3]; training_mode=1"}},
		{"com.microsoft", "BatchNormInternal", 0, nil},
		{"", "RMSNormalization", 23, ofRows("ROWS, f32[WIDTH]")},
		{"", "SoftmaxCrossEntropyLoss", 13, []string{"f32[70,20], i64[70]", "f32[9,301], i64[9] -> y, p", "f32[3,5004], i64[3]; reduction=\"none\"", "f32[2,40005], i64[2] -> y, p", "f32[3,21,5,7], i64[3,5,7]"}},
		{"memopt", "SoftmaxCrossEntropyLossGrad", 0, []string{"f32[], f32[70,20], i64[70]", "f32[], f32[9,301], i64[9]", "f32[3], f32[3,5004], i64[3]; reduction=\"none\"", "f32[], f32[2,40005], i64[2]", "f32[], f32[3,21,5,7], i64[3,5,7]"}},
		{"", "NegativeLogLikelihoodLoss", 13, nil},
		{"com.microsoft", "SoftmaxCrossEntropyLossInternal", 0, nil},
		{"com.microsoft", "SoftmaxCrossEntropyLossInternalGrad", 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := *kernels.Library.Find(c.domain, c.name, c.version)
			x.Samples = append(x.Samples[:len(x.Samples):len(x.Samples)], c.samples...)
			cases := must(kernels.Cases(&x))
			conform(t, gpu, &x, append(cases[:len(cases):len(cases)], kernels.HalfCases(&x, graph.BFloat16)[:2]...), vulkan.Options{Groups: vulkan.GroupsShared})
		})
	}
}

// TestTogether: reductions that a group does together do what Eval does: of rows, of columns, of parts, of the middle axis, and
// where the last group of results is not whole.
func TestTogether(t *testing.T) {
	gpu := device(t)
	for _, name := range []string{"ReduceSum", "ReduceMax", "ReduceMean", "ReduceLogSumExp", "ReduceL2"} {
		t.Run(name, func(t *testing.T) {
			x := *kernels.Library.Find("", name, 18)
			x.Samples = append(x.Samples[:len(x.Samples):len(x.Samples)], "f32[3,5000], i64{1}", "f32[900,21], i64{0}", "f32[10000,3], i64{0}", "f32[4,70,9], i64{1}",
				"f32[7,6,5,50], i64{0,2}", "f32[50,20000], i64{0}", "f32[30000]")
			cases := must(kernels.Cases(&x))
			conform(t, gpu, &x, append(cases[:len(cases):len(cases)], kernels.HalfCases(&x, graph.Float16)[:2]...), vulkan.Options{Groups: vulkan.GroupsShared})
		})
	}
}
