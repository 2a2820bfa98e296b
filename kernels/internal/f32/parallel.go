package f32

// Parallel calls f for ranges that make up [0, n), each of grain at least where there
// are so many, and returns when all are done. Ranges may run side by side.
type Parallel func(n, grain int, f func(lo, hi int))

// Serial is the Parallel of one worker.
func Serial(n, _ int, f func(lo, hi int)) { f(0, n) }

// Grain is the least number of cheap element operations worth a worker.
const Grain = 16 << 10

// WholeWork is the work of one product from which on all workers share it;
// smaller ones of a batch are dealt out whole.
const WholeWork = 8 << 20
