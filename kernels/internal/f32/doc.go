// Package f32 is float32 arithmetic on the processor: rows, matrix products and
// convolutions over slices. It knows neither tensors nor operators; package kernels
// calls it for the quick forms of those.
//
// # What there is
//
//	parallel.go               how work is dealt out: Parallel, Serial, Grain
//	rows.go, update.go        element by element: z = x + y, rules of optimizers
//	exp.go                    exponentials, and what is made of them: Sigmoid, Tanh, Erf, Gelu, Swish
//	sums.go, softmax.go       sums, moments, the greatest; rows divided by their sum
//	norm.go, channel.go       normalisations and their gradients, by rows and by channels
//	product.go, half.go       C = A·B; factors of float32 and of 16-bit floats
//	convolution.go            convolutions as products; depthwise.go: those of single channels
//	pack.go                   factors laid out for products, sixteen elements at a time
//	workspace.go              blocks that are lent for a moment, and counted
//	vector.go, levels.go      the instructions that this machine has
//
// # Contract
//
//   - Names that end in Slope are gradients: dx from dy and what forward had.
//   - The first slices are written. As many elements are computed as the input that
//     is named in the comment has, and an output may be one of the inputs where the
//     computation is element by element.
//   - The bits of a result follow from the values and the shape alone: not from the
//     place of a row in memory, from the number of workers, or from the run. So sums
//     are added up in an order that depends on the length alone, and each element
//     of a result is one worker's.
//   - Machines with other instructions (Levels) may round otherwise, within the bounds
//     that the tests state: 2·10⁻⁶ for functions, and for sums the order of addition.
//   - Sums are float64, or float32 over pieces that are short.
//
// # Vectors
//
// Loops over rows are written twice: in Go, for machines without vectors, and in
// assembly for AVX2 and AVX-512, which program internal/rowgen makes of one table. The
// micro-kernels of products and the packing of factors are assembly written by hand.
// Another loop is a row of rowgen's table, go generate, and a function here that has the
// same in Go; tests at every level hold the two together.
package f32
