package profile

import "strings"

// Room is what a device holds, and what a step cannot have of it.
type Room struct {
	Memory  int64   // bytes that the driver gives out; 0: not known, or those of the machine
	Context int64   // bytes of the driver and of libraries' kernels
	Slack   float64 // of the bytes that a step allocates, those that a caching allocator rounds up and cannot use
}

// The context is about that of CUDA 12 and 13 with the kernels of PyTorch and cuBLAS loaded; the slack is the most that was measured
// of PyTorch's caching allocator, with room.
const (
	Context = 512 << 20
	Slack   = 0.03
)

// Memory is the bytes that drivers give out, by shipped profile, of devices where that is known.
func Memory() map[string]int64 {
	all := map[string]int64{}
	for _, s := range sheets {
		if s.memory > 0 {
			all[s.name] = int64(s.memory * (1 << 30))
		}
	}
	return all
}

// Room is what the profile's device holds. Only a shipped profile has the memory: a measured one is of a machine.
func (p *Profile) Room() Room {
	if p.OneClock {
		return Room{}
	}
	return Room{Memory()[strings.ToLower(p.Name)], Context, Slack}
}
