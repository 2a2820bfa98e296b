package joint

import (
	"testing"

	"memopt/internal/graph"
)

// TestKernelOf: the classes of operators as PyTorch's recordings name them.
func TestKernelOf(t *testing.T) {
	for op, want := range map[string]graph.KernelClass{
		"aten.addmm.default": graph.ProductKernel, "AddmmBackward0": graph.ProductKernel, "aten.linear.default": graph.ProductKernel,
		"aten.convolution.default": graph.ConvolutionKernel, "aten._scaled_dot_product_flash_attention_for_cpu.default": graph.AttentionKernel,
		"aten._scaled_dot_product_flash_attention_for_cpu_backward.default": graph.AttentionKernel,
		"aten._softmax.default": graph.ReductionKernel, "aten.native_layer_norm.default": graph.ReductionKernel, "aten.embedding_dense_backward.default": graph.GatherKernel,
		"aten.gelu.default": graph.MathKernel, "GeluBackward0": graph.MathKernel, "aten.rsqrt.default": graph.MathKernel, "aten._log_softmax.default": graph.ReductionKernel,
		"aten.relu.default": graph.PointwiseKernel, "aten.logical_and.default": graph.PointwiseKernel, "ExpandBackward0": graph.CopyKernel, "MulBackward0": graph.PointwiseKernel, "aten.clone.default": graph.CopyKernel, "aten.cat.default": graph.CopyKernel,
		"aten.native_dropout.default": graph.RandomKernel, "NativeDropoutBackward0": graph.PointwiseKernel, "aten.bernoulli.p": graph.RandomKernel, "aten.randn_like.default": graph.RandomKernel, "aten.empty_like.default": graph.CopyKernel,
	} {
		heavy := want == graph.ProductKernel || want == graph.ConvolutionKernel || want == graph.AttentionKernel
		if got := kernelOf(op, heavy, false); got != want {
			t.Errorf("%s is of class %s, not %s", op, got, want)
		}
	}
	if got := kernelOf("aten.empty_like.default", false, true); got != graph.RandomKernel {
		t.Errorf("memory that is filled with what nothing makes again is of class %s", got)
	}
}
