package profile

import (
	"fmt"
	"strings"

	"memopt/internal/graph"
)

// sheet is a device as its data sheet has it: peak rates of dense arithmetic in operations per nanosecond (thousands are
// TFLOP/s), and bytes per nanosecond (GB/s).
type sheet struct {
	name, doc string
	called    []string // parts of the names that drivers give it
	vector    float64  // float32 without matrix units
	matrix    float64  // 16-bit floats with float32 sums, by matrix units
	matrix32  float64  // float32 products
	bandwidth float64
	memory    float64 // GiB that its driver gives out; 0: not known
	program
	efficiency efficiency
}

// efficiency is the share of a data sheet's peak that kernels reach, by class.
type efficiency struct{ product, convolution, attention, bandwidth, gather float64 }

var (
	// What cuBLAS, cuDNN and flash attention reach on large operands, and PyTorch's pointwise kernels of a copy's rate.
	onGPU = efficiency{product: 0.70, convolution: 0.55, attention: 0.45, bandwidth: 0.80, gather: 0.45}
	onCPU = efficiency{product: 0.80, convolution: 0.55, attention: 0.40, bandwidth: 0.80, gather: 0.40}
)

// program is who launches, and its times.
type program struct {
	oneClock bool
	launch   float64 // ns on the device
	host     float64 // ns of the launching program for a first run
	again    float64 // and for a second one; 0: as replays say
	replays  map[string]Second
}

var (
	// PyTorch's eager mode: an operator with its module and its autograd node, and second runs by our replays.
	eager = program{host: 9000, replays: map[string]Second{
		Native: {Again: 3500, Dropped: 1000}, Python: {Again: 25000, Dropped: 6000}, Compiled: {Again: 500}, Captured: {}}}
	torchOnCPU = program{oneClock: true, launch: 800, host: 3500, replays: map[string]Second{
		Native: {Again: 1500, Dropped: 500}, Python: {Again: 20000, Dropped: 5000}, Compiled: {Again: 300}}}
	ourCPU = program{oneClock: true, launch: 1500, again: 600}
)

// on is the program on a device whose launches take so long.
func (p program) on(launch float64) program {
	p.launch = launch
	return p
}

const gpuLaunch = 2500

// sheets lists the devices that plans can be made for without having them. Figures are the makers' data sheets for the
// dense case, without sparsity.
var sheets = []sheet{
	{OfCPU, "a server core with AVX-512", nil, 140, 140, 140, 14, 0, ourCPU, onCPU},
	{OfTorch, "a server core with AVX-512, under PyTorch", nil, 140, 140, 140, 28, 0, torchOnCPU, onCPU},
	{OfGPU, "a graphics processor of the middle of its range", nil, 40000, 160000, 40000, 1000, 0, eager.on(gpuLaunch), onGPU},
	{"a100", "NVIDIA A100 SXM, 80 GB", []string{"A100"}, 19500, 312000, 19500, 2039, 79.15, eager.on(gpuLaunch), onGPU},
	{"h100", "NVIDIA H100 SXM", []string{"H100", "H800"}, 67000, 989000, 67000, 3350, 79.1, eager.on(gpuLaunch), onGPU},
	{"h200", "NVIDIA H200 SXM", []string{"H200", "GH200"}, 67000, 989000, 67000, 4800, 139.8, eager.on(gpuLaunch), onGPU},
	{"b200", "NVIDIA B200 SXM", []string{"B200", "GB200"}, 75000, 2250000, 75000, 8000, 178.3, eager.on(gpuLaunch), onGPU},
	{"4090", "NVIDIA GeForce RTX 4090", []string{"RTX 4090"}, 82600, 165200, 82600, 1008, 23.5, eager.on(gpuLaunch), onGPU},
	{"5090", "NVIDIA GeForce RTX 5090", []string{"RTX 5090"}, 104800, 209500, 104800, 1792, 31.4, eager.on(gpuLaunch), onGPU},
	{"mi300x", "AMD Instinct MI300X", []string{"MI300X"}, 163400, 1307400, 163400, 5300, 191.9, eager.on(gpuLaunch), onGPU},
	{"apple-m4-max", "Apple M4 Max, 40 GPU cores", []string{"Apple M4 Max"}, 18400, 18400, 18400, 546, 96, eager.on(4000), onGPU},
}

// Shipped profiles of devices of a class, for those of which nothing more is known.
const (
	OfCPU   = "xeon-core"  // our kernels on a processor
	OfTorch = "torch-core" // PyTorch on a processor
	OfGPU   = "gpu"
)

// Shipped lists the names of shipped profiles.
func Shipped() (names []string) {
	for _, s := range sheets {
		names = append(names, s.name)
	}
	return names
}

// For is the shipped profile of a device.
func For(name string) (*Profile, error) {
	for _, s := range sheets {
		if strings.EqualFold(s.name, name) {
			return s.profile(), nil
		}
	}
	return nil, fmt.Errorf("there is no profile of a device %q; there are %s; memopt profile measures one", name, strings.Join(Shipped(), ", "))
}

// Class is the shipped profile of a class of devices, by one of the names above.
func Class(name string) *Profile {
	p, err := For(name)
	if err != nil {
		panic(err) // the table has it
	}
	return p
}

// mostBandwidths is how many cores use up a processor's bandwidth.
const mostBandwidths = 4

// OfTrainer is the shipped profile of a trainer's device: that of its data sheet, if its name is known, or of its class.
func OfTrainer(t graph.Trainer) *Profile {
	if t.Device == "cpu" {
		return Class(OfTorch).times(max(float64(t.Threads), 1))
	}
	name := OfGPU
	for _, c := range Called() {
		if strings.Contains(t.Device, c.Part) {
			name = c.Name
		}
	}
	return Class(name)
}

// Call is a part of the names that drivers give a device, and its shipped profile.
type Call struct{ Part, Name string }

// Called lists them; the last one that a name has is its device's.
func Called() (all []Call) {
	for _, s := range sheets {
		for _, part := range s.called {
			all = append(all, Call{part, s.name})
		}
	}
	return all
}

// times is a profile of so many cores.
func (p *Profile) times(cores float64) *Profile {
	if cores == 1 {
		return p
	}
	p.Name = fmt.Sprintf("%s × %g", p.Name, cores)
	for class := range p.Bandwidth {
		p.Bandwidth[class] *= min(cores, mostBandwidths)
	}
	for _, rates := range p.Rates {
		for t := range rates {
			rates[t] *= cores
		}
	}
	return p
}

// profile makes a profile of a data sheet.
func (s sheet) profile() *Profile {
	e := s.efficiency
	half := func(share float64) map[string]float64 {
		return map[string]float64{"": s.matrix32 * share, "f16": s.matrix * share, "bf16": s.matrix * share}
	}
	p := &Profile{Format: Format, Name: s.name, Source: "data sheet of " + s.doc, OneClock: s.oneClock, Launch: s.launch, Host: s.host, Second: Second{Again: s.again}, Replays: s.replays,
		Bandwidth: map[string]float64{"": s.bandwidth * e.bandwidth, "gather": s.bandwidth * e.gather},
		Rates: map[string]map[string]float64{
			"":            {"": s.vector * e.bandwidth},
			"product":     half(e.product),
			"convolution": half(e.convolution),
			"attention":   half(e.attention),
		}}
	if s.replays != nil {
		p.Second = s.replays[Native]
	}
	return p
}
