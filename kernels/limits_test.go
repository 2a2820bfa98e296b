package kernels_test

import (
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

// TestLimits: drivers for the processor hold nobody to their limits, so the
// dispatches themselves are looked at: whatever a device takes, no operator asks
// for more groups, more constants, places that devices do not bind at, or work space
// that a plan does not have.
func TestLimits(t *testing.T) {
	const mostPush, alignment = 128 / 4, 64
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	dispatches, refused := 0, 0
	for _, op := range kernels.Library.All() {
		if op.Lower == nil {
			continue
		}
		cases, err := kernels.Cases(op)
		if err != nil {
			t.Fatal(err)
		}
		large := *op
		if large.Samples = op.Tests.Large; large.Samples != nil {
			more, err := kernels.Cases(&large)
			if err != nil {
				t.Fatal(err)
			}
			cases = append(cases, more...)
		}
		cases = append(cases, kernels.HalfCases(op, graph.Float16)...)
		for _, c := range cases {
			plan, err := graph.Lower(c.Node, b, graph.PlanLimits)
			if err != nil {
				t.Fatal(err)
			}
			largest := int64(0)
			for _, o := range slices.Concat(plan.In, plan.Out) {
				if o != nil {
					largest = max(largest, int64(o.Len())*o.Type.Size())
				}
			}
			for _, l := range []graph.Limits{
				graph.PlanLimits,
				{Subgroup: 8, Range: 1 << 27, Groups: [3]int{65535, 65535, 65535}, Int64: true, Int8: true, Addressed: true},
				{Subgroup: 32, Range: 1 << 32, Groups: [3]int{7, 300, 64}, Int64: true, Int8: true, Shared: true, Addressed: true},
				{Subgroup: 64, Range: 512, Groups: [3]int{7, 50, 50}},
				{Subgroup: 8, Range: max(64, largest/2), Groups: [3]int{65535, 65535, 65535}, Int64: true, Int8: true, Far: true},
				{Subgroup: 32, Range: max(64, largest/3), Groups: [3]int{3, 2000, 64}, Int64: true, Int8: true, Far: true},
				{Subgroup: 8, Range: max(64, largest/7), Groups: [3]int{65535, 65535, 65535}, Int64: true, Int8: true, Shared: true, Addressed: true, Far: true},
				{Subgroup: 8, Range: 64, Groups: [3]int{65535, 65535, 65535}, Int64: true, Int8: true, Far: true}, // less than a row
			} {
				most := graph.AddressedPush
				if l.Far {
					most = 256 // what devices of today have, of those with addresses
				}
				low, err := graph.Lower(c.Node, b, l)
				if err != nil {
					t.Fatal(err)
				}
				if low.Refused != "" {
					if refused++; plan.Refused == "" && l.Int64 {
						t.Errorf("%s, %s, shown %d bytes: %s", op.FullName(), c.Text, l.Range, low.Refused)
					}
				} else if low.Scratch > plan.Scratch {
					t.Errorf("%s, %s: %d bytes of work space, and a plan has %d", op.FullName(), c.Text, low.Scratch, plan.Scratch)
				}
				for _, d := range low.Dispatches {
					dispatches++
					if i := low.TooFar(d); l.Far && i >= 0 {
						t.Errorf("%s, %s: kernel %s sees %d bytes of buffer %d, and is shown %d", op.FullName(), c.Text, d.Kernel.Name, low.Seen(d.Buffers[i]), i, l.Range)
					}
					for i, g := range d.Groups {
						if g < 1 || g > l.Groups[i] {
							t.Errorf("%s, %s: groups %v of kernel %s, at most %v", op.FullName(), c.Text, d.Groups, d.Kernel.Name, l.Groups)
						}
					}
					if n := 4*len(d.Push) + 8*len(d.Buffers); d.Kernel.Bound != nil && n > most {
						t.Errorf("%s: %d bytes of constants and addresses for kernel %s", op.FullName(), n, d.Kernel.Name)
					}
					if len(d.Push) > mostPush {
						t.Errorf("%s: %d words of constants for kernel %s", op.FullName(), len(d.Push), d.Kernel.Name)
					}
					for i, x := range d.Buffers {
						if x.At%alignment != 0 || x.At < 0 || x.Bytes < 0 || x.Place == graph.PlaceScratch && x.At+x.Bytes > low.Scratch {
							t.Errorf("%s, %s: buffer %d of kernel %s begins at %d and has %d bytes", op.FullName(), c.Text, i, d.Kernel.Name, x.At, x.Bytes)
						}
					}
				}
			}
		}
	}
	if dispatches < 10000 || refused > dispatches/4 {
		t.Errorf("%d dispatches, %d refused", dispatches, refused)
	}
}
