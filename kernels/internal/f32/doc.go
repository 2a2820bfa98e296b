// Package f32 is float32 arithmetic on the CPU: rows, matrix products and convolutions
// over slices. It does not know tensors or operators; package kernels uses it for the
// fast forms of operators.
//
// # Files
//
//	parallel.go               division of work: Parallel, Serial, Grain
//	rows.go, update.go        elementwise: z = x + y, update rules of optimizers
//	exp.go                    exponentials and functions of them: Sigmoid, Tanh, Erf, Gelu, Swish
//	sums.go, softmax.go       sums, moments, maxima; softmax
//	norm.go, channel.go       normalizations and their gradients, by rows and by channels
//	product.go, half.go       C = A·B; factors of float32 and of 16-bit floats
//	convolution.go            convolutions as products; depthwise.go: depthwise ones
//	pack.go                   packing of factors with AVX-512
//	workspace.go              pools of work space
//	vector.go, levels.go      the instruction sets of this machine
//
// # Contract
//
//   - Functions named …Slope are gradients: dx from dy and values of the forward pass.
//   - Outputs are the first arguments. The length is that of the input named in the
//     comment. Outputs of elementwise functions may be one of the inputs.
//   - The bits of a result depend only on values and shape, not on the alignment of a row,
//     the number of workers or the run: sums are added in an order that depends only on
//     the length, and each element is computed by one worker.
//   - Different instruction sets (Levels) may round differently, within the bounds in the
//     tests: 2·10⁻⁶ for functions; sums may be added in another order.
//   - Accumulators are float64, or float32 over short pieces.
//
// # Vectors
//
// Loops over rows exist twice: in Go, for machines without vectors, and in assembly for
// AVX2 and AVX-512, which internal/rowgen generates from one table. The micro-kernels of
// products and the packing of factors are hand-written assembly. To add a loop, add a row
// to rowgen's table, run go generate, and write a function here with the same loop in Go;
// tests compare both at every level.
package f32
