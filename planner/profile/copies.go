package profile

import (
	"fmt"
	"maps"
	"slices"
)

// Copies is what copies between a device and another place take: a delay, and bytes per nanosecond in each direction.
type Copies struct {
	Delay float64 `json:"delay_ns"`
	Out   float64 `json:"out_bytes_per_ns"`
	In    float64 `json:"in_bytes_per_ns"`
}

// Places that values can be copied to.
const (
	Host = "host" // memory of the host
	Disk = "disk" // a file
)

// Places lists them.
func Places() []string { return []string{Host, Disk} }

// links are the copies of devices to the host's memory, by what one link of theirs reaches in practice; "" is any other.
var links = map[string]Copies{
	"":             {10000, 20, 20},
	"xeon-core":    {1000, 5, 5},
	"torch-core":   {1000, 5, 5},
	"a100":         {10000, 22, 22},
	"h100":         {10000, 50, 50},
	"h200":         {10000, 50, 50},
	"b200":         {10000, 50, 50},
	"4090":         {10000, 22, 22},
	"5090":         {10000, 50, 50},
	"mi300x":       {10000, 50, 50},
	"apple-m4-max": {2000, 100, 100},
}

// Block is what offsets of copies to a disk are multiples of: within one it would have to be read first.
const Block = 4096

// disk is what a solid-state disk reaches for files that are not cached.
var disk = Copies{100000, 1, 1.5}

// UsualCopies is what copies to the host's memory take, by shipped profile, "" for any other, and to a disk.
func UsualCopies() (host map[string]Copies, toDisk Copies) { return maps.Clone(links), disk }

// Network is bytes per nanosecond that a device sends one way to others of its node, and to other nodes.
type Network struct{ Inside, Between float64 }

// networks are NVLink, Infinity Fabric or PCIe, and the network of usual machines for each device, by data sheets.
var networks = map[string]Network{
	"a100":   {300, 25},
	"h100":   {450, 50},
	"h200":   {450, 50},
	"b200":   {900, 50},
	"4090":   {25, 12.5},
	"5090":   {50, 12.5},
	"mi300x": {448, 50},
}

// Networks is what devices send each other, by shipped profile, of those where that is known.
func Networks() map[string]Network { return maps.Clone(networks) }

// CopiesTo is what copies to a place take: as the profile has it, or else what is usual.
func (p *Profile) CopiesTo(place string) Copies {
	if c, known := p.Copies[place]; known {
		return c
	}
	if place == Disk {
		return disk
	}
	if c, known := links[p.Name]; known {
		return c
	}
	return links[""]
}

// checkCopies says what is wrong with a profile's copies.
func (p *Profile) checkCopies() error {
	for _, place := range slices.Sorted(maps.Keys(p.Copies)) {
		c := p.Copies[place]
		switch {
		case !slices.Contains(Places(), place):
			return fmt.Errorf("copies: there is no place %q; there are %v", place, Places())
		case !(c.Delay >= 0 && c.Delay <= fastest):
			return fmt.Errorf("copies.%s: delay_ns is %v, not a number of nanoseconds from 0 to a second", place, c.Delay)
		case !(c.Out > 0 && c.Out <= fastest) || !(c.In > 0 && c.In <= fastest):
			return fmt.Errorf("copies.%s: %v out and %v in are not rates above 0", place, c.Out, c.In)
		}
	}
	return nil
}
