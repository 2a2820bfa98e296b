// Package feed has the numbers that programs run on: rows of a data file, or made-up ones.
package feed

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"memopt/autograd"
	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/tensorfile"
	"memopt/memopt/exit"
)

// Feeder provides the inputs of each run.
type Feeder struct {
	Names   []string
	shapes  map[string][]int
	types   map[string]graph.DType
	arrays  map[string]*graph.Tensor // rows for all batches; views of the file where it is mapped
	batches int                      // runs in one pass over the data
	Left    int                      // rows at the end that do not fill a batch
}

// New matches a data file with the model's inputs. An array may have more rows than the batch in its first
// dim: then each run takes the next rows.
func New(g *graph.Graph, b *graph.Binding, data *tensorfile.Set, seed uint64) (*Feeder, error) {
	f := &Feeder{arrays: map[string]*graph.Tensor{}, shapes: map[string][]int{}, types: map[string]graph.DType{}, batches: -1}
	for _, v := range g.Inputs {
		if v.Name == autograd.LearningRate || v.Name == autograd.MicroBatch {
			continue
		}
		shape, err := b.Shape(v.Shape)
		if err != nil {
			return nil, exit.Input(err)
		}
		f.Names = append(f.Names, v.Name)
		f.shapes[v.Name], f.types[v.Name] = shape, v.Type
	}
	if data == nil {
		f.synthesize(seed)
		return f, nil
	}
	for _, name := range f.Names {
		x := Array(data, name)
		shape := f.shapes[name]
		if x == nil {
			return nil, exit.Input(fmt.Errorf("the data has no array %q or %q; it has %s", name, "input."+name, strings.Join(data.Names, ", ")))
		}
		rows := 1
		switch {
		case slices.Equal(x.Shape, shape):
		case len(shape) > 0 && len(x.Shape) == len(shape) && slices.Equal(x.Shape[1:], shape[1:]) && x.Shape[0] >= shape[0] && shape[0] > 0:
			rows = x.Shape[0] / shape[0]
			f.Left = x.Shape[0] % shape[0]
		case x.Len() == 0:
			return nil, exit.Input(fmt.Errorf("data array %q is %v, which holds nothing; the model takes %v or more rows of it", name, x.Shape, shape))
		default:
			return nil, exit.Input(fmt.Errorf("data array %q is %v, the model takes %v or more rows of it%s", name, x.Shape, shape, wouldFit(g.ByName(name), shape, x)))
		}
		if f.batches >= 0 && rows != f.batches {
			return nil, exit.Input(fmt.Errorf("data array %q has %d batches, others have %d", name, rows, f.batches))
		}
		f.batches = rows
		f.arrays[name] = x
	}
	return f, nil
}

// Sizes adds to dims the sizes of named dims, as found in arrays that hold one batch; dims take precedence.
func Sizes(g *graph.Graph, data *tensorfile.Set, dims map[string]int64) map[string]int64 {
	all := map[string]int64{}
	for _, v := range g.Inputs {
		x := Array(data, v.Name)
		if x == nil || len(x.Shape) != v.Rank() {
			continue
		}
		for i, d := range v.Shape {
			if name, is := NameOf(d); is && all[name] == 0 {
				all[name] = int64(x.Shape[i])
			}
		}
	}
	maps.Copy(all, dims)
	return all
}

// Array finds the array for an input: under the input's name, or under input.NAME as in a reference file.
func Array(data *tensorfile.Set, input string) *graph.Tensor {
	if x := data.Tensors[input]; x != nil {
		return x
	}
	return data.Tensors["input."+input]
}

// wouldFit suggests the dims with which an input, now of the given shape, would take an array.
func wouldFit(v *graph.Value, shape []int, x *graph.Tensor) string {
	if len(shape) != len(x.Shape) {
		return ""
	}
	var dims []string
	for i, d := range v.Shape {
		if x.Shape[i] == shape[i] || i == 0 && x.Shape[i] > shape[i] {
			continue
		}
		name, is := NameOf(d)
		if !is {
			return "" // a constant or a formula, which the size of one dim does not determine
		}
		dims = append(dims, fmt.Sprintf("%s=%d", name, x.Shape[i]))
	}
	return "; with " + configs.CommandLine.Say("dims", strings.Join(dims, ",")) + " it would fit"
}

// NameOf returns the name of a dim that is a plain symbol, not a constant or a formula.
func NameOf(d graph.Dim) (name string, is bool) {
	names := d.Names()
	if len(names) != 1 || !d.Equal(graph.Sym(names[0])) {
		return "", false
	}
	return names[0], true
}

// synthesize makes one batch that every model accepts: normally distributed floats, and integers 0 and 1, which are
// valid indices into any table of two rows.
func (f *Feeder) synthesize(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x6d656d6f7074))
	f.batches = 1
	for _, name := range f.Names {
		f.arrays[name] = MadeUp(f.types[name], f.shapes[name], rng)
	}
}

// Inputs returns the batch of run i; tensors are views of the data if the types agree.
func (f *Feeder) Inputs(i int) map[string]*graph.Tensor {
	out := map[string]*graph.Tensor{}
	for _, name := range f.Names {
		x := f.arrays[name]
		if !slices.Equal(x.Shape, f.shapes[name]) {
			batch := &graph.Tensor{Type: x.Type, Shape: f.shapes[name]}
			n := batch.Len() * int(x.Type.Size())
			at := i % f.batches * n
			batch.Bytes = x.Bytes[at : at+n]
			x = batch
		}
		if x.Type != f.types[name] {
			x = Convert(x, f.types[name])
		}
		out[name] = x
	}
	return out
}

// Convert gives a tensor another type.
func Convert(x *graph.Tensor, t graph.DType) *graph.Tensor {
	y := graph.NewTensor(t, x.Shape...)
	for i := range x.Len() {
		if t.IsReal() || x.Type.IsReal() {
			y.SetFloat(i, x.Float(i))
		} else {
			y.SetInt(i, x.Int(i))
		}
	}
	return y
}

// MadeUp generates numbers that every model accepts, as feeder.synthesize says.
func MadeUp(t graph.DType, shape []int, rng *rand.Rand) *graph.Tensor {
	x := graph.NewTensor(t, shape...)
	for i := range x.Len() {
		if x.Type.IsReal() {
			x.SetFloat(i, rng.NormFloat64())
		} else {
			x.SetInt(i, rng.Int64N(2))
		}
	}
	return x
}

// Read maps a file of arrays.
func Read(path string) (*tensorfile.Set, error) {
	set, err := tensorfile.ReadNPZ(path)
	if err != nil {
		return nil, exit.Input(err)
	}
	return set, nil
}
