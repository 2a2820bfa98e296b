package pack

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/memopt/stop"
)

// joiner puts together again what was cut up: rectangles of time and bytes whose pieces leave nothing free. Wherever some pieces
// end, others of as many bytes begin, and where nothing else does either moment is one cut through a stack of pieces. Two
// lives of the same span between two cuts lie on top of each other, and one that ends at a cut of its own with one that
// begins there go on at the same bytes. Five around each other are a pinwheel. Each of these becomes one life, and it goes on with
// what there is then. What is left at the end is packed as ever: one life, if all is put together.
//
// Where several cuts are at the same moment, the bytes tell which pieces belong to which. A few pieces may be missing. Bytes may
// be the same for no reason, and what is joined wrong goes together with nothing else: it is among what is left at the end, and not
// far below the top of that. So what is left is broken up, and joined again in other ways, now that most is out of the way.
type joiner struct {
	lives  []life
	of     *joiner // whose joints the lives are; nil: they are lives of a part
	all    []joint // a life each, and then what they are joined to
	cuts   []cut
	queue  []int32 // cuts to look at
	apart  int     // how many joints are part of no other
	ways   []way
	way    int             // of them
	holes  int             // joints behind those of lives that are missing pieces
	looks  int             // at sums and joints so far
	turned int             // looks for pinwheels beside those
	share  float64         // of sizes, by which they may differ and still be the same
	bytes  int64           // by which they may anyway
	ctx    context.Context // polled for each cut that is looked at
}

// joint is a life, or some that keep their places to each other.
type joint struct {
	l, r     int32 // the cuts at which it begins and ends
	from, to int32 // sections
	in       int32 // the joint that it is part of, or nobody
	up       int64 // where in that
	size     int64
	align    int64
}

const nobody = -1

// cut is a stretch of one moment, at which a stack of joints ends where another begins; as long as nothing is known of it, all
// of the moment.
type cut struct {
	ends, begins []int32 // joints, some of which may be part of others by now
	bySize       []int32 // ends that are part of no other, small ones first; nil if nobody asked since it was touched
	end, begin   int32   // how many are not
	whole        byte    // what is known of it
	tried        int     // the way in which nothing came of a try to part it, and one
	queued       bool
}

const (
	unsure   = iota
	presumed // it may well be one cut
	whole    // nothing that ends there is as large as something else than all that begins there
)

const (
	crowd  = 3   // lives for each moment, of which many begin or end at the same by chance
	joins  = 250 // looks, for each life
	slow   = 40  // and those after which there is no use in more
	slowly = 10  // if not one of so many lives is joined: what was cut up has half of its pieces joined by then
	halved = 2   // many lives are worth packing if they are by so much fewer
	fewer  = 8   // and few, which else are searched, by so much
	hasty  = 1   // ways to join again those that stay many
	soon   = 256 // looks, for each life, to search for how those go together
	level  = 20  // bytes that end and begin at a moment and differ by this share of them at most may be one cut
)

// joined is p packed after its lives are joined, if they are pieces of something and become much fewer by it. What is joined
// right goes together as it was or not at all: where that is not found soon, something is wrong, and it is joined in other ways.
func (p *part) joined(goal, near int64) part {
	best := part{lives: p.lives, sections: p.sections, floor: p.floor, top: math.MaxInt64, by: "join"}
	if !p.cutUp() {
		return best
	}
	j := newJoiner(p)
	j.join()
	most := len(p.lives) / halved
	if len(p.lives) <= few {
		most = len(p.lives) / fewer
	}
	if p.clock.spend(j.looks); j.apart > most {
		return best
	}
	enough := goal + goal/content
	if near < goal+goal/fine { // a capacity leaves nothing to spare
		enough = near
	}
	least, tried := j, map[int]bool{} // as many joints as before are the same, as good as always
	for k := range len(rejoined) + 1 {
		if k > 0 {
			j = least.broken(rejoined[k-1].levels, rejoined[k-1].ways)
			j.join()
			p.clock.spend(j.looks)
		}
		if j.apart < least.apart {
			least = j
		}
		if j.apart <= few && !tried[j.apart] {
			tried[j.apart] = true
			best.keep(p.together(j, goal, near, soon))
		}
		if best.top <= enough || least.apart == 1 {
			return best
		}
		if p.clock.alone() <= 0 || least.apart > few && k == hasty {
			break
		}
	}
	if p.clock.alone() > 0 || !tried[least.apart] {
		best.keep(p.together(least, goal, near, patience))
	}
	return best
}

// together is p packed as j has joined its lives, with so many looks for each of these.
func (p *part) together(j *joiner, goal, near int64, looks int) part {
	rest := j.rest()
	sections := toSections(rest)
	goal = max(goal, p.floor+mostLive(rest, sections)) // which may have become more where sizes differ
	at := make([]int64, len(j.all))
	parts := divide(&part{lives: rest, sections: sections, floor: p.floor, clock: p.clock, ctx: p.ctx}, at)
	least := p.floor // what there is goes within, if all is right
	for _, r := range parts {
		r.unplaced()
		r.pack(goal, near)
		least = max(least, r.floor+mostLive(r.lives, r.sections))
	}
	most := max(min(looks*len(p.lives), p.clock.deep()/searches), soon*len(p.lives)) // whatever parts before it have taken
	p.clock.spend(lowest(parts, least, most) / deeply)
	for _, r := range parts {
		for i, l := range r.lives {
			at[l.id] = r.offsets[i]
		}
	}
	q := part{lives: p.lives, by: "join", offsets: j.spread(at, make([]bool, len(j.all)))}
	q.top = topOf(q.lives, q.offsets)
	return q
}

// cutUp is whether most lives that begin or end while others are alive do it where about as many bytes end as begin.
func (p *part) cutUp() bool {
	type moment struct {
		ends, begins int64
		lives        int
	}
	at := make([]moment, p.sections+1)
	for _, l := range p.lives {
		begin, end := &at[l.l], &at[l.r]
		begin.begins += l.size
		begin.lives++
		end.ends += l.size
		end.lives++
	}
	all, even := 0, 0
	for _, m := range at[min(1, p.sections):p.sections] {
		if all += m.lives; m.ends > 0 && m.begins > 0 && balanced(m.ends, m.begins) {
			even += m.lives
		}
	}
	return even > all/2
}

func balanced(a, b int64) bool { return differ(a, b) <= max(a, b)/level }

func differ(a, b int64) int64 { return max(a, b) - min(a, b) }

func newJoiner(p *part) *joiner {
	j := joinerOf(p.lives, 0)
	j.ctx = p.ctx
	if j.ways = quick; len(p.lives) > crowd*len(j.cuts) {
		j.ways = careful
	}
	j.measure()
	if len(p.lives) > few {
		j.fill()
	}
	return j
}

// joinerOf is one of some lives, the last of which are missing pieces.
func joinerOf(lives []life, missing int) *joiner {
	moments := make([]int64, 0, 2*len(lives))
	for _, l := range lives {
		moments = append(moments, int64(l.first), int64(l.first)+l.span)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	j := &joiner{
		lives: lives[:len(lives)-missing], holes: missing,
		all: make([]joint, 0, 2*len(lives)), cuts: make([]cut, len(moments), 2*len(moments)),
	}
	cutAt := func(moment int64) int32 {
		at, _ := slices.BinarySearch(moments, moment)
		return int32(at)
	}
	for _, l := range lives {
		j.add(joint{
			l: cutAt(int64(l.first)), r: cutAt(int64(l.first) + l.span),
			from: l.l, to: l.r, size: l.size, align: l.align,
		})
	}
	return j
}

// measure finds by how much sizes differ that were the same, if they were made smaller or rounded since: at most moments
// something is missing then.
func (j *joiner) measure() {
	var shares []float64
	var bytes []int64
	for t := range int32(len(j.cuts)) {
		e, b := j.sumOf(j.ends(t)), j.sumOf(j.begins(t))
		if e > 0 && b > 0 && balanced(e, b) {
			bytes = append(bytes, differ(e, b))
			shares = append(shares, float64(differ(e, b))/float64(max(e, b)))
		}
	}
	slices.Sort(shares)
	slices.Sort(bytes)
	if n := len(bytes); n > 0 && bytes[n*3/4] > 0 {
		j.share, j.bytes = 2*shares[n*9/10], 16*bytes[n*3/4]
	}
}

func (j *joiner) sumOf(list []int32) (sum int64) {
	for _, i := range list {
		sum += j.all[i].size
	}
	return sum
}

// fill adds a joint for each missing piece that is the only one at both of its cuts: as many bytes begin too little at the one as
// begin too many at the other. What is around it can be joined then. Few lives are searched instead.
func (j *joiner) fill() {
	open := map[int64][]int32{} // by size: cuts at which so much less begins than ends
	for t := int32(1); t < int32(len(j.cuts))-1; t++ {
		ends, begins := j.sumOf(j.ends(t)), j.sumOf(j.begins(t))
		if j.same(ends, begins) {
			continue
		}
		size := differ(ends, begins)
		if ends > begins {
			open[size] = append(open[size], t)
			continue
		}
		if at := open[size]; len(at) > 0 {
			l := at[len(at)-1]
			open[size] = at[:len(at)-1]
			j.add(joint{l: l, r: t, from: j.section(l), to: j.section(t), size: size, align: 1})
			j.holes++
		}
	}
}

// section is the first after cut t.
func (j *joiner) section(t int32) int32 {
	if begins := j.begins(t); len(begins) > 0 {
		return j.all[begins[0]].from
	}
	return j.all[j.ends(t)[0]].to
}

// rest is the joints that are part of no other, but for missing pieces, as lives in the order of others.
func (j *joiner) rest() (rest []life) {
	for i, t := range j.all {
		if t.in == nobody && !j.missing(int32(i)) && t.lasts() {
			rest = append(rest, t.life(int32(i)))
		}
	}
	slices.SortFunc(rest, inOrder)
	return rest
}

// missing is whether joint i is a missing piece.
func (j *joiner) missing(i int32) bool {
	return len(j.lives) <= int(i) && int(i) < len(j.lives)+j.holes
}

// lasts is whether t takes any section. What is missing between one moment and the next at which anything begins takes none.
func (t joint) lasts() bool { return t.from < t.to }

// life is t as a life of its number, whose moments are sections.
func (t joint) life(i int32) life {
	return life{l: t.from, r: t.to, id: i, first: t.from, span: int64(t.to - t.from), size: t.size, align: t.align, fixed: free}
}

// inOrder is the order of lives.
func inOrder(a, b life) int {
	return cmp.Or(cmp.Compare(a.l, b.l), cmp.Compare(a.r, b.r), cmp.Compare(a.size, b.size), cmp.Compare(a.id, b.id))
}

// broken is a joiner for what the joints that are part of no other are joined from, so many levels below. A joint that is wrong
// goes together with nothing else, and so is not far below. There is less by now that it can be taken for.
func (j *joiner) broken(levels int, ways []way) *joiner {
	var lives, missing []life
	below := make([]int, len(j.all)) // levels that each is below one that is part of no other
	for i, t := range slices.Backward(j.all) {
		if t.in != nobody {
			below[i] = below[t.in] + 1
		}
		piece := i < len(j.lives)+j.holes
		switch {
		case below[i] > levels || below[i] < levels && !piece || !t.lasts():
		case j.missing(int32(i)):
			missing = append(missing, t.life(int32(i)))
		default:
			lives = append(lives, t.life(int32(i)))
		}
	}
	slices.SortFunc(lives, inOrder)
	slices.SortFunc(missing, inOrder)
	b := joinerOf(append(lives, missing...), len(missing))
	b.of, b.ways, b.share, b.bytes, b.ctx = j, ways, j.share, j.bytes, j.ctx
	return b
}

// spread is where lives are if joints are at some offsets: those that are part of no other, and what else is known.
func (j *joiner) spread(at []int64, known []bool) []int64 {
	for i, t := range slices.Backward(j.all) {
		if t.in != nobody && !known[i] {
			at[i] = at[t.in] + t.up
		}
	}
	if j.of == nil {
		return at[:len(j.lives)]
	}
	below, known := make([]int64, len(j.of.all)), make([]bool, len(j.of.all))
	for i, l := range j.lives {
		below[l.id], known[l.id] = at[i], true
	}
	return j.of.spread(below, known)
}

// spent is whether there are no more looks, or would be no use for them.
func (j *joiner) spent() bool {
	n := len(j.lives)
	return j.looks >= joins*n || j.looks >= slow*n && j.apart > n-n/slowly
}

// join joins what it can, within so many looks.
func (j *joiner) join() {
	for j.step(); j.apart > 1 && !j.spent() && j.next(); {
		j.step()
	}
}

// step looks at all cuts that anything is new at.
func (j *joiner) step() {
	for len(j.queue) > 0 && !j.spent() {
		stop.Poll(j.ctx)
		t := j.queue[0]
		j.queue = j.queue[1:]
		j.cuts[t].queued = false
		j.look(t)
	}
}

// next joins pinwheels, or goes on to the next way if there are none, and reports false if that was the last.
func (j *joiner) next() bool {
	if j.pinwheels() {
		return true
	}
	if j.way++; j.way == len(j.ways) {
		return false
	}
	for t := range j.cuts {
		j.touch(int32(t))
	}
	return true
}

// add adds a joint.
func (j *joiner) add(t joint) int32 {
	i := int32(len(j.all))
	t.in = nobody
	j.all = append(j.all, t)
	l, r := &j.cuts[t.l], &j.cuts[t.r]
	l.begins, r.ends = append(l.begins, i), append(r.ends, i)
	l.begin++
	r.end++
	l.tried, r.tried = 0, 0
	j.apart++
	j.touch(t.l)
	j.touch(t.r)
	return i
}

// touch says that cut t is to be looked at, as what ends or begins there has changed.
func (j *joiner) touch(t int32) {
	c := &j.cuts[t]
	if c.bySize = nil; !c.queued {
		c.queued = true
		j.queue = append(j.queue, t)
	}
}

// held is where a joint stands in another.
type held struct {
	joint int32
	up    int64
}

// hold makes some joints one that begins with the first and ends with the last. It reports false if they cannot be aligned then.
func (j *joiner) hold(parts ...held) bool {
	first, last := j.all[parts[0].joint], j.all[parts[len(parts)-1].joint]
	t := joint{l: first.l, r: last.r, from: first.from, to: last.to, align: 1}
	for _, h := range parts {
		x := j.all[h.joint]
		t.size, t.align = max(t.size, h.up+x.size), max(t.align, x.align)
	}
	for _, h := range parts {
		if align := j.all[h.joint].align; t.align%align != 0 || h.up%align != 0 {
			return false
		}
	}
	k := j.add(t)
	for _, h := range parts {
		x := &j.all[h.joint]
		x.in, x.up = k, h.up
		j.cuts[x.l].begin--
		j.cuts[x.r].end--
		j.apart--
		j.touch(x.l)
		j.touch(x.r)
	}
	return true
}

// ends is the joints that end at cut t and are part of no other.
func (j *joiner) ends(t int32) []int32 {
	c := &j.cuts[t]
	if len(c.ends) > int(c.end) {
		j.looks += len(c.ends)
		c.ends = slices.DeleteFunc(c.ends, func(i int32) bool { return j.all[i].in != nobody || j.all[i].r != t })
	}
	return c.ends
}

// begins is the joints that begin at cut t and are part of no other.
func (j *joiner) begins(t int32) []int32 {
	c := &j.cuts[t]
	if len(c.begins) > int(c.begin) {
		j.looks += len(c.begins)
		c.begins = slices.DeleteFunc(c.begins, func(i int32) bool { return j.all[i].in != nobody || j.all[i].l != t })
	}
	return c.begins
}

// same is whether two sizes are as good as the same.
func (j *joiner) same(a, b int64) bool {
	d := differ(a, b)
	return d <= j.bytes || float64(d) <= j.share*float64(max(a, b))
}

// look joins what meets at cut t, or parts it.
func (j *joiner) look(t int32) {
	c := &j.cuts[t]
	if c.end == 1 && c.begin == 1 {
		if a, b := j.ends(t)[0], j.begins(t)[0]; j.same(j.all[a].size, j.all[b].size) && j.goesOn(a, b) {
			return
		}
	}
	if c.end <= 1 || c.begin <= 1 {
		c.whole = whole
	}
	if (c.whole == unsure || c.whole == presumed && j.ways[j.way].chance > sure) && j.part(t) {
		return
	}
	w := j.ways[j.way]
	if c = &j.cuts[t]; c.whole == unsure && !w.half {
		return
	}
	j.stacks(j.begins(t), func(t joint) int32 { return t.r })
	j.stacks(j.ends(t), func(t joint) int32 { return t.l })
}

// goesOn joins b to a, which ends where b begins. That changes nothing for what lies beside them, so that other tries come to
// the same.
func (j *joiner) goesOn(a, b int32) bool {
	l, r := j.all[a].l, j.all[b].r
	x, y := j.cuts[l].tried, j.cuts[r].tried
	ok := j.hold(held{a, 0}, held{b, 0})
	if ok && j.all[a].size == j.all[b].size {
		j.cuts[l].tried, j.cuts[r].tried = x, y
	}
	return ok
}

// stacks joins those of some joints that begin or end at the same cut to others whose other cut is the same too.
func (j *joiner) stacks(list []int32, other func(t joint) int32) {
	if len(list) < 2 {
		return
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b int32) int {
		x, y := j.all[a], j.all[b]
		return cmp.Or(cmp.Compare(other(x), other(y)), -cmp.Compare(x.align, y.align), cmp.Compare(a, b))
	})
	j.looks += len(list)
	for from, to := 0, 0; from < len(list); from = to {
		for to = from + 1; to < len(list) && other(j.all[list[to]]) == other(j.all[list[from]]); to++ {
		}
		if to > from+1 && j.together(j.all[list[from]]) {
			var parts []held
			up := int64(0)
			for _, i := range list[from:to] {
				parts = append(parts, held{i, up})
				up += j.all[i].size
			}
			j.hold(parts...)
		}
	}
}

// together is whether joints of the span of t lie on top of each other.
func (j *joiner) together(t joint) bool {
	l, r, w := &j.cuts[t.l], &j.cuts[t.r], j.ways[j.way]
	switch {
	case l.whole != unsure && r.whole != unsure:
		return true
	case w.half && (l.whole != unsure && l.end > 0 || r.whole != unsure && r.begin > 0): // nothing is known by where all begins or ends
		return true
	}
	return int(l.end+l.begin)*int(r.end+r.begin) <= w.ties
}
