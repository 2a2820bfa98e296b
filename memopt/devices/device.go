// Package devices opens the devices that settings name, lists them, and measures what operators cost on them.
package devices

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/memopt/exit"
	"memopt/memopt/machine"
)

// Device runs a schedule repeatedly, one step per Run.
type Device interface {
	Name() string
	Run(schedule.Run) (schedule.Trace, error)
	Output(name string) (*graph.Tensor, error)
	State(name string) (*graph.Tensor, error)
	// WriteOutput and WriteState write a tensor's bytes straight from the device's memory, without a copy of the
	// tensor.
	WriteOutput(w io.Writer, name string) error
	WriteState(w io.Writer, name string) error
	SetState(name string, x *graph.Tensor) error
	Close() error
}

// Kind is a kind of device that this build supports.
type Kind struct {
	Name string
	// open prepares a device; which is the part of the setting after the colon.
	open func(s *schedule.Schedule, which string, o Opening) (Device, error)
	// Turn switches an open device to another schedule of the same program; it keeps its parameters and states.
	Turn func(d Device, s *schedule.Schedule, lent map[string]*graph.Tensor) (Device, error)
	// Lowered says that the device runs compiled kernels: plans for it include their work space.
	Lowered bool
}

// Opening says how a device is opened.
type Opening struct {
	fastPaths []string
	Tune      string // folder of what was measured of kernels; "" is not to measure
	// Lent has parameters, by name, that the device may read from the host's memory instead of loading its own copies.
	Lent map[string]*graph.Tensor
	Load *loader.Planned // nil: streamed
	// far opens the place that values are moved to.
	far func(bytes int64) (cpu.Far, error)
	// Staged allocates each part of the memory in the stage of the first step that touches it.
	Staged bool
	Loaded func()                                       // weights are loaded, activations not allocated yet
	Count  func(owner string, requested, granted int64) // an allocation or, with negative bytes, a release
}

// By is how a device is opened by the settings.
func By(c configs.Config) (o Opening, err error) {
	o.fastPaths = c.FastPaths
	if o.Tune, err = TuneFolder(c); err != nil {
		return o, err
	}
	o.far = func(bytes int64) (cpu.Far, error) { return spills(c, bytes) }
	o.Load, err = Loads(c)
	return o, err
}

// Loads is how weights are loaded by the settings.
func Loads(c configs.Config) (*loader.Planned, error) {
	mode, err := loader.ParseMode(cmp.Or(c.LoadMode, string(loader.Streamed)))
	if err != nil {
		return nil, exit.Input(fmt.Errorf("%s: %w; only memopt load takes more than one", c.Name("load_mode"), err))
	}
	return &loader.Planned{Options: loader.Options{Mode: mode, Chunk: c.Chunk}}, nil
}

var kinds = []Kind{
	{"cpu", func(s *schedule.Schedule, _ string, o Opening) (Device, error) {
		return cpu.Open(s, cpu.Options{Workspace: kernels.Workspace, Lent: o.Lent, Load: o.Load, Far: o.far, Staged: o.Staged, Loaded: o.Loaded, Count: o.Count})
	}, func(d Device, s *schedule.Schedule, lent map[string]*graph.Tensor) (Device, error) {
		return d.(*cpu.Device).Turn(s, lent)
	}, false},
	{"vulkan", func(s *schedule.Schedule, which string, o Opening) (Device, error) {
		return OpenVulkan(s, which, vulkan.Options{FastPaths: o.fastPaths, Tune: o.Tune, Load: o.Load, Staged: o.Staged, Loaded: o.Loaded, Count: o.Count})
	}, func(d Device, s *schedule.Schedule, _ map[string]*graph.Tensor) (Device, error) {
		return d.(*vulkan.Device).Turn(s)
	}, true},
}

// Names lists the names that --device takes.
func Names() []string {
	names := []string{"auto"}
	for _, d := range kinds {
		names = append(names, d.Name)
	}
	return names
}

// Find returns the kind of device that a setting names, and which device of that kind. auto is a GPU if there
// is one, else cpu, which is faster than any Vulkan driver for processors.
func Find(name string) (kind Kind, which string, err error) {
	kindName, which, _ := strings.Cut(name, ":")
	if name == "" || name == "auto" {
		kindName = "cpu"
		if vulkan.Hardware() != nil {
			kindName = "vulkan"
		}
	}
	for _, d := range kinds {
		if d.Name == kindName {
			return d, which, nil
		}
	}
	return kind, "", exit.Cannot(fmt.Errorf("device %q is not in this build; there are %s", name, strings.Join(Names(), ", ")))
}

// Lowered reports whether plans for a device include the work space of kernels.
func Lowered(device string) bool {
	kind, _, err := Find(device)
	return err == nil && kind.Lowered
}

// Choice returns the device that auto selects on this machine, and the reason.
func Choice() (name, why string) {
	if p := vulkan.Hardware(); p != nil {
		return "vulkan", fmt.Sprintf("%s is a graphics processor (%s)", p.Name, p.Kind)
	}
	if _, err := vulkan.Devices(); err != nil {
		return "cpu", "there is no Vulkan"
	}
	return "cpu", "Vulkan offers no graphics processor, and the device made for processors is faster than its drivers for them"
}

// Open opens the device that a setting names.
func Open(name string, s *schedule.Schedule, o Opening) (Device, error) {
	kind, which, err := Find(name)
	if err != nil {
		return nil, err
	}
	if !kind.Lowered { // else its driver checks
		if err := stepFits(s, o.Load, o.Lent); err != nil {
			return nil, err
		}
	}
	return kind.open(s, which, o)
}

// StepBytes is the machine's memory that a schedule takes. Inputs count twice: in the staging space and at their
// source.
func StepBytes(s *schedule.Schedule) int64 { return s.Arena + s.State + 2*s.Staging }

// LoadBytes is the machine's memory that loading the weights of a schedule takes beside that, by the formula of the mode.
func LoadBytes(s *schedule.Schedule, load *loader.Planned, lent map[string]*graph.Tensor) int64 {
	if load == nil {
		return 0
	}
	of := loader.Sizes{A: s.Arena + s.Staging}
	for _, r := range s.Fixed {
		if v := r.Value; v.Kind == graph.Input || v.Kind == graph.State && v.Data == nil || lent[v.Name] != nil {
			continue
		}
		of.W += r.Bytes
		of.Largest = max(of.Largest, r.Bytes)
	}
	return load.Mode.Beside(of, true)
}

// stepFits refuses a schedule for which this process cannot get the memory, or not that of loading its weights.
func stepFits(s *schedule.Schedule, load *loader.Planned, lent map[string]*graph.Tensor) error {
	beside := LoadBytes(s, load, lent)
	err := machine.Fits(StepBytes(s)+beside, "the step", "")
	if e := machine.AsMemoryError(err); e != nil {
		held := e.Short.Reserved
		if e.Short = StepShort(s); beside > 0 {
			e.Short.Requested += beside
			e.Short.Largest = largestFirst(append(e.Short.Largest, arena.Owned{Owner: "copies of weights for load_mode " + string(load.Mode), Bytes: beside}))
		}
		e.Short.InUse, e.Short.Reserved, e.Short.Limit = held, held, e.Room+held
		return e
	}
	return err
}

// StepShort is a schedule's memory by owner.
func StepShort(s *schedule.Schedule) arena.OutOfMemory {
	of := []arena.Owned{{Owner: "arena", Bytes: s.Arena}, {Owner: "parameters and states", Bytes: s.State}, {Owner: "inputs", Bytes: 2 * s.Staging}}
	return arena.OutOfMemory{Requested: StepBytes(s), For: "the step", Largest: largestFirst(of)}
}

func largestFirst(of []arena.Owned) []arena.Owned {
	slices.SortStableFunc(of, func(a, b arena.Owned) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return of
}

// OpenVulkan opens a Vulkan device, if the memory that its step takes outside of the device is there.
func OpenVulkan(s *schedule.Schedule, which string, o vulkan.Options) (Device, error) {
	p, err := vulkan.Choose(which)
	if err != nil {
		return nil, exit.Cannot(err)
	}
	away := s.Far() + s.Elsewhere // in the host's memory
	if p.Kind == vk.CPU {
		if err := stepFits(s, o.Load, nil); err != nil {
			return nil, err
		}
		away += StepBytes(s)
	}
	if s.Far()+s.Elsewhere > 0 {
		if err := machine.Fits(away, "what moves to the host's memory", ""); err != nil {
			return nil, err
		}
	}
	return FromVulkan(vulkan.Open(s, p, o))
}

// FromVulkan turns a Vulkan device's memory errors into MemoryErrors with numbers.
func FromVulkan(d *vulkan.Device, err error) (Device, error) {
	var short *vulkan.MemoryError
	switch {
	case errors.As(err, &short):
		e := &machine.MemoryError{Err: err, Room: -1, Short: arena.OutOfMemory{Requested: short.Need, For: "the step", InUse: short.Held, Reserved: short.Held, Limit: short.Has}}
		if short.Counted || short.Need > short.Has {
			e.Room = short.Has
		}
		for _, o := range short.Owners {
			e.Short.Largest = append(e.Short.Largest, arena.Owned{Owner: o.Owner, Bytes: o.Granted})
		}
		e.Short.Largest = largestFirst(e.Short.Largest)[:min(len(e.Short.Largest), 3)]
		return nil, e
	case errors.Is(err, vulkan.ErrHost):
		return nil, exit.Cannot(fmt.Errorf("%w; host_budget limits what moves there", err))
	case err != nil:
		return nil, exit.Cannot(err)
	}
	return d, nil
}

// DeviceMemory is the memory that a device's driver granted, compared with what the plan counts.
type (
	Memory = vulkan.Memory
	Owned  = vulkan.Owned
)

// MemoryOf is the memory that a device's driver granted; nil for devices without a driver.
func MemoryOf(d Device) *Memory {
	if v, ok := d.(interface{ Memory() Memory }); ok {
		m := v.Memory()
		return &m
	}
	return nil
}

// Counts is what a step submits to a device's driver.
type Counts = vulkan.Counts

// CountsOf is what a step submits to a driver; nil for devices without one.
func CountsOf(d Device) *Counts {
	if v, ok := d.(interface{ Counts() Counts }); ok {
		c := v.Counts()
		return &c
	}
	return nil
}

// Warnings are a device's warnings before the first step.
func Warnings(d Device) (all []string) {
	if w, ok := d.(interface{ Warnings() []string }); ok {
		all = w.Warnings()
	}
	if v, is := d.(*vulkan.Device); is && v.Unified() && v.Memory().Host > 0 {
		all = append(all, "the device shares the host's memory, so what moves there frees none")
	}
	return all
}

// TuneFolder is where measurements of kernels are kept; "" if kernels are not chosen by measuring.
func TuneFolder(c configs.Config) (string, error) {
	if !c.Tune {
		return "", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("--tune has no cache folder to keep measurements in: %w", err)
	}
	return filepath.Join(cache, "memopt", "tuned"), nil
}
