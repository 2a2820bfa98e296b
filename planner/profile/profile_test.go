package profile

import (
	"strings"
	"testing"

	"memopt/internal/graph"
)

func TestShipped(t *testing.T) {
	for _, name := range Shipped() {
		p, err := For(name)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(p.JSON()); err != nil || string(again.JSON()) != string(p.JSON()) {
			t.Errorf("%s: its file gives another profile: %v", name, err)
		}
	}
	if _, err := For("h1000"); err == nil || !strings.Contains(err.Error(), "h100") {
		t.Errorf("of no device: %v", err)
	}
}

func TestPrice(t *testing.T) {
	p := &Profile{Format: Format, Name: "x", Source: "test", Launch: 100, Host: 1000, Second: Second{Again: 1050},
		Bandwidth: map[string]float64{"": 10, "gather": 5},
		Rates:     map[string]map[string]float64{"": {"": 2}, "product": {"": 100, "bf16": 1000}}}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		w    Work
		want Price
	}{
		{Work{Kernel: graph.PointwiseKernel}, Price{100, 1000}},
		{Work{Kernel: graph.PointwiseKernel, Moved: 5000}, Price{600, 1000}},
		{Work{Kernel: graph.GatherKernel, Moved: 5000}, Price{1100, 1000}},
		{Work{Kernel: graph.PointwiseKernel, Moved: 5000, Flops: 4000}, Price{2100, 1000}},
		{Work{Kernel: graph.ProductKernel, Type: graph.Float32, Flops: 100000}, Price{1100, 1000}},
		{Work{Kernel: graph.ProductKernel, Type: graph.BFloat16, Flops: 100000}, Price{200, 1000}},
		{Work{Kernel: graph.PointwiseKernel, Moved: 5000, Calls: 3}, Price{800, 3000}},
	} {
		if got := p.Price(c.w); got != c.want {
			t.Errorf("%+v takes %+v, not %+v", c.w, got, c.want)
		}
	}
	if got := p.PriceAgain(Work{Calls: 2}); got != (Price{200, 2100}) {
		t.Errorf("again: %+v", got)
	}
	if ns := (Price{10, 20}).Clock()(Price{1, 2}); ns != 2 {
		t.Errorf("a step that waits for its program is priced at %d", ns)
	}
	if ns := (Price{20, 10}).Clock()(Price{1, 2}); ns != 1 {
		t.Errorf("a step that waits for its device is priced at %d", ns)
	}
}

// measured is a profile that has what is measured of a processor beside.
const measured = `{"format": "memopt.device/1", "name": "cpu", "source": "test", "one_clock": true, "launch_ns": 100, "host_ns": 1000, "again_ns": 500,
 "replays": {"native": {"again_ns": 500}, "checkpoint": {"again_ns": 9000}, "graph": {"again_ns": 0}},
 "passes": {"forward_ns": 2000, "backward_ns": 300}, "bytes_per_ns": {"": 10, "math": 5}, "bytes_per_ns_of": {"bf16": {"": 4}},
 "flops_per_ns": {"": {"": 100}}, "arithmetic": {"product": {"": {"flops_per_ns": 200, "bytes_per_ns": 20}}},
 "backward_arithmetic": {"product": {"": {"flops_per_ns": 50, "bytes_per_ns": 10}, "bf16": {"flops_per_ns": 400, "bytes_per_ns": 5}}},
 "far": [{"beyond": 1000, "bytes_per_ns": 50}, {"beyond": 100000, "bytes_per_ns": 2}]}`

// TestMeasured: passes, gradients, types and far memory have times of their own where a profile has them.
func TestMeasured(t *testing.T) {
	p, err := Parse([]byte(measured))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		w    Work
		want int64
	}{
		{"forward", Work{Moved: 1000}, 100 + 2000 + 100},
		{"backward", Work{Moved: 1000, Backward: true, Calls: 2}, 200 + 600 + 100},
		{"bfloat16", Work{Moved: 1000, Type: graph.BFloat16}, 100 + 2000 + 250},
		{"a class that the type does not name", Work{Kernel: graph.MathKernel, Moved: 1000, Type: graph.BFloat16}, 100 + 2000 + 250},
		{"a product", Work{Kernel: graph.ProductKernel, Flops: 20000, Moved: 400}, 100 + 2000 + 100 + 20},
		{"its gradients", Work{Kernel: graph.ProductKernel, Flops: 20000, Moved: 400, Backward: true}, 100 + 300 + 400 + 40},
		{"its gradients in bfloat16", Work{Kernel: graph.ProductKernel, Type: graph.BFloat16, Flops: 20000, Moved: 400, Backward: true}, 100 + 300 + 50 + 80},
		{"attention, of which nothing is said", Work{Kernel: graph.AttentionKernel, Flops: 20000, Moved: 400}, 100 + 2000 + 200},
		{"near memory", Work{Moved: 1000, Touches: []Touch{{500, 1000}}}, 100 + 2000 + 100},
		{"farther", Work{Moved: 1000, Touches: []Touch{{500, 1001}, {100, 100001}}}, 100 + 2000 + 100 + 10 + 50},
	} {
		if got := p.Price(c.w); got != (Price{c.want, 0}) {
			t.Errorf("%s takes %+v, not %d", c.name, got, c.want)
		}
	}
	for replay, want := range map[string]int64{Native: 600, Checkpoint: 9100, Captured: 100} {
		if got := p.By(replay).PriceAgain(Work{}); got.Device != want {
			t.Errorf("again by %s takes %d, not %d", replay, got.Device, want)
		}
	}
	if got := p.By(Captured).Price(Work{}); got.Device != 100 {
		t.Errorf("a captured operator takes %d", got.Device)
	}
	for old, spoiled := range map[string]string{
		`"beyond": 100000`:                      `"beyond": 1000`,
		`"bytes_per_ns": 50}`:                   `"bytes_per_ns": 0}`,
		`"bytes_per_ns_of": {"bf16"`:            `"bytes_per_ns_of": {"bf17"`,
		`"arithmetic": {"product"`:              `"arithmetic": {"products"`,
		`{"flops_per_ns": 200`:                  `{"flops_per_ns": -1`,
		`"forward_ns": 2000`:                    `"forward_ns": -1`,
		`"bytes_per_ns_of": {"bf16": {"": 4}}`:  `"bytes_per_ns_of": {"bf16": {"math": 4}}`,
		`{"": {"flops_per_ns": 50, "bytes_per_`: `{"f32": {"flops_per_ns": 50, "bytes_per_`,
	} {
		if _, err := Parse([]byte(strings.Replace(measured, old, spoiled, 1))); err == nil {
			t.Errorf("a profile with %s is read", spoiled)
		}
	}
}

func TestSpoiled(t *testing.T) {
	p, _ := For("h100")
	text := string(p.JSON())
	for _, c := range []struct{ old, new, says string }{
		{`"memopt.device/1"`, `"memopt.device/9"`, "format"},
		{`"name": "h100"`, `"name": ""`, "no name"},
		{`"launch_ns": 2500`, `"launch_ns": -1`, "launch_ns"},
		{`"host_ns": 9000`, `"host_ns": 1e300`, "host_ns"},
		{`"gather"`, `"gathers"`, "gathers"},
		{`"product"`, `"products"`, "products"},
		{`"bf16"`, `"bfloat16"`, "bfloat16"},
		{`"format"`, `"fromat"`, "fromat"},
	} {
		spoiled := strings.Replace(text, c.old, c.new, 1)
		if spoiled == text {
			t.Fatalf("no %s in %s", c.old, text)
		}
		if _, err := Parse([]byte(spoiled)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
}
