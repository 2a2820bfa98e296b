package recompute

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"memopt/internal/stop"
)

// The forward pass as a chain of links. Where not even the values that pass from link to link fit at once, the backward
// pass reaches most links by recomputing those values from the nearest link at which they were kept, the checkpoint.
// Which links to make checkpoints, within some room, so that least is rerun, is a dynamic program (Griewank and
// Walther's revolve for equal links, Beaumont et al.'s rotor for others): for a stretch of links and a room, the best
// first checkpoint is the one with the least cost of the stretch after it, with the room that it leaves, and the
// stretch before it, with all of the room. Evictors keep the checkpoints, and do the rest.
const (
	chainLinks = 96      // of a chain; more find better checkpoints and take cubic time
	chainRoom  = 24      // room is counted up to so many units, each of what passes to a link
	chainTries = 32      // runs of evictors; for programs with fewer it is not worth building the chain
	chainLess  = 2       // units below the most room for which there is a plan that are tried, too
	chainWork  = 1 << 17 // operators times runs of evictors; more tries more room
	chainNear  = 128     // a link has at least one of so many parts of what the backward pass reads
)

// chainScores are the scores that evictors try for each room.
var chainScores = []score{{0.5, 1, 1, 1}, {1, 1, 1, 0}, {1, 1, 0.5, 1}}

// checkpoints is the forward pass as a chain of links, solved for every stretch and room.
type checkpoints struct {
	values     int
	at         []int32   // by link: its first operator; at last the border
	across     [][]int32 // by link: the values made before that it or later links read
	bytes      []int64   // … and their bytes
	begin, end []int32   // by link: the first and the last operator of the backward pass that reads what it makes
	cost       []float64 // by link: that of the links before it
	unit       int64     // of room

	again [][][]float64 // by room, and links from and to: cost of reruns
	split [][][]int32   // … and the first checkpoint, 0 for none
}

// tryCheckpoints tries what to keep with the most room for checkpoints for which there is a plan, and with a little
// less. try reports whether some scores led to a plan within the limit.
func (s *Solver) tryCheckpoints(try func(by []score, kept keep) bool) {
	tries := chainWork / len(s.p.Cost)
	if !s.checkpointed && tries >= chainTries {
		s.checkpointed, s.chain = true, s.newCheckpoints()
	}
	v := s.chain
	if v == nil {
		return
	}
	work := s.sim.work // tries are counted instead
	defer func() { s.sim.work = work }()
	most := sort.Search(len(v.again), func(room int) bool {
		tries--
		return !try(chainScores[:1], v.kept(room))
	}) - 1
	for room := most; room >= max(most-chainLess, 0) && tries > 0; room-- {
		tries -= len(chainScores)
		try(chainScores, v.kept(room))
	}
}

func (s *Solver) newCheckpoints() *checkpoints {
	f, border := s.forward(), s.p.Border
	all := f.grown[border]
	var order []int32 // of the places where links may begin: by the bytes that pass there
	for at := int32(1); at < border; at++ {
		if f.crossing[at] > 0 && f.grown[at] > 0 && f.grown[at] < all {
			order = append(order, at)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(f.crossing[a], f.crossing[b]) })
	v := &checkpoints{values: len(s.p.Bytes), at: []int32{0, border}}
	for _, at := range order {
		i, _ := slices.BinarySearch(v.at, at)
		near, before, behind := int64(math.MaxInt64), v.at[i-1], v.at[i]
		if before > 0 {
			near = f.crossing[before]
		}
		if behind < border {
			near = min(near, f.crossing[behind])
		}
		grown := f.grown[at]
		if len(v.at) <= chainLinks && min(grown-f.grown[before], f.grown[behind]-grown) >= all/chainNear && f.crossing[at]/2 <= near {
			v.at = slices.Insert(v.at, i, at)
		}
	}
	links := len(v.at) - 1
	if links < 3 {
		return nil
	}
	v.across, v.bytes, v.cost = make([][]int32, links), make([]int64, links), make([]float64, links+1)
	v.begin, v.end = slices.Repeat([]int32{never}, links), make([]int32, links)
	for x, span := range s.spans {
		if !s.droppable(int32(x)) || span.made >= border {
			continue
		}
		i, exact := slices.BinarySearch(v.at, span.made)
		if !exact {
			i--
		}
		through := i + 1
		for ; through < links && v.at[through] <= f.through[x]; through++ {
			v.across[through] = append(v.across[through], int32(x))
			v.bytes[through] += s.p.Bytes[x]
		}
		if first := s.firstReader(int32(x), border); through == i+1 && first < never { // only its link reads it in the forward pass
			v.begin[i], v.end[i] = min(v.begin[i], first), max(v.end[i], span.last)
		}
	}
	for i := range links {
		if v.begin[i] == never { // the backward pass reads nothing of it
			v.begin[i], v.end[i] = border, border
		}
		v.cost[i+1] = v.cost[i]
		for op := v.at[i]; op < v.at[i+1]; op++ {
			if s.p.Again[op] {
				v.cost[i+1] += s.p.Cost[op]
			}
		}
	}
	sizes := slices.Sorted(slices.Values(v.bytes[1:]))
	v.unit = max(sizes[0], sizes[(links-1)/2]/2, 1)
	v.solve(s.p.Context)
	return v
}

// kept is what evictors keep with some room for checkpoints.
func (v *checkpoints) kept(room int) keep {
	kept := make(keep, v.values)
	// During the backward pass of a link, what passes to it is kept. Of links that share a value the last one counts:
	// kept for all, less else would fit.
	for i, across := range v.across {
		for _, x := range across {
			kept[x] = interval{v.begin[i], v.end[i] + 1}
		}
	}
	v.keep(kept, 0, len(v.at)-1, room)
	return kept
}

// firstReader is the first operator from a place on that reads a value.
func (s *Solver) firstReader(v, at int32) int32 {
	ops := s.uses.Of(v)
	if i, _ := slices.BinarySearch(ops, at); i < len(ops) {
		return ops[i]
	}
	return never
}

// units is the room for a checkpoint at a link.
func (v *checkpoints) units(link int) int64 { return (v.bytes[link] + v.unit - 1) / v.unit }

// solve solves all stretches for all rooms, the short ones first.
func (v *checkpoints) solve(ctx context.Context) {
	links := len(v.at) - 1
	for room := range int64(chainRoom + 1) {
		again, split := make([][]float64, links), make([][]int32, links)
		for from := range again {
			again[from], split[from] = make([]float64, links+1), make([]int32, links+1)
		}
		v.again, v.split = append(v.again, again), append(v.split, split)
		for length := 1; length <= links; length++ {
			stop.Poll(ctx)
			for from := 0; from+length <= links; from++ {
				to := from + length
				for i := from; i < to; i++ { // without a checkpoint, each link is reached from the first
					again[from][to] += v.cost[i] - v.cost[from]
				}
				for at := from + 1; at < to; at++ {
					units := v.units(at)
					if units > room {
						continue
					}
					cost := v.again[room-units][at][to] + again[from][at]
					if to < links { // for the last stretch the forward pass itself comes by
						cost += v.cost[at] - v.cost[from]
					}
					if cost < again[from][to] {
						again[from][to], split[from][to] = cost, int32(at)
					}
				}
			}
		}
	}
}

// keep adds the checkpoints of a stretch with some room.
func (v *checkpoints) keep(kept keep, from, to, room int) {
	at := int(v.split[room][from][to])
	if at == 0 {
		return
	}
	begin := int32(0)
	if to < len(v.at)-1 {
		begin = v.begin[to-1]
	}
	for _, x := range v.across[at] {
		kept[x] = interval{min(kept[x].from, begin), max(kept[x].to, v.end[at]+1)}
	}
	v.keep(kept, at, to, room-int(v.units(at)))
	v.keep(kept, from, at, room)
}
