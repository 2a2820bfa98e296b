package devices

import (
	"fmt"

	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
)

// Info is a Vulkan device as memopt devices shows it.
type Info struct {
	Device   string       `json:"device"` // the name that --device takes
	Kind     string       `json:"kind"`
	Name     string       `json:"name"`
	Driver   string       `json:"driver"`
	API      string       `json:"api"`
	Heaps    []Heap       `json:"heaps"`
	Types    []MemoryType `json:"memory_types"`
	Limits   Limits       `json:"limits"`
	Features []string     `json:"features"`
	Paths    []Path       `json:"fast_paths"`
	Unfit    string       `json:"unfit,omitempty"`
}

// Path says whether a device takes a fast path.
type Path struct {
	Name  string `json:"name"`
	Does  string `json:"does"`
	Taken bool   `json:"taken"`
	Why   string `json:"why,omitempty"` // reason for not taking it
}

// Heap is one of a device's memory heaps; sizes are in bytes.
type Heap struct {
	Size   int64 `json:"size"`
	Local  bool  `json:"local"`
	Budget int64 `json:"budget"` // bytes that the driver grants this process; 0 if it does not report a budget
	Usage  int64 `json:"usage"`
}

// MemoryType is a memory type of a heap.
type MemoryType struct {
	Heap  int      `json:"heap"`
	Flags []string `json:"flags"`
}

// Limits are the limits that matter to plans and kernels.
type Limits struct {
	Subgroup       int    `json:"subgroup"`
	Range          int64  `json:"buffer_range"`
	Allocation     int64  `json:"allocation"`
	Allocations    int64  `json:"allocations"`
	Alignment      int64  `json:"alignment"`
	Groups         [3]int `json:"groups"`
	Push           int    `json:"push_constants"`
	StorageBuffers int    `json:"storage_buffers"`
	Shared         int    `json:"shared_memory"`
}

// List describes the Vulkan devices, and which fast paths each takes under the settings; missing says why
// there are none.
func List(fastPaths []string) (all []Info, missing string) {
	found, err := vulkan.Devices()
	if err != nil {
		return []Info{}, err.Error()
	}
	all = []Info{}
	for _, p := range found {
		d := Info{Device: fmt.Sprintf("vulkan:%d", p.Index), Kind: p.Kind.String(), Name: p.Name, Driver: p.Driver,
			API: fmt.Sprintf("%d.%d.%d", p.API[0], p.API[1], p.API[2]), Unfit: p.Unfit(), Features: []string{},
			Limits: Limits{p.Subgroup, int64(p.MaxRange), int64(p.MaxAllocation), int64(p.MaxAllocations), int64(p.Alignment),
				[3]int{int(p.MaxGroups[0]), int(p.MaxGroups[1]), int(p.MaxGroups[2])}, p.MaxPush, p.StorageBuffers, p.SharedBytes}}
		for _, h := range p.Heaps {
			d.Heaps = append(d.Heaps, Heap{int64(h.Size), h.Flags&vk.DeviceLocal != 0, int64(h.Budget), int64(h.Usage)})
		}
		for _, t := range p.Types {
			d.Types = append(d.Types, MemoryType{int(t.Heap), flagNames(t.Flags)})
		}
		for _, f := range []struct {
			name string
			has  bool
		}{{"int64", p.Int64}, {"int8", p.Int8}, {"8-bit storage", p.Storage8}, {"16-bit storage", p.Storage16}, {"float16", p.Float16}, {"memory budget", p.MemoryBudget}} {
			if f.has {
				d.Features = append(d.Features, f.name)
			}
		}
		paths, err := vulkan.FastPaths(fastPaths, p)
		if err != nil {
			return []Info{}, err.Error()
		}
		for _, c := range paths {
			d.Paths = append(d.Paths, Path{c.Name, c.Does, c.Taken, c.Why})
		}
		all = append(all, d)
	}
	return all, ""
}

func flagNames(flags uint32) []string {
	names := []string{}
	for i, name := range []string{"device-local", "host-visible", "host-coherent", "host-cached"} {
		if flags>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}
