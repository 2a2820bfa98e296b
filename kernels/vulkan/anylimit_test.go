package vulkan_test

import (
	"os"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/kernels/vulkan"
)

// TestAnyRange: however little of a buffer a device shows, every operator and sample
// that has a kernel is done by kernels, to the bits that it has whole: what cannot be
// done in pieces finds its buffers by addresses.
func TestAnyRange(t *testing.T) {
	gpu := device(t)
	if !gpu.Addresses {
		t.Skipf("%s has no addresses of buffers", gpu.Name)
	}
	byTurns(t, 16, func(t *testing.T, op *graph.Op, turn int) {
		sameBits(t, op, gpu, gpu, vulkan.Options{Range: []int64{64, 512}[turn%2]})
	})
}

// TestFewGroups: nor do bits depend on how many groups a dispatch may have.
func TestFewGroups(t *testing.T) {
	gpu := device(t)
	few := *gpu
	few.MaxGroups = [3]uint32{3, 300, 64}
	byTurns(t, 12, func(t *testing.T, op *graph.Op, turn int) {
		sameBits(t, op, gpu, &few, vulkan.Options{})
	})
}

// TestFewTiles: products of what convolutions see are cut by lines of an image, and
// by parts of a line.
func TestFewTiles(t *testing.T) {
	gpu := device(t)
	few := *gpu
	samples := convolutionSides([]convolutionShapes{{"3,20,9,40", "16,20,3,3", "3,16,9,40", "pads=[1, 1, 1, 1]"}})
	for side, texts := range samples {
		for _, few.MaxGroups = range [][3]uint32{{3, 300, 64}, {1, 300, 64}} {
			sameBits(t, convolutionOp(side, texts), gpu, &few, vulkan.Options{})
		}
	}
}

// byTurns calls f for the operators that have kernels, and for one of so many where
// time is short: drivers compile each kernel anew.
func byTurns(t *testing.T, turns int, f func(t *testing.T, op *graph.Op, turn int)) {
	if os.Getenv("MEMOPT_TEST_LONG") != "" {
		turns = 2
	}
	n := 0
	for _, op := range kernels.Library.All() {
		if op.Lower == nil {
			continue
		}
		if n++; n%turns == 0 {
			t.Run(op.FullName(), func(t *testing.T) { f(t, op, n/turns) })
		}
	}
}
