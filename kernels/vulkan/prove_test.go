package vulkan_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
)

// lying has the kernels of cooperative matrices add their scale where they should
// multiply by it, for the length of a test: as a driver may that announces what it
// does not do.
func lying(t *testing.T) {
	const opFAdd, opFMul, header = 129, 133, 5
	limits := graph.PlanLimits
	limits.Matrices.Float16 = [3]int{8, 8, 8}
	l := lowered(t, "", "MatMul", "f16[2,2], f16[2,2]", limits)
	k := l.Dispatches[0].Kernel
	right := k.Code
	t.Cleanup(func() { k.Code = right })
	code := slices.Clone(right())
	k.Code = func() []byte { return code }
	changed := 0
	for at := 4 * header; at < len(code); {
		word := binary.LittleEndian.Uint32(code[at:])
		if word&0xffff == opFMul {
			binary.LittleEndian.PutUint32(code[at:], word&^0xffff|opFAdd)
			changed++
		}
		at += int(4 * (word >> 16))
	}
	if changed == 0 {
		t.Fatal("nothing is multiplied")
	}
}

// TestProof: a device that does not do what it announces is found out before the
// first step, and trains without the path unless that was asked for by name.
func TestProof(t *testing.T) {
	gpu, o := pathDevice(t, vulkan.CooperativeMatrix)
	step, _ := lossStep(t, "x f16[9,7] = param\nw f16[7,5] = param\nplaces i64[9] = input\ns = MatMul(x, w)\ncost = SoftmaxCrossEntropyLoss(s, places)\noutput cost", kernels.Fusions)
	s := keepAll(t, step)
	hardware := *gpu
	hardware.Kind = vk.Discrete // so that auto takes the path
	open := func(p *vk.Physical, o vulkan.Options) ([]string, error) {
		d, err := vulkan.Open(s, p, o)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.Warnings(), nil
	}
	if said, err := open(&hardware, vulkan.Options{FastPaths: []string{vulkan.FastPathsAuto}}); err != nil || len(said) > 0 {
		t.Errorf("an honest device: %v, %v", said, err)
	}
	lying(t)
	if _, err := open(gpu, o); err == nil || !strings.Contains(err.Error(), "gives wrong results on this device") || !strings.HasSuffix(err.Error(), "leave it out") {
		t.Errorf("the path by name: %v", err)
	}
	said, err := open(&hardware, vulkan.Options{FastPaths: []string{vulkan.FastPathsAuto}})
	if err != nil || len(said) != 1 || !strings.HasSuffix(said[0], "it is not used") {
		t.Errorf("auto: %v, %v", said, err)
	}
}
