package recompute_test

import (
	"fmt"
	"syscall"
	"testing"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner/recompute"
)

// named is a problem of a training step.
type named struct {
	name string
	p    *recompute.Problem
}

func steps(t testing.TB) (all []named) {
	family := func(s zoo.Spec, dims map[string]int64) {
		g, err := zoo.Step(s, kernels.Library, autograd.Options{Optimizer: "adamw"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, named{fmt.Sprintf("%s-%dL", s.Family, s.Layers), problemOf(t, g, dims)})
	}
	for _, layers := range []int{6, 48} {
		family(zoo.Spec{Family: "gpt", Layers: layers}, map[string]int64{"batch": 8, "seq": 128})
	}
	family(zoo.Spec{Family: "resnet", Layers: 3}, map[string]int64{"batch": 8})
	for _, name := range []string{"gpt2-6L", "bert-6L", "resnet18-decomp", "convnext"} {
		all = append(all, named{name, readJoint(t, name)})
	}
	return all
}

// BenchmarkWalk walks plans of steps within half their bytes, from the first
// operator on and from the border, and tries changes of them.
func BenchmarkWalk(b *testing.B) {
	for _, n := range steps(b) {
		p := compact(n.p)
		s := solver(b, p)
		base, _ := s.Solve(1<<60, recompute.Ask{})
		floor := recompute.FloorOf(p).Peak
		for _, room := range []struct {
			name  string
			limit int64
		}{{"half", max(base.Peak/2, (base.Peak+floor)/2)}, {"low", floor + (base.Peak-floor)/20}} {
			if _, ok := s.Solve(room.limit, recompute.Ask{}); !ok {
				b.Fatal(n.name)
			}
			walk := s.Walks(room.limit)
			for _, row := range []struct {
				name string
				do   func() int
			}{
				{"whole", func() int { return walk(false) }},
				{"border", func() int { return walk(true) }},
			} {
				b.Run(n.name+"/"+room.name+"/"+row.name, func(b *testing.B) {
					launches := 0
					begin := processor()
					for b.Loop() {
						launches += row.do()
					}
					b.ReportMetric((processor()-begin)*1e9/float64(launches), "cpu-ns/launch")
				})
			}
		}
	}
}

// compact is a problem without values that no operator makes, which planners leave out.
func compact(p *recompute.Problem) *recompute.Problem {
	number := make([]int32, len(p.Bytes))
	q := &recompute.Problem{Cost: p.Cost, Work: p.Work, Again: p.Again, Border: p.Border}
	renumbered := func(values []int32) (all []int32) {
		for _, v := range values {
			all = append(all, number[v])
		}
		return all
	}
	for op := range int32(len(p.Cost)) {
		for _, v := range p.Outputs.Of(op) {
			number[v] = int32(len(q.Bytes))
			q.Bytes, q.Held = append(q.Bytes, p.Bytes[v]), append(q.Held, p.Held[v])
		}
		q.Inputs.Add(renumbered(p.Inputs.Of(op))...)
		q.Outputs.Add(renumbered(p.Outputs.Of(op))...)
		q.Over.Add(renumbered(p.Over.Of(op))...)
	}
	return q
}

// processor is the seconds that this process has used of any core.
func processor() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
