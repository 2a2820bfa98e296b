package onnx

import (
	"bytes"

	"memopt/internal/graph"
	"memopt/internal/weights"
)

// turned is a matrix with its dims exchanged. Its numbers are made when they are asked for, as those of a large model would
// take its size in memory.
type turned struct {
	of         graph.Data
	rows, cols int64 // of the original
	elem       int64 // bytes
}

func (d turned) Len() int64 { return d.of.Len() }

func (d turned) Bytes() ([]byte, error) {
	from, err := d.of.Bytes()
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(from))
	const tile = 32
	for i := int64(0); i < d.rows; i += tile {
		for j := int64(0); j < d.cols; j += tile {
			for r := i; r < min(i+tile, d.rows); r++ {
				for c := j; c < min(j+tile, d.cols); c++ {
					copy(out[(c*d.rows+r)*d.elem:(c*d.rows+r+1)*d.elem], from[(r*d.cols+c)*d.elem:])
				}
			}
		}
	}
	return out, nil
}

// picked is stretches of another tensor, one behind the other.
type picked struct {
	of   graph.Data
	runs []stretch
}

type stretch struct{ at, size int64 }

func (d picked) Len() (n int64) {
	for _, r := range d.runs {
		n += r.size
	}
	return n
}

func (d picked) Bytes() ([]byte, error) {
	from, err := d.of.Bytes()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, d.Len())
	for _, r := range d.runs {
		out = append(out, from[r.at:r.at+r.size]...)
	}
	return out, nil
}

// blockUnder is the block of a file that data is in, if any.
func blockUnder(d graph.Data) *weights.Block {
	switch d := d.(type) {
	case *weights.Block:
		return d
	case turned:
		return blockUnder(d.of)
	case picked:
		return blockUnder(d.of)
	}
	return nil
}

// rowsOf lists the first places of different rows of a table, and for each row which of them it equals.
func rowsOf(b []byte, row int64) (first []stretch, index []int64) {
	seen := map[string]int64{}
	for at := int64(0); at+row <= int64(len(b)); at += row {
		key := string(b[at : at+row])
		i, ok := seen[key]
		if !ok {
			i = int64(len(first))
			seen[key] = i
			first = append(first, stretch{at, row})
		}
		index = append(index, i)
	}
	return first, index
}

// uniform reports whether all elements of b are equal.
func uniform(b []byte, elem int64) bool {
	return int64(len(b)) > elem && bytes.Equal(b[elem:], b[:int64(len(b))-elem])
}

// unrepeated finds the dims along which a tensor repeats, sets them to 1, and returns the stretches of what is left. Of
// a tensor whose elements are all equal only the first dim is taken to repeat: models repeat along the batch.
func unrepeated(b []byte, dims []int64, elem int64) (left []int64, runs []stretch) {
	left = append([]int64{}, dims...)
	inner := elem
	same := uniform(b, elem)
	for k := len(dims) - 1; k >= 0; k-- {
		step := inner
		inner *= dims[k]
		if dims[k] < 2 || same && k > 0 {
			continue
		}
		repeats := true
		for at := int64(0); at < int64(len(b)) && repeats; at += inner {
			repeats = bytes.Equal(b[at+step:at+inner], b[at:at+inner-step])
		}
		if repeats {
			left[k] = 1
		}
	}
	var pick func(k int, at, size int64)
	pick = func(k int, at, size int64) {
		if k == len(dims) {
			if n := len(runs); n > 0 && runs[n-1].at+runs[n-1].size == at {
				runs[n-1].size += elem
				return
			}
			runs = append(runs, stretch{at, elem})
			return
		}
		step := size / dims[k]
		for i := range left[k] {
			pick(k+1, at+i*step, step)
		}
	}
	pick(0, 0, int64(len(b)))
	return left, runs
}
