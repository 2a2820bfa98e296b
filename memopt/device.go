package memopt

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
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
	bytes := s.Arena + s.State + 2*s.Staging // inputs lie in their space, and where they come from
	return Fits(bytes, "the step", "; a smaller batch or a budget may fit")
}

func stagedVulkan(s *planner.Schedule, which string, fastPaths []string, w stageWatch) (Device, error) {
	return openVulkanWith(s, which, vulkan.Options{FastPaths: fastPaths, Staged: true, Loaded: w.loaded, Count: w.count})
}

func openVulkan(s *planner.Schedule, which string, fastPaths []string, _ map[string]*graph.Tensor) (Device, error) {
	return openVulkanAt(s, which, fastPaths, 0)
}

// openVulkanAt has an arena of so many bytes at least.
func openVulkanAt(s *planner.Schedule, which string, fastPaths []string, arena int64) (Device, error) {
	return openVulkanWith(s, which, vulkan.Options{FastPaths: fastPaths, Arena: arena})
}

func openVulkanWith(s *planner.Schedule, which string, o vulkan.Options) (Device, error) {
	p, err := vulkan.Choose(which)
	if err != nil {
		return nil, codedError{err, ExitCannot}
	}
	if p.Kind == vk.CPU {
		if err := Fits(s.Arena+s.State+2*s.Staging, "the step", "; a smaller batch or a budget may fit"); err != nil {
			return nil, err
		}
	}
	return fromVulkan(vulkan.Open(s, p, o))
}

// fromVulkan says what may help where there is too little memory.
func fromVulkan(d *vulkan.Device, err error) (Device, error) {
	switch {
	case errors.Is(err, vk.ErrDeviceMemory), errors.Is(err, vk.ErrHostMemory):
		return nil, codedError{fmt.Errorf("%w; a smaller batch or a budget may fit", err), ExitCannot}
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
