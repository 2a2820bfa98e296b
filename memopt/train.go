package memopt

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"memopt/autograd"
	"memopt/memopt/graph"
	"memopt/memopt/tensorfile"
	"memopt/planner"
)

// Training says how long to train, on what, and what to keep.
type Training struct {
	Steps  int
	LR     float64
	Seed   uint64
	Data   string // npz; "" makes numbers up
	Save   string // safetensors, written at the end
	Resume string // safetensors, read first
	// SaveEvery also saves after every so many steps; 0 does not.
	SaveEvery int
	// Progress is called after every step, if it is set.
	Progress func(step, steps int, loss float64, took time.Duration)
}

// Result is what training did.
type Result struct {
	Device    string
	FirstStep int // steps that were done before, by a resumed run
	Losses    []float64
	StepTimes []time.Duration
	Trace     planner.Trace // of the last run
	Plan      *planner.Plan
	Warnings  []string
}

// train runs the steps. A step is one update; with micro-batches it is several
// runs, whose losses are averaged.
func train(m *Model, p *planner.Plan, s *planner.Schedule, d Device, t Training) (*Result, error) {
	r := &Result{Device: d.Name(), Plan: p}
	var data *tensorfile.Set
	var err error
	if t.Data != "" {
		if data, err = tensorfile.ReadNPZ(t.Data); err != nil {
			return nil, input(err)
		}
	} else {
		r.Warnings = append(r.Warnings, "no --data: training on made-up numbers")
	}
	feed, err := newFeeder(m.Graph, s.Binding, data, t.Seed)
	if err != nil {
		return nil, err
	}
	if t.Resume != "" {
		if r.FirstStep, err = resume(m.Graph, d, t.Resume); err != nil {
			return nil, err
		}
	}
	micro := 1
	lr := graph.TensorOf(graph.Float32, []float32{float32(t.LR)})
	index := graph.NewTensor(graph.Int64)
	if m.Graph.ByName(autograd.MicroBatch) != nil {
		micro = m.Config.Accumulate
	}
	for i := range t.Steps {
		step := r.FirstStep + i
		begin := time.Now()
		var loss float64
		for k := range micro {
			index.SetInt(0, int64(k))
			in := feed.inputs(step*micro + k)
			in[autograd.LearningRate], in[autograd.MicroBatch] = lr, index
			trace, err := d.Run(planner.Run{Inputs: in, Seed: t.Seed, Step: uint64(step*micro + k), Accumulate: k < micro-1})
			if err != nil {
				return nil, err
			}
			r.Trace = trace
			if m.Graph.Loss != nil {
				x, err := d.Output(m.Graph.Loss.Name)
				if err != nil {
					return nil, err
				}
				loss += x.Float(0) / float64(micro)
			}
		}
		took := time.Since(begin)
		r.Losses, r.StepTimes = append(r.Losses, loss), append(r.StepTimes, took)
		if t.Progress != nil {
			t.Progress(i+1, t.Steps, loss, took)
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			r.Warnings = append(r.Warnings, fmt.Sprintf("the loss is %v after step %d; a lower --lr may help", loss, step+1))
			break
		}
		if t.Save != "" && t.SaveEvery > 0 && (i+1)%t.SaveEvery == 0 && i+1 < t.Steps {
			if err := save(m.Graph, d, t.Save, step+1); err != nil {
				return nil, err
			}
		}
	}
	if t.Save != "" {
		if err := save(m.Graph, d, t.Save, r.FirstStep+len(r.Losses)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// stepsKey is the checkpoint's metadata entry for the steps that are done.
const stepsKey = "memopt.steps"

// save writes parameters and optimizer states.
func save(g *graph.Graph, d Device, path string, steps int) error {
	set := &tensorfile.Set{Tensors: map[string]*graph.Tensor{}}
	for _, v := range kept(g) {
		x, err := d.State(v.Name)
		if err != nil {
			return err
		}
		set.Names = append(set.Names, v.Name)
		set.Tensors[v.Name] = x
	}
	return tensorfile.WriteSafetensors(path, set, map[string]string{stepsKey: strconv.Itoa(steps), "memopt.version": Version})
}

// kept lists what a checkpoint holds: all that changes, and all parameters.
func kept(g *graph.Graph) []*graph.Value {
	var out []*graph.Value
	for _, v := range g.Values {
		updated := slices.ContainsFunc(g.Updates, func(u graph.Update) bool { return u.State == v })
		if v.Kind == graph.State || v.Kind == graph.Param || updated {
			out = append(out, v)
		}
	}
	return out
}

// resume brings a checkpoint back; everything that save writes must be there.
func resume(g *graph.Graph, d Device, path string) (steps int, err error) {
	set, meta, err := tensorfile.ReadSafetensors(path)
	if err != nil {
		return 0, input(err)
	}
	if steps, err = strconv.Atoi(meta[stepsKey]); err != nil || steps < 0 {
		return 0, input(fmt.Errorf("memopt: %s: metadata %q should be the number of steps done, not %q", filepath.Base(path), stepsKey, meta[stepsKey]))
	}
	for _, v := range kept(g) {
		x := set.Tensors[v.Name]
		if x == nil {
			return 0, input(fmt.Errorf("memopt: checkpoint %s has no tensor %q; it is of another model or optimizer", filepath.Base(path), v.Name))
		}
		if err := d.SetState(v.Name, x); err != nil {
			return 0, input(fmt.Errorf("memopt: checkpoint %s: %w", filepath.Base(path), err))
		}
	}
	return steps, nil
}

// Median is the middle of the step times.
func (r *Result) Median() time.Duration {
	if len(r.StepTimes) == 0 {
		return 0
	}
	t := slices.Sorted(slices.Values(r.StepTimes))
	return t[len(t)/2]
}
