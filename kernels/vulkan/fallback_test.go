package vulkan_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/stop/stoptest"
	"memopt/kernels"
	"memopt/kernels/vulkan"
)

// TestFallback: what has no kernel runs on the processor in the middle of the step,
// with a warning that says what, why and how many bytes move, and its workers go
// home with the device.
func TestFallback(t *testing.T) {
	gpu := device(t)
	t.Setenv("MEMOPT_VULKAN_HIDDEN", "") // both ways are gone here
	const n = 3000
	g, err := graph.Parse(kernels.Library, fmt.Sprintf("x f32[%d] = input\na = Add(x, x)\nb = Cast(a) to=11\nc = Mul(b, b)\nd = Cast(c) to=1\ny = Add(d, a)\noutput y", n))
	if err != nil {
		t.Fatal(err)
	}
	s := keepAll(t, g)
	x := graph.NewTensor(graph.Float32, n)
	for i := range x.Len() {
		x.SetFloat(i, float64(i))
	}
	for _, hidden := range []bool{false, true} {
		before := runtime.NumGoroutine()
		d, err := vulkan.Open(s, gpu, vulkan.Options{Hidden: hidden})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := d.Run(schedule.Run{Inputs: map[string]*graph.Tensor{"x": x}}); err != nil {
				t.Fatal(err)
			}
		}
		y, err := d.Output("y")
		if err != nil {
			t.Fatal(err)
		}
		for i := range y.Len() {
			if a := float32(2 * i); y.Float(i) != float64(float32(a*a)+a) {
				t.Fatalf("element %d is %v", i, y.Float(i))
			}
		}
		// Cast to float64, Mul and Cast back: what they read and write.
		moved := int64(0)
		if hidden || !gpu.Unified() {
			moved = n * (4 + 8 + 8 + 8 + 8 + 8 + 4)
		}
		launches, bytes := d.Fallbacks()
		said := strings.Join(d.Warnings(), "")
		if launches != 3 || bytes != moved {
			t.Errorf("hidden %v: %d launches move %d bytes, not 3 and %d", hidden, launches, bytes, moved)
		}
		for _, want := range []string{fmt.Sprintf("3 of %d launches run on the processor and move %d bytes a step", len(s.Launches), moved), "Mul: there is no kernel for f64 inputs"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is not in %q", want, said)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		stoptest.Ended(t, before)
	}
}
