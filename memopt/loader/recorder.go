package loader

import (
	"maps"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"memopt/memopt/arena"
)

// Counts are bytes of one owner.
type Counts struct {
	Owner     string `json:"owner"`
	Requested int64  `json:"requested"`
	Granted   int64  `json:"granted"`
}

// Gauge is a figure at the end of a phase and the most of it inside.
type Gauge struct {
	Point int64 `json:"point"`
	High  int64 `json:"high"`
}

// Driver is what the driver of a device says of this process.
type Driver struct {
	Usage  int64 `json:"usage"`
	Budget int64 `json:"budget"`
}

// Phase is a row of the table.
type Phase struct {
	Name string `json:"phase"`
	What string `json:"what"`
	// Device is what was asked of the device, by the book; to the byte. The point of an upload is where it begins.
	Device  Gauge    `json:"device"`
	Granted Gauge    `json:"device_granted"`
	Owners  []Counts `json:"owners"`           // at the end of the phase
	Driver  *Driver  `json:"driver,omitempty"` // nil where the driver does not tell
	// Copies is what the host holds of weights, by the book.
	Copies Gauge `json:"host_copies"`
	// Both is device and host copies together.
	Both Gauge `json:"both"`
	// What the operating system says of the process.
	Anon  Gauge `json:"host_anon"`
	File  int64 `json:"host_file"`
	Shmem int64 `json:"host_shmem"`
	RSS   Gauge `json:"host_rss"`
	Heap  int64 `json:"go_heap"` // of it, what lives in Go's heap
	// Promised is the most that the device should hold; −1 where nothing is promised.
	Promised int64 `json:"promised"`
}

// Recorder keeps the book of a load, and makes the table.
type Recorder struct {
	device Device
	phases []Phase

	mu      sync.Mutex
	owners  map[string]*Counts
	now     Gauge // requested of the device
	granted Gauge
	copies  Gauge
	both    Gauge
	begun   int64 // what the device held when an upload began; −1: none did
}

// NewRecorder begins a table; the device may come later.
func NewRecorder() *Recorder { return &Recorder{owners: map[string]*Counts{}} }

// Use is the device whose memory is counted from now on.
func (r *Recorder) Use(d Device) { r.device = d }

// held is memory in the book.
type held struct {
	Memory
	r         *Recorder
	owner     string
	requested int64
	once      sync.Once
}

func (r *Recorder) take(owner string, n int64) (*held, error) {
	return r.enter(owner, n, r.device.Take)
}

func (r *Recorder) stage(n int64) (*held, error) { return r.enter("staging", n, r.device.Stage) }

func (r *Recorder) enter(owner string, n int64, get func(int64) (Memory, error)) (*held, error) {
	m, err := get(n)
	if err != nil {
		return nil, err
	}
	h := &held{Memory: m, r: r, owner: owner, requested: n}
	r.count(owner, n, m.Granted())
	return h, nil
}

// host takes memory of the process for a copy.
func (r *Recorder) host(n int64) (*held, error) {
	b, err := arena.Map(n)
	if err != nil {
		return nil, err
	}
	h := &held{Memory: hostMemory(b), r: r, owner: ownerHost, requested: n}
	r.count(ownerHost, n, n)
	return h, nil
}

// ownerHost is what the book calls copies in the host's memory.
const ownerHost = "host"

func (h *held) free() {
	h.once.Do(func() {
		h.Memory.Free()
		h.r.count(h.owner, -h.requested, -h.Granted())
	})
}

// Activations takes memory for them.
func (r *Recorder) Activations(n int64) (free func(), err error) {
	h, err := r.take("activations", n)
	if err != nil {
		return nil, err
	}
	// Memory is there when it is touched.
	for b, i := h.Bytes(), 0; i < len(b); i += os.Getpagesize() {
		b[i] = 0
	}
	return h.free, nil
}

func (r *Recorder) count(owner string, n, granted int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.both.Point += n
	r.both.High = max(r.both.High, r.both.Point)
	if owner == ownerHost {
		r.copies.Point += n
		r.copies.High = max(r.copies.High, r.copies.Point)
		return
	}
	c := r.owners[owner]
	if c == nil {
		c = &Counts{Owner: owner}
		r.owners[owner] = c
	}
	c.Requested += n
	c.Granted += granted
	r.now.Point += n
	r.now.High = max(r.now.High, r.now.Point)
	r.granted.Point += granted
	r.granted.High = max(r.granted.High, r.granted.Point)
}

// uploading notes the moment at which an upload has its memory and begins.
func (r *Recorder) uploading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = r.now.Point
}

// Do is one phase: what happens in it, and what the device should hold at most; −1 promises nothing.
func (r *Recorder) Do(name, what string, promised int64, f func() error) error {
	r.mu.Lock()
	for _, g := range []*Gauge{&r.now, &r.granted, &r.copies, &r.both} {
		g.High = g.Point
	}
	r.begun = -1
	r.mu.Unlock()
	p := Phase{Name: name, What: what, Promised: promised}
	resetHighWater()
	w := newWatch()
	err := f()
	p.Anon.High = w.end()
	if err != nil {
		return err
	}
	r.point(&p)
	r.phases = append(r.phases, p)
	return nil
}

// point fills in what there is now.
func (r *Recorder) point(p *Phase) {
	high := highWater()
	debug.FreeOSMemory()
	m := hostNow()
	p.Anon.Point, p.File, p.Shmem = m.anon, m.file, m.shmem
	p.RSS.Point = m.anon + m.file + m.shmem
	p.RSS.High = max(high, p.RSS.Point)
	p.Anon.High = max(p.Anon.High, p.Anon.Point)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	p.Heap = int64(sample[0].Value.Uint64())
	if r.device != nil {
		if usage, budget, ok := r.device.Driver(); ok {
			p.Driver = &Driver{usage, budget}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Device, p.Granted, p.Copies, p.Both = r.now, r.granted, r.copies, r.both
	if r.begun >= 0 {
		p.Device.Point = r.begun
	}
	p.Owners = []Counts{}
	for _, owner := range slices.Sorted(maps.Keys(r.owners)) {
		p.Owners = append(p.Owners, *r.owners[owner])
	}
}

// Phases is the table.
func (r *Recorder) Phases() []Phase { return r.phases }

// Held is what the device holds now.
func (r *Recorder) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.Point
}

// watch looks at the process's anonymous memory again and again: the system keeps a high-water mark of all
// resident memory alone.
type watch struct {
	stop, done chan struct{}
	most       int64
}

func newWatch() *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{}), most: hostAnon()}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				w.most = max(w.most, hostAnon())
			}
		}
	}()
	return w
}

func (w *watch) end() int64 {
	close(w.stop)
	<-w.done
	return max(w.most, hostAnon())
}
