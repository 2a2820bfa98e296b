package vulkan

import (
	"os"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/planner"
)

// TestListLength: no submission is longer than displays and watchdogs bear, also
// where one launch is hundreds of dispatches.
func TestListLength(t *testing.T) {
	gpu, err := Choose(os.Getenv("MEMOPT_TEST_VULKAN"))
	if err != nil {
		if os.Getenv("MEMOPT_NEED_VULKAN") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	g, err := graph.Parse(kernels.Library, "x f32[400000] = input\ny = Add(x, x)\nz = Mul(y, x)\noutput z")
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Lowered: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(s, gpu, Options{Range: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all := 0
	for _, part := range d.whole.parts {
		for _, l := range part.lists {
			if all += l.Commands; l.Commands > listLength {
				t.Errorf("a list of %d commands; at most %d", l.Commands, listLength)
			}
		}
	}
	if len(d.launches[0].dispatches) <= listLength || all < 2*len(d.launches[0].dispatches) {
		t.Errorf("%d commands, of them %d of a launch", all, len(d.launches[0].dispatches))
	}
	x := graph.NewTensor(graph.Float32, 400000)
	for i := range x.Len() {
		x.SetFloat(i, float64(i%100))
	}
	if _, err := d.Run(schedule.Run{Inputs: map[string]*graph.Tensor{"x": x}}); err != nil {
		t.Fatal(err)
	}
	z, err := d.Output("z")
	if err != nil {
		t.Fatal(err)
	}
	for i := range z.Len() {
		if want := 2 * float64(i%100) * float64(i%100); z.Float(i) != want {
			t.Fatalf("element %d is %v, not %v", i, z.Float(i), want)
		}
	}
}
