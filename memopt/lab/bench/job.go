package bench

import (
	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
)

// job is a step that either device can run.
type job struct {
	graph  *graph.Graph
	dims   map[string]int64
	inputs map[string]*graph.Tensor
}

// zooStep is a training step of a zoo model.
func zooStep(spec zoo.Spec, optimizer string, dims map[string]int64) (job, error) {
	g, err := zoo.New(spec, kernels.Library)
	if err != nil {
		return job{}, err
	}
	inputs, err := zoo.Data(spec, int(dims["batch"]), max(1, int(dims["seq"])), 0)
	if err != nil {
		return job{}, err
	}
	return stepOf(g, optimizer, dims, inputs)
}

// stepOf derives the training step of a graph.
func stepOf(g *graph.Graph, optimizer string, dims map[string]int64, inputs map[string]*graph.Tensor) (job, error) {
	g.Clean(graph.CleanOptions{Fuse: kernels.Fusions, Unfold: true})
	step, err := autograd.TrainStep(g, autograd.Options{Optimizer: optimizer})
	if err != nil {
		return job{}, err
	}
	if optimizer != "" {
		inputs[autograd.LearningRate] = graph.TensorOf(graph.Float32, []float32{1e-4})
	}
	return job{step, dims, inputs}, nil
}
