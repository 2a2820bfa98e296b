package profile

import (
	"fmt"
	"strings"
)

// sheet is a device as its data sheet has it: peak rates of dense arithmetic in operations per nanosecond (thousands are
// TFLOP/s), and bytes per nanosecond (GB/s).
type sheet struct {
	name, doc  string
	vector     float64 // float32 without matrix units
	matrix     float64 // 16-bit floats with float32 sums, by matrix units
	matrix32   float64 // float32 products
	bandwidth  float64
	launch     float64 // ns on the device
	host       float64 // ns of the launching program; 0: it is the device
	again      float64
	efficiency efficiency
}

// efficiency is the share of a data sheet's peak that kernels reach, by class.
type efficiency struct{ product, convolution, attention, bandwidth, gather float64 }

var (
	// What cuBLAS, cuDNN and flash attention reach on large operands, and PyTorch's pointwise kernels of a copy's rate.
	onGPU = efficiency{product: 0.70, convolution: 0.55, attention: 0.45, bandwidth: 0.80, gather: 0.45}
	onCPU = efficiency{product: 0.80, convolution: 0.55, attention: 0.40, bandwidth: 0.80, gather: 0.40}
)

// Host times of PyTorch's eager mode: an operator with its autograd node, and a second run by the replay.
const (
	eagerHost  = 9000
	eagerAgain = 2000
	gpuLaunch  = 2500
)

// sheets lists the devices that plans can be made for without having them. Figures are the makers' data sheets for the
// dense case, without sparsity.
var sheets = []sheet{
	{"xeon-core", "one core of a server processor with AVX-512", 140, 140, 140, 14, 1500, 0, 600, onCPU},
	{"a100", "NVIDIA A100 SXM, 80 GB", 19500, 312000, 19500, 2039, gpuLaunch, eagerHost, eagerAgain, onGPU},
	{"h100", "NVIDIA H100 SXM", 67000, 989000, 67000, 3350, gpuLaunch, eagerHost, eagerAgain, onGPU},
	{"h200", "NVIDIA H200 SXM", 67000, 989000, 67000, 4800, gpuLaunch, eagerHost, eagerAgain, onGPU},
	{"b200", "NVIDIA B200 SXM", 75000, 2250000, 75000, 8000, gpuLaunch, eagerHost, eagerAgain, onGPU},
	{"4090", "NVIDIA GeForce RTX 4090", 82600, 165200, 82600, 1008, gpuLaunch, eagerHost, eagerAgain, onGPU},
	{"5090", "NVIDIA GeForce RTX 5090", 104800, 209500, 104800, 1792, gpuLaunch, eagerHost, eagerAgain, onGPU},
	{"mi300x", "AMD Instinct MI300X", 163400, 1307400, 163400, 5300, gpuLaunch, eagerHost, eagerAgain, onGPU},
	{"apple-m4-max", "Apple M4 Max, 40 GPU cores", 18400, 18400, 18400, 546, 4000, eagerHost, eagerAgain, onGPU},
}

// OfCPU is the shipped profile of processors.
const OfCPU = "xeon-core"

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

// profile makes a profile of a data sheet.
func (s sheet) profile() *Profile {
	e := s.efficiency
	half := func(share float64) map[string]float64 {
		return map[string]float64{"": s.matrix32 * share, "f16": s.matrix * share, "bf16": s.matrix * share}
	}
	return &Profile{Format: Format, Name: s.name, Source: "data sheet of " + s.doc, Launch: s.launch, Host: s.host, Again: s.again,
		Bandwidth: map[string]float64{"": s.bandwidth * e.bandwidth, "gather": s.bandwidth * e.gather},
		Rates: map[string]map[string]float64{
			"":            {"": s.vector * e.bandwidth},
			"product":     half(e.product),
			"convolution": half(e.convolution),
			"attention":   half(e.attention),
		}}
}
