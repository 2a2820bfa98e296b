package kernels

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/internal/spirv"
)

// TestPointwise: what is said to be pointwise has a kernel that is, and the other
// way round, as far as it is of float32.
func TestPointwise(t *testing.T) {
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range Library.All() {
		if op.Rewrite != nil || op.Lower == nil {
			continue
		}
		cases, err := Cases(op)
		if err != nil {
			t.Fatal(err)
		}
		alike, some := true, false
		for _, c := range cases {
			if slices.ContainsFunc(slices.Concat(c.Node.Inputs, c.Node.Outputs), func(v *graph.Value) bool { return v == nil || v.Type != graph.Float32 }) {
				continue
			}
			l, err := graph.Lower(c.Node, b, graph.PlanLimits)
			if err != nil {
				t.Fatal(err)
			}
			some = some || len(l.Dispatches) > 0
			alike = alike && l.Refused == "" && len(l.Out) == 1 && !slices.ContainsFunc(l.Dispatches, func(d graph.Dispatch) bool {
				return !strings.HasPrefix(d.Kernel.Name, "pointwise-ffff")
			})
		}
		if op.Pointwise != (alike && some && op.Tests.NotPointwise == "") {
			t.Errorf("%s: Pointwise is %v", op.FullName(), op.Pointwise)
		}
		if op.Pointwise && (op.Random || op.Overwrites != nil || op.Scratch != nil) {
			t.Errorf("%s is pointwise, so it draws nothing, overwrites nothing and has no work space", op.FullName())
		}
	}
}

// TestChains: a chain's quick form has the bits of its steps' quick forms one by
// one, whatever is broadcast and however many workers there are.
func TestChains(t *testing.T) {
	ops := map[string]string{} // with attributes, from samples
	for _, op := range Library.All() {
		if op.Pointwise && op.Rewrite == nil {
			_, attrs, _ := strings.Cut(op.Samples[0], ";")
			ops[op.FullName()] = attrs
		}
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range ops {
			if !yield(name) {
				return
			}
		}
	})
	shapes := [][]string{
		{"f32[5000]", "f32[1]", "f32[]"},
		{"f32[3,5,7]", "f32[5,7]", "f32[7]", "f32[3,1,1]", "f32[5,1]"},
		{"f32[2,1,4500]", "f32[4500]", "f32[2,1,1]"},
		{"f32[1,1]"},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	tried := map[string]bool{}
	for range 600 {
		under := shapes[rng.IntN(len(shapes))]
		inputs := []string{under[0]}
		for range rng.IntN(4) {
			inputs = append(inputs, under[rng.IntN(len(under))])
		}
		var steps, results []string
		for len(steps) < 1+rng.IntN(5) {
			name := names[rng.IntN(len(names))]
			ports, _ := Library.Find(domainOf(name)).Ports()
			args := make([]string, len(ports))
			if ports[0].Variadic {
				args = make([]string, 1+rng.IntN(4))
			}
			for i := range args {
				if k := rng.IntN(len(inputs) + len(steps)); k < len(inputs) {
					args[i] = fmt.Sprintf("x%d", k)
				} else {
					args[i] = fmt.Sprintf("y%d", k-len(inputs))
				}
			}
			next := append(slices.Clone(steps), fmt.Sprintf("y%d = %s(%s) %s", len(steps), name, strings.Join(args, ", "), ops[name]))
			if _, err := chainCase(inputs, next, []string{"y0"}); err == nil {
				steps = next
				tried[name] = true
			}
		}
		for i := range steps {
			if i == len(steps)-1 || rng.IntN(3) == 0 {
				results = append(results, fmt.Sprintf("y%d", i))
			}
		}
		c, err := chainCase(inputs, steps, results)
		if err != nil {
			t.Fatal(err)
		}
		want := stepByStep(t, c)
		for workers := 1; workers <= 3; workers++ {
			sameBits(t, c.Text, evaluate(t, c, chainFast, workers), want)
		}
	}
	for _, name := range names {
		if !tried[name] {
			t.Errorf("%s was in no chain", name)
		}
	}
}

func domainOf(fullName string) (domain, name string, opset int) {
	at := strings.LastIndex(fullName, ".")
	return fullName[:max(at, 0)], fullName[at+1:], 0
}

func chainCase(inputs, steps, results []string) (Case, error) {
	outs := make([]string, len(results))
	for i := range outs {
		outs[i] = fmt.Sprintf("z%d", i)
	}
	text := fmt.Sprintf("%s; steps=[%s] results=[%s] -> %s", strings.Join(inputs, ", "), quoted(steps), quoted(results), strings.Join(outs, ", "))
	return newCase(Library.Role(graph.RoleChain), text, nil)
}

func quoted(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}

// stepByStep runs the steps of a chain as nodes of their own.
func stepByStep(t *testing.T, c Case) (results []*graph.Tensor) {
	made := slices.Clone(c.In)
	for _, s := range c.Node.Body.Nodes {
		step := Case{Node: s, In: chainStep(s, made).In}
		run := s.Op.Fast
		if run == nil {
			run = s.Op.Eval
		}
		made = append(made, evaluate(t, step, run, 1)[0])
	}
	for _, v := range c.Node.Body.Outputs {
		results = append(results, made[v.ID])
	}
	return results
}

// TestChainKernels: a chain's kernel sees its operands and no other buffers, has no
// arithmetic that a driver may contract, and is SPIR-V that the validator takes.
func TestChainKernels(t *testing.T) {
	validator, err := exec.LookPath("spirv-val")
	if err != nil {
		t.Log("spirv-val (package spirv-tools) is not installed, so nothing is validated")
	}
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := Cases(Library.Role(graph.RoleChain))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		l, err := graph.Lower(c.Node, b, graph.PlanLimits)
		if err != nil || l.Refused != "" {
			t.Fatalf("%s: %v %s", c.Text, err, l.Refused)
		}
		for _, d := range l.Dispatches {
			if bound := spirv.Bindings(d.Kernel.Code()); len(bound) != len(d.Buffers) {
				t.Errorf("%s: the kernel sees bindings %v of %d buffers", c.Text, bound, len(d.Buffers))
			}
			if all, loose := spirv.Roundings(d.Kernel.Code()); loose > 0 || all == 0 {
				t.Errorf("%s: a driver may fuse %d of %d operations", c.Text, loose, all)
			}
			if validator == "" {
				continue
			}
			file := filepath.Join(t.TempDir(), fmt.Sprint(i))
			if err := os.WriteFile(file, d.Kernel.Code(), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(validator, "--target-env", "vulkan1.2", file).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", c.Text, err, out)
			}
		}
	}
}
