package joint

import (
	"slices"
	"strings"

	"memopt/internal/graph"
)

// classes tells the class of an operator's kernel by a part of its name, PyTorch's or that of a backward node. The first row that
// has one decides; what no row knows is pointwise.
var classes = []struct {
	class graph.KernelClass
	parts []string
}{
	{graph.AttentionKernel, []string{"attention"}},
	{graph.ConvolutionKernel, []string{"conv"}},
	{graph.GatherKernel, []string{"embedding", "gather", "index", "scatter", "take"}},
	{graph.ReductionKernel, []string{"norm", "softmax", "sum", "mean", "loss", "var", "amax", "amin", "argm", "pool", "prod", "sort", "topk"}},
	{graph.CopyKernel, []string{"copy", "clone", "cat", "stack", "slice", "pad", "permute", "transpose", "fill", "zeros", "ones", "empty", "arange", "repeat", "select", "roll", "flip", "expand"}},
	{graph.PointwiseKernel, []string{"relu", "logical"}},
	{graph.MathKernel, []string{"gelu", "silu", "elu", "exp", "log", "tanh", "sigmoid", "erf", "pow", "sqrt", "sin", "cos", "mish", "softplus"}},
}

// draws are parts of the names of operators that draw random numbers.
var draws = []string{"bernoulli", "dropout", "rand", "uniform", "normal_", "exponential_", "multinomial"}

// kernelOf is the class of an operator's kernel. heavy: it counts flops; once: nothing makes its results a second time, as of memory that is
// allocated and filled with random numbers, by operators that are recorded as one with it.
func kernelOf(op string, heavy, once bool) graph.KernelClass {
	name := strings.ToLower(op)
	has := func(part string) bool { return strings.Contains(name, part) }
	if once && has("empty") || !has("backward") && !has("attention") && slices.ContainsFunc(draws, has) {
		return graph.RandomKernel
	}
	for _, k := range classes {
		for _, part := range k.parts {
			if strings.Contains(name, part) && (!heavy || k.class == graph.AttentionKernel || k.class == graph.ConvolutionKernel) {
				return k.class
			}
		}
	}
	if heavy {
		return graph.ProductKernel
	}
	return graph.PointwiseKernel
}
