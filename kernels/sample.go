package kernels

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// Case is a sample of an operator: a graph of one node, and tensors for its inputs.
type Case struct {
	Text  string
	Graph *graph.Graph
	Node  *graph.Node     // nil if the operator is rewritten into others
	In    []*graph.Tensor // one for each input of Node; nil where omitted
}

// Cases builds every sample of an operator. A sample lists the inputs, then after a semicolon
// the attributes, then after an arrow the outputs, unless all of them are used:
//
//	f32[2,3], i64{1,0}, _, i64[4]<5; axis=1 mode="x" -> y, _
//
// f32[2,3] is normal random numbers, f32[3]>0 positive ones, i64[4]<5 random indices,
// i64[4]<-5 indices that may be negative, bool[3] random bits, i64{1,0} given contents (a
// list; i64[]{3} is a scalar), _ an omitted input. The random numbers depend only on the
// sample's text.
func Cases(op *graph.Op) ([]Case, error) { return cases(op, nil) }

// Float64Cases are the samples with all float inputs as float64, for finite differences.
func Float64Cases(op *graph.Op) ([]Case, error) {
	return cases(op, func(t graph.DType) graph.DType {
		if t.IsFloat() {
			return graph.Float64
		}
		return t
	})
}

// HalfCases are the samples that have float32 inputs, with these as a 16-bit float type, if
// the operator accepts it.
func HalfCases(op *graph.Op, half graph.DType) (out []Case) {
	for _, s := range op.Samples {
		if !slices.ContainsFunc(sampleTypes(s), func(t typeAt) bool { return t.is == graph.Float32 }) {
			continue
		}
		if c, err := newCase(op, s, retyped(graph.Float32, half)); err == nil {
			out = append(out, c)
		}
	}
	return out
}

func cases(op *graph.Op, retype func(graph.DType) graph.DType) ([]Case, error) {
	var out []Case
	for _, s := range op.Samples {
		c, err := newCase(op, s, retype)
		if err != nil {
			return nil, fmt.Errorf("operator %s: sample %q: %w", op.Name, s, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func newCase(op *graph.Op, text string, retype func(graph.DType) graph.DType) (Case, error) {
	c := Case{Text: text}
	body, outs, picked := strings.Cut(text, "->")
	inputs, attrs, _ := strings.Cut(body, ";")
	rng := rand.New(rand.NewPCG(hash(op.Name), hash(text)))
	var src strings.Builder
	var args []string
	for i, f := range splitTop(inputs) {
		if f == "_" {
			args = append(args, "_")
			c.In = append(c.In, nil)
			continue
		}
		x, known, err := sampleTensor(f, rng, retype)
		if err != nil {
			return c, err
		}
		name := sampleName(i)
		dims := strings.ReplaceAll(fmt.Sprint(x.Shape), " ", ", ")
		if known != "" {
			fmt.Fprintf(&src, "%s %s%s = const %s\n", name, x.Type, dims, known)
		} else {
			fmt.Fprintf(&src, "%s %s%s = input\n", name, x.Type, dims)
		}
		args = append(args, name)
		c.In = append(c.In, x)
	}
	if !picked {
		_, ports := op.Ports()
		var names []string
		for i, p := range ports {
			if p.Variadic {
				return c, fmt.Errorf("the outputs must be listed after ->")
			}
			names = append(names, fmt.Sprintf("y%d", i))
		}
		outs = strings.Join(names, ", ")
	}
	fmt.Fprintf(&src, "%s = %s(%s) %s @sample\n", outs, op.FullName(), strings.Join(args, ", "), attrs)
	g, err := graph.Parse(Library, src.String())
	if err != nil {
		return c, err
	}
	c.Graph = g
	if op.Rewrite == nil {
		c.Node = g.Nodes[0]
	}
	for _, name := range splitTop(outs) {
		if v := g.ByName(name); v != nil {
			g.Outputs = append(g.Outputs, v)
		}
	}
	return c, g.Check()
}

// sampleName is the name of input i in the graph of a sample.
func sampleName(i int) string { return fmt.Sprintf("x%d", i) }

// splitTop splits at commas outside brackets.
func splitTop(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, r := range s + "," {
		switch r {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				if f := strings.TrimSpace(s[start:i]); f != "" {
					out = append(out, f)
				}
				start = i + 1
			}
		}
	}
	return out
}

func sampleTensor(f string, rng *rand.Rand, retype func(graph.DType) graph.DType) (x *graph.Tensor, known string, err error) {
	end := strings.IndexAny(f, "[{")
	if end < 0 {
		return nil, "", fmt.Errorf("input %q has no shape", f)
	}
	t, ok := graph.ParseDType(f[:end])
	if !ok {
		return nil, "", fmt.Errorf("input %q: unknown type", f)
	}
	if retype != nil {
		t = retype(t)
	}
	rest := f[end:]
	var shape []int
	if rest[0] == '[' {
		list, after, _ := strings.Cut(rest[1:], "]")
		for d := range strings.SplitSeq(list, ",") {
			if d = strings.TrimSpace(d); d != "" {
				n, err := strconv.Atoi(d)
				if err != nil {
					return nil, "", fmt.Errorf("input %q: %w", f, err)
				}
				shape = append(shape, n)
			}
		}
		rest = after
	} else {
		shape = []int{1 + strings.Count(rest, ",")}
		if rest == "{}" {
			shape = []int{0}
		}
	}
	x = graph.NewTensor(t, shape...)
	if strings.HasPrefix(rest, "{") {
		for i, n := range splitTop(strings.Trim(rest, "{}")) {
			v, err := strconv.ParseFloat(n, 64)
			if err != nil {
				return nil, "", fmt.Errorf("input %q: %w", f, err)
			}
			x.SetFloat(i, v)
		}
		return x, rest, nil
	}
	return x, "", fill(x, rest, rng)
}

func fill(x *graph.Tensor, how string, rng *rand.Rand) error {
	limit := 0
	if l, ok := strings.CutPrefix(how, "<"); ok {
		n, err := strconv.Atoi(l)
		if err != nil {
			return err
		}
		limit = n
	} else if how != "" && how != ">0" {
		return fmt.Errorf("unknown filling %q", how)
	}
	for i := range x.Len() {
		switch {
		case x.Type == graph.Bool:
			x.SetInt(i, rng.Int64N(2))
		case limit < 0:
			x.SetInt(i, rng.Int64N(int64(-2*limit))+int64(limit))
		case limit > 0:
			x.SetInt(i, rng.Int64N(int64(limit)))
		case x.Type.IsReal() && how == ">0":
			x.SetFloat(i, 0.25+math.Abs(rng.NormFloat64()))
		case x.Type.IsReal():
			x.SetFloat(i, rng.NormFloat64())
		case how == ">0":
			x.SetInt(i, 1+rng.Int64N(5))
		default:
			x.SetInt(i, rng.Int64N(11)-5)
		}
	}
	return nil
}

// hash is the seed of a sample's random numbers.
func hash(s string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, s) // a hash does not fail
	return h.Sum64()
}
