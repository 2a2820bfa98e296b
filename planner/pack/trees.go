package pack

import "math"

// The trees here are flat and wide: a node stands for the fan nodes of the level below it that follow each other, which are
// one or two cache lines. All levels lie in one slice, leaves first, each filled up to whole nodes. Queries and changes of a
// stretch of leaves go up from both ends of it to the node above both: O(fan × levels).

const (
	fanBits       = 4                 // more make a tree lower and its nodes longer to read
	fan           = 1 << fanBits      // nodes below a node
	minusInfinity = math.MinInt64 / 2 // below all numbers of a maxTree, whatever is added
)

// treeLevels is where each level of a tree over n leaves begins, and at the end how long all are together.
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

// maxTree is a number for each section, with the largest of any stretch of sections, and additions to stretches.
type maxTree struct {
	levels []int32
	max    []int64 // by node: the largest number below it, without what is added to nodes above
	added  []int64 // by node above the leaves: added to all of its sections
}

func (m *maxTree) build(values []int64) {
	m.levels = treeLevels(len(values))
	n := m.levels[len(m.levels)-1]
	m.max, m.added = make([]int64, n), make([]int64, n-m.levels[1])
	for i := copy(m.max, values); i < len(m.max); i++ {
		m.max[i] = minusInfinity
	}
	for k := 1; k+1 < len(m.levels); k++ {
		for i := range (m.levels[k] - m.levels[k-1]) / fan {
			m.update(k, i)
		}
	}
}

// update recomputes node i of a level above the leaves from those below it.
func (m *maxTree) update(level int, i int32) {
	m.max[m.levels[level]+i] = m.maxNode(level-1, i<<fanBits, (i+1)<<fanBits) + m.addedTo(level, i)
}

// addedTo is what is added to all sections of node i of a level above the leaves.
func (m *maxTree) addedTo(level int, i int32) int64 { return m.added[m.levels[level]-m.levels[1]+i] }

// maxNode is the largest of nodes [from, to) of a level.
func (m *maxTree) maxNode(level int, from, to int32) (most int64) {
	most = minusInfinity
	start := m.levels[level]
	for _, x := range m.max[start+from : start+to] {
		most = max(most, x)
	}
	return most
}

// add adds x to all sections [begin, end). Nodes that lie in it whole are left to the level above, as long as there are two ends.
func (m *maxTree) add(begin, end int32, x int64) {
	first, last := begin, end-1 // nodes of level k that hold the first and the last section
	k := 0
	for ; first>>fanBits != last>>fanBits; k++ {
		from, to := (begin+fan-1)>>fanBits, end>>fanBits // nodes of level k+1 that lie in it whole
		m.addNodes(k, begin, from<<fanBits, x)
		m.addNodes(k, to<<fanBits, end, x)
		begin, end = from, to
		first, last = first>>fanBits, last>>fanBits
		m.update(k+1, first)
		m.update(k+1, last)
	}
	m.addNodes(k, begin, end, x)
	for k++; k+1 < len(m.levels); k++ {
		first >>= fanBits
		m.update(k, first)
	}
}

// addNodes adds x to all sections of nodes [from, to) of a level.
func (m *maxTree) addNodes(level int, from, to int32, x int64) {
	start := m.levels[level]
	nodes := m.max[start+from : start+to]
	for i := range nodes {
		nodes[i] += x
	}
	if level == 0 {
		return
	}
	start -= m.levels[1]
	nodes = m.added[start+from : start+to]
	for i := range nodes {
		nodes[i] += x
	}
}

// maxPlace says where a maximum is: below the first node of a level, from one on, that has it.
type maxPlace struct {
	level int
	from  int32
	most  int64 // without what is added above
}

// maxOf is the largest number in sections [begin, end), and where it is, which find turns into a section.
func (m *maxTree) maxOf(begin, end int32) (most int64, place maxPlace) {
	first, last := begin, end-1                                   // nodes of level k that hold the first and the last section
	most, mostAtEnd := int64(minusInfinity), int64(minusInfinity) // of those nodes, as far as they lie in the stretch
	var placeAtEnd maxPlace
	k := 0
	for ; first>>fanBits != last>>fanBits; k++ {
		from, to := (begin+fan-1)>>fanBits, end>>fanBits
		if x := m.maxNode(k, begin, from<<fanBits); x > most {
			most, place = x, maxPlace{k, begin, x}
		}
		if x := m.maxNode(k, to<<fanBits, end); x >= mostAtEnd {
			mostAtEnd, placeAtEnd = x, maxPlace{k, to << fanBits, x}
		}
		begin, end = from, to
		first, last = first>>fanBits, last>>fanBits
		most += m.addedTo(k+1, first)
		mostAtEnd += m.addedTo(k+1, last)
	}
	if x := m.maxNode(k, begin, end); x > most {
		most, place = x, maxPlace{k, begin, x}
	}
	if mostAtEnd > most {
		most, place = mostAtEnd, placeAtEnd
	}
	for k++; k+1 < len(m.levels); k++ {
		first >>= fanBits
		most += m.addedTo(k, first)
	}
	return most, place
}

// find is the first section of the largest number at a place.
func (m *maxTree) find(place maxPlace) (section int32) {
	section = place.from
	for k, x := place.level, place.most; ; k-- {
		for nodes := m.max[m.levels[k]:]; nodes[section] != x; {
			section++
		}
		if k == 0 {
			return section
		}
		x -= m.addedTo(k, section)
		section <<= fanBits
	}
}

// minTree is a list of numbers in which the first that is small enough is found.
type minTree struct {
	levels []int32
	min    []int32 // by node
}

func (m *minTree) build(values []int32) {
	m.levels = treeLevels(len(values))
	m.min = make([]int32, m.levels[len(m.levels)-1])
	for i := copy(m.min, values); i < len(m.min); i++ {
		m.min[i] = gone
	}
	for k := 1; k+1 < len(m.levels); k++ {
		for i := range (m.levels[k] - m.levels[k-1]) / fan {
			m.min[m.levels[k]+i] = m.minBelow(k, i)
		}
	}
}

// minBelow is the least number below node i of a level above the leaves.
func (m *minTree) minBelow(level int, i int32) int32 {
	start := m.levels[level-1] + i<<fanBits
	least := int32(gone)
	for _, x := range m.min[start : start+fan] {
		least = min(least, x)
	}
	return least
}

func (m *minTree) set(i, x int32) {
	m.min[i] = x
	for k := 1; k+1 < len(m.levels); k++ {
		i >>= fanBits
		node := &m.min[m.levels[k]+i]
		least := m.minBelow(k, i)
		if *node == least {
			return
		}
		*node = least
	}
}

// firstAtMost is the first position in [from, to) whose number is x or less, or -1.
func (m *minTree) firstAtMost(from, to, x int32) int32 {
	last := to - 1
	for k := 0; from < to; k++ {
		end := from
		if from&(fan-1) != 0 || to-from < fan || k+2 == len(m.levels) { // up to the first whole node, or the rest
			end = min(to, from|(fan-1)+1)
			for start := m.levels[k]; from < end; from++ {
				if m.min[start+from] <= x {
					return m.descend(k, from, last, x)
				}
			}
		}
		from, to = (end+fan-1)>>fanBits, (to+fan-1)>>fanBits
	}
	return -1
}

// descend is the first position below node i of a level whose number is x or less, or -1 if it is behind last.
func (m *minTree) descend(level int, i, last, x int32) int32 {
	for k := level - 1; k >= 0; k-- {
		start := m.levels[k]
		for i <<= fanBits; m.min[start+i] > x; {
			i++
		}
	}
	if i > last {
		return -1
	}
	return i
}
