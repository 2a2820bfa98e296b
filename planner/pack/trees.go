package pack

import (
	"math"
)

// The trees here are flat and wide: a node stands for the fan of those below it that follow each other, which are a cache
// line or two that is read from end to end. All levels lie in one slice, the lowest first, each filled up to whole nodes.

const (
	fan  = 1 << wide
	wide = 4
)

// levelsOf is where each level of a tree over n leaves begins, and behind the last of them, which is no more than one node,
// how many all have together.
func treeLevels(n int) (levels []int32) {
	levels = []int32{0}
	for {
		n = (n + fan - 1) / fan
		levels = append(levels, levels[len(levels)-1]+int32(n*fan))
		if n <= 1 {
			return levels
		}
	}
}

// rise goes up from both ends of leaves [l, r) to the node above both, and on to the top: on the way it says which nodes [a, b) of
// a level are all within, and after those which node i of the level above is in part.
func rise(levels []int32, l, r int32, all func(level int, a, b int32), part func(level int, i int32)) {
	first, last := l, r-1 // of the nodes that hold l and r-1
	k := 0
	for ; first>>wide != last>>wide; k++ {
		a, b := (l+fan-1)>>wide, r>>wide
		all(k, l, a<<wide)
		all(k, b<<wide, r)
		l, r = a, b
		first, last = first>>wide, last>>wide
		part(k, first)
		part(k, last)
	}
	all(k, l, r)
	for ; k+2 < len(levels); k++ {
		first >>= wide
		part(k, first)
	}
}

// peaks is a number for each section, and the largest of any stretch of them.
type maxTree struct {
	levels []int32
	max    []int64 // by node: the largest of its sections, but for what is added to all of a node above
	added  []int64 // by node above the sections: to all of its sections
}

// bottom is below all peaks, whatever is added to it.
const minusInfinity = math.MinInt64 / 2

func (p *maxTree) build(values []int64) {
	p.levels = treeLevels(len(values))
	n := p.levels[len(p.levels)-1]
	p.max, p.added = make([]int64, n), make([]int64, n-p.levels[1])
	for i := range p.max {
		p.max[i] = minusInfinity
	}
	copy(p.max, values)
	for k := 0; k+2 < len(p.levels); k++ {
		for i := range (p.levels[k+1] - p.levels[k]) / fan {
			p.update(k, i)
		}
	}
}

// see brings node i of the level above one up to what is below it.
func (p *maxTree) update(level int, i int32) {
	below := p.levels[level] + i<<wide
	most := int64(minusInfinity)
	for _, x := range p.max[below : below+fan] {
		most = max(most, x)
	}
	p.max[p.levels[level+1]+i] = most + p.addedAbove(level, i)
}

// above is what is added to all of node i of the level above one.
func (p *maxTree) addedAbove(level int, i int32) int64 {
	return p.added[p.levels[level+1]-p.levels[1]+i]
}

// add adds x to all of [l, r). Whole nodes are left to the level above.
func (p *maxTree) add(l, r int32, x int64) {
	rise(p.levels, l, r, func(level int, a, b int32) { p.addNodes(level, a, b, x) }, p.update)
}

// addTo adds x to all sections of nodes [a, b) of a level.
func (p *maxTree) addNodes(level int, a, b int32, x int64) {
	at := p.levels[level]
	largest := p.max[at+a : at+b]
	for i := range largest {
		largest[i] += x
	}
	if level == 0 {
		return
	}
	at -= p.levels[1]
	added := p.added[at+a : at+b]
	for i := range added {
		added[i] += x
	}
}

// most is the largest number in [l, r), and where it is. It comes up from both ends of the stretch to the node above both.
func (p *maxTree) maxOf(l, r int32) (x int64, among nodes) {
	first, last := l, r-1                                   // of the nodes that hold l and r-1
	x, behind := int64(minusInfinity), int64(minusInfinity) // the largest of what lies in those
	var amongBehind nodes
	k := 0
	for ; first>>wide != last>>wide; k++ {
		a, b := (l+fan-1)>>wide, r>>wide
		if y := p.maxNode(k, l, a<<wide); y > x {
			x, among = y, nodes{k, l, y}
		}
		if y := p.maxNode(k, b<<wide, r); y >= behind {
			behind, amongBehind = y, nodes{k, b << wide, y}
		}
		l, r = a, b
		first, last = first>>wide, last>>wide
		x += p.addedAbove(k, first)
		behind += p.addedAbove(k, last)
	}
	if y := p.maxNode(k, l, r); y > x {
		x, among = y, nodes{k, l, y}
	}
	if behind > x {
		x, among = behind, amongBehind
	}
	for ; k+2 < len(p.levels); k++ {
		first >>= wide
		x += p.addedAbove(k, first)
	}
	return x, among
}

// nodes are those of a level from one on, as far as the first with so much.
type nodes struct {
	level   int
	from    int32
	largest int64
}

// scan is the largest of nodes [a, b) of a level.
func (p *maxTree) maxNode(level int, a, b int32) (x int64) {
	x = minusInfinity
	at := p.levels[level]
	for _, y := range p.max[at+a : at+b] {
		x = max(x, y)
	}
	return x
}

// find is the first section that has the largest number among nodes.
func (p *maxTree) find(among nodes) (at int32) {
	at = among.from
	for k, x := among.level, among.largest; ; k-- {
		largest := p.max[p.levels[k]:]
		for largest[at] != x {
			at++
		}
		if k == 0 {
			return at
		}
		x -= p.addedAbove(k-1, at)
		at <<= wide
	}
}

// firsts is a list of numbers in which the first that is small enough can be found.
type minTree struct {
	levels []int32
	min    []int32 // by node
}

func (f *minTree) init(n int) {
	f.levels = treeLevels(n)
	f.min = make([]int32, f.levels[len(f.levels)-1])
	for i := range f.min {
		f.min[i] = gone
	}
}

func (f *minTree) setLeaf(i, x int32) { f.min[i] = x }

func (f *minTree) build() {
	for k := 0; k+2 < len(f.levels); k++ {
		for i := range (f.levels[k+1] - f.levels[k]) / fan {
			f.min[f.levels[k+1]+i] = f.minBelow(k, i)
		}
	}
}

// below is the least of what is below node i of the level above one.
func (f *minTree) minBelow(level int, i int32) int32 {
	at := f.levels[level] + i<<wide
	least := int32(gone)
	for _, x := range f.min[at : at+fan] {
		least = min(least, x)
	}
	return least
}

func (f *minTree) set(i, x int32) {
	f.min[i] = x
	for k := 0; k+2 < len(f.levels); k++ {
		i >>= wide
		node := &f.min[f.levels[k+1]+i]
		least := f.minBelow(k, i)
		if *node == least {
			return
		}
		*node = least
	}
}

// first is the first position in [from, to) with a number of at most x, or -1.
func (f *minTree) firstAtMost(from, to, x int32) int32 {
	last := to - 1
	for k := 0; from < to; k++ {
		end := from
		if from&(fan-1) != 0 || to-from < fan || k+2 == len(f.levels) { // no whole node
			end = min(to, from|(fan-1)+1)
			for at := f.levels[k]; from < end; from++ {
				if f.min[at+from] <= x {
					return f.descend(k, from, last, x)
				}
			}
		}
		from, to = (end+fan-1)>>wide, (to+fan-1)>>wide
	}
	return -1
}

// down is the first position below a node with a number of at most x, or -1 if that is behind last.
func (f *minTree) descend(level int, i, last, x int32) int32 {
	for k := level - 1; k >= 0; k-- {
		at := f.levels[k] + i<<wide
		for i <<= wide; f.min[at] > x; i++ {
			at++
		}
	}
	if i > last {
		return -1
	}
	return i
}
