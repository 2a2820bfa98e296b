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
	SameAsRequested Strategy = "kSameAsRequested" // a region has the requested size
	Planned         Strategy = "planned"          // the same, after freeing idle regions
)

// Strategies lists them.
func Strategies() []string {
	return []string{string(Planned), string(NextPowerOfTwo), string(SameAsRequested)}
}

// Options of an arena. 0 stands for ONNX Runtime's default, which is given here.
type Options struct {
	Name               string // in accounts; "" is arena
	Strategy           Strategy
	InitialChunkBytes  int64 // first region: 1 MiB
	InitialGrowthBytes int64 // first region after a shrink: 2 MiB
	MaxDeadBytes       int64 // a chunk is not split if less than this would be left: 128 MiB
	MaxPowerOfTwoBytes int64 // largest region made by doubling alone: 1 GiB
	Off                bool  // allocate each chunk from the system
	Account            *Account
	Memory             Memory // nil: System
}

// Memory is where regions come from. Take may return nil for memory that the processor cannot
// address.
type Memory interface {
	Take(n int64) ([]byte, error)
	Give(b []byte, n int64)
}

const (
	unit    = 256 // chunk sizes are multiples
	bins    = 21
	topBits = 20 // the last bin: 256 MiB and more
)

// Chunk is an allocation.
type Chunk struct {
	Bytes     []byte // the requested number
	Requested int64
	size      int64 // granted
	offset    int64 // in the region
	owner     string
	free      bool
	region    *region // nil: outside all regions
	own       []byte
	prev      *Chunk
	next      *Chunk // neighbours in the region
}

// Size is the bytes granted.
func (c *Chunk) Size() int64 { return c.size }

type region struct {
	bytes []byte
	size  int64
	order int // number; orders regions, which may have no addresses
	first *Chunk
	used  int64
}

// Arena allocates chunks in regions.
type Arena struct {
	options Options
	mu      sync.Mutex
	regions []*region
	free    [bins][]*Chunk   // sorted by size and position
	grow    int64            // size of the next region, if regions double
	taken   int              // number of regions taken
	apart   map[*Chunk]bool  // chunks outside all regions; true: on the arena's account
	users   sync.Mutex       // guards by, which an account reads while the arena may be locked
	by      map[string]int64 // bytes of chunks by owner
	stats   Stats
	highest int64 // most requested bytes since Mark
}

// Stats is ONNX Runtime's statistics of an arena, and the requested bytes.
type Stats struct {
	Limit              int64 // 0: none
	InUse              int64 // granted
	RequestedInUse     int64
	TotalAllocated     int64 // regions, and chunks outside them
	MaxTotalAllocated  int64
	MaxInUse           int64
	NumAllocs          int64
	NumReserves        int64
	NumArenaExtensions int64
	NumArenaShrinkages int64
	MaxAllocSize       int64
	LargestHole        int64
}

// New makes an arena without memory.
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

// Alloc allocates n bytes of any content. The owner is for errors.
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

// Reserve allocates n bytes outside all regions, for long-lived memory: Free gives them back to the
// system. They are on the account under the owner's name.
func (a *Arena) Reserve(n int64, owner string) (*Chunk, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := a.alone(n, owner, owner)
	if err == nil {
		a.stats.NumReserves++
	}
	return c, err
}

// alone allocates a chunk outside all regions.
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

// take takes memory from the system, if the account allows it. If it fails, idle regions are freed
// first.
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

// lent counts an allocated chunk.
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

// asked calls the watch for the requested bytes of a chunk, unless Take has done so under the
// owner's name.
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

// owners is the bytes of chunks by owner.
func (a *Arena) owners() map[string]int64 {
	a.users.Lock()
	defer a.users.Unlock()
	all := map[string]int64{}
	for owner, n := range a.by {
		if a.options.Account.held[owner] == 0 { // else the owner is on the account itself
			all[owner] = n
		}
	}
	return all
}

// Free frees a chunk, whose bytes must not be used any more.
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

// join unlinks the next chunk, which was merged into c.
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

// binOf is the bin of a free chunk.
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

// find is the smallest chunk that fits, in the first bin that has one.
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

// Region is the size of a new region with room for size bytes, and the next one's size by doubling,
// given this one's.
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

// Filled replaces zero options by their defaults.
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

// extend takes a region with room for size bytes.
func (a *Arena) extend(size int64, owner string) *OutOfMemory {
	o := a.options
	if o.Strategy == Planned {
		a.shrink(0)
	}
	want, then := o.Region(a.grow, size)
	// If the limit does not allow the region, take as much as it leaves.
	room := o.Account.Room()
	if room < size && a.shrink(0) > 0 {
		room = o.Account.Room()
	}
	if want > room {
		want = max(room/unit*unit, size)
	}
	b, err := a.take(want, o.Name)
	const least = 8 << 10
	for err != nil && err.Cause != nil && want > size { // the system has no block of this size
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

// Shrink frees idle regions and returns their bytes. If regions double, the first one is kept, and
// the next one has the size of growth after a shrink.
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

// shrink frees idle regions, except for the first keep ones.
func (a *Arena) shrink(keep int) (returned int64) {
	kept := a.regions[:0]
	for i, r := range a.regions {
		if i < keep || r.used > 0 {
			kept = append(kept, r)
			continue
		}
		a.remove(r.first) // its only chunk, as all are free and merged
		a.giveBack(r.bytes, r.size, a.options.Name)
		returned += r.size
	}
	clear(a.regions[len(kept):])
	a.regions = kept
	return returned
}

// Stats returns the current statistics.
func (a *Arena) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.Limit, s.LargestHole = a.options.Account.limit, a.hole()
	return s
}

// Mark resets Highest, and returns the requested bytes in use.
func (a *Arena) Mark() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.highest = a.stats.RequestedInUse
	return a.highest
}

// Highest is the most requested bytes in use at once since Mark.
func (a *Arena) Highest() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.highest
}

// Untouched is the bytes of the arena that take no physical memory, as they were never written.
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

// Close frees all regions. Chunks still in use are an error that names their owners.
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
		return fmt.Errorf("arena closed while chunks are in use: %s", strings.Join(left, ", "))
	}
	return nil
}
