package bench

import (
	"fmt"
	"io"
	"strings"

	"memopt/memopt/report"
)

// torchChart is the model in the chart.
const torchChart = "gpt2"

// TorchSVG draws measured bytes of a model's step against the budget: under memopt, by
// checkpointing blocks by hand, and with PyTorch's knob. The file is self-contained and follows the
// reader's light or dark colours. It reports whether the model was measured.
func TorchSVG(w io.Writer, f AnyFile) (bool, error) {
	if f.Torch == nil {
		return false, nil
	}
	for _, m := range f.Torch.Models {
		if m.Model == torchChart && m.Error == "" {
			_, err := io.WriteString(w, m.chart(f.Torch.PyTorch))
			return true, err
		}
	}
	return false, nil
}

const chartHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 420" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif" font-size="12" role="img">
<title>%s: bytes asked for and bytes measured</title>
<style>
.paper { fill: #fff; } text { fill: #1c2024; } .soft { fill: #626b75; } .axis { stroke: #b9c1c9; fill: none; } .grid { stroke: #e3e7eb; } .promise { stroke: #1c2024; stroke-dasharray: 5 4; }
.over { fill: #b3261e; fill-opacity: .06; } .memopt { fill: #2463ae; stroke: #2463ae; } .checkpoint { fill: #626b75; stroke: #626b75; } .knob { fill: #c2570c; stroke: #c2570c; }
.line { fill: none; stroke-width: 1.8; } text { stroke: none; } .least { stroke: #23764a; stroke-dasharray: 2 3; }
@media (prefers-color-scheme: dark) { .paper { fill: #14171a; } text { fill: #e4e7ea; } .soft { fill: #98a2ad; } .axis { stroke: #4a535c; } .grid { stroke: #2a3036; } .promise { stroke: #e4e7ea; }
.over { fill: #f2736b; fill-opacity: .09; } .memopt { fill: #74aef0; stroke: #74aef0; } .checkpoint { fill: #98a2ad; stroke: #98a2ad; } .knob { fill: #f0954a; stroke: #f0954a; } .least { stroke: #57b583; } }
</style>
<rect class="paper" width="860" height="420" rx="6"/>
`

// point is a budget and the bytes measured.
type point struct{ asked, measured int64 }

func (m TorchModel) chart(version string) string {
	const left, right, top, bottom = 90.0, 620.0, 70.0, 370.0
	version, _, _ = strings.Cut(version, "+") // drop the build's suffix
	eager := m.Rows[0].Measured
	var planned, hand, knob []point
	for _, r := range m.Rows {
		if r.Error != "" {
			continue
		}
		p := point{r.Asked, r.Measured}
		switch {
		case r.Kind == "knob":
			knob = append(knob, p)
		case r.Kind == "memopt" && !strings.HasPrefix(r.Name, "as "):
			planned = append(planned, p)
			hand = append(hand, point{r.Asked, m.byHand(r.Asked)})
		}
	}
	most := eager
	for _, p := range knob {
		most = max(most, p.measured)
	}
	across := func(bytes int64) float64 { return left + (right-left)*float64(bytes)/float64(most) }
	down := func(bytes int64) float64 { return bottom - (bottom-top)*float64(bytes)/float64(most) }
	var b strings.Builder
	fmt.Fprintf(&b, chartHead, m.Model)
	fmt.Fprintf(&b, `<text x="%g" y="28" font-size="15" font-weight="600">A training step of %s in PyTorch %s: bytes asked for, bytes measured</text>`+"\n", left, m.Model, version)
	fmt.Fprintf(&b, `<text class="soft" x="%g" y="47">growth over forward and backward at its highest, gradients included; eager mode takes %s</text>`+"\n", left, report.Bytes(eager))
	fmt.Fprintf(&b, `<path class="over" d="M%g %gL%g %gH%gZ"/><text class="soft" x="%g" y="%g">more than was asked for</text>`+"\n", left, bottom, across(most), down(most), left, left+12, top+18)
	for i := range 5 {
		n := most * int64(i) / 4
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="soft" x="%g" y="%.1f" text-anchor="end">%s</text><text class="soft" x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n",
			left, right, down(n), down(n), left-8, down(n)+4, report.Bytes(n), across(n), bottom+18, report.Bytes(n))
	}
	fmt.Fprintf(&b, `<path class="axis" d="M%g %gV%gH%g"/><text class="soft" x="%g" y="%g" text-anchor="middle">asked for</text><text class="soft" x="%g" y="%g" text-anchor="end">measured</text>`+"\n",
		left, top, bottom, right, (left+right)/2, bottom+38, left-8, top-12)
	fmt.Fprintf(&b, `<path class="promise" d="M%g %gL%g %g"/>`+"\n", left, bottom, across(most), down(most))
	series := func(class string, points []point, radius float64) {
		var path strings.Builder
		for i, p := range points {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], across(p.asked), down(p.measured))
		}
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`+"\n", class, path.String())
		for _, p := range points {
			fmt.Fprintf(&b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%g"><title>asked for %s, measured %s</title></circle>`+"\n", class, across(p.asked), down(p.measured), radius, report.Bytes(p.asked), report.Bytes(p.measured))
		}
	}
	series("checkpoint", hand, 3)
	series("knob", knob, 3.5)
	series("memopt", planned, 4)
	y := top + 30
	key := func(class, title string, lines ...string) {
		fmt.Fprintf(&b, `<circle class="%s" cx="648" cy="%g" r="4"/><text x="660" y="%g" font-weight="600">%s</text>`+"\n", class, y-4, y, title)
		for _, l := range lines {
			y += 17
			fmt.Fprintf(&b, `<text class="soft" x="660" y="%g">%s</text>`+"\n", y, l)
		}
		y += 30
	}
	lowest := planned[len(planned)-1]
	key("memopt", "memopt.optimize", "at each budget", fmt.Sprintf("down to %s", report.Bytes(lowest.measured)))
	key("checkpoint", "checkpoint(), by hand", "the best of some choices", "that fits, else the lowest")
	key("knob", "PyTorch&#39;s knob", "activation_memory_budget", "from 1 to 0, of eager&#39;s peak")
	fmt.Fprintf(&b, `<line class="promise" x1="640" x2="656" y1="%g" y2="%g"/><text x="660" y="%g">what was asked for</text>`+"\n", y-4, y-4, y)
	b.WriteString("</svg>\n")
	return b.String()
}

// byHand is the peak of checkpointing by hand within a budget at the least compute, else its lowest
// peak.
func (m TorchModel) byHand(budget int64) int64 {
	if found := m.cheapest(&TorchRow{Asked: budget}, "checkpoint"); found != nil {
		return found.Measured
	}
	lowest := m.Rows[0].Measured
	for _, r := range m.Rows {
		if r.Kind == "checkpoint" && r.Error == "" {
			lowest = min(lowest, r.Measured)
		}
	}
	return lowest
}
