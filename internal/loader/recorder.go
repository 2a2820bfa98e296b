package loader

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"memopt/internal/arena"
)

// Counts is the bytes of one owner.
type Counts struct {
	Owner     string `json:"owner"`
	Requested int64  `json:"requested"`
	Granted   int64  `json:"granted"`
}

// Gauge is a figure at the end of a phase, and its peak during the phase.
type Gauge struct {
	Point int64 `json:"point"`
	High  int64 `json:"high"`
}

// Driver is the driver's count of this process's memory, and its budget.
type Driver struct {
	Usage  int64 `json:"usage"`
	Budget int64 `json:"budget"`
}

// Phase is a row of the table.
type Phase struct {
	Name string `json:"phase"`
	What string `json:"what"`
	// Device is the bytes requested from the device, as counted here. For an upload, Point is where
	// it begins.
	Device  Gauge    `json:"device"`
	Granted Gauge    `json:"device_granted"`
	Owners  []Counts `json:"owners"`           // at the end of the phase
	Driver  *Driver  `json:"driver,omitempty"` // nil: the driver does not say
	// Copies is the host's copies of weights, as counted here.
	Copies Gauge `json:"host_copies"`
	// Both is device memory and host copies together.
	Both Gauge `json:"both"`
	// The following is what the operating system says of the process.
	Anon Gauge `json:"host_anon"`
	// System is memory without a file behind it: anonymous memory, and shared memory, which drivers
	// of CPU devices use for device memory.
	System Gauge `json:"host_system"`
	File   int64 `json:"host_file"`
	Shmem  int64 `json:"host_shmem"`
	RSS    Gauge `json:"host_rss"`
	// Parts of System: Heap is live objects in Go's heap, Go the heap with garbage and goroutine
	// stacks, On the device's memory, and Rest everything else but copies of weights: the program's
	// data, memory of Go's runtime and of the driver (compiled kernels, descriptors), and thread
	// stacks.
	Heap int64 `json:"go_heap"`
	Go   int64 `json:"go"`
	On   int64 `json:"host_device"`
	Rest int64 `json:"host_rest"`
	// Promised is the most that the device should hold; −1: not promised.
	Promised int64 `json:"promised"`
	// PromisedHost is the most that System should be; 0: not promised.
	PromisedHost int64 `json:"promised_host,omitempty"`
}

// Classes lists the owners in the order of tables. Other is memory of the device that no plan
// counts.
var Classes = []string{"weights", "gradients", "optimizer", "activations", "staging", "imported", Other}

// Other is memory that no plan counts.
const Other = "other"

// Owned is the counts of a class.
func (p Phase) Owned(class string) Counts {
	for _, o := range p.Owners {
		if o.Owner == class {
			return o
		}
	}
	return Counts{Owner: class}
}

// Recorder counts the memory of a load, and makes the table of phases.
type Recorder struct {
	device Device
	driven Driven
	phases []Phase
	open   *Phase // the current phase
	watch  *watch
	// limit binds all counted memory; fits refuses what the machine does not have.
	limit *arena.Account
	fits  func(int64) error

	mu      sync.Mutex
	owners  map[string]*Counts
	now     Gauge // requested from the device
	granted Gauge
	copies  Gauge
	both    Gauge
	begun   int64             // bytes on the device when an upload began; −1: none has
	copied  func(bytes int64) // called for copies in host memory, if not nil
}

// NewRecorder begins a table; the device may be set later.
func NewRecorder() *Recorder {
	return &Recorder{owners: map[string]*Counts{}, limit: arena.NewAccount(0), fits: func(int64) error { return nil }}
}

// Limit limits device and host memory together, as counted here; 0: no limit. Fits is called before
// memory of the machine is taken.
func (r *Recorder) Limit(bytes int64, fits func(int64) error) {
	r.limit, r.fits = arena.NewAccount(bytes), fits
}

// Use sets the device whose memory is counted from now on, or nil.
func (r *Recorder) Use(d Device) {
	r.device, r.driven = d, nil
	if d != nil {
		r.driven = d
	}
}

// Driven is what a driver reports of a device.
type Driven interface {
	// Unified reports whether its memory is the machine's own, like the process's.
	Unified() bool
	// Driver is the driver's count of this process's memory, and its budget; ok is false if it does
	// not say.
	Driver() (usage, budget int64, ok bool)
}

// Watch sets a device whose memory the caller allocates and counts.
func (r *Recorder) Watch(d Driven) { r.driven = d }

// held is counted memory.
type held struct {
	Memory
	r         *Recorder
	owner     string
	requested int64
	granted   int64 // a freed block does not know it
	once      sync.Once
}

func (r *Recorder) take(owner string, n int64) (*held, error) {
	return r.enter(owner, n, r.device.Take)
}

func (r *Recorder) stage(n int64) (*held, error) { return r.enter("staging", n, r.device.Stage) }

func (r *Recorder) enter(owner string, n int64, get func(int64) (Memory, error)) (*held, error) {
	if err := r.limit.Take(owner, n); err != nil {
		return nil, err
	}
	var m Memory
	var err error
	if r.device.Unified() {
		err = r.fits(n)
	}
	if err == nil {
		m, err = get(n)
	}
	if err != nil {
		return nil, r.refused(owner, n, err)
	}
	h := &held{Memory: m, r: r, owner: owner, requested: n, granted: m.Granted()}
	r.count(owner, n, h.granted)
	return h, nil
}

// host allocates memory of the process for a copy.
func (r *Recorder) host(n int64) (*held, error) {
	if err := r.limit.Take(ownerHost, n); err != nil {
		return nil, err
	}
	var b []byte
	err := r.fits(n)
	if err == nil {
		b, err = arena.Map(n)
	}
	if err != nil {
		return nil, r.refused(ownerHost, n, err)
	}
	h := &held{Memory: hostMemory(b), r: r, owner: ownerHost, requested: n, granted: n}
	r.count(ownerHost, n, n)
	return h, nil
}

// refused takes memory that could not be allocated off the account, and returns the error.
func (r *Recorder) refused(owner string, n int64, err error) error {
	r.limit.Give(owner, n)
	return r.limit.Short(owner, n, err)
}

// ownerHost is the owner of copies in host memory.
const ownerHost = "host"

func (h *held) free() {
	h.once.Do(func() {
		h.Memory.Free()
		h.r.limit.Give(h.owner, h.requested)
		h.r.count(h.owner, -h.requested, -h.granted)
	})
}

// Activations allocates memory for activations.
func (r *Recorder) Activations(n int64) (free func(), err error) {
	h, err := r.take("activations", n)
	if err != nil {
		return nil, err
	}
	// Touch each page, so that it takes memory.
	for b, i := h.Bytes(), 0; i < len(b); i += os.Getpagesize() {
		b[i] = 0
	}
	return h.free, nil
}

// Count adds memory of the device, or removes it if bytes are negative.
func (r *Recorder) Count(owner string, requested, granted int64) { r.count(owner, requested, granted) }

func (r *Recorder) count(owner string, n, granted int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == ownerHost {
		r.both.add(n)
		if r.copies.add(n); r.copied != nil {
			r.copied(n)
		}
		return
	}
	c := r.owners[owner]
	if c == nil {
		c = &Counts{Owner: owner}
		r.owners[owner] = c
	}
	c.Requested += n
	c.Granted += granted
	r.granted.add(granted)
	if owner != Other {
		r.now.add(n)
		r.both.add(n)
	}
}

func (g *Gauge) add(n int64) {
	g.Point += n
	g.High = max(g.High, g.Point)
}

// most is the peak of device and host together in the current phase.
func (r *Recorder) most() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.both.High
}

// uploading marks the moment when an upload has its memory and begins.
func (r *Recorder) uploading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = r.now.Point
}

// Do runs one phase. promised is the most that the device should hold; −1: not promised.
func (r *Recorder) Do(name, what string, promised int64, f func() error) error {
	r.Begin(name, what, promised)
	if err := f(); err != nil {
		r.watch.end()
		r.open = nil
		return err
	}
	r.End()
	return nil
}

// Begin ends the current phase and begins another.
func (r *Recorder) Begin(name, what string, promised int64) {
	r.End()
	r.mu.Lock()
	for _, g := range []*Gauge{&r.now, &r.granted, &r.copies, &r.both} {
		g.High = g.Point
	}
	r.begun = -1
	r.mu.Unlock()
	r.open = &Phase{Name: name, What: what, Promised: promised}
	resetHighWater()
	r.watch = newWatch()
}

// Promise sets what device and host should hold at most in the current phase.
func (r *Recorder) Promise(device, host int64) {
	if r.open != nil {
		r.open.Promised, r.open.PromisedHost = device, host
	}
}

// End ends the current phase, if there is one.
func (r *Recorder) End() {
	if p := r.open; p != nil {
		r.open = nil
		p.Anon.High, p.System.High = r.watch.end()
		r.point(p)
		r.phases = append(r.phases, *p)
	}
}

// point fills in the figures at the end of a phase.
func (r *Recorder) point(p *Phase) {
	high := highWater()
	debug.FreeOSMemory()
	m := hostNow()
	p.Anon.Point, p.File, p.Shmem = m.anon, m.file, m.shmem
	p.System.Point = m.anon + m.shmem
	p.System.High = max(p.System.High, p.System.Point)
	p.RSS.Point = m.anon + m.file + m.shmem
	p.RSS.High = max(high, p.RSS.Point)
	p.Anon.High = max(p.Anon.High, p.Anon.Point)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	p.Heap = int64(sample[0].Value.Uint64())
	p.Go = goHeap()
	if r.driven != nil {
		if usage, budget, ok := r.driven.Driver(); ok {
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
	for _, class := range Classes {
		c := Counts{Owner: class}
		if have := r.owners[class]; have != nil {
			c = *have
		}
		p.Owners = append(p.Owners, c)
	}
	if r.driven != nil && r.driven.Unified() {
		p.On = p.Granted.Point
		if d, tells := r.driven.(interface{ Resident() int64 }); tells {
			p.On = d.Resident()
		} else if p.Shmem > 0 { // such drivers use shared memory, which counts when touched
			p.On = min(p.On, p.Shmem)
		}
	}
	p.Rest = p.System.Point - p.Go - p.Copies.Point - p.On
}

// Phases returns the table.
func (r *Recorder) Phases() []Phase { return r.phases }

// Held is the bytes on the device now.
func (r *Recorder) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.Point
}

// watch samples the process's memory, since the system keeps a peak for all resident memory only.
type watch struct {
	stop, done   chan struct{}
	anon, system int64
}

func newWatch() *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{})}
	w.look()
	go func() {
		defer close(w.done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				w.look()
			}
		}
	}()
	return w
}

func (w *watch) look() {
	m := hostNow()
	w.anon, w.system = max(w.anon, m.anon), max(w.system, m.anon+m.shmem)
}

func (w *watch) end() (anon, system int64) {
	close(w.stop)
	<-w.done
	w.look()
	return w.anon, w.system
}

// Rule says how device memory relates to resident memory.
func Rule(unified bool) string {
	if unified {
		return "device memory is the machine's: resident memory includes it"
	}
	return "the device has its own memory: resident memory does not include it"
}
