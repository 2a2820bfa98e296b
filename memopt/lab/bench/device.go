package bench

import (
	"math/rand/v2"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// onDevice is our side of a graph: planned with everything kept, and run.
func onDevice(j job, o cpu.Options) (Side, error) {
	p, err := planner.Make(j.graph, planner.Request{Dims: j.dims, Strategy: "keep-all"})
	if err != nil {
		return nil, err
	}
	s, err := p.Schedule()
	if err != nil {
		return nil, err
	}
	d, err := cpu.Open(s, o)
	if err != nil {
		return nil, err
	}
	step := func() error {
		_, err := d.Run(schedule.Run{Inputs: j.inputs})
		return err
	}
	return local{step, func() { d.Close() }}, nil
}

// training is our side of a training step of a zoo model.
func training(spec zoo.Spec, optimizer string, dims map[string]int64) func(threads int) (Side, error) {
	return func(threads int) (Side, error) {
		j, err := zooStep(spec, optimizer, dims)
		if err != nil {
			return nil, err
		}
		return onDevice(j, cpu.Options{Workers: threads})
	}
}

// program is our side of a graph given as text. Its parameters are random, so that a step has its
// nodes only.
func program(text string, o cpu.Options) func(threads int) (Side, error) {
	return func(threads int) (Side, error) {
		g, err := graph.Parse(kernels.Library, text)
		if err != nil {
			return nil, err
		}
		for _, v := range g.Values {
			if v.Kind != graph.Param {
				continue
			}
			n, _ := v.Shape.Elems().Const()
			x := graph.NewTensor(v.Type, int(n))
			draw(x)
			v.Data = graph.Bytes(x.Bytes)
		}
		o := o
		o.Workers = threads
		return onDevice(job{graph: g}, o)
	}
}

// draw fills a tensor with normal random numbers from a fixed seed.
func draw(x *graph.Tensor) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := make([]float64, 1<<12)
	for i := range some {
		some[i] = rng.NormFloat64()
	}
	for i := range x.Len() {
		x.SetFloat(i, some[i%len(some)])
	}
}
