package vulkan_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

// device is the one that tests run on: MEMOPT_TEST_VULKAN picks it. Without any
// the test is skipped, unless MEMOPT_NEED_VULKAN says that there must be one.
func device(t testing.TB) *vk.Physical {
	t.Helper()
	p, err := vulkan.Choose(os.Getenv("MEMOPT_TEST_VULKAN"))
	if err != nil {
		if os.Getenv("MEMOPT_NEED_VULKAN") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if said := vulkan.Messages(); said != "" {
			t.Errorf("the validation layer says:\n%s", said)
		}
	})
	return p
}

// layout puts values into a schedule that is written by hand.
type layout struct {
	s      schedule.Schedule
	inputs map[string]*graph.Tensor
	b      *graph.Binding
}

func (p *layout) place(t *testing.T, v *graph.Value, space schedule.Space, height *int64) schedule.Ref {
	shape, err := p.b.Shape(v.Shape)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(v.Type.Size())
	for _, d := range shape {
		n *= int64(d)
	}
	r := schedule.Ref{Value: v, Space: space, Offset: (*height + 63) &^ 63, Bytes: n, Shape: shape}
	*height = r.Offset + r.Bytes
	return r
}

// TestConformance: every operator and sample that has a kernel does what Eval
// does, twice with the same bits, writes nowhere else, also over its input.
func TestConformance(t *testing.T) {
	gpu := device(t)
	for _, op := range kernels.Library.All() {
		if op.Lower == nil {
			continue
		}
		t.Run(op.FullName(), func(t *testing.T) {
			cases, err := kernels.Cases(op)
			if err != nil {
				t.Fatal(err)
			}
			conform(t, gpu, op, cases, vulkan.Options{})
		})
	}
}

// TestHalves: what has a kernel for float32 has one for float16 and bfloat16,
// too, whatever its samples are. By turns, where time is short.
func TestHalves(t *testing.T) {
	gpu := device(t)
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	long := os.Getenv("MEMOPT_TEST_LONG") != ""
	for turn, half := range []graph.DType{graph.Float16, graph.BFloat16} {
		for k, op := range kernels.Library.All() {
			if op.Lower == nil || k%2 != turn && !long {
				continue
			}
			refused := map[string]bool{}
			all, err := kernels.Cases(op)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				low, err := graph.Lower(c.Node, b, graph.PlanLimits)
				if err != nil {
					t.Fatal(err)
				}
				refused[c.Text] = low.Refused != ""
			}
			cases := slices.DeleteFunc(kernels.HalfCases(op, half), func(c kernels.Case) bool { return refused[c.Text] })
			if len(cases) == 0 {
				continue
			}
			t.Run(half.String()+"/"+op.FullName(), func(t *testing.T) {
				for _, c := range cases {
					if low, err := graph.Lower(c.Node, b, graph.PlanLimits); err != nil || low.Refused != "" {
						t.Errorf("%s is refused: %v %v", c.Text, low.Refused, err)
					}
				}
				conform(t, gpu, op, cases, vulkan.Options{})
			})
		}
	}
}

// TestRanges: what goes row by row is done in pieces where a device shows a kernel
// less than a whole operand, also of 16-bit floats, to the same bits.
func TestRanges(t *testing.T) {
	gpu := withoutAddresses(t, device(t))
	tried := 0
	for _, has := range kernels.Library.All() {
		if has.Tests.Pieces == nil {
			continue
		}
		tried++
		t.Run(has.FullName(), func(t *testing.T) {
			op := *has
			op.Samples = has.Tests.Pieces
			cases, err := kernels.Cases(&op)
			if err != nil {
				t.Fatal(err)
			}
			limit := int64(4096)
			if strings.Contains(op.Samples[0], "[200000]") {
				limit = 1 << 19 // sums of all are made of parts of thousands
			}
			conform(t, gpu, &op, cases, vulkan.Options{Range: limit})
		})
	}
	if tried < 20 {
		t.Errorf("only %d operators have samples for pieces", tried)
	}
}

// trial is a case on the device, maybe with output 0 over an input.
type trial struct {
	c     kernels.Case
	over  int // −1: beside
	want  []*graph.Tensor
	first int // its launch
}

// roundedInSums is what a sum may be off by, of the root of the mean square of its like, whose float32 terms are rounded alike.
const roundedInSums = 2e-6

// conform holds cases against Eval, and gives what the device made of each.
func conform(t *testing.T, gpu *vk.Physical, op *graph.Op, cases []kernels.Case, o vulkan.Options) [][]*graph.Tensor {
	return conformWithin(t, gpu, op, cases, o, roundedInSums)
}

// conformWithin is conform for sums whose terms are rounded to fewer bits.
func conformWithin(t *testing.T, gpu *vk.Physical, op *graph.Op, cases []kernels.Case, o vulkan.Options, rounded float64) [][]*graph.Tensor {
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &layout{b: b, inputs: map[string]*graph.Tensor{}}
	p.s.Binding = b
	var trials []trial
	refused := 0
	for i, c := range cases {
		low, err := graph.Lower(c.Node, b, graph.PlanLimits)
		if err != nil {
			t.Fatal(err)
		}
		if low.Refused != "" {
			refused++
			continue
		}
		want := eval(t, b, c)
		overs := []int{-1}
		for _, k := range op.InPlace {
			if k < len(c.In) && c.In[k] != nil && c.Node.Outputs[0] != nil && len(c.In[k].Bytes) == len(want[0].Bytes) && len(want[0].Bytes) > 0 {
				overs = append(overs, k)
			}
		}
		for _, over := range overs {
			l := schedule.Launch{Node: c.Node}
			for k, v := range c.Node.Inputs {
				if v == nil {
					l.In = append(l.In, schedule.Ref{})
					continue
				}
				r := p.place(t, v, schedule.Staging, &p.s.Staging)
				// Every case has values of the same names.
				w := *v
				w.Name = fmt.Sprintf("case %d over %d input %d", i, over, k)
				w.Kind = graph.Input
				r.Value = &w
				l.In = append(l.In, r)
				p.s.Fixed = append(p.s.Fixed, r)
				p.inputs[w.Name] = c.In[k]
			}
			for o, v := range c.Node.Outputs {
				switch {
				case v == nil:
					l.Out = append(l.Out, schedule.Ref{})
					continue
				case op.Overwrites != nil:
					r := l.In[op.Overwrites[o]]
					l.Out = append(l.Out, r)
				case o == 0 && over >= 0:
					r := l.In[over]
					r.Shape = want[0].Shape
					l.Out = append(l.Out, r)
				default:
					l.Out = append(l.Out, p.place(t, v, schedule.Arena, &p.s.Arena))
				}
				w := *v
				w.Name = fmt.Sprintf("case %d over %d output %d", i, over, o)
				l.Out[o].Value = &w
				p.s.Outputs = append(p.s.Outputs, l.Out[o])
			}
			if low.Scratch > 0 {
				at := (p.s.Arena + 63) &^ 63
				l.Scratch = schedule.Ref{Space: schedule.Arena, Offset: at, Bytes: low.Scratch}
				p.s.Arena = at + low.Scratch
			}
			trials = append(trials, trial{c, over, want, len(p.s.Launches)})
			p.s.Launches = append(p.s.Launches, l)
		}
	}
	if len(trials) == 0 {
		t.Fatalf("all %d samples are refused", refused)
	}
	o.Poison = true
	d, err := vulkan.Open(&p.s, gpu, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n, _ := d.Fallbacks(); n > 0 {
		t.Errorf("%v", d.Warnings())
	}
	run := func() (all [][]*graph.Tensor) {
		if _, err := d.Run(schedule.Run{Inputs: p.inputs, Seed: 7, Step: 3}); err != nil {
			t.Fatal(err)
		}
		for _, x := range trials {
			var out []*graph.Tensor
			for _, r := range p.s.Launches[x.first].Out {
				if r.Value == nil {
					out = append(out, nil)
					continue
				}
				y, err := d.Output(r.Value.Name)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, y)
			}
			all = append(all, out)
		}
		return all
	}
	got, again := run(), run()
	for i, x := range trials {
		name := x.c.Text
		if x.over >= 0 {
			name += fmt.Sprintf(" over input %d", x.over)
		}
		near(t, name, got[i], x.want, rounded)
		for o, y := range got[i] {
			if y != nil && !bytes.Equal(y.Bytes, again[i][o].Bytes) {
				t.Errorf("%s: output %d has other bits the second time", name, o)
			}
		}
	}
	return got
}

// eval is what is true.
func eval(t *testing.T, b *graph.Binding, c kernels.Case) []*graph.Tensor {
	call := &graph.Call{Node: c.Node, In: slices.Clone(c.In), Seed: 7, Step: 3, Parallel: func(n, _ int, f func(lo, hi int)) { f(0, n) }}
	for o, v := range c.Node.Outputs {
		if v == nil {
			call.Out = append(call.Out, nil)
			continue
		}
		shape, err := b.Shape(v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		y := graph.NewTensor(v.Type, shape...)
		if c.Node.Op.Overwrites != nil {
			in := c.In[c.Node.Op.Overwrites[o]]
			copy(y.Bytes, in.Bytes)
			call.In[c.Node.Op.Overwrites[o]] = y
		}
		call.Out = append(call.Out, y)
	}
	c.Node.Op.Eval(call)
	return call.Out
}

// tolerance is two units in the last place of 16-bit floats, relative, and a
// fourth of that for what cancels: a last place of float32 may round the other
// way, and sums that Eval rounds at each term may be rounded once.
var tolerance = map[graph.DType]float64{graph.Float16: 1.0 / (1 << 9), graph.BFloat16: 1.0 / (1 << 6)}

func near(t *testing.T, what string, got, want []*graph.Tensor, rounded float64) {
	t.Helper()
	for i := range want {
		if want[i] == nil {
			continue
		}
		wrong, off, cancelled := 0, tolerance[want[i].Type], rounded*meanSize(want[i])
		for k := range want[i].Len() {
			a, b := got[i].Float(k), want[i].Float(k)
			if a != b && !(math.IsNaN(a) && math.IsNaN(b)) && !(math.Abs(a-b) <= 2e-5*(1+math.Abs(b))+off*(0.25+math.Abs(b))+cancelled) {
				if wrong++; wrong <= 3 {
					t.Errorf("%s: output %d, element %d is %v, not %v", what, i, k, a, b)
				}
			}
		}
	}
}

// meanSize is the root of the mean square of floats: the roundings of a sum go by
// the size of what is added up, not by what happens to be left of it.
func meanSize(x *graph.Tensor) float64 {
	sum, n := 0.0, 0.0
	for k := range x.Len() {
		if v := x.Float(k); !math.IsNaN(v) && !math.IsInf(v, 0) {
			sum, n = sum+v*v, n+1
		}
	}
	return math.Sqrt(sum / max(n, 1))
}

// keepAll is the schedule of a program's step with everything kept.
func keepAll(t testing.TB, g *graph.Graph) *schedule.Schedule {
	t.Helper()
	_, s := planned(t, g, planner.Request{Strategy: "keep-all"})
	return s
}

// planned is the plan of a program for devices with kernels, and its schedule.
func planned(t testing.TB, g *graph.Graph, r planner.Request) (*planner.Plan, *schedule.Schedule) {
	t.Helper()
	r.Lowered = true
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

// lowered is what becomes of an operator on a sample.
func lowered(t *testing.T, domain, name, sample string, limits graph.Limits) *graph.Lowering {
	t.Helper()
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	op := *kernels.Library.Find(domain, name, 25)
	op.Samples = []string{sample}
	cases, err := kernels.Cases(&op)
	if err != nil {
		t.Fatal(err)
	}
	l, err := graph.Lower(cases[0].Node, b, limits)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRangesOfHalves: what would keep its sums in 16 bits from piece to piece is
// left to the processor.
func TestRangesOfHalves(t *testing.T) {
	limits := graph.PlanLimits
	low := func() *graph.Lowering {
		return lowered(t, "com.microsoft", "FusedMatMul", "f16[400,10], f16[400,10]; transA=1", limits)
	}
	if refused := low().Refused; refused != "" {
		t.Errorf("whole: %v", refused)
	}
	limits.Range = 4096
	if refused := low().Refused; !strings.Contains(refused, "run in pieces, its sums need work space") {
		t.Errorf("in pieces: %v", refused)
	}
}
