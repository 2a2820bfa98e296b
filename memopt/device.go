package memopt

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/memopt/arena"
	"memopt/memopt/graph"
	"memopt/planner"
)

// Device runs one schedule, step after step.
type Device interface {
	Name() string
	Run(planner.Run) (planner.Trace, error)
	Output(name string) (*graph.Tensor, error)
	State(name string) (*graph.Tensor, error)
	// WriteOutput and WriteState are those without a copy: to files they go from
	// where they are.
	WriteOutput(w io.Writer, name string) error
	WriteState(w io.Writer, name string) error
	SetState(name string, x *graph.Tensor) error
	Close() error
}

// deviceKind is a kind of device that this build can run on.
type deviceKind struct {
	name string
	// open makes one ready; which is what stands behind the name and a colon.
	open func(s *planner.Schedule, which string, fastPaths []string, lent map[string]*graph.Tensor) (Device, error)
	// turn has one go on with another schedule of its program and the parameters and states that it holds.
	turn func(d Device, s *planner.Schedule, lent map[string]*graph.Tensor) (Device, error)
	// lowered says that it runs kernels: plans for it have their work space.
	lowered bool
	// staged opens one whose memory is there from the stage of the first step on that touches it.
	staged func(s *planner.Schedule, which string, fastPaths []string, w stageWatch) (Device, error)
}

// stageWatch is told of a device's memory.
type stageWatch struct {
	loaded func()                                       // weights are there, and activations are not
	count  func(owner string, requested, granted int64) // memory comes, or goes
}

var devices = []deviceKind{
	{"cpu", func(s *planner.Schedule, _ string, _ []string, lent map[string]*graph.Tensor) (Device, error) {
		return cpu.Open(s, cpu.Options{Workspace: kernels.Workspace, Lent: lent})
	}, func(d Device, s *planner.Schedule, lent map[string]*graph.Tensor) (Device, error) {
		return d.(*cpu.Device).Turn(s, lent)
	}, false, func(s *planner.Schedule, _ string, _ []string, w stageWatch) (Device, error) {
		return cpu.Open(s, cpu.Options{Workspace: kernels.Workspace, Staged: true, Loaded: w.loaded, Count: w.count})
	}},
	{"vulkan", openVulkan, func(d Device, s *planner.Schedule, _ map[string]*graph.Tensor) (Device, error) {
		return d.(*vulkan.Device).Turn(s)
	}, true, stagedVulkan},
}

// Devices lists the names that --device takes.
func Devices() []string {
	names := []string{"auto"}
	for _, d := range devices {
		names = append(names, d.name)
	}
	return names
}

// findDevice is the kind that a setting names, and which one of it. auto is a
// graphics processor if there is one, and else the processor: no Vulkan driver
// for processors is as fast as the device made for them.
func findDevice(name string) (kind deviceKind, which string, err error) {
	kindName, which, _ := strings.Cut(name, ":")
	if name == "" || name == "auto" {
		kindName = "cpu"
		if vulkan.Hardware() != nil {
			kindName = "vulkan"
		}
	}
	for _, d := range devices {
		if d.name == kindName {
			return d, which, nil
		}
	}
	return kind, "", codedError{fmt.Errorf("device %q is not in this build; there are %s", name, strings.Join(Devices(), ", ")), ExitCannot}
}

// Lowered reports whether plans for a device have the work space of kernels.
func Lowered(device string) bool {
	kind, _, err := findDevice(device)
	return err == nil && kind.lowered
}

// DeviceChoice says what auto takes on this machine, and why.
func DeviceChoice() (name, why string) {
	if p := vulkan.Hardware(); p != nil {
		return "vulkan", fmt.Sprintf("%s is a graphics processor (%s)", p.Name, p.Kind)
	}
	if _, err := vulkan.Devices(); err != nil {
		return "cpu", "there is no Vulkan"
	}
	return "cpu", "Vulkan offers no graphics processor, and the device made for processors is faster than its drivers for them"
}

func openDevice(name string, fastPaths []string, s *planner.Schedule) (Device, error) {
	return openLending(name, fastPaths, s, nil)
}

// openLending is openDevice with parameters that the device may read where they are, by name; it is free to load what the
// schedule has for them, and to take none.
func openLending(name string, fastPaths []string, s *planner.Schedule, lent map[string]*graph.Tensor) (Device, error) {
	kind, which, err := findDevice(name)
	if err != nil {
		return nil, err
	}
	if err := kind.fits(s); err != nil {
		return nil, err
	}
	return kind.open(s, which, fastPaths, lent)
}

// stepBytes is what a schedule takes of the machine's memory: inputs lie in their space, and where they come from.
func stepBytes(s *planner.Schedule) int64 { return s.Arena + s.State + 2*s.Staging }

// stepFits refuses a schedule that this process has no memory for.
func stepFits(s *planner.Schedule) error {
	err := Fits(stepBytes(s), "the step", "")
	if e := asMemoryError(err); e != nil {
		held := e.Short.Reserved
		e.Short = stepShort(s)
		e.Short.InUse, e.Short.Reserved, e.Short.Limit = held, held, e.Room+held
		return e
	}
	return err
}

// stepShort is what a schedule asks for, by owner.
func stepShort(s *planner.Schedule) arena.OutOfMemory {
	of := []arena.Owned{{Owner: "arena", Bytes: s.Arena}, {Owner: "parameters and states", Bytes: s.State}, {Owner: "inputs", Bytes: 2 * s.Staging}}
	slices.SortStableFunc(of, func(a, b arena.Owned) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return arena.OutOfMemory{Requested: stepBytes(s), For: "the step", Largest: of}
}

// openStaged is openDevice with memory that is there once it is needed.
func openStaged(name string, fastPaths []string, s *planner.Schedule, w stageWatch) (Device, error) {
	kind, which, err := findDevice(name)
	if err != nil {
		return nil, err
	}
	if err := kind.fits(s); err != nil {
		return nil, err
	}
	return kind.staged(s, which, fastPaths, w)
}

// fits refuses a schedule for which the machine has no memory.
func (k deviceKind) fits(s *planner.Schedule) error {
	if k.lowered {
		return nil // its driver is asked
	}
	return stepFits(s)
}

func stagedVulkan(s *planner.Schedule, which string, fastPaths []string, w stageWatch) (Device, error) {
	return openVulkanWith(s, which, vulkan.Options{FastPaths: fastPaths, Staged: true, Loaded: w.loaded, Count: w.count})
}

func openVulkan(s *planner.Schedule, which string, fastPaths []string, _ map[string]*graph.Tensor) (Device, error) {
	return openVulkanWith(s, which, vulkan.Options{FastPaths: fastPaths})
}

func openVulkanWith(s *planner.Schedule, which string, o vulkan.Options) (Device, error) {
	p, err := vulkan.Choose(which)
	if err != nil {
		return nil, codedError{err, ExitCannot}
	}
	if p.Kind == vk.CPU {
		if err := stepFits(s); err != nil {
			return nil, err
		}
	}
	return fromVulkan(vulkan.Open(s, p, o))
}

// fromVulkan gives errors of memory their numbers.
func fromVulkan(d *vulkan.Device, err error) (Device, error) {
	var short *vulkan.MemoryError
	switch {
	case errors.As(err, &short):
		e := &MemoryError{Err: err, Room: -1, Short: arena.OutOfMemory{Requested: short.Need, For: "the step", InUse: short.Held, Reserved: short.Held, Limit: short.Has}}
		if short.Counted || short.Need > short.Has {
			e.Room = short.Has
		}
		for _, o := range short.Owners {
			e.Short.Largest = append(e.Short.Largest, arena.Owned{Owner: o.Owner, Bytes: o.Granted})
		}
		slices.SortStableFunc(e.Short.Largest, func(a, b arena.Owned) int { return cmp.Compare(b.Bytes, a.Bytes) })
		e.Short.Largest = e.Short.Largest[:min(len(e.Short.Largest), 3)]
		return nil, e
	case err != nil:
		return nil, codedError{err, ExitCannot}
	}
	return d, nil
}

// DeviceMemory is what a device holds beside what a plan counts of it.
type (
	DeviceMemory = vulkan.Memory
	DeviceOwned  = vulkan.Owned
)

// deviceMemory is what a device's driver gave; nil if none was asked.
func deviceMemory(d Device) *DeviceMemory {
	if v, ok := d.(interface{ Memory() DeviceMemory }); ok {
		m := v.Memory()
		return &m
	}
	return nil
}

// deviceWarnings is what a device has to say before the first step.
func deviceWarnings(d Device) []string {
	if w, ok := d.(interface{ Warnings() []string }); ok {
		return w.Warnings()
	}
	return nil
}
