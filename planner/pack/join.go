package pack

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
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
	way    int     // of them
	holes  int     // joints behind those of lives that are missing pieces
	looks  int     // at sums and joints so far
	turned int     // looks for pinwheels beside those
	share  float64 // of sizes, by which they may differ and still be the same
	bytes  int64   // by which they may anyway
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

// way is what is taken for sure. Ways are tried one after another, the surest first, each until it comes to nothing more.
type way struct {
	chance  float64 // that sums are the same for no reason: what is parted by sums less likely than that
	most    int     // joints of which all sums are looked at
	presume bool    // that a cut of few joints that nothing parts is whole
	half    bool    // whether joints of the same span belong together if one of their cuts is whole
	ties    int     // or if neither is, with as many joints at one cut times those at the other
}

// quick are ways for lives of which few meet by chance at the same moment.
var quick = []way{
	{chance: sure, most: 6},
	{chance: sure, most: 6, presume: true},
	{chance: sure, most: 6, presume: true, half: true},
	{chance: sure, most: 8, presume: true, half: true},
	{chance: 0.1, most: 8, presume: true, half: true},
	{chance: 0.5, most: 8, presume: true, half: true},
	{chance: 2, most: 8, presume: true, half: true},
	{chance: 2, most: 8, presume: true, half: true, ties: 400},
	{chance: 2, most: 8, presume: true, half: true, ties: 1600},
	{chance: 2, most: 8, presume: true, half: true, ties: math.MaxInt},
}

// careful are ways for those of which many do.
var careful = []way{
	{chance: sure, most: 6},
	{chance: sure, most: 6, presume: true},
	{chance: sure, most: 8, presume: true},
	{chance: sure, most: 10, presume: true},
	{chance: sure, most: 10, presume: true, half: true},
	{chance: 0.1, most: 10, presume: true, half: true},
	{chance: 0.5, most: 10, presume: true, half: true},
	{chance: 2, most: 10, presume: true, half: true},
	{chance: 2, most: 10, presume: true, half: true, ties: 400},
	{chance: 2, most: 10, presume: true, half: true, ties: 1600},
	{chance: 2, most: 10, presume: true, half: true, ties: math.MaxInt},
}

// wary are ways for those that were joined wrong before.
var wary = append([]way{{chance: sure / 10, most: 8}, {chance: sure, most: 8}}, careful[2:]...)

// rejoined is how many levels deep what is joined is broken up, and the ways in which it is joined again.
var rejoined = [...]struct {
	levels int
	ways   []way
}{
	{2, quick}, {1, wary}, {3, wary}, {1, quick}, {2, careful},
	{4, wary}, {2, wary}, {1, careful}, {3, quick}, {5, wary},
}

const (
	sure   = 0.01
	triple = 8    // joints of which all sums are looked at in ways that look at sums of three too
	crowd  = 3    // lives for each moment, of which many begin or end at the same by chance
	long   = 16   // joints of which no sums of three are looked at
	longer = 63   // joints of which no sums are looked at but of the first
	joins  = 250  // looks, for each life
	slow   = 40   // and those after which there is no use in more
	slowly = 10   // if not one of so many lives is joined: what was cut up has half of its pieces joined by then
	wheels = 1000 // joints looked at for pinwheels beside those, for each life: five times what it took wherever there were any
	halved = 2    // many lives are worth packing if they are by so much fewer
	fewer  = 8    // and few, which else are searched, by so much
	hasty  = 1    // ways to join again those that stay many
	soon   = 256  // looks, for each life, to search for how those go together
	level  = 20   // bytes that end and begin at a moment and differ by this share of them at most may be one cut
)

// joined is p packed after its lives are joined, if they are pieces of something and become much fewer by it. What is joined
// right goes together as it was or not at all: where that is not found soon, something is wrong, and it is joined in other ways.
func (p *part) joined(goal, near int64) part {
	best := part{lives: p.lives, sections: p.sections, floor: p.floor, top: math.MaxInt64, by: "joined"}
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
	parts := divide(&part{lives: rest, sections: sections, floor: p.floor, clock: p.clock}, at)
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
	q := part{lives: p.lives, by: "joined", offsets: j.spread(at, make([]bool, len(j.all)))}
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
	b.of, b.ways, b.share, b.bytes = j, ways, j.share, j.bytes
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

// sum is the size of some joints that end at a cut or begin there.
type sum struct {
	size int64
	of   uint64 // by place in their list, a bit each
	ends bool
}

// sums adds the sums of joints to others: all, if they are few enough, or those of up to two or three.
func (j *joiner) sums(list []int32, ends bool, sums []sum) []sum {
	most := j.ways[j.way].most
	if len(list) <= most {
		for of := uint64(1); of < 1<<len(list); of++ {
			s := sum{of: of, ends: ends}
			for rest := of; rest != 0; rest &= rest - 1 {
				s.size += j.all[list[bits.TrailingZeros64(rest)]].size
			}
			sums = append(sums, s)
		}
		return sums
	}
	for a, i := range list[:min(len(list), longer)] {
		x := sum{j.all[i].size, 1 << a, ends}
		sums = append(sums, x)
		for b, i := range list[:a] {
			y := sum{x.size + j.all[i].size, x.of | 1<<b, ends}
			sums = append(sums, y)
			if most < triple || len(list) > long {
				continue
			}
			for c, i := range list[:b] {
				sums = append(sums, sum{y.size + j.all[i].size, y.of | 1<<c, ends})
			}
		}
	}
	return sums
}

// twin is some joints that end at a cut, and some that begin there of the same size.
type twin struct {
	ends, begins uint64
	chance       float64 // that they are for no reason
}

// part parts cut t if some that end there are as large as some that begin there, but not all.
func (j *joiner) part(t int32) bool {
	w := j.ways[j.way]
	if j.cuts[t].tried > j.way {
		return false
	}
	j.cuts[t].tried = j.way + 1
	ends, begins := slices.Clone(j.ends(t)), slices.Clone(j.begins(t))
	twins, doubt, many := j.twins(ends, begins)
	if len(twins) == 0 {
		if len(ends) > w.most || len(begins) > w.most || many {
			return false
		}
		if !doubt {
			j.cuts[t].whole = whole
		} else if w.presume {
			j.cuts[t].whole = presumed
		}
		return false
	}
	slices.SortStableFunc(twins, func(a, b twin) int { return cmp.Compare(a.chance, b.chance) })
	var used twin
	for _, p := range twins {
		if p.ends&used.ends != 0 || p.begins&used.begins != 0 ||
			bits.OnesCount64(used.ends|p.ends) == len(ends) && bits.OnesCount64(used.begins|p.begins) == len(begins) {
			continue
		}
		used.ends |= p.ends
		used.begins |= p.begins
		j.move(t, pick(ends, p.ends), pick(begins, p.begins))
		if w.chance > sure {
			break
		}
	}
	j.cuts[t].whole, j.cuts[t].tried = unsure, 0
	j.touch(t)
	return true
}

// twins is those among joints that end at a cut and begin there that are not too likely to be for no reason, one for each size. There
// is doubt if some were left out that are likely, and there may be many of the same size, of which any could be right.
func (j *joiner) twins(ends, begins []int32) (twins []twin, doubt, many bool) {
	w := j.ways[j.way]
	sums := j.sums(begins, false, j.sums(ends, true, nil))
	j.looks += len(sums)
	slices.SortFunc(sums, func(a, b sum) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.of, b.of)) })
	total := float64(j.sumOf(begins))
	for from, to := 0, 0; from < len(sums); from = to {
		for to = from + 1; to < len(sums) && j.same(sums[to].size, sums[to-1].size); to++ {
		}
		best := twin{chance: math.Inf(1)}
		n := 0
		for a := from; a < to; a++ {
			for b := a + 1; b < min(to, a+8); b++ {
				s, o := sums[a], sums[b]
				if s.ends == o.ends || !j.same(s.size, o.size) {
					continue
				}
				if o.ends {
					s, o = o, s
				}
				x, y := bits.OnesCount64(s.of), bits.OnesCount64(o.of)
				if x == len(ends) && y == len(begins) {
					continue
				}
				n++
				chance := picks(len(ends), x) * picks(len(begins), y) * float64(2*differ(s.size, o.size)+1) / total
				if chance < best.chance {
					best = twin{s.of, o.of, chance}
				}
			}
		}
		switch {
		case n == 0:
		case best.chance > w.chance:
			doubt = true
		case n > 1 && w.chance <= sure:
			many = true
		default:
			twins = append(twins, best)
		}
	}
	return twins, doubt, many
}

// picks is in how many ways k of n can be chosen.
func picks(n, k int) float64 {
	ways := 1.0
	for i := range min(k, n-k) {
		ways = ways * float64(n-i) / float64(i+1)
	}
	return ways
}

// pick is those of a list that have their bits in of.
func pick(list []int32, of uint64) (picked []int32) {
	for ; of != 0; of &= of - 1 {
		picked = append(picked, list[bits.TrailingZeros64(of)])
	}
	return picked
}

// move makes a cut of its own of joints that end at cut t or begin there.
func (j *joiner) move(t int32, ends, begins []int32) {
	n := int32(len(j.cuts))
	j.cuts = append(j.cuts, cut{ends: ends, begins: begins, end: int32(len(ends)), begin: int32(len(begins))})
	for _, i := range ends {
		j.all[i].r = n
		j.touch(j.all[i].l)
	}
	for _, i := range begins {
		j.all[i].l = n
		j.touch(j.all[i].r)
	}
	j.cuts[t].end -= int32(len(ends))
	j.cuts[t].begin -= int32(len(begins))
	j.touch(n)
}

// pinwheels joins five joints wherever they lie around each other, and reports whether there were any.
func (j *joiner) pinwheels() (any bool) {
	for i := range int32(len(j.all)) {
		if j.turned > wheels*len(j.lives) {
			break
		}
		if t := j.all[i]; t.in == nobody && j.cuts[t.l].end > 0 && j.cuts[t.r].begin > 0 && j.pinwheel(i) {
			any = true
		}
	}
	return any
}

// endsOf is the joints that end at cut t, are part of no other, and are as good as of a size.
func (j *joiner) endsOf(t int32, size int64) (found []int32) {
	c := &j.cuts[t]
	if c.bySize == nil {
		c.bySize = slices.Clone(j.ends(t))
		slices.SortFunc(c.bySize, func(a, b int32) int {
			return cmp.Or(cmp.Compare(j.all[a].size, j.all[b].size), cmp.Compare(a, b))
		})
	}
	slack := max(j.bytes, int64(math.Ceil(j.share*float64(size))))
	from, _ := slices.BinarySearchFunc(c.bySize, size-slack, func(i int32, least int64) int { return cmp.Compare(j.all[i].size, least) })
	for _, i := range c.bySize[from:] {
		if j.turned++; j.all[i].size > size && !j.same(j.all[i].size, size) {
			break
		}
		if j.same(j.all[i].size, size) {
			found = append(found, i)
		}
	}
	slices.Sort(found)
	return found
}

// pinwheel joins joint middle to the four around it: one that begins when low does ends where middle begins, above low, which
// ends with middle, where right begins, below one that begins with middle and ends when right does.
func (j *joiner) pinwheel(middle int32) bool {
	m := j.all[middle]
	lows, rights := j.ends(m.r), j.begins(m.r)
	for _, top := range j.begins(m.l) {
		if j.looks++; top == middle {
			continue
		}
		for _, left := range j.endsOf(m.l, m.size+j.all[top].size) {
			if j.turned > wheels*len(j.lives) {
				return false
			}
			j.turned += len(lows)
			for _, low := range lows {
				if low == middle || j.all[low].l != j.all[left].l {
					continue
				}
				j.turned += len(rights)
				for _, right := range rights {
					up := j.all[low].size
					if j.all[right].r == j.all[top].r && j.same(j.all[right].size, up+m.size) {
						return j.hold(held{low, 0}, held{left, up}, held{middle, up},
							held{top, max(up+m.size, j.all[right].size)}, held{right, 0})
					}
				}
			}
		}
	}
	return false
}
