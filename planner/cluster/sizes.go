package cluster

import "memopt/internal/graph"

// sizes caches what follows from a shape and a type. A program of repeated layers has few different
// ones, and many values of each.
type sizes map[uint64][]*size

// size is a shape, its type, bytes and text.
type size struct {
	shape graph.Shape
	kind  graph.DType
	bytes graph.Dim
	text  string // ((batch)*(64))
}

// of returns the size of a shape and a type. The hash covers only the known numbers of a shape.
func (all sizes) of(shape graph.Shape, kind graph.DType) *size {
	const prime = 1099511628211
	hash := uint64(kind)
	for _, d := range shape {
		n, _ := d.Const()
		hash = hash*prime ^ uint64(n)
	}
	for _, s := range all[hash] {
		if s.kind == kind && s.shape.Equal(shape) {
			return s
		}
	}
	s := &size{shape: shape, kind: kind, bytes: shape.Elems().Mul(graph.Num(kind.Size())), text: spell(shape, nil)}
	all[hash] = append(all[hash], s)
	return s
}
