package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/kernels"
	"memopt/kernels/nodes"
	"memopt/planner"
	"memopt/planner/profile"
)

// probe is an operator whose time tells one figure of a device.
type probe struct {
	name  string
	build func(b nodes.Builder, name string, in operand) []*graph.Value
	// tells notes the figure, from the time of the operator and what it does.
	tells func(p *profile.Profile, ns float64, w profile.Work)
}

// operand makes an input of a probe.
type operand func(t graph.DType, dims ...int) *graph.Value

// Sizes of operands: beyond the caches of a processor's core, and enough to fill a graphics processor.
const (
	probeRows, probeWidth = 4096, 1024
	probeSide             = 768
	probeChannels         = 64
	probePlane            = 56
	probeImages           = 8
	probeHeads, probeHead = 32, 64
	probeTokens           = 512
)

// probes lists what is measured. Each figure leaves out the time of a launch, which the first measures.
var probes = []probe{
	{"launch", func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.Neg(name, in(graph.Float32, 16)))
	},
		func(p *profile.Profile, ns float64, _ profile.Work) { p.Launch = ns }},
	{"pointwise", func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.Add(name, in(graph.Float32, probeRows, probeWidth), in(graph.Float32, probeRows, probeWidth)))
	},
		func(p *profile.Profile, ns float64, w profile.Work) { p.Bandwidth[""] = w.Moved / ns }},
	{"arithmetic", func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.Gelu(name, in(graph.Float32, probeRows, probeWidth), "none"))
	},
		func(p *profile.Profile, ns float64, w profile.Work) {
			p.Rates[""] = map[string]float64{"": float64(w.Flops) / ns}
		}},
	{"reduction", func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.LayerNorm(name, in(graph.Float32, probeRows, probeWidth), in(graph.Float32, probeWidth), in(graph.Float32, probeWidth), 1e-5))
	}, func(p *profile.Profile, ns float64, w profile.Work) { p.Bandwidth["reduction"] = w.Moved / ns }},
	{"gather", func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.Gather(name, in(graph.Float32, probeRows, probeWidth), in(graph.Int64, probeRows)))
	},
		func(p *profile.Profile, ns float64, w profile.Work) { p.Bandwidth["gather"] = w.Moved / ns }},
	{"copy", func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.Transpose(name, in(graph.Float32, probeRows, probeWidth), 1, 0))
	},
		func(p *profile.Profile, ns float64, w profile.Work) { p.Bandwidth["copy"] = w.Moved / ns }},
	{"product", product(graph.Float32), ratePerClass},
	{"convolution", convolution(graph.Float32, probeImages, probePlane), ratePerClass},
	{"attention", attention(graph.Float32, probeHeads, probeTokens), ratePerClass},
	{"attention backward", attentionBackward(graph.Float32, probeHeads, probeTokens), ratePerClass},
	{"product of float16", product(graph.Float16), ratePerClass},
}

// probesOfKernels are measured behind the others on devices that run kernels, probesOfReferences on the processor, which computes them by
// their references, at less than a GFLOP/s whatever their sizes.
var (
	probesOfKernels    = halves(probeImages, probePlane, probeHeads, probeTokens)
	probesOfReferences = halves(1, probePlane/4, 2, probeTokens/8)
)

func halves(images, plane, heads, tokens int) []probe {
	return []probe{
		{"convolution of float16", convolution(graph.Float16, images, plane), ratePerClass},
		{"attention of float16", attention(graph.Float16, heads, tokens), ratePerClass},
		{"attention backward of float16", attentionBackward(graph.Float16, heads, tokens), ratePerClass},
	}
}

func one(v *graph.Value) []*graph.Value { return []*graph.Value{v} }

func product(t graph.DType) func(b nodes.Builder, name string, in operand) []*graph.Value {
	return func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.MatMul(name, in(t, probeSide, probeSide), in(t, probeSide, probeSide)))
	}
}

func convolution(t graph.DType, images, plane int) func(b nodes.Builder, name string, in operand) []*graph.Value {
	return func(b nodes.Builder, name string, in operand) []*graph.Value {
		return one(b.Conv(name, in(t, images, probeChannels, plane, plane), in(t, probeChannels, probeChannels, 3, 3), nodes.Window{Size: 3, Stride: 1, Pad: 1}))
	}
}

func attention(t graph.DType, heads, tokens int) func(b nodes.Builder, name string, in operand) []*graph.Value {
	return func(b nodes.Builder, name string, in operand) []*graph.Value {
		rows := func() *graph.Value { return in(t, heads, tokens, probeHead) }
		return one(b.FlashAttention(name, rows(), rows(), rows(), 0.125))
	}
}

func attentionBackward(t graph.DType, heads, tokens int) func(b nodes.Builder, name string, in operand) []*graph.Value {
	return func(b nodes.Builder, name string, in operand) []*graph.Value {
		rows := func() *graph.Value { return in(t, heads, tokens, probeHead) }
		return b.FlashAttentionGrads(name, rows(), rows(), rows(), rows(), rows(), in(graph.Float32, heads, tokens, 1), 0.125)
	}
}

// ratePerClass notes the operations per nanosecond of the operator's class and type. That of float32 comes first, and stands for every
// type that has none.
func ratePerClass(p *profile.Profile, ns float64, w profile.Work) {
	class, of := w.Kernel.String(), w.Type.String()
	if w.Type == graph.Float32 {
		p.Rates[class], of = map[string]float64{}, ""
	}
	p.Rates[class][of] = float64(w.Flops) / ns
}

// probeRuns is how often probes run; the least time counts, as others' work only adds to it.
const probeRuns = 7

// Measure measures what operators cost on a device, in a few seconds.
func Measure(ctx context.Context, c configs.Config, say func(string)) (*profile.Profile, error) {
	return stop.When(ctx, func() (*profile.Profile, error) {
		device := c.Device
		p := &profile.Profile{Format: profile.Format, Source: "measured", OneClock: !Lowered(device), Bandwidth: map[string]float64{}, Rates: map[string]map[string]float64{}}
		all := slices.Concat(probes, probesOfReferences)
		if Lowered(device) {
			all = slices.Concat(probes, probesOfKernels)
		}
		for _, x := range all {
			stop.Poll(ctx)
			say(x.name)
			ns, w, name, err := x.run(ctx, device)
			if err != nil {
				return nil, fmt.Errorf("measuring %s on %s: %w", x.name, device, err)
			}
			p.Name = name
			x.tells(p, max(ns-p.Launch, ns/2), w)
		}
		say("copies")
		var err error
		if p.Copies, err = measureCopies(ctx, c); err != nil {
			return nil, fmt.Errorf("measuring copies on %s: %w", device, err)
		}
		return p, p.Check()
	})
}

// run times a probe.
func (x probe) run(ctx context.Context, device string) (ns float64, w profile.Work, name string, err error) {
	g, inputs, err := x.graph()
	if err != nil {
		return 0, w, "", err
	}
	plan, err := planner.Make(g, planner.Request{Strategy: "keep-all", Lowered: Lowered(device), Context: ctx})
	if err != nil {
		return 0, w, "", err
	}
	s, err := plan.Schedule()
	if err != nil {
		return 0, w, "", err
	}
	d, err := Open(device, s, Opening{})
	if err != nil {
		return 0, w, "", err
	}
	defer d.Close()
	at := slices.IndexFunc(s.Launches, func(l schedule.Launch) bool { return l.Node != nil && l.Node.Name == x.name })
	least := time.Duration(1 << 62)
	for i := range probeRuns {
		stop.Poll(ctx)
		t, err := d.Run(schedule.Run{Inputs: inputs, Times: true, Lent: true})
		if err != nil {
			return 0, w, "", err
		}
		if len(t.Launches) == 0 || at < 0 {
			return 0, w, "", fmt.Errorf("the device does not tell what its launches take")
		}
		if i > 0 { // the first warms up caches and compiles kernels
			least = min(least, t.Launches[at])
		}
	}
	return float64(max(least, 1)), plan.Work(x.name), d.Name(), nil
}

// graph is the program of a probe, and numbers for its inputs.
func (x probe) graph() (*graph.Graph, map[string]*graph.Tensor, error) {
	b := nodes.New(kernels.Library, "probe")
	inputs := map[string]*graph.Tensor{}
	err := graph.Try(func() {
		outs := x.build(b, x.name, func(t graph.DType, dims ...int) *graph.Value {
			shape := make(graph.Shape, len(dims))
			for i, n := range dims {
				shape[i] = graph.Num(int64(n))
			}
			name := fmt.Sprint("x", len(inputs))
			v, err := b.Define(graph.Input, name, t, shape)
			if err != nil {
				panic(err)
			}
			inputs[name] = numbers(t, dims)
			return v
		})
		b.Graph.Outputs = append(b.Graph.Outputs, outs...)
	})
	return b.Graph, inputs, err
}

// numbers fills an operand: rows in a scattered order, or numbers that no operation turns into denormal ones.
func numbers(t graph.DType, dims []int) *graph.Tensor {
	x := graph.NewTensor(t, dims...)
	if t == graph.Int64 {
		for i, rows := 0, graph.View[int64](x); i < len(rows); i++ {
			rows[i] = int64(i * 2654435761 % probeRows)
		}
		return x
	}
	for i := range x.Len() {
		x.SetFloat(i, float64(i%13)/13)
	}
	return x
}
