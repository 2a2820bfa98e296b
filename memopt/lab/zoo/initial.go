package zoo

import (
	"fmt"
	"math"

	"memopt/internal/graph"
)

// smallStd is the initial standard deviation of weights in language models.
const smallStd = 0.02

// normal is float32 data with mean 0 that is computed when it is read. Each number is a function of the seed, the
// name and its index alone.
type normal struct {
	n    int64
	key  uint64
	step float64 // scale of the sums in Bytes
}

// sumStd is the standard deviation of the sum of four uniform 16-bit numbers, each with a variance of (2³² − 1)/12.
var sumStd = math.Sqrt((1<<32 - 1) / 3.0)

func newNormal(seed uint64, name string, n int64, std float64) normal {
	return normal{n, keyOf(seed, name), std / sumStd}
}

// Len is the number of bytes.
func (d normal) Len() int64 { return 4 * d.n }

// Bytes draws the numbers. The sum of four uniform numbers is close enough to normal, and computed in integers:
// unlike math functions, it has the same bits on all machines.
func (d normal) Bytes() ([]byte, error) {
	x, err := floats(d.n)
	if err != nil {
		return nil, err
	}
	for i, f := 0, x.F32(); i < len(f); i++ {
		r := mix(d.key + uint64(i)*golden)
		sum := int64(r&0xffff+r>>16&0xffff+r>>32&0xffff+r>>48) - 2*0xffff
		f[i] = float32(float64(sum) * d.step)
	}
	return x.Bytes, nil
}

// alike is n copies of a float32.
type alike struct {
	n int64
	x float32
}

// Len is the number of bytes.
func (d alike) Len() int64 { return 4 * d.n }

// Bytes generates the numbers.
func (d alike) Bytes() ([]byte, error) {
	x, err := floats(d.n)
	if err != nil {
		return nil, err
	}
	if d.x != 0 {
		for i, f := 0, x.F32(); i < len(f); i++ {
			f[i] = d.x
		}
	}
	return x.Bytes, nil
}

func floats(n int64) (*graph.Tensor, error) {
	if n > math.MaxInt/8 {
		return nil, fmt.Errorf("%d numbers do not fit into memory", n)
	}
	return graph.NewTensor(graph.Float32, int(n)), nil
}

// golden is 2⁶⁴ divided by the golden ratio; its multiples are spread out.
const golden = 0x9e3779b97f4a7c15

// mix is the output function of SplitMix64 (Steele, Lea, Flood, 2014).
func mix(z uint64) uint64 {
	z += golden
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// keyOf hashes a seed and a name (FNV-1a, then mixed).
func keyOf(seed uint64, name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h ^ mix(seed))
}
