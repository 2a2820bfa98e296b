package graph

// KernelClass is the kind of kernel that runs an operator, as far as its speed goes: kernels of
// one class reach about the same share of what a device can do.
type KernelClass uint8

// The classes of kernels.
const (
	UnstatedKernel KernelClass = iota // told by other facets: see Op.Class
	PointwiseKernel
	ReductionKernel // norms, sums, softmax
	ProductKernel
	ConvolutionKernel
	AttentionKernel
	GatherKernel // reads or writes rows at indices
	CopyKernel   // moves elements and computes nothing
	MathKernel   // pointwise, by exponentials, roots and their like
	RandomKernel // draws random numbers
	AttentionBackwardKernel
)

var kernelClasses = [...]string{"unstated", "pointwise", "reduction", "product", "convolution", "attention", "gather", "copy", "math", "random", "attention-backward"}

// String is the class as profiles name it.
func (k KernelClass) String() string { return kernelClasses[k] }

// KernelClasses lists the classes.
func KernelClasses() []KernelClass {
	return []KernelClass{PointwiseKernel, ReductionKernel, ProductKernel, ConvolutionKernel, AttentionKernel, GatherKernel, CopyKernel, MathKernel, RandomKernel, AttentionBackwardKernel}
}

// Like is the class whose speed stands for that of k where k's is not known; k itself if it is nobody's.
func (k KernelClass) Like() KernelClass {
	if k == AttentionBackwardKernel {
		return AttentionKernel
	}
	return k
}

// Class is the operator's class of kernel. Where it is not stated, other facets tell it.
func (op *Op) Class() KernelClass {
	switch {
	case op.Kernel != UnstatedKernel:
		return op.Kernel
	case op.Pointwise || op.Elementwise:
		return PointwiseKernel
	case op.Recompute == Heavy:
		return ProductKernel
	case op.Reads != nil:
		return GatherKernel
	case op.Flops == nil:
		return CopyKernel
	}
	return ReductionKernel
}
