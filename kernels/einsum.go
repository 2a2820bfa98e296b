package kernels

import (
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Einsum is rewritten into matrix products, sums and views, which contract two factors at a
// time from left to right.
var _ = define(graph.Op{
	Name:    "Einsum",
	Doc:     "sums of products of the inputs' elements, as the equation says",
	In:      "Inputs...",
	Out:     "Output",
	Attrs:   "equation string",
	Samples: []string{"f32[2,3], f32[3,4]; equation=\"ij,jk\"", "i32[2,3]; equation=\"ij\""},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		e := einsum{Builder: b, n: n, size: map[rune]graph.Dim{}}
		terms, out := e.parse()
		acc := e.diagonals(terms[0])
		for i, t := range terms[1:] {
			keep := slices.Clone(out)
			for _, later := range terms[i+2:] {
				keep = append(keep, later.labels...)
			}
			acc = e.times(acc, e.diagonals(t), keep)
		}
		return []*graph.Value{e.arrange(e.sum(acc, out), out)}
	},
})

type einsum struct {
	*graph.Builder
	n    *graph.Node
	size map[rune]graph.Dim
}

// labelled is a value with a label for each dim. Dims under an ellipsis have labels that are
// no letters, numbered from the right.
type labelled struct {
	*graph.Value
	labels []rune
}

// hidden is the label of the i-th dim from the right of an ellipsis.
func hidden(i int) rune { return 0x10000 - rune(i) }

func (e *einsum) parse() (terms []labelled, out []rune) {
	equation := strings.ReplaceAll(e.n.Str("equation"), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	parts := strings.Split(left, ",")
	if len(parts) != len(e.n.Inputs) {
		e.n.Fail("equation %q has %d terms for %d inputs", equation, len(parts), len(e.n.Inputs))
	}
	widest := 0
	count := map[rune]int{}
	for i, p := range parts {
		x := e.n.Inputs[i]
		labels, dots := e.labels(p, x.Rank())
		widest = max(widest, dots)
		if len(labels) != x.Rank() {
			e.n.Fail("term %q has %d labels, but input %d is %s", p, len(labels), i, x.Shape)
		}
		for d, l := range labels {
			count[l]++
			if at, ok := e.size[l]; !ok || at.Is(1) {
				e.size[l] = x.Shape[d]
			} else if !x.Shape[d].Is(1) {
				e.n.Same(at, x.Shape[d], "dims labelled "+string(l))
			}
		}
		terms = append(terms, labelled{x, labels})
	}
	if explicit {
		dots := 0
		if strings.Contains(right, "...") {
			dots = widest
		}
		out, _ = e.labels(right, len(strings.ReplaceAll(right, "...", ""))+dots)
	} else {
		for i := widest; i > 0; i-- {
			out = append(out, hidden(i))
		}
		var once []rune
		for l, k := range count {
			if k == 1 && l < hidden(widest) {
				once = append(once, l)
			}
		}
		slices.Sort(once)
		out = append(out, once...)
	}
	for i, l := range out {
		if _, ok := e.size[l]; !ok || slices.Contains(out[:i], l) {
			e.n.Fail("output %q of equation %q has a label that no input has, or has one twice", right, equation)
		}
	}
	return terms, out
}

// labels parses a term for a value of a rank; dots is the number of dims under its ellipsis.
func (e *einsum) labels(term string, rank int) (labels []rune, dots int) {
	before, after, has := strings.Cut(term, "...")
	for _, r := range before + after {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			e.n.Fail("equation %q: %q is not a letter", e.n.Str("equation"), r)
		}
	}
	labels = []rune(before)
	if has {
		dots = max(0, rank-len(before)-len(after))
		for i := dots; i > 0; i-- {
			labels = append(labels, hidden(i))
		}
	}
	return append(labels, []rune(after)...), dots
}

// diagonals takes the diagonal over dims that have the same label.
func (e *einsum) diagonals(x labelled) labelled {
	for i := 0; i < len(x.labels); i++ {
		j := slices.Index(x.labels[i+1:], x.labels[i])
		if j < 0 {
			continue
		}
		j += i + 1
		// The mask is 1 where index i is index j.
		places := e.Op("Range", nil, e.Int(graph.Num(0)), e.Int(x.Shape[i]), e.Int(graph.Num(1)))
		along := func(axis int) *graph.Value {
			s := slices.Repeat(graph.Dims(1), x.Rank())
			s[axis] = x.Shape[i]
			return reshape(e.Builder, places, s)
		}
		mask := cast(e.Builder, e.Op("Equal", nil, along(i), along(j)), x.Type)
		x.Value = e.Op("ReduceSum", graph.A{"keepdims": 0}, e.Op("Mul", nil, x.Value, mask), e.Ints(graph.Num(int64(j))))
		x.labels = slices.Delete(slices.Clone(x.labels), j, j+1)
		i--
	}
	return x
}

// sum reduces over all labels not in keep.
func (e *einsum) sum(x labelled, keep []rune) labelled {
	var axes []graph.Dim
	var labels []rune
	for i, l := range x.labels {
		if slices.Contains(keep, l) {
			labels = append(labels, l)
		} else {
			axes = append(axes, graph.Num(int64(i)))
		}
	}
	if len(axes) == 0 {
		return x
	}
	return labelled{e.Op("ReduceSum", graph.A{"keepdims": 0}, x.Value, e.Ints(axes...)), labels}
}

// arrange transposes x to the given order of its labels.
func (e *einsum) arrange(x labelled, order []rune) *graph.Value {
	if slices.Equal(x.labels, order) {
		return x.Value
	}
	perm := make([]int64, len(order))
	for i, l := range order {
		perm[i] = int64(slices.Index(x.labels, l))
	}
	return e.Op("Transpose", graph.A{"perm": perm}, x.Value)
}

// times multiplies two factors and sums over the labels not in keep.
func (e *einsum) times(x, y labelled, keep []rune) labelled {
	x, y = e.sum(x, slices.Concat(keep, y.labels)), e.sum(y, slices.Concat(keep, x.labels))
	var batch, inner, left, right []rune
	for _, l := range x.labels {
		switch {
		case !slices.Contains(y.labels, l):
			left = append(left, l)
		case slices.Contains(keep, l):
			batch = append(batch, l)
		default:
			inner = append(inner, l)
		}
	}
	for _, l := range y.labels {
		if !slices.Contains(x.labels, l) {
			right = append(right, l)
		}
	}
	labels := slices.Concat(batch, left, right)
	if len(inner) == 0 {
		pad := func(v *graph.Value, order []rune) *graph.Value {
			s := make(graph.Shape, len(labels))
			for i, l := range labels {
				s[i] = graph.Num(1)
				if k := slices.Index(order, l); k >= 0 {
					s[i] = v.Shape[k]
				}
			}
			return reshape(e.Builder, v, s)
		}
		lo, ro := slices.Concat(batch, left), slices.Concat(batch, right)
		return labelled{e.Op("Mul", nil, pad(e.arrange(x, lo), lo), pad(e.arrange(y, ro), ro)), labels}
	}
	x, y = e.whole(x, inner), e.whole(y, inner)
	// Float products can read a transposed factor in place.
	turns := func(v labelled, rows, cols []rune) bool {
		return isFloat(v.Type) && slices.Equal(v.labels, slices.Concat(batch, cols, rows))
	}
	p := product{Alpha: 1}
	var a, b *graph.Value
	if p.TransA = turns(x, left, inner); p.TransA {
		a = e.matrix(x, batch, inner, left)
	} else {
		a = e.matrix(x, batch, left, inner)
	}
	if p.TransB = turns(y, inner, right); p.TransB {
		b = e.matrix(y, batch, right, inner)
	} else {
		b = e.matrix(y, batch, inner, right)
	}
	z := p.node(e.Builder, a, b)
	shape := slices.Clone(z.Shape[:len(batch)])
	for _, l := range slices.Concat(left, right) {
		shape = append(shape, e.size[l])
	}
	return labelled{reshape(e.Builder, z, shape), labels}
}

// whole expands dims of length 1 to the size of their label.
func (e *einsum) whole(x labelled, labels []rune) labelled {
	shape := slices.Clone(x.Shape)
	for i, l := range x.labels {
		if slices.Contains(labels, l) {
			shape[i] = e.size[l]
		}
	}
	x.Value = expandTo(e.Builder, x.Value, shape)
	return x
}

// matrix reshapes x to [batch…, rows, cols].
func (e *einsum) matrix(x labelled, batch, rows, cols []rune) *graph.Value {
	m := e.arrange(x, slices.Concat(batch, rows, cols))
	k := len(batch)
	shape := append(slices.Clone(m.Shape[:k]), m.Shape[k:k+len(rows)].Elems(), m.Shape[k+len(rows):].Elems())
	return reshape(e.Builder, m, shape)
}
