package memopt

import (
	"fmt"
	"strings"

	"memopt/kernels/cpu"
	"memopt/memopt/graph"
	"memopt/planner"
)

// Device runs one schedule, step after step.
type Device interface {
	Name() string
	Run(planner.Run) (planner.Trace, error)
	Output(name string) (*graph.Tensor, error)
	State(name string) (*graph.Tensor, error)
	SetState(name string, x *graph.Tensor) error
	Close() error
}

// devices is what this build can run on, best first; auto takes the first
// that opens.
var devices = []struct {
	name string
	open func(*planner.Schedule) (Device, error)
}{
	{"cpu", func(s *planner.Schedule) (Device, error) { return cpu.Open(s, cpu.Options{}) }},
}

// Devices lists the names that --device takes.
func Devices() []string {
	names := []string{"auto"}
	for _, d := range devices {
		names = append(names, d.name)
	}
	return names
}

func openDevice(name string, s *planner.Schedule) (Device, error) {
	if name == "" || name == "auto" {
		name = devices[0].name
	}
	for _, d := range devices {
		if d.name != name {
			continue
		}
		bytes := s.Arena + s.State + 2*s.Staging // inputs lie in their space, and where they come from
		if err := Fits(bytes, "the step", "; a smaller batch or a --budget may fit"); err != nil {
			return nil, err
		}
		return d.open(s)
	}
	return nil, codedError{fmt.Errorf("memopt: device %q is not in this build; there are %s", name, strings.Join(Devices(), ", ")), ExitCannot}
}
