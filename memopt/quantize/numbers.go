package quantize

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"memopt/internal/graph"
	"memopt/internal/onnx"
)

// numbers is the floats of a weight in the order in which they are written: that of the file, or
// with its matrices transposed.
type numbers struct {
	tensor *onnx.DraftTensor
	shape  []int64
	// If transposed: matrices of rows × cols in the file.
	transposed bool
	rows, cols int64
}

func plain(t *onnx.DraftTensor) *numbers { return &numbers{tensor: t, shape: t.Shape} }

// transposed swaps the last two dims.
func transposed(t *onnx.DraftTensor) *numbers {
	last := len(t.Shape) - 1
	shape := append([]int64(nil), t.Shape...)
	shape[last], shape[last-1] = shape[last-1], shape[last]
	return &numbers{tensor: t, shape: shape, transposed: true, rows: t.Shape[last-1], cols: t.Shape[last]}
}

// piece is the number of elements in memory at a time.
const piece = 1 << 16

// each calls f with all elements, in pieces. The slice is reused.
func (x *numbers) each(f func(from int64, some []float32) error) error {
	data, err := x.tensor.Numbers()
	if err != nil {
		return err
	}
	b, err := data.Bytes()
	if err != nil {
		return err
	}
	if mapped, ok := data.(interface{ ReleasePages() }); ok && len(b) > 1<<20 {
		defer mapped.ReleasePages()
	}
	at := func(i int64) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[i*4:])) }
	n := int64(len(b)) / 4
	if !x.transposed {
		buffer := make([]float32, min(n, piece))
		for from := int64(0); from < n; from += piece {
			some := buffer[:min(piece, n-from)]
			for i := range some {
				some[i] = at(from + int64(i))
			}
			if err := f(from, some); err != nil {
				return err
			}
		}
		return nil
	}
	size := x.rows * x.cols
	if size == 0 {
		return nil
	}
	lines := min(x.cols, max(1, piece/x.rows)) // of the transposed matrix
	buffer := make([]float32, lines*x.rows)
	for matrix := int64(0); matrix < n; matrix += size {
		for line := int64(0); line < x.cols; line += lines {
			count := min(lines, x.cols-line)
			some := buffer[:count*x.rows]
			for row := range x.rows {
				for k := range count {
					some[k*x.rows+row] = at(matrix + row*x.cols + line + k)
				}
			}
			if err := f(matrix+line*x.rows, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the floats.
func (x *numbers) write(w io.Writer) error {
	var out []byte
	return x.each(func(_ int64, some []float32) error {
		out = out[:0]
		for _, v := range some {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
		_, err := w.Write(out)
		return err
	})
}

// scheme is how the floats of a tensor are quantized.
type scheme struct {
	typ       graph.DType
	symmetric bool
	reduced   bool
	least     float64 // smallest range of a channel
	channels  int64
	channel   func(i int64) int64 // of an element; nil: there is only one
}

// rounding is the scale and zero point of one channel.
type rounding struct {
	scale float32
	zero  int32
}

// limits is the range of integers that the range of floats is mapped to.
func (s *scheme) limits() (low, high float64) {
	low, high = whole(s.typ)
	switch {
	case s.reduced && low == 0:
		return 0, (high - 1) / 2
	case s.reduced:
		return low / 2, -low / 2
	case s.symmetric && low < 0:
		return -high, high
	}
	return low, high
}

// whole is the range of an integer type.
func whole(t graph.DType) (low, high float64) {
	values := math.Exp2(float64(8 * t.Size()))
	if t == graph.Uint8 || t == graph.Uint16 {
		return 0, values - 1
	}
	return -values / 2, values/2 - 1
}

// roundings finds the scale and zero point of each channel.
func (s *scheme) roundings(x *numbers) ([]rounding, error) {
	low, high := make([]float32, s.channels), make([]float32, s.channels)
	any := false
	err := x.each(func(from int64, some []float32) error {
		any = any || len(some) > 0
		for i, v := range some {
			if v-v != 0 {
				return fmt.Errorf("holds %v", v)
			}
			c := int64(0)
			if s.channel != nil {
				c = s.channel(from + int64(i))
			}
			low[c], high[c] = min(low[c], v), max(high[c], v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]rounding, s.channels)
	for c := range all {
		all[c] = rounding{scale: 1}
		if any {
			all[c] = s.rounding(low[c], high[c])
		}
	}
	return all, nil
}

// rounding computes the scale for a range that includes zero, in double precision as upstream does.
func (s *scheme) rounding(low, high float32) rounding {
	qlow, qhigh := s.limits()
	if s.least > 0 {
		high = max(high, low+float32(s.least))
	}
	if s.symmetric {
		high = max(-low, high)
		low = -high
	}
	scale := (float64(high) - float64(low)) / (qhigh - qlow)
	const smallest = 0x1p-126 // normal float32
	if scale < smallest {
		return rounding{1, 0}
	}
	zero := math.RoundToEven(qlow - float64(low)/scale)
	if s.symmetric {
		zero = math.RoundToEven((qlow + qhigh) / 2)
	}
	return rounding{float32(scale), int32(zero)}
}

// integer is the integer for a float.
func (s *scheme) integer(v float32, r rounding) int32 {
	low, high := whole(s.typ)
	q := float32(math.RoundToEven(float64(v/r.scale))) + float32(r.zero)
	return int32(min(max(q, float32(low)), float32(high)))
}

// write writes the integers. worst is set to the largest error.
func (s *scheme) write(w io.Writer, x *numbers, by []rounding, worst *float64) error {
	out := make([]byte, 0, piece*s.typ.Size())
	return x.each(func(from int64, some []float32) error {
		out = out[:0]
		r := by[0]
		for i, v := range some {
			if s.channel != nil {
				r = by[s.channel(from+int64(i))]
			}
			q := s.integer(v, r)
			out = appendInt(out, s.typ, q)
			*worst = max(*worst, math.Abs(float64(v)-float64(r.scale)*float64(q-r.zero)))
		}
		_, err := w.Write(out)
		return err
	})
}

// appendInt appends an integer of a type of one, two or four bytes.
func appendInt(b []byte, t graph.DType, x int32) []byte {
	switch t.Size() {
	case 1:
		return append(b, byte(x))
	case 2:
		return binary.LittleEndian.AppendUint16(b, uint16(x))
	}
	return binary.LittleEndian.AppendUint32(b, uint32(x))
}
