package bench

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"memopt/memopt/report"
)

// Clock is the time and memory of one answer: the fastest of the rounds, and the most bytes
// allocated above the start. CPU time is of all threads. A bar applies to the lesser of wall and
// CPU time, as on an idle machine neither is exceeded.
type Clock struct {
	MS    float64 `json:"ms"`
	CPUMS float64 `json:"cpu_ms"`
	Heap  int64   `json:"heap"`
	BarMS float64 `json:"bar_ms,omitempty"`
	Met   *bool   `json:"met,omitempty"`
}

// heapBar is the bytes that anything with a bar may allocate.
const heapBar = 200_000_000

// judge sets a bar; 0: none.
func (c *Clock) judge(bar float64) {
	if bar > 0 {
		met := min(c.MS, c.CPUMS) <= bar && c.Heap <= heapBar
		c.BarMS, c.Met = bar, &met
	}
}

// columns formats times, bytes, bar and verdict.
func (c *Clock) columns() []string {
	line := []string{fmt.Sprintf("%.1f", c.MS), fmt.Sprintf("%.1f", c.CPUMS), report.Bytes(c.Heap), "", ""}
	if c.Met != nil {
		line[3], line[4] = fmt.Sprintf("≤ %.0f ms, %d MB", c.BarMS, heapBar/1_000_000), verdict(*c.Met)
	}
	return line
}

// clock measures a function in a few rounds.
func (b *plannerBench) clock(bar float64, run func() error) (c Clock, err error) {
	c.MS, c.CPUMS = math.Inf(1), math.Inf(1)
	for range b.rounds {
		heap := watchHeap()
		begin, cpu := time.Now(), processTime()
		err := run()
		c.MS = min(c.MS, float64(time.Since(begin).Microseconds())/1000)
		c.CPUMS = min(c.CPUMS, float64((processTime()-cpu).Microseconds())/1000)
		c.Heap = max(c.Heap, heap())
		if err != nil {
			return c, err
		}
	}
	c.judge(bar)
	return c, nil
}

// watchHeap samples the heap until the returned function is called, which returns the most bytes
// allocated above the start. It does not stop goroutines.
func watchHeap() func() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := heap()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		top := before
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				top = max(top, heap())
			case <-stop:
				tick.Stop()
				most <- max(top, heap())
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return int64(<-most - before)
	}
}
