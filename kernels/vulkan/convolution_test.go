package vulkan_test

import (
	"fmt"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/kernels/vulkan"
)

// convolutionSamples are convolutions large enough to be products, by operator: all
// three sides.
func convolutionSamples() map[string][]string {
	samples := convolutionSides([]convolutionShapes{
		{"2,16,11,11", "32,16,3,3", "2,32,11,11", "pads=[1, 1, 1, 1]"},                                 // odd lines
		{"1,10,33,40", "12,10,7,7", "1,12,17,20", "pads=[3, 3, 3, 3] strides=[2, 2]"},                  // a stem
		{"1,32,16,17", "64,16,3,2", "1,64,15,15", "pads=[1, 0, 2, 1] dilations=[2, 3] group=2"},        // groups
		{"1,16,40,41", "64,16,2,2", "1,64,20,14", "strides=[2, 3]"},                                    // some places see nothing
		{"1,66,17,17", "60,66,1,1", "1,60,17,17", ""},                                                  // products as they lie
		{"2,32,120", "32,32,5", "2,32,120", "pads=[2, 2]"},                                             // one axis
		{"1,230,20,20", "8,230,1,3", "1,8,20,20", "pads=[0, 1, 0, 1]"},                                 // some rows at a time
		{"8,150,6,14", "8,150,1,3", "8,8,6,14", "pads=[0, 1, 0, 1]"},                                   // some samples at a time
		{"1,16,24,26", "16,16,5,5", "1,16,10,23", "strides=[2, 1] pads=[1, 0, 2, 1] dilations=[2, 1]"}, // strides down alone
		{"1,16,30,31", "20,16,3,2", "1,20,30,33", "pads=[9, 3, 9, 4] dilations=[9, 5]"},                // taps far apart
		{"1,8,5,9,11", "8,8,3,3,3", "1,8,5,9,11", "pads=[1, 1, 1, 1, 1, 1]"},                           // depth
		{"1,16,9,12,10", "32,8,2,3,3", "1,32,4,6,10", "strides=[2, 2, 1] pads=[1, 0, 1, 0, 2, 1] dilations=[2, 1, 1] group=2"},
		{"1,64,8,12,12", "32,64,1,2,2", "1,32,4,6,6", "strides=[2, 2, 2]"},
		{"2,20,16,17", "20,1,3,3", "2,20,16,17", "pads=[1, 1, 1, 1] group=20"}, // channels alone
		{"2,5,17,23", "5,1,3,5", "2,5,9,8", "pads=[1, 2, 1, 2] strides=[2, 3] group=5"},
		{"3,4,19,9", "4,1,2,3", "3,4,16,5", "dilations=[3, 2] group=4"},
	})
	samples["Conv"] = append(samples["Conv"], "f32[1,9,31,31], f32[16,9,3,3], f32[16]; pads=[1, 1, 1, 1]", "f32[2,16,23,23], f32[32,8,3,3], f32[32]; group=2", "f32[2,3,9,9], f32[3,1,7,7], f32[3]; group=3")
	samples["ConvGradX"] = append(samples["ConvGradX"], "f32[1,32,4,4], f32[32,1830,3,3], i64{1,1830,4,4}; pads=[1, 1, 1, 1]") // some channels at a time
	return samples
}

// convolutionShapes are those of a convolution.
type convolutionShapes struct{ x, w, y, attrs string }

// convolutionSides are samples of all three sides, by operator.
func convolutionSides(shapes []convolutionShapes) map[string][]string {
	samples := map[string][]string{}
	for _, c := range shapes {
		samples["Conv"] = append(samples["Conv"], fmt.Sprintf("f32[%s], f32[%s]; %s", c.x, c.w, c.attrs))
		samples["ConvGradX"] = append(samples["ConvGradX"], fmt.Sprintf("f32[%s], f32[%s], i64{%s}; %s", c.y, c.w, c.x, c.attrs))
		samples["ConvGradW"] = append(samples["ConvGradW"], fmt.Sprintf("f32[%s], f32[%s], i64{%s}; %s", c.y, c.x, c.w, c.attrs))
	}
	return samples
}

// convolutionOp is one of their operators, with those samples.
func convolutionOp(name string, samples []string) *graph.Op {
	domain := ""
	if name != "Conv" {
		domain = kernels.Library.Find("memopt", "ConvGradX", 0).Domain
	}
	op := *kernels.Library.Find(domain, name, 0)
	op.Samples = samples
	return &op
}

// TestConvolutions: those that are products do what Eval does.
func TestConvolutions(t *testing.T) {
	gpu := device(t)
	for name, texts := range convolutionSamples() {
		for _, groups := range []string{vulkan.GroupsAlone, vulkan.GroupsShared} {
			t.Run(name+"/"+groups, func(t *testing.T) {
				if groups == vulkan.GroupsShared {
					texts = texts[:8]
				}
				op := convolutionOp(name, texts)
				cases, err := kernels.Cases(op)
				if err != nil {
					t.Fatal(err)
				}
				conform(t, gpu, op, append(cases[:len(cases):len(cases)], kernels.HalfCases(op, graph.BFloat16)[:1]...), vulkan.Options{Groups: groups})
			})
		}
	}
}
