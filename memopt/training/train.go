// Package training runs the steps of a training under a plan, and holds one step's numbers against others'.
package training

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"memopt/autograd"
	"memopt/configs"
	"memopt/internal/compare"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/internal/tensorfile"
	"memopt/internal/weights"
	"memopt/kernels/cpu"
	"memopt/kernels/vulkan"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/machine"
	"memopt/memopt/phases"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/chains"
)

// Options says how long to train, on which data, and what to write.
type Options struct {
	Steps  int
	LR     float64
	Warmup int // updates during which the rate increases to LR; steps before a resume count
	Seed   uint64
	Data   string // npz; "" uses generated data
	Save   string // safetensors checkpoint, written at the end
	Resume string // safetensors checkpoint, read first
	Output string // ONNX model with the trained weights, written at the end
	// SaveEvery is the number of steps between checkpoints; 0 writes only the last.
	SaveEvery int
	// Progress, if not nil, is called after every step; steps includes those before a resume.
	Progress func(step, steps int, loss float64, took time.Duration)
	// Warn, if not nil, gets each of the result's warnings immediately.
	Warn func(string)
	// Stop ends training after the current step once it is closed.
	Stop <-chan struct{}
	// Phases, if not nil, records the memory of each phase.
	Phases *phases.Record

	On     *vulkan.Context // an open device; nil opens one
	Loaded *loader.Report
	times  *recorder // gets the times of all launches; nil: nobody wants them
}

// Open opens the device that the steps run on.
func (t *Options) Open(c configs.Config, s *schedule.Schedule) (devices.Device, error) {
	o, err := devices.By(c)
	if err != nil {
		return nil, err
	}
	if t.On != nil {
		return devices.FromVulkan(vulkan.Open(s, nil, vulkan.Options{FastPaths: c.FastPaths, Tune: o.Tune, Load: o.Load, Context: t.On}))
	}
	d, err := t.Phases.Open(c, s, o)
	if err == nil {
		t.Loaded = o.Load.Report()
	}
	return d, err
}

// Result is the result of training.
type Result struct {
	Device    string
	FirstStep int // steps done before a resume
	Losses    []float64
	StepTimes []time.Duration
	extra     extraTimes
	Trace     schedule.Trace     // of the last run
	Memory    *devices.Memory    // at the end; nil if there is no driver
	Counts    *devices.Counts    // of a step; nil if there is no driver
	Anonymous *machine.Anonymous // nil if the system does not report it
	Skipped   []int              // steps without an update, because a scaled gradient was infinite or NaN
	LossScale float64            // at the end; 0 if the loss is not scaled
	Plan      *planner.Plan
	Chains    *chains.Chains // nil if launches are not fused
	Warnings  []string
	Lossy     *compare.Rounding // nil if nothing is stored lossily
	Phases    *phases.Table     // nil if not requested
	Load      *loader.Report    // of the weights
	data      *tensorfile.Set
	Stopped   error // why training ended early; nil if it did not
}

func (r *Result) warn(t Options, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	r.Warnings = append(r.Warnings, msg)
	if t.Warn != nil {
		t.Warn(msg)
	}
}

// Allowed says why the requested training under a plan is impossible.
func Allowed(m *step.Model, p *planner.Plan, t Options) error {
	if err := step.Runnable(p.Graph); err != nil {
		return err
	}
	if err := m.RunsMoves(p); err != nil {
		return err
	}
	if lost := m.Lost(); lost != "" && !m.Config.Tied {
		return exit.Cannot(fmt.Errorf("%s: %s, and --tied trains this file as it is", filepath.Base(m.Path), lost))
	}
	if t.Output == "" {
		return nil
	}
	return canWriteTrained(m, t.Output)
}

// Steps runs the steps. A step is one update; with micro-batches, it has several runs, whose losses are averaged.
func Steps(m *step.Model, l *Loaded, t Options) (r *Result, err error) {
	p, s, d := l.plan, l.Schedule, l.Device
	if t.times != nil {
		t.times.Device = d
		d = t.times
	}
	r = &Result{Device: d.Name(), Plan: p}
	for _, w := range devices.Warnings(d) {
		r.warn(t, "%s", w)
	}
	var data *tensorfile.Set
	if t.Data != "" {
		if data, err = tensorfile.ReadNPZ(t.Data); err != nil {
			return nil, exit.Input(err)
		}
		r.data = data
		defer data.Close()
		defer weights.Guard(&err)()
	} else {
		r.warn(t, "no --data: training on made-up numbers")
	}
	feed, err := l.feed(data, t.Seed)
	if err != nil {
		return nil, err
	}
	if p.Form.Rounded > 0 {
		if r.Lossy, err = lossyStep(m, p, data); err != nil {
			return nil, err
		}
	}
	if n := feed.Left; n > 0 {
		r.warn(t, "the last %d rows of the data do not fill a batch and are not used", n)
	}
	if t.Resume != "" {
		t.Phases.Resuming()
		var unused []string
		if r.FirstStep, unused, err = resume(m, p.Graph, d, t.Resume); err != nil {
			return nil, err
		}
		if len(unused) > 0 {
			r.warn(t, "checkpoint %s has %d tensors that are not used, %q for one; it may be of another optimizer", filepath.Base(t.Resume), len(unused), unused[0])
		}
	}
	micro := 1
	lr := graph.NewTensor(graph.Float32)
	index := graph.NewTensor(graph.Int64)
	if p.Graph.ByName(autograd.MicroBatch) != nil {
		micro = m.Config.Accumulate
	}
	scaled, err := NewScaledLoss(m, d)
	if err != nil {
		return nil, err
	}
	_, beside := d.(*cpu.Device)
	timed := beside && p.FormOverhead() == 0
	t.Phases.Forward(micro)
	for i := range t.Steps {
		step := r.FirstStep + i
		begin := time.Now()
		lr.SetFloat(0, t.rate(step))
		var loss float64
		for k := range micro {
			index.SetInt(0, int64(k))
			in := feed.Inputs(step*micro + k)
			in[autograd.LearningRate], in[autograd.MicroBatch] = lr, index
			trace, err := d.Run(schedule.Run{Inputs: in, Seed: t.Seed, Step: uint64(step*micro + k), Accumulate: k < micro-1, Times: timed, At: t.Phases.Moments(i + k)})
			if err != nil {
				return nil, err
			}
			if timed {
				r.extra.add(s.Launches, trace)
			}
			r.Trace = trace
			if p.Graph.Loss != nil {
				x, err := d.Output(p.Graph.Loss.Name)
				if err != nil {
					return nil, err
				}
				loss += x.Float(0) / float64(micro)
			}
		}
		if err := scaled.Look(d, step, r); err != nil {
			return nil, err
		}
		if err := data.Unchanged(); err != nil {
			return nil, exit.Input(err)
		}
		took := time.Since(begin)
		r.extra.stepped()
		t.Phases.Stepped(i+1, t.Steps)
		r.Losses, r.StepTimes = append(r.Losses, loss), append(r.StepTimes, took)
		if t.Progress != nil {
			t.Progress(step+1, r.FirstStep+t.Steps, loss, took)
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			r.Stopped = exit.Cannot(fmt.Errorf("the loss is %v at step %d; %s", loss, step+1, diverged(t, i)))
			return r, nil
		}
		if i+1 < t.Steps && stop.Closed(t.Stop) {
			r.Stopped = exit.Stopped(fmt.Errorf("interrupted after step %d of %d", step+1, r.FirstStep+t.Steps))
			break
		}
		if t.Save != "" && t.SaveEvery > 0 && (i+1)%t.SaveEvery == 0 && i+1 < t.Steps {
			if err := save(m, p.Graph, s, d, t.Save, step+1); err != nil {
				return nil, err
			}
		}
	}
	if t.Save != "" || t.Output != "" {
		t.Phases.Saving()
	}
	if t.Save != "" {
		if err := save(m, p.Graph, s, d, t.Save, r.FirstStep+len(r.Losses)); err != nil {
			return nil, err
		}
	}
	if t.Output != "" {
		if err := writeTrained(m, d, t.Output); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// beside is the process's memory outside of the plan: work space, and data that could not be mapped.
func (r *Result) beside() int64 {
	if r.data == nil {
		return r.Trace.Workspace
	}
	return r.Trace.Workspace + r.data.Copied
}

// rate is the learning rate of a step; steps count from 0.
func (t Options) rate(step int) float64 {
	if step < t.Warmup {
		return t.LR * float64(step+1) / float64(t.Warmup)
	}
	return t.LR
}

// diverged suggests what to do when the loss is infinite or NaN after i good steps. The checkpoint is not
// overwritten then.
func diverged(t Options, i int) string {
	help := "a lower learning rate, a warm-up or clipped gradients may help"
	if i == 0 {
		help = "look for NaNs in the data and for labels out of range"
	}
	if t.Save != "" {
		help += "; this step was not saved"
	}
	return help
}

// stepsKey is the checkpoint's metadata entry for the steps that are done.
const stepsKey = "memopt.steps"

// mostSteps is more than any training takes; the count of its micro-batches still fits in 64 bits.
const mostSteps = 1 << 48

// save writes parameters and optimizer states, tensor by tensor, directly from the device.
func save(m *step.Model, g *graph.Graph, s *schedule.Schedule, d devices.Device, path string, steps int) error {
	set := &tensorfile.Set{}
	for _, v := range Kept(g) {
		for _, name := range append([]string{v.Name}, alsoCalled(m, v.Name)...) {
			if err := lend(set, name, v, s.Binding, d.WriteState); err != nil {
				return err
			}
		}
	}
	return tensorfile.WriteSafetensors(path, set, map[string]string{stepsKey: strconv.Itoa(steps), "memopt.version": step.Version})
}

// alsoCalled lists the other names in the model of a tied parameter.
func alsoCalled(m *step.Model, name string) (others []string) {
	if m.Source != nil {
		for other, of := range m.Source.Tied {
			if of == name {
				others = append(others, other)
			}
		}
	}
	slices.Sort(others)
	return others
}

// lend adds a value to a set; its bytes stay on the device until they are written.
func lend(set *tensorfile.Set, name string, v *graph.Value, b *graph.Binding, write func(io.Writer, string) error) error {
	shape, err := b.Shape(v.Shape)
	if err != nil {
		return err
	}
	set.Lend(name, v.Type, shape, func(w io.Writer) error { return write(w, v.Name) })
	return nil
}

// Kept lists the contents of a checkpoint: all values that change, and all parameters.
func Kept(g *graph.Graph) []*graph.Value {
	var out []*graph.Value
	for _, v := range g.Values {
		updated := slices.ContainsFunc(g.Updates, func(u graph.Update) bool { return u.State == v })
		if v.Kind == graph.State || v.Kind == graph.Param || updated {
			out = append(out, v)
		}
	}
	return out
}

// resume loads a checkpoint, which must have everything that save writes. It returns the number of steps done, and
// the tensors that are not used.
func resume(m *step.Model, g *graph.Graph, d devices.Device, path string) (steps int, unused []string, err error) {
	set, meta, err := tensorfile.ReadSafetensors(path)
	if err != nil {
		return 0, nil, exit.Input(err)
	}
	defer set.Close()
	defer func() {
		if changed := set.Unchanged(); changed != nil {
			err = exit.Input(changed)
		}
	}()
	defer weights.Guard(&err)()
	if _, ok := meta[stepsKey]; !ok {
		return 0, nil, exit.Input(fmt.Errorf("%s is not a checkpoint that --save wrote: it has no %q in its metadata", filepath.Base(path), stepsKey))
	}
	if steps, err = strconv.Atoi(meta[stepsKey]); err != nil || steps < 0 || steps > mostSteps {
		return 0, nil, exit.Input(fmt.Errorf("%s: metadata %q should be the number of steps done, not %q", filepath.Base(path), stepsKey, meta[stepsKey]))
	}
	takes := map[string]bool{}
	for _, v := range Kept(g) {
		takes[v.Name] = true
		for _, name := range alsoCalled(m, v.Name) {
			takes[name] = true
		}
		x := set.Tensors[v.Name]
		if x == nil {
			return 0, nil, exit.Input(fmt.Errorf("checkpoint %s has no tensor %q; it is of another model or optimizer", filepath.Base(path), v.Name))
		}
		if err := d.SetState(v.Name, x); err != nil {
			return 0, nil, exit.Input(fmt.Errorf("checkpoint %s: %w", filepath.Base(path), err))
		}
		if v.Name == autograd.Step && (x.Int(0) < 0 || x.Int(0) > mostSteps) {
			return 0, nil, exit.Input(fmt.Errorf("checkpoint %s: tensor %q is %d, and the number of updates done is from 0 to %d", filepath.Base(path), v.Name, x.Int(0), int64(mostSteps)))
		}
	}
	for _, name := range set.Names {
		if !takes[name] {
			unused = append(unused, name)
		}
	}
	return steps, unused, nil
}

// Median is the median of the step times.
func (r *Result) Median() time.Duration {
	if len(r.StepTimes) == 0 {
		return 0
	}
	t := slices.Sorted(slices.Values(r.StepTimes))
	return t[len(t)/2]
}
