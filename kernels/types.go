package kernels

import (
	"slices"
	"strings"

	"memopt/internal/graph"
)

// elementTypes are the types that operators are tested with, in the order of listings.
var elementTypes = []graph.DType{
	graph.Float32, graph.Float64, graph.Float16, graph.BFloat16,
	graph.Int8, graph.Int16, graph.Int32, graph.Int64,
	graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64, graph.Bool,
	graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ,
}

// Types lists the element types that an operator accepts. If its inputs may differ, it is the
// types of the first input that accepts several float types, or else of the first that accepts
// several: the values of Where, not its condition; the data of Gather, not the indices. Types
// are not declared: each is tried on the samples, and shape inference refuses those that the
// operator does not support. nil means that no input determines them.
func Types(op *graph.Op) []graph.DType {
	all := typesByInput(op)
	for _, tells := range []func([]graph.DType) bool{
		func(t []graph.DType) bool { return len(t) > 1 && t[1].IsFloat() },
		func(t []graph.DType) bool { return len(t) > 1 },
		func(t []graph.DType) bool { return len(t) > 0 },
	} {
		if i := slices.IndexFunc(all, tells); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// typesByInput returns the types that each input accepts; of inputs that must have equal types,
// only the first has any.
func typesByInput(op *graph.Op) [][]graph.DType {
	var taken [][]graph.DType
	for _, s := range op.Samples {
		for _, from := range sampleTypes(s) {
			for len(taken) <= from.input {
				taken = append(taken, nil)
			}
			at := &taken[from.input]
			for _, to := range elementTypes {
				if slices.Contains(*at, to) {
					continue
				}
				if _, err := newCase(op, s, retyped(from.is, to)); err == nil {
					*at = append(*at, to)
				}
			}
		}
	}
	for _, t := range taken {
		slices.SortFunc(t, func(a, b graph.DType) int { return slices.Index(elementTypes, a) - slices.Index(elementTypes, b) })
	}
	return taken
}

// retyped replaces one type by another.
func retyped(from, to graph.DType) func(graph.DType) graph.DType {
	return func(t graph.DType) graph.DType {
		if t == from {
			return to
		}
		return t
	}
}

// typeAt is a type in a sample, and the first input of that type.
type typeAt struct {
	input int
	is    graph.DType
}

func sampleTypes(sample string) (types []typeAt) {
	body, _, _ := strings.Cut(sample, "->")
	inputs, _, _ := strings.Cut(body, ";")
	for i, f := range splitTop(inputs) {
		end := strings.IndexAny(f, "[{")
		if end < 0 {
			continue
		}
		t, ok := graph.ParseDType(f[:end])
		if ok && !slices.ContainsFunc(types, func(a typeAt) bool { return a.is == t }) {
			types = append(types, typeAt{i, t})
		}
	}
	return types
}
