package zoo

import (
	"fmt"
	"strings"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels/nodes"
)

// Family is a kind of model.
type Family struct {
	Name, Doc string
	// Defaults has every number that the family reads. The defaults of hidden and kv-heads scale with width and
	// heads.
	Defaults Spec
	Options  []string // of dropout, gelu and untied
	// Batch, Seq and LR are suggested values; Seq is 0 if the family has no seq.
	Batch, Seq int
	LR         float64

	check func(Spec) error
	build func(*model)
	data  func(*task)
}

// Families lists the kinds of models.
func Families() []Family { return []Family{gpt, bert, llama, resnet, mlp} }

// Reads lists the numbers and options of a Spec that the family reads.
func (f Family) Reads() []string {
	var names []string
	for _, n := range numbers {
		if *n.Of(&f.Defaults) != 0 {
			names = append(names, n.Name)
		}
	}
	return append(append(names, f.Options...), "seed")
}

func find(name string) (Family, error) {
	var known []string
	for _, f := range Families() {
		if f.Name == name {
			return f, nil
		}
		known = append(known, f.Name)
	}
	return Family{}, fmt.Errorf("no family is called %q; there are %s", name, strings.Join(known, ", "))
}

// Step builds the training step of a model.
func Step(spec Spec, lib *graph.Library, o autograd.Options) (*graph.Graph, error) {
	g, err := New(spec, lib)
	if err != nil {
		return nil, err
	}
	return autograd.TrainStep(g, o)
}

// New builds the forward graph of a model, with its loss.
func New(spec Spec, lib *graph.Library) (g *graph.Graph, err error) {
	spec, err = spec.Complete()
	if err != nil {
		return nil, err
	}
	f, err := find(spec.Family)
	if err != nil {
		return nil, err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *nodes.Missing:
			g, err = nil, r
		default:
			panic(r)
		}
	}()
	m := &model{Spec: spec, b: nodes.New(lib, f.Name), batch: graph.Sym("batch"), seq: graph.Sym("seq")}
	if err := graph.Try(func() { f.build(m) }); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return m.b.Graph, nil
}
