// Package corpus is the training steps that planning is measured on: real architectures at real sizes as PyTorch runs
// them, recorded by record.py beside this file, and the zoo's models as memopt derives their steps; and problems of
// places that others recorded.
//
// A pass of the planner stays if it earns something on one of these steps ("memopt bench planner --without NAME"), and
// what is planned for each of them at six budgets stands in plans.txt, where a change of the planner shows.
package corpus

import (
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/joint"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner/pack"
)

// Step is a training step.
type Step struct {
	Name string
	Dims map[string]int64 // of the zoo's; recorded steps have fixed sizes
	spec zoo.Spec
}

// Graph reads or derives the step.
func (s Step) Graph() (*graph.Graph, error) {
	if s.spec.Family == "" {
		return Recorded(s.Name)
	}
	return zoo.Step(s.spec, kernels.Library, autograd.Options{Optimizer: "adamw"})
}

//go:embed steps/*.json.gz placings/*.csv.gz
var recorded embed.FS

// Recorded reads a recorded step.
func Recorded(name string) (*graph.Graph, error) {
	data, err := recorded.ReadFile("steps/" + name + ".json.gz")
	if err != nil {
		return nil, fmt.Errorf("corpus: there is no recorded step %q", name)
	}
	return joint.Parse(context.Background(), name, data)
}

// fromZoo are the zoo's models, at the sizes that the README's figures have.
var fromZoo = []Step{
	{"zoo-gpt", map[string]int64{"batch": 8, "seq": 256}, zoo.Spec{Family: "gpt", Layers: 12}},
	{"zoo-llama", map[string]int64{"batch": 8, "seq": 256}, zoo.Spec{Family: "llama", Layers: 8}},
	{"zoo-bert", map[string]int64{"batch": 8, "seq": 256}, zoo.Spec{Family: "bert", Layers: 12}},
	{"zoo-resnet", map[string]int64{"batch": 64}, zoo.Spec{Family: "resnet", Layers: 2}},
	{"zoo-mlp", map[string]int64{"batch": 4096}, zoo.Spec{Family: "mlp", Layers: 16}},
}

// Steps are all steps: those recorded, by name, then the zoo's.
func Steps() []Step {
	files, err := fs.Glob(recorded, "steps/*.json.gz")
	if err != nil {
		panic(err) // the pattern is bad
	}
	var all []Step
	for _, file := range files {
		all = append(all, Step{Name: strings.TrimSuffix(path.Base(file), ".json.gz")})
	}
	return append(all, fromZoo...)
}

// Shares are the budgets of each step, in percent of the way from its floor, at 0, to its arena with everything kept,
// at 100: so each budget is one that some plan may meet, however low the floor of a step lies.
var Shares = []int64{90, 70, 50, 30, 15, 5}

// Budget is the bytes of a share.
func Budget(floor, plain, share int64) int64 { return floor + (plain-floor)*share/100 }

// Placings are problems of places that others recorded: google/minimalloc's, which have a capacity, and those of which
// placings/README.md tells, which are to be placed as low as they come.
func Placings() ([]pack.Instance, error) {
	all, err := pack.MiniMalloc()
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Name = "minimalloc-" + all[i].Name
	}
	files, err := fs.Glob(recorded, "placings/*.csv.gz")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		p, err := placing(file)
		if err != nil {
			return nil, fmt.Errorf("corpus: %s: %w", file, err)
		}
		all = append(all, pack.Instance{Name: strings.TrimSuffix(path.Base(file), ".csv.gz"), Problem: p})
	}
	return all, nil
}

func placing(file string) (pack.Problem, error) {
	f, err := recorded.Open(file)
	if err != nil {
		return pack.Problem{}, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return pack.Problem{}, err
	}
	return pack.ReadCSV(z)
}
