package arena

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Strategy is how an arena grows.
type Strategy string

// The strategies.
const (
	NextPowerOfTwo  Strategy = "kNextPowerOfTwo"  // regions double
	SameAsRequested Strategy = "kSameAsRequested" // a region is what was asked for
	Planned         Strategy = "planned"          // the same, and idle regions go first
)

// Strategies lists them.
func Strategies() []string {
	return []string{string(Planned), string(NextPowerOfTwo), string(SameAsRequested)}
}

// Options of an arena. What is 0 is the default, which is ONNX Runtime's.
type Options struct {
	Name               string // in accounts; "" is arena
	Strategy           Strategy
	InitialChunkBytes  int64 // of the first region: 1 MiB
	InitialGrowthBytes int64 // of regions after a shrink: 2 MiB
	MaxDeadBytes       int64 // a chunk is handed out whole if less than this would be left of it: 128 MiB
	MaxPowerOfTwoBytes int64 // up to which regions double without need: 1 GiB
	Off                bool  // nothing is kept: each chunk is memory of its own
	Account            *Account
	Memory             Memory // nil is the system's
}

// Memory is where regions come from. Bytes may be nil, of memory that is not seen from here.
type Memory interface {
	Take(n int64) ([]byte, error)
	Give(b []byte, n int64)
}

const (
	unit    = 256 // of chunks
	bins    = 21
	topBits = 20 // of the last bin: 256 MiB and more
)

// Chunk is memory that is lent.
type Chunk struct {
	Bytes     []byte // as many as were asked for
	Requested int64
	size      int64 // granted
	offset    int64 // in the region
	owner     string
	free      bool
	region    *region // nil: memory of its own
	own       []byte
	prev      *Chunk
	next      *Chunk // its neighbours in the region
}

// Size is the bytes granted.
func (c *Chunk) Size() int64 { return c.size }

type region struct {
	bytes []byte
	size  int64
	order int // when it was taken: addresses in accounts of memory that is not seen
	first *Chunk
	used  int64
}

// Arena lends chunks of regions.
type Arena struct {
	options Options
	mu      sync.Mutex
	regions []*region
	free    [bins][]*Chunk // by size and place
	grow    int64          // the next region's bytes where regions double
	taken   int            // regions so far
	apart   map[*Chunk]bool
	users   sync.Mutex // of by, which an account reads while the arena may be locked
	by      map[string]int64
	stats   Stats
	highest int64 // since the mark
}

// Stats are what ONNX Runtime tells of an arena, and what was asked for.
type Stats struct {
	Limit              int64 // 0: none
	InUse              int64 // granted
	RequestedInUse     int64
	TotalAllocated     int64 // regions, and chunks with memory of their own
	MaxTotalAllocated  int64
	MaxInUse           int64
	NumAllocs          int64
	NumReserves        int64
	NumArenaExtensions int64
	NumArenaShrinkages int64
	MaxAllocSize       int64
	LargestHole        int64
}

// New has no memory yet.
func New(o Options) *Arena {
	o = o.Filled()
	if o.Memory == nil {
		o.Memory = System
	}
	if o.Account == nil {
		o.Account = NewAccount(0)
	}
	a := &Arena{options: o, apart: map[*Chunk]bool{}, by: map[string]int64{}}
	a.grow = o.InitialChunkBytes
	o.Account.mu.Lock()
	o.Account.arenas = append(o.Account.arenas, a)
	o.Account.mu.Unlock()
	return a
}

// Alloc lends n bytes; what is in them is anything. The owner is for errors.
func (a *Arena) Alloc(n int64, owner string) (*Chunk, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n < 0 || n > most-unit {
		return nil, a.short(&OutOfMemory{Requested: n, For: owner})
	}
	if a.options.Off {
		return a.alone(n, owner, a.options.Name)
	}
	size := max((n+unit-1)/unit*unit, unit)
	c := a.find(size)
	if c == nil {
		if err := a.extend(size, owner); err != nil {
			return nil, a.short(err)
		}
		c = a.find(size)
	}
	a.remove(c)
	if c.size >= 2*size || c.size-size >= a.options.MaxDeadBytes {
		rest := &Chunk{size: c.size - size, offset: c.offset + size, free: true, region: c.region, prev: c, next: c.next}
		if c.next != nil {
			c.next.prev = rest
		}
		c.next, c.size = rest, size
		a.insert(rest)
	}
	c.free, c.Requested, c.owner = false, n, owner
	if c.region.bytes != nil {
		c.Bytes = c.region.bytes[c.offset : c.offset+n : c.offset+n]
	}
	c.region.used += c.size
	a.lent(c)
	return c, nil
}

// Reserve lends n bytes outside of all regions, for what stays: it goes back to the system when it is freed. The
// account has it under the owner's name.
func (a *Arena) Reserve(n int64, owner string) (*Chunk, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := a.alone(n, owner, owner)
	if err == nil {
		a.stats.NumReserves++
	}
	return c, err
}

// alone is a chunk with memory of its own.
func (a *Arena) alone(n int64, owner, account string) (*Chunk, error) {
	b, wrong := a.take(n, account)
	if wrong != nil {
		wrong.For = owner
		return nil, a.short(wrong)
	}
	c := &Chunk{Bytes: b, Requested: n, size: n, owner: owner, own: b}
	a.apart[c] = account == a.options.Name
	a.lent(c)
	return c, nil
}

// take has memory from the system, if the account allows it. Idle regions make room for it.
func (a *Arena) take(n int64, account string) ([]byte, *OutOfMemory) {
	err := a.options.Account.take(account, n)
	if err != nil && a.shrink(0) > 0 {
		err = a.options.Account.take(account, n)
	}
	if err != nil {
		return nil, err
	}
	b, wrong := a.options.Memory.Take(n)
	if wrong != nil && a.shrink(0) > 0 {
		b, wrong = a.options.Memory.Take(n)
	}
	if wrong != nil {
		a.options.Account.Give(account, n)
		now, _ := a.options.Account.Held()
		return nil, &OutOfMemory{Requested: n, For: account, Reserved: now, Limit: a.options.Account.limit, Cause: wrong}
	}
	a.stats.TotalAllocated += n
	a.stats.MaxTotalAllocated = max(a.stats.MaxTotalAllocated, a.stats.TotalAllocated)
	return b, nil
}

// lent counts a chunk that is handed out.
func (a *Arena) lent(c *Chunk) {
	a.count(c.owner, c.size)
	a.asked(c, c.Requested)
	s := &a.stats
	s.NumAllocs++
	s.InUse += c.size
	s.RequestedInUse += c.Requested
	s.MaxInUse = max(s.MaxInUse, s.InUse)
	a.highest = max(a.highest, s.RequestedInUse)
	s.MaxAllocSize = max(s.MaxAllocSize, c.size)
}

// asked tells of bytes asked for as a chunk, unless the account has told of it by the owner's name.
func (a *Arena) asked(c *Chunk, n int64) {
	if c.region != nil || a.apart[c] {
		a.options.Account.Note(a.options.Name, n, 0)
	}
}

func (a *Arena) count(owner string, n int64) {
	a.users.Lock()
	defer a.users.Unlock()
	if a.by[owner] += n; a.by[owner] == 0 {
		delete(a.by, owner)
	}
}

// owners are those of chunks of regions.
func (a *Arena) owners() map[string]int64 {
	a.users.Lock()
	defer a.users.Unlock()
	all := map[string]int64{}
	for owner, n := range a.by {
		if a.options.Account.held[owner] == 0 { // else the account has it itself
			all[owner] = n
		}
	}
	return all
}

// Free takes a chunk back. Its bytes are nobody's any more.
func (a *Arena) Free(c *Chunk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.free {
		panic("arena: a chunk is freed twice")
	}
	c.free, c.Bytes = true, nil
	a.count(c.owner, -c.size)
	a.asked(c, -c.Requested)
	a.stats.InUse -= c.size
	a.stats.RequestedInUse -= c.Requested
	if c.region == nil {
		account := c.owner
		if a.apart[c] {
			account = a.options.Name
		}
		delete(a.apart, c)
		a.giveBack(c.own, c.size, account)
		c.own = nil
		return
	}
	c.region.used -= c.size
	if p := c.prev; p != nil && p.free {
		a.remove(p)
		p.size += c.size
		p.join(c)
		c = p
	}
	if n := c.next; n != nil && n.free {
		a.remove(n)
		c.size += n.size
		c.join(n)
	}
	a.insert(c)
}

// join takes the neighbour behind out of the list.
func (c *Chunk) join(n *Chunk) {
	if c.next = n.next; c.next != nil {
		c.next.prev = c
	}
}

func (a *Arena) giveBack(b []byte, n int64, account string) {
	a.options.Memory.Give(b, n)
	a.options.Account.Give(account, n)
	a.stats.TotalAllocated -= n
}

// binOf is the list that a free chunk is in.
func binOf(size int64) int { return min(bits.Len64(uint64(size/unit))-1, topBits) }

func compare(x, y *Chunk) int {
	switch {
	case x.size != y.size:
		return int(max(min(x.size-y.size, 1), -1))
	case x.region != y.region:
		return x.region.order - y.region.order
	}
	return int(max(min(x.offset-y.offset, 1), -1))
}

func (a *Arena) insert(c *Chunk) {
	c.free = true
	list := &a.free[binOf(c.size)]
	at, _ := slices.BinarySearchFunc(*list, c, compare)
	*list = slices.Insert(*list, at, c)
}

func (a *Arena) remove(c *Chunk) {
	list := &a.free[binOf(c.size)]
	at, found := slices.BinarySearchFunc(*list, c, compare)
	if !found {
		panic("arena: a free chunk is in no list")
	}
	*list = slices.Delete(*list, at, at+1)
}

// find is the smallest chunk that fits, of the first list that has one.
func (a *Arena) find(size int64) *Chunk {
	for b := binOf(size); b < bins; b++ {
		for _, c := range a.free[b] {
			if c.size >= size {
				return c
			}
		}
	}
	return nil
}

// Region is how large a region is that has room for size bytes, and where the next begins to double, by where this one
// does.
func (o Options) Region(next, size int64) (bytes, then int64) {
	if o.Strategy != NextPowerOfTwo {
		return size, next
	}
	doubled := false
	for next = max(min(next, most), 1); size > next; next *= 2 {
		doubled = true
	}
	if then = next; !doubled {
		then = min(2*next, o.MaxPowerOfTwoBytes)
	}
	return next, then
}

// Filled is the options with defaults in place of what is 0.
func (o Options) Filled() Options {
	def := func(n *int64, is int64) {
		if *n <= 0 {
			*n = is
		}
		*n = min((min(*n, most)+unit-1)/unit*unit, most)
	}
	def(&o.InitialChunkBytes, 1<<20)
	def(&o.InitialGrowthBytes, 2<<20)
	def(&o.MaxDeadBytes, 128<<20)
	def(&o.MaxPowerOfTwoBytes, 1<<30)
	if o.Strategy == "" {
		o.Strategy = Planned
	}
	if o.Name == "" {
		o.Name = "arena"
	}
	return o
}

// extend takes a region that has room for size bytes.
func (a *Arena) extend(size int64, owner string) *OutOfMemory {
	o := a.options
	if o.Strategy == Planned {
		a.shrink(0)
	}
	want, then := o.Region(a.grow, size)
	// What the limit leaves is taken if the request fits in it.
	room := o.Account.Room()
	if room < size && a.shrink(0) > 0 {
		room = o.Account.Room()
	}
	if want > room {
		want = max(room/unit*unit, size)
	}
	b, err := a.take(want, o.Name)
	const least = 8 << 10
	for err != nil && err.Cause != nil && want > size { // the system has less in one piece
		want = int64(float64(want)*0.9) / unit * unit
		if want = max(want, size); want < least {
			break
		}
		b, err = a.take(want, o.Name)
	}
	if err != nil {
		err.Requested, err.For = size, owner
		return err
	}
	a.grow = then
	r := &region{bytes: b, size: want, order: a.taken}
	a.taken++
	r.first = &Chunk{size: want, region: r, free: true}
	a.regions = append(a.regions, r)
	a.stats.NumArenaExtensions++
	a.insert(r.first)
	return nil
}

// short completes an error with the arena's state.
func (a *Arena) short(e *OutOfMemory) error {
	e.InUse, e.Hole = a.stats.InUse, a.hole()
	if e.Limit == 0 {
		e.Limit = a.options.Account.limit
	}
	a.options.Account.mu.Lock()
	defer a.options.Account.mu.Unlock()
	e.Reserved, e.Largest = a.options.Account.total, a.options.Account.largest()
	return e
}

func (a *Arena) hole() int64 {
	for _, list := range slices.Backward(a.free[:]) {
		if n := len(list); n > 0 {
			return list[n-1].size
		}
	}
	return 0
}

// Shrink gives regions back that nothing lies in, and says how many bytes that are. Where regions double the first
// stays; the next is of the size of growth after a shrink.
func (a *Arena) Shrink() (returned int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	keep := 0
	if a.options.Strategy == NextPowerOfTwo {
		keep = 1
		a.grow = a.options.InitialGrowthBytes
	}
	returned = a.shrink(keep)
	a.stats.NumArenaShrinkages++
	return returned
}

// shrink gives back idle regions but for the first ones.
func (a *Arena) shrink(keep int) (returned int64) {
	kept := a.regions[:0]
	for i, r := range a.regions {
		if i < keep || r.used > 0 {
			kept = append(kept, r)
			continue
		}
		a.remove(r.first) // one chunk, as all are free and joined
		a.giveBack(r.bytes, r.size, a.options.Name)
		returned += r.size
	}
	clear(a.regions[len(kept):])
	a.regions = kept
	return returned
}

// Stats are the arena's now.
func (a *Arena) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.Limit, s.LargestHole = a.options.Account.limit, a.hole()
	return s
}

// Mark begins a stretch of time, and Highest is what was lent at most since then, of what was asked for. It says what is lent
// now.
func (a *Arena) Mark() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.highest = a.stats.RequestedInUse
	return a.highest
}

// Highest is described at Mark.
func (a *Arena) Highest() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.highest
}

// Untouched is how many bytes the arena has that take no memory yet, as nobody has written to them.
func (a *Arena) Untouched() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.regions {
		n += int64(len(r.bytes)) - Resident(r.bytes)
	}
	for c := range a.apart {
		n += int64(len(c.own)) - Resident(c.own)
	}
	return max(n, 0)
}

// Close gives everything back. Chunks that are lent are a mistake of their owners', who are named.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var left []string
	for owner := range a.by {
		left = append(left, owner)
	}
	a.shrink(0)
	if len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("chunks are lent at the end: %s", strings.Join(left, ", "))
	}
	return nil
}
