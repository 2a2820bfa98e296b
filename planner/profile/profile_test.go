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
