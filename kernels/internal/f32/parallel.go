package f32

// Parallel calls f for ranges that partition [0, n), each of at least grain elements if there are
// that many, and returns when all are done. Ranges may run concurrently.
type Parallel func(n, grain int, f func(lo, hi int))

// Serial is the Parallel of one worker.
func Serial(n, _ int, f func(lo, hi int)) { f(0, n) }

// Grain is the least number of cheap element operations worth a worker.
const Grain = 16 << 10

// WholeWork is the work from which on all workers share one product of a batch; smaller products
// are computed by one worker each.
const WholeWork = 8 << 20
