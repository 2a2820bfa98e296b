// Package load loads a forward model onto a device and unloads it, and tells what each phase takes.
package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/joint"
	"memopt/internal/loader"
	"memopt/internal/onnx"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/kernels"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/machine"
	"memopt/planner"
)

// Loaded is the result of a load, by phase.
type Loaded struct {
	Format  string         `json:"format"` // memopt.load/1
	Mode    loader.Mode    `json:"mode"`
	Device  string         `json:"device"`
	Unified bool           `json:"unified"`
	Weights int            `json:"weights"`
	W       int64          `json:"W"`
	Largest int64          `json:"w"`
	A       int64          `json:"A"`
	C       int64          `json:"c"`
	Phases  []loader.Phase `json:"phases"`
	// Formula is the peak of device and host together while loading, Promised its value, and Measured the
	// recorder's peak, exact to the byte; DevicePromised and DeviceMeasured are those of the device alone.
	Formula        string `json:"formula"`
	Promised       int64  `json:"promised"`
	Measured       int64  `json:"measured"`
	DevicePromised int64  `json:"device_promised"`
	DeviceMeasured int64  `json:"device_measured"`
	// HostGrowth is the growth of the process's anonymous memory while loading, without the device's bytes if they
	// are part of it; −1 if the system does not report it.
	HostGrowth int64 `json:"host_growth"`
	// System is the peak of host and device together as the system reports it, above the level before the model was
	// opened, by Rule; −1 if the system does not report it.
	System int64  `json:"system"`
	Rule   string `json:"rule"`
	// Reloads is how often the model was loaded and unloaded again; LeftDevice and LeftHost are what remained.
	Reloads    int   `json:"reloads"`
	LeftDevice int64 `json:"left_device"`
	LeftHost   int64 `json:"left_host"` // anonymous bytes that remained per reload, on average
	// Repeats is the number of measurements, and Spread their range; the phases are those of the median by System.
	Repeats int     `json:"repeats"`
	Spread  Spreads `json:"spread"`
}

// Spreads is the minimum, median and maximum of repeated measurements.
type Spreads struct {
	Device     Spread `json:"device"` // the recorder's peak
	Both       Spread `json:"both"`   // the recorder's peak of device and host together
	System     Spread `json:"system"`
	HostGrowth Spread `json:"host_growth"`
}

// Spread is the range of a figure.
type Spread struct {
	Min    int64 `json:"min"`
	Median int64 `json:"median"`
	Max    int64 `json:"max"`
}

func spreadOf(loads []*Loaded, figure func(*Loaded) int64) Spread {
	all := make([]int64, len(loads))
	for i, l := range loads {
		all[i] = figure(l)
	}
	slices.Sort(all)
	return Spread{all[0], all[(len(all)-1)/2], all[len(all)-1]}
}

// Repeatedly is Load, repeated. Only the first load includes reloads.
func Repeatedly(ctx context.Context, path string, c configs.Config, mode loader.Mode, reloads, repeats int) (*Loaded, error) {
	var loads []*Loaded
	for i := range max(1, repeats) {
		again := reloads
		if i > 0 {
			again = 0
		}
		l, err := Run(ctx, path, c, mode, again)
		if err != nil {
			return nil, err
		}
		loads = append(loads, l)
	}
	first := loads[0]
	s := Spreads{
		Device:     spreadOf(loads, func(l *Loaded) int64 { return l.DeviceMeasured }),
		Both:       spreadOf(loads, func(l *Loaded) int64 { return l.Measured }),
		System:     spreadOf(loads, func(l *Loaded) int64 { return l.System }),
		HostGrowth: spreadOf(loads, func(l *Loaded) int64 { return l.HostGrowth }),
	}
	middle := *loads[slices.IndexFunc(loads, func(l *Loaded) bool { return l.System == s.System.Median })]
	middle.Repeats, middle.Spread = len(loads), s
	// Report the worst of all loads: a bound holds only if every load meets it.
	middle.Measured, middle.DeviceMeasured, middle.System, middle.HostGrowth = s.Both.Max, s.Device.Max, s.System.Max, s.HostGrowth.Max
	middle.Reloads, middle.LeftDevice, middle.LeftHost = first.Reloads, first.LeftDevice, first.LeftHost
	if at := slices.IndexFunc(middle.Phases, func(p loader.Phase) bool { return p.Name == "U2" }); at < 0 && reloads > 0 {
		of := slices.IndexFunc(first.Phases, func(p loader.Phase) bool { return p.Name == "U2" })
		middle.Phases = slices.Insert(slices.Clone(middle.Phases), of, first.Phases[of])
	}
	return &middle, nil
}

// Run loads a forward model onto a device and unloads it, in one mode, and reports the memory of each phase.
func Run(ctx context.Context, path string, c configs.Config, mode loader.Mode, reloads int) (*Loaded, error) {
	return stop.When(ctx, func() (l *Loaded, err error) {
		defer weights.Guard(&err)()
		if joint.Is(path) {
			return nil, exit.Input(fmt.Errorf("%s is no ONNX model; only those are loaded", filepath.Base(path)))
		}
		kind, which, err := devices.Find(cmp.Or(c.Device, "cpu"))
		if err != nil {
			return nil, err
		}
		open := devices.Stores[kind.Name]
		if open == nil {
			return nil, exit.Input(fmt.Errorf("device %s has no memory of its own to load to", kind.Name))
		}
		t := &loading{ctx: ctx, path: path, config: c, mode: mode, lowered: kind.Lowered, r: loader.NewRecorder(), reloads: reloads}
		t.r.Limit(c.MemoryLimit, func(bytes int64) error { return machine.Fits(bytes, "the load", "") })
		return t.run(func() (loader.Device, error) { return open(which) })
	})
}

// loading is a load in progress.
type loading struct {
	ctx     context.Context
	path    string
	config  configs.Config
	mode    loader.Mode
	lowered bool
	reloads int
	count   int   // number of weights
	planned int64 // memory of the process and the device after planning, before the weights

	r      *loader.Recorder
	device loader.Device
	graph  *graph.Graph
	source *onnx.Source
	ws     []loader.Weight
	copies *loader.HostCopies
	sizes  loader.Sizes
	on     *loader.Loaded
	drop   func() // frees the activations
}

// nothing is the work of a phase that only measures.
func nothing() error { return nil }

func (t *loading) run(open func() (loader.Device, error)) (out *Loaded, err error) {
	defer func() {
		if wrong := t.unload(); err == nil {
			err = wrong
		}
		if t.device != nil {
			if wrong := t.device.Close(); err == nil {
				err = wrong
			}
		}
	}()
	if err := t.r.Do("P0", "process started", 0, nothing); err != nil {
		return nil, err
	}
	err = t.r.Do("P1", "device ready", 0, func() (err error) {
		if t.device, err = open(); err != nil {
			t.device = nil
			return exit.Cannot(err)
		}
		t.r.Use(t.device)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out = &Loaded{Format: "memopt.load/1", Mode: t.mode, Device: t.device.Name(), Unified: t.device.Unified(), Reloads: t.reloads}
	if err := t.load(); err != nil {
		return nil, t.wouldFit(err)
	}
	if err := t.r.Do("U1", "model unloaded", 0, t.unload); err != nil {
		return nil, err
	}
	if t.reloads > 0 {
		phases := t.r.Phases()
		before := phases[len(phases)-1].Anon.Point
		err := t.r.Do("U2", fmt.Sprintf("loaded and unloaded %d times", t.reloads), t.mode.Device(t.sizes), func() error {
			for range t.reloads {
				if err := t.again(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, t.wouldFit(err)
		}
		phases = t.r.Phases()
		out.LeftHost = (phases[len(phases)-1].Anon.Point - before) / int64(t.reloads)
		out.LeftDevice = t.r.Held()
	}
	err = t.r.Do("U3", "device closed", 0, func() error {
		d := t.device
		t.device = nil
		t.r.Use(nil)
		return d.Close()
	})
	if err != nil {
		return nil, err
	}
	t.tell(out)
	return out, nil
}

// load runs the phases P2 to P7.
func (t *loading) load() error {
	early := t.mode.ActivationsFirst()
	if err := t.r.Do("P2", "model opened", 0, t.open); err != nil {
		return err
	}
	if err := t.r.Do("P3", "graph built", 0, t.build); err != nil {
		return err
	}
	// From here on, promises for the device require the plan.
	if err := t.r.Do("P4", "planned", 0, t.plan); err != nil {
		return err
	}
	rows := t.r.Phases()
	t.planned = rows[len(rows)-1].System.Point
	if early {
		both := func() error {
			if err := t.bind(); err != nil {
				return err
			}
			return t.readAll()
		}
		if err := t.phase("P4a", "activations bound, copies read", t.sizes.A, t.sizes.W, both); err != nil {
			return err
		}
	} else if err := t.readAllPhase(); err != nil {
		return err
	}
	// For lazy loads, copies is the peak of host and device, less the device.
	high, copies := t.sizes.Rise, t.sizes.W+2*t.sizes.Largest-t.sizes.Rise
	switch {
	case early:
		high, copies = t.sizes.W+t.sizes.Largest+t.sizes.A, t.sizes.W
	case t.mode == loader.Streamed:
		high, copies = t.sizes.W+t.sizes.C, 0
	case t.mode == loader.InPlace:
		high, copies = t.sizes.W, 0
	}
	if err := t.phase("P5", "weights uploaded", high, copies, t.upload); err != nil {
		return err
	}
	there := t.sizes.W
	if early {
		there += t.sizes.A
	}
	if err := t.phase("P6", "copies and pages of the file dropped", there, 0, nothing); err != nil {
		return err
	}
	return t.phase("P7", "activations bound", t.sizes.W+t.sizes.A, 0, t.bind)
}

// loadSlack is the allowance for other memory of the process during a load.
const loadSlack = 4 << 20

// phase runs a phase after planning, with two promises: the peak of the device, and that of the process above its
// level after planning, which is copies of weights plus the device's memory if that is unified.
func (t *loading) phase(name, what string, device, copies int64, f func() error) error {
	return t.r.Do(name, what, device, func() error {
		most := t.planned + copies + loadSlack
		if t.device.Unified() {
			most += device
		}
		t.r.Promise(device, most)
		return f()
	})
}

// again loads and unloads without measuring phases.
func (t *loading) again() error {
	for _, step := range []func() error{t.open, t.build, t.plan} {
		if err := step(); err != nil {
			return err
		}
	}
	if t.mode.ActivationsFirst() {
		if err := t.bind(); err != nil {
			return err
		}
	}
	for _, step := range []func() error{t.readAll, t.upload, t.bind} {
		if err := step(); err != nil {
			return err
		}
	}
	return t.unload()
}

// open reads the graph; the weights stay in the mapped file.
func (t *loading) open() (err error) {
	if t.graph, t.source, err = onnx.OpenAt(t.ctx, t.path, kernels.Library, t.config.Dims); err != nil {
		return exit.Input(err)
	}
	if t.graph.HasBackward() {
		return exit.Input(fmt.Errorf("%s has a backward pass; only forward models are loaded", filepath.Base(t.path)))
	}
	if msg := t.config.Unsized(t.graph.Names(), t.config.Dims); msg != "" {
		return exit.Input(errors.New(msg))
	}
	return nil
}

// build runs the passes on the graph, which allocate no tensors.
func (t *loading) build() error {
	o := graph.CleanOptions{Fuse: kernels.Fusions, Unfold: true}
	switch t.config.Optimize {
	case "off":
		return nil
	case "clean":
		o = graph.CleanOptions{}
	}
	o.Context = t.ctx
	t.graph.Clean(o)
	return nil
}

// plan plans the activations, and lists the weights.
func (t *loading) plan() (err error) {
	t.sizes, t.ws, err = t.sizesFor(t.config.Dims)
	t.count = len(t.ws)
	return err
}

// sizesFor computes the sizes of a load for the given dims, and lists the weights.
func (t *loading) sizesFor(dims map[string]int64) (sizes loader.Sizes, ws []loader.Weight, err error) {
	p, err := planner.Make(t.graph, planner.Request{Dims: dims, Lowered: t.lowered, Context: t.ctx})
	if err != nil {
		return sizes, nil, exit.Classify(err)
	}
	s, err := p.Schedule()
	if err != nil {
		return sizes, nil, err
	}
	for _, r := range s.Fixed {
		v := r.Value
		if v.Kind == graph.Input {
			continue
		}
		if at, ok := v.Data.(*weights.Block); ok {
			ws = append(ws, loader.Weight{Name: v.Name, Bytes: r.Bytes, From: at})
			continue
		}
		x, err := v.Tensor(s.Binding)
		if err != nil {
			return sizes, nil, err
		}
		ws = append(ws, loader.Weight{Name: v.Name, Bytes: r.Bytes, From: bytes.NewReader(x.Bytes)})
	}
	return loader.SizesOf(ws, s.Arena+s.Staging, cmp.Or(t.config.Chunk, loader.DefaultChunk)), ws, nil
}

// readAllPhase is the phase of modes that read all weights before the upload.
func (t *loading) readAllPhase() error {
	if t.mode != loader.Lazy {
		return nil
	}
	return t.phase("P4a", "copies read", 0, t.sizes.W, t.readAll)
}

func (t *loading) readAll() (err error) {
	t.copies, err = loader.ReadAll(t.ctx, t.ws, t.mode, t.r)
	return err
}

func (t *loading) upload() (err error) {
	copies := t.copies
	t.copies = nil
	if t.on, err = loader.Upload(t.ctx, t.device, t.ws, loader.Options{Mode: t.mode, Chunk: t.config.Chunk}, copies, t.r); err != nil {
		if machine.AsMemoryError(err) == nil && !exit.Coded(err) { // a file that changed has its own
			err = exit.Cannot(err)
		}
		return err
	}
	return t.source.Unchanged()
}

func (t *loading) bind() (err error) {
	if t.drop == nil {
		t.drop, err = t.r.Activations(t.sizes.A)
	}
	return err
}

// unload releases everything that a load took.
func (t *loading) unload() error {
	if t.on != nil {
		t.on.Free()
	}
	if t.drop != nil {
		t.drop()
	}
	t.copies.Free()
	t.source.Close()
	t.on, t.drop, t.copies, t.source, t.graph, t.ws = nil, nil, nil, nil, nil, nil
	return nil
}

// tell fills in what was promised and measured.
func (t *loading) tell(out *Loaded) {
	out.Phases = t.r.Phases()
	out.Weights = t.count
	out.W, out.Largest, out.A, out.C = t.sizes.W, t.sizes.Largest, t.sizes.A, t.sizes.C
	out.Formula, out.Promised, out.DevicePromised = t.mode.Formula(), t.mode.High(t.sizes), t.mode.Device(t.sizes)
	var base loader.Phase
	inAnon := false // whether the device's bytes are in the process's anonymous memory, not its shared memory
	for _, p := range out.Phases {
		switch p.Name {
		case "P1":
			base = p
		case "P7":
			inAnon = p.Shmem-base.Shmem < t.sizes.W/2
		}
	}
	for _, p := range out.Phases {
		switch p.Name {
		case "P2", "P3", "P4", "P4a", "P5", "P6", "P7":
			out.DeviceMeasured = max(out.DeviceMeasured, p.Device.High)
			out.Measured = max(out.Measured, p.Both.High)
			growth := p.Anon.High - base.Anon.Point
			if out.Unified && inAnon {
				growth -= p.Device.High
			}
			out.HostGrowth = max(out.HostGrowth, growth)
			system := p.RSS.High - base.RSS.Point
			if !out.Unified {
				system += p.Device.High
			}
			out.System = max(out.System, system)
		}
	}
	out.Rule = loader.Rule(out.Unified)
	if base.RSS.Point == 0 {
		out.HostGrowth, out.System = -1, -1
	}
}
