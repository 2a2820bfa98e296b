// Package moving chooses what is moved elsewhere and back beside launches.
//
// A problem is a line: launches of which it is known how long each runs, and spans of bytes that have idle times, in which nothing
// touches them. A move takes a span away during a part of an idle time. Copies run beside launches, on an engine for each way, and
// what the launches wait for them is what moves cost. Within chooses moves after which few enough bytes are near (choose.go);
// Moves gives moves that were chosen elsewhere their launches (crossing.go). Wait replays the clocks of launches and engines;
// Check does so by another route.
package moving

import (
	"fmt"
	"math"
	"slices"
)

// Far is a second place. Values may be copied to it and back while operators run.
type Far struct {
	Bytes   int64  // that it may hold
	Out, In Engine // of copies to it, and of copies back
	One     bool   // they are one engine: a copy in either direction begins when the one issued before it has ended
}

// Engine copies bytes, one copy after another in the order in which they were issued, beside operators and the other
// engine, if there is another.
type Engine struct {
	Delay int64   // ns before the first byte of a copy moves
	Rate  float64 // bytes per ns
}

// Time is what one copy takes.
func (e Engine) Time(bytes int64) int64 {
	return e.Delay + int64(min(math.Ceil(float64(bytes)/e.Rate), mostCopy))
}

// Best is the most bytes per ns that copies of up to so many bytes reach.
func (e Engine) Best(bytes int64) float64 {
	return float64(max(bytes, 1)) / float64(max(e.Time(bytes), 1))
}

// mostCopy is above any time of a copy, and leaves room to add up.
const mostCopy = 1 << 50

// Line is a list of launches, of which it is known how long each runs and which bytes are there.
type Line struct {
	Time  []int64 // by launch, ns
	Work  []int64 // by launch: bytes alive there that are in no span
	Spans []Span
	Far   Far
}

// Span is a stretch of the near place that has content during launches [First, Last).
type Span struct {
	First, Last int32
	Bytes       int64
	Idle        []Idle // when it may be elsewhere; in order
}

// Idle is launches [From, To) that do not touch a span. Launches From−1 and To do.
type Idle struct{ From, To int32 }

// Move takes a span elsewhere during a part of an idle time. A copy out begins before launch Out, and before launch Gone
// the step waits for its end: from there on the near place is free. A copy back begins before launch In, from which on
// it has a near place again, and before launch Back the step waits for its end.
//
// Before each launch the copies out of that launch are issued first, then ended copies out are waited for, then copies
// back are issued, and then waited for. On the far side a value takes its bytes from launch Out up to and with launch Back.
type Move struct {
	Span                int32
	Out, Gone, In, Back int32
}

// valid returns an error for what is wrong with moves: each must be within an idle time of its own.
func (l *Line) valid(moves []Move) error {
	taken := map[Idle]bool{}
	for i, x := range moves {
		if x.Span < 0 || int(x.Span) >= len(l.Spans) {
			return fmt.Errorf("move %d is of span %d, which is none", i, x.Span)
		}
		s := &l.Spans[x.Span]
		if !(s.First < x.Out && x.Out <= x.Gone && x.Gone < x.In && x.In <= x.Back && x.Back < s.Last) {
			return fmt.Errorf("move %d begins at %d, is gone at %d, comes at %d and is back at %d, which is out of order", i, x.Out, x.Gone, x.In, x.Back)
		}
		k := slices.IndexFunc(s.Idle, func(d Idle) bool { return d.From <= x.Out && x.Back <= d.To })
		if k < 0 {
			return fmt.Errorf("move %d takes span %d away where it is touched", i, x.Span)
		}
		key := Idle{x.Span, s.Idle[k].From}
		if taken[key] {
			return fmt.Errorf("move %d takes span %d away twice at a time", i, x.Span)
		}
		taken[key] = true
	}
	return nil
}

// Wait is how much longer the launches take with moves, as they wait for copies.
func (l *Line) Wait(moves []Move) (wait int64) {
	if len(moves) == 0 {
		return 0
	}
	return newClocks(l).run(moves)
}

// clocks replays the clocks of the launches of a line and of both engines. It has lists of moves by the launches of their
// events.
type clocks struct {
	begun                   []int64 // by launch, when it begins if nothing waits; and the end
	out, in                 []int64 // by span: what its copies take
	outs, gones, ins, backs lists
	one                     bool    // Far.One
	busy                    []bool  // by launch: a list has moves
	ended                   []int64 // by move: the end of its copy out, then of its copy back
	change                  []int64 // by launch, for sums
}

func newClocks(l *Line) *clocks {
	n := len(l.Time)
	c := &clocks{begun: make([]int64, n+1), out: make([]int64, len(l.Spans)), in: make([]int64, len(l.Spans)), one: l.Far.One, busy: make([]bool, n+1), change: make([]int64, n+1)}
	for i, t := range l.Time {
		c.begun[i+1] = c.begun[i] + t
	}
	for k, s := range l.Spans {
		c.out[k], c.in[k] = l.Far.Out.Time(s.Bytes), l.Far.In.Time(s.Bytes)
	}
	for _, s := range []*lists{&c.outs, &c.gones, &c.ins, &c.backs} {
		s.first, s.last = make([]int32, n+1), make([]int32, n+1)
		for i := range s.first {
			s.first[i] = -1
		}
	}
	return c
}

// slower is the same clocks with engines that are so much slower.
func (c *clocks) slower(by int64) *clocks {
	if by == 1 {
		return c
	}
	s := *c
	s.out, s.in = make([]int64, len(c.out)), make([]int64, len(c.in))
	for k := range c.out {
		s.out[k], s.in[k] = c.out[k]*by, c.in[k]*by
	}
	return &s
}

// lists is numbers by launch, each list in the order in which they were put in.
type lists struct{ first, last, next []int32 }

func (s *lists) put(at, k int32) {
	if s.first[at] < 0 {
		s.first[at] = k
	} else {
		s.next[s.last[at]] = k
	}
	s.last[at], s.next[k] = k, -1
}

// run is the sum of all waits. Moves that begin before the first launch are none.
func (c *clocks) run(moves []Move) (wait int64) {
	n := len(moves)
	for _, s := range []*lists{&c.outs, &c.gones, &c.ins, &c.backs} {
		s.next = slices.Grow(s.next[:0], n)[:n]
	}
	c.ended = slices.Grow(c.ended[:0], n)[:n]
	first, last := int32(len(c.busy)), int32(-1)
	for k := range moves {
		x := &moves[k]
		if x.Out < 0 {
			continue
		}
		c.outs.put(x.Out, int32(k))
		c.gones.put(x.Gone, int32(k))
		c.ins.put(x.In, int32(k))
		c.backs.put(x.Back, int32(k))
		c.busy[x.Out], c.busy[x.Gone], c.busy[x.In], c.busy[x.Back] = true, true, true, true
		first, last = min(first, x.Out), max(last, x.Back)
	}
	var engines [2]int64 // when they have ended what was issued
	out, in := &engines[0], &engines[1]
	if c.one {
		in = out
	}
	for i := first; i <= last; i++ {
		if !c.busy[i] {
			continue
		}
		now := c.begun[i] + wait
		for k := c.outs.first[i]; k >= 0; k = c.outs.next[k] {
			*out = max(*out, now) + c.out[moves[k].Span]
			c.ended[k] = *out
		}
		before := now
		for k := c.gones.first[i]; k >= 0; k = c.gones.next[k] {
			now = max(now, c.ended[k])
		}
		for k := c.ins.first[i]; k >= 0; k = c.ins.next[k] {
			*in = max(*in, now, c.ended[k]) + c.in[moves[k].Span]
			c.ended[k] = *in
		}
		for k := c.backs.first[i]; k >= 0; k = c.backs.next[k] {
			now = max(now, c.ended[k])
		}
		wait += now - before
		c.busy[i], c.outs.first[i], c.gones.first[i], c.ins.first[i], c.backs.first[i] = false, -1, -1, -1, -1
	}
	return wait
}

// live is the bytes alive at each launch.
func (l *Line) live(moves []Move) []int64 {
	live := make([]int64, len(l.Time)+1)
	for _, s := range l.Spans {
		live[s.First] += s.Bytes
		live[s.Last] -= s.Bytes
	}
	for _, x := range moves {
		live[x.Gone] -= l.Spans[x.Span].Bytes
		live[x.In] += l.Spans[x.Span].Bytes
	}
	sum := int64(0)
	for i, d := range live[:len(l.Time)] {
		sum += d
		live[i] = sum + l.Work[i]
	}
	return live[:len(l.Time)]
}

// far is the most bytes elsewhere at once.
func (l *Line) far(moves []Move) (most int64) {
	change := make([]int64, len(l.Time)+2)
	for _, x := range moves {
		change[x.Out] += l.Spans[x.Span].Bytes
		change[x.Back+1] -= l.Spans[x.Span].Bytes
	}
	sum := int64(0)
	for _, d := range change {
		sum += d
		most = max(most, sum)
	}
	return most
}

// Check replays moves by another route than Wait: launches and copies are nodes of a graph of times, whose longest
// path is found by going over it until nothing changes. It returns the most bytes alive near and far, and the wait.
func Check(l *Line, moves []Move) (near, far, wait int64, err error) {
	if err := l.valid(moves); err != nil {
		return 0, 0, 0, err
	}
	for i := range l.Time {
		at, bytes := int32(i), l.Work[i]
		for _, s := range l.Spans {
			if s.First <= at && at < s.Last {
				bytes += s.Bytes
			}
		}
		away := int64(0)
		for _, x := range moves {
			if x.Gone <= at && at < x.In {
				bytes -= l.Spans[x.Span].Bytes
			}
			if x.Out <= at && at <= x.Back {
				away += l.Spans[x.Span].Bytes
			}
		}
		near, far = max(near, bytes), max(far, away)
	}
	if far > l.Far.Bytes {
		return near, far, 0, fmt.Errorf("moves take %d bytes elsewhere, where %d may be", far, l.Far.Bytes)
	}
	return near, far, l.longest(moves), nil
}

// longest is the wait of moves.
func (l *Line) longest(moves []Move) (wait int64) {
	n := len(l.Time)
	arrived, freed, begun := make([]int64, n+1), make([]int64, n+1), make([]int64, n+1) // by launch: before its waits, between them, behind them
	outEnd, inEnd := make([]int64, len(moves)), make([]int64, len(moves))
	type copying struct {
		move int
		at   int32 // the launch before which it is issued
		back bool
	}
	queues := make([][]copying, 2)
	for k, x := range moves {
		queues[0] = append(queues[0], copying{k, x.Out, false})
		queues[1] = append(queues[1], copying{k, x.In, true})
	}
	if l.Far.One {
		queues = [][]copying{slices.Concat(queues...)}
	}
	for _, q := range queues { // before a launch those out come first
		slices.SortStableFunc(q, func(a, b copying) int { return int(a.at - b.at) })
	}
	for changed := true; changed; {
		changed = false
		rise := func(t *int64, to int64) {
			if to > *t {
				*t, changed = to, true
			}
		}
		for i := range n {
			rise(&freed[i], arrived[i])
			rise(&begun[i], freed[i])
			rise(&arrived[i+1], begun[i]+l.Time[i])
		}
		for _, q := range queues {
			last := int64(0)
			for _, c := range q {
				x := moves[c.move]
				bytes := l.Spans[x.Span].Bytes
				if !c.back {
					rise(&outEnd[c.move], max(last, arrived[x.Out])+l.Far.Out.Time(bytes))
					last = outEnd[c.move]
					rise(&freed[x.Gone], last)
					continue
				}
				rise(&inEnd[c.move], max(last, freed[x.In], outEnd[c.move])+l.Far.In.Time(bytes))
				last = inEnd[c.move]
				rise(&begun[x.Back], last)
			}
		}
	}
	sum := int64(0)
	for _, t := range l.Time {
		sum += t
	}
	return arrived[n] - sum
}
