package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"memopt/kernels/cpu"
	"memopt/memopt/arena"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/memopt/stop"
	"memopt/memopt/weights"
	"memopt/planner"
)

// Model is what to open: a file, or bytes, which are the caller's again once Open returns.
type Model struct {
	Path  string // where there are Bytes: beside which external data lies, "" for none
	Bytes []byte
	Name  string // for errors; "" is the path's
	// Given are initializers to take instead of the model's. Their bytes are shared until the session is closed.
	Given map[string]*graph.Tensor
	// Files are contents of files of external data, by the model's names for them, shared in the same way.
	Files map[string][]byte
	// Arena names one that sessions share; "" is an arena of the session's own.
	Arena string
}

// Options of a session.
type Options struct {
	Optimize string // passes over the graph: off, clean, fuse; "" is fuse
	Pattern  bool   // values lie where a pattern has them; else the arena lends them one by one
	Patterns int    // how many are kept; 0 is as many as the graph's size allows
	// MemoryLimit binds all that the session holds; 0 is none.
	MemoryLimit int64
	Arena       arena.Options
	// Fits refuses what the machine has no memory for; nil refuses nothing.
	Fits    func(bytes int64) error
	Seed    uint64 // of random operators
	Threads int    // that share an operator's work; 0 is one for each processor
	// Device makes one for a schedule, with parameters and constants together with another of the same program, if there
	// is one, and inputs and outputs where they are bound.
	// arena is how large its arena is to be; 0 has that of the other. nil runs on the processor, where nothing is copied.
	// loaded is called when weights are there, and values are not.
	Device func(m DeviceMemory, s *planner.Schedule, with Device, arena int64, places Places, loaded func()) (Device, error)
	// Memory opens that device's, for all that one session has of it.
	Memory func() (DeviceMemory, error)
	// Lowered says that it runs kernels.
	Lowered bool
	Kind    string // what the device is called; "" is cpu
	// Share gives an arena that other sessions have, too, instead of one of the session's own, and what is to be called
	// when the session is closed. MemoryLimit does not bind it.
	Share  func() (*arena.Arena, func() error)
	SaveTo string // file to write the graph to that is run; "" is none
	// SaveBeside is the name of a file beside it for weights of at least SaveFrom bytes; "" has them inside.
	SaveBeside string
	SaveFrom   int64
	Watch      Watch

	dry bool // memory is counted and not touched, and nothing is computed
}

// Device runs one schedule, time after time.
type Device interface {
	Name() string
	Run(planner.Run) (planner.Trace, error)
	WriteOutput(w io.Writer, name string) error
	Close() error
}

// Owners on the account.
const (
	ownWeights  = "weights"
	ownLoaded   = "weights on the device"
	ownModel    = "model"
	ownComputed = "values computed ahead"
	ownInputs   = "copies of inputs"
	ownResults  = "results"
	ownValues   = "values"
	ownDevice   = "device"
	ownBuffers  = "buffers"
)

// Session is a forward program held open. Its methods may be called from several goroutines; one runs at a time.
type Session struct {
	Signature onnx.Signature

	mu       sync.Mutex
	model    Model
	options  Options
	bytes    []byte // the model, where it must be read again; nil: it is in its file
	given    map[string]*graph.Tensor
	account  *arena.Account
	arena    *arena.Arena
	unshare  func() error // of an arena that is not its own
	crew     *cpu.Crew
	file     *weights.File // that the model was opened from
	closed   bool
	stripped bool // bytes is without the weights that are held
	copies   bool // weights are copied out of their files, as they are few

	level    int // the least that the model can be read with
	first    *program
	programs *recent[*program]
	patterns *recent[*pattern]
	plans    *recent[*pattern] // of a device: before they are ready for places
	// Of a device:
	device     DeviceMemory
	imports    *recent[Buffer] // by the memory that the device sees; nil of what it does not
	grow       int64           // where the next block begins to double
	extensions int64

	weights                             map[string]weight
	held                                []*weights.Shared[contents]
	owned                               [][]byte
	mappedBytes, copiedBytes, hostBytes int64
	unalignedBytes                      int64 // of those copied, because of their place in the file

	kept  map[string]kept // results that nobody has taken yet
	runs  uint64
	stats counters
	told  ledger
}

// weight is an initializer's numbers, which all programs have together.
type weight struct {
	*graph.Tensor
	name string
}

// counters of all runs.
type counters struct {
	hits, misses        int64
	fallback            int64 // bytes that were lent beside a pattern
	copiedIn, copiedOut int64
}

// kept is a result in the session's memory, or on the device that made it.
type kept struct {
	x  *graph.Tensor
	c  *arena.Chunk
	on *pattern
	v  *graph.Value
}

// smallFile is the most bytes of weights that are copied out of their files, which may then be written anew.
const smallFile = 16 << 20

// Programs that are kept beside the first.
const mostPrograms = 8

// Open reads a model.
func Open(ctx context.Context, m Model, o Options) (*Session, error) {
	return stop.When(ctx, func() (*Session, error) { return open(ctx, m, o) })
}

func open(ctx context.Context, m Model, o Options) (opened *Session, err error) {
	if o.Optimize == "" {
		o.Optimize = "fuse"
	}
	s := &Session{model: m, options: o, given: m.Given, account: arena.NewAccount(o.MemoryLimit), weights: map[string]weight{}, kept: map[string]kept{}}
	o.Arena = o.Arena.Filled()
	o.Arena.Account, o.Arena.Memory = s.account, memory{s}
	s.options, s.grow = o, o.Arena.InitialChunkBytes
	s.watched()
	s.begin(OpenStage, 0, 0)
	if o.Share != nil {
		s.arena, s.unshare = o.Share()
	} else {
		s.arena = arena.New(o.Arena)
	}
	if tell := o.Watch.Arena; tell != nil {
		tell(s.arena)
	}
	s.patterns = newRecent(max(o.Patterns, 1), s.forget)
	s.plans = newRecent[*pattern](128, nil)
	s.imports = newRecent(mostImports, func(b Buffer) {
		if b != nil {
			b.Drop()
		}
	})
	s.programs = newRecent(mostPrograms, s.drop)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.Signature, err = s.signature(); err != nil {
		return nil, err
	}
	if o.Memory != nil {
		if s.device, err = o.Memory(); err != nil {
			return nil, err
		}
	}
	s.bytes = m.Bytes // while it is open
	s.first, err = s.read(ctx, byNames, nil)
	var short *arena.OutOfMemory
	switch {
	case errors.As(err, &short):
		return nil, err
	case err != nil && fixable(err) && len(s.Signature.Inputs) > 0:
		s.level, err = byShapes, nil
	case err != nil:
		return nil, err
	}
	if o.SaveTo != "" {
		if err := s.save(ctx, o.SaveTo); err != nil {
			return nil, err
		}
	}
	if o.Patterns <= 0 {
		s.patterns.most = s.mostPatterns()
	}
	if err := s.planAhead(ctx); err != nil {
		return nil, err
	}
	return s, s.keepBytes()
}

// mostPatterns is how many are kept: fewer of large graphs.
func (s *Session) mostPatterns() int {
	p := s.first
	if s.options.Device != nil {
		return 8 // each has memory of its own
	}
	const values = 1 << 18
	if p == nil {
		return 16
	}
	return min(max(values/max(len(p.g.Values), 1), 4), 128)
}

// signature is what the file says of its inputs and outputs.
func (s *Session) signature() (sig onnx.Signature, err error) {
	if s.model.Bytes != nil {
		return onnx.ParseSignature(s.model.Bytes)
	}
	if s.file, err = weights.OpenFile(s.model.Path); err != nil {
		return sig, err
	}
	defer weights.Guard(&err)()
	return onnx.ParseSignature(s.file.Bytes())
}

// planAhead makes the pattern of a model that takes inputs of one shape only.
func (s *Session) planAhead(ctx context.Context) error {
	in := map[string]*graph.Tensor{}
	for _, p := range s.Signature.Inputs {
		x := &graph.Tensor{Type: p.Of}
		for _, d := range p.Shape {
			n, err := strconv.Atoi(d)
			if err != nil {
				return nil
			}
			x.Shape = append(x.Shape, n)
		}
		in[p.Name] = x
	}
	if s.first == nil || s.checkShapes(in) != nil {
		return nil // a run says what is wrong
	}
	var fetches []Fetch
	for _, p := range s.Signature.Outputs {
		fetches = append(fetches, Fetch{Name: p.Name})
	}
	t, _, err := s.pattern(ctx, in, fetches, byNames)
	if err == nil && t.schedule != nil {
		_, _, err = s.openedFor(t, in, fetches, nil)
	}
	return err
}

// fits asks whether the machine has so many bytes, where it is worth asking.
func (s *Session) fits(bytes int64) error {
	const worth = 1 << 20
	if s.options.Fits == nil || bytes < worth {
		return nil
	}
	return s.options.Fits(bytes)
}

// memory is the system's for a session.
type memory struct{ *Session }

func (s memory) Take(n int64) ([]byte, error) {
	if err := s.fits(n); err != nil {
		return nil, err
	}
	return arena.Map(n)
}

func (s memory) Give(b []byte, _ int64) { arena.Unmap(b) }

// keepBytes keeps a model of bytes, if it may have to be read again.
func (s *Session) keepBytes() error {
	src := s.bytes
	s.bytes, s.model.Bytes = nil, nil
	if src == nil {
		return nil
	}
	if s.first != nil {
		held := map[string]bool{}
		for _, w := range s.weights {
			held[w.name] = true
		}
		src, s.stripped = onnx.Strip(src, held), true
	}
	if err := s.account.Take(ownModel, int64(len(src))); err != nil {
		return err
	}
	if s.options.dry {
		s.bytes = src
		return nil
	}
	own, err := memory{s}.Take(int64(len(src)))
	if err != nil {
		s.account.Give(ownModel, int64(len(src)))
		return s.account.Short(ownModel, int64(len(src)), err)
	}
	copy(own, src)
	s.bytes = own
	s.owned = append(s.owned, own)
	return nil
}

func (s *Session) forget(t *pattern) {
	if t.device == nil {
		return
	}
	for name, k := range s.kept {
		if k.on == t {
			delete(s.kept, name)
		}
	}
	if t.p.roots--; t.p.roots == 0 { // with the last of them the weights go, too
		s.account.Give(ownLoaded, t.state)
	}
	t.device.Close()
	s.leaveDevice(t)
	t.device = nil
	t.places.each(s.unpin)
}

// drop ends a program and its patterns.
func (s *Session) drop(p *program) {
	for e := s.patterns.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*entry[*pattern]).value.p == p {
			s.patterns.remove(e)
		}
		e = next
	}
	for e := s.plans.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*entry[*pattern]).value.p == p {
			s.plans.remove(e)
		}
		e = next
	}
	p.close(s)
}

// Close gives everything back. Closing twice does nothing.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.options.Watch.Begin != nil {
		s.options.Watch.Begin(CloseStage, 0, 0)
	}
	s.patterns.clear()
	s.plans.clear()
	s.programs.clear()
	if s.first != nil {
		s.first.close(s)
	}
	s.release()
	if s.crew != nil {
		s.crew.Close()
	}
	for _, h := range s.held {
		h.Drop()
	}
	if s.file != nil {
		s.file.Close()
	}
	for _, b := range s.owned {
		arena.Unmap(b)
	}
	s.weights, s.held, s.owned, s.bytes, s.first = nil, nil, nil, nil, nil
	s.imports.clear()
	if s.device != nil {
		s.device.Close()
	}
	end := s.arena.Close
	if s.unshare != nil {
		end = s.unshare
	}
	err := end()
	if s.options.Watch.Count != nil {
		s.untold()
	}
	return err
}

// release gives back results that are kept.
func (s *Session) release() {
	for name, k := range s.kept {
		if k.c != nil {
			s.arena.Free(k.c)
		}
		delete(s.kept, name)
	}
}

// Kept is the type and shape of a result of the last run that the session keeps, until the next run or until it is
// released, and what copies its bytes.
func (s *Session) Kept(name string) (x *graph.Tensor, read func(to []byte) error, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.kept[name]
	if !ok {
		return nil, nil, false
	}
	return &graph.Tensor{Type: k.x.Type, Shape: k.x.Shape}, func(to []byte) error { return s.readKept(name, to) }, true
}

func (s *Session) readKept(name string, to []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.kept[name]
	if !ok {
		return fmt.Errorf("no result %q is kept", name)
	}
	if n := int64(k.x.Len()) * k.x.Type.Size(); int64(len(to)) != n {
		return fmt.Errorf("result %q has %d bytes, and there is room for %d", name, n, len(to))
	}
	s.stats.copiedOut += int64(len(to))
	if k.on == nil {
		copy(to, k.x.Bytes)
		return nil
	}
	return k.on.device.WriteOutput(&into{to}, k.v.Name)
}

// Release gives back the results that the session keeps.
func (s *Session) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// Shrink gives idle memory of the arena back, and says how many bytes that are. Of a device it is what patterns of other
// shapes have than the last run's.
func (s *Session) Shrink() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shrink()
}

func (s *Session) shrink() int64 {
	if s.options.Device != nil {
		return s.shrinkDevice() + s.arena.Shrink()
	}
	return s.arena.Shrink()
}

// Path is the file that the model was opened from; "" is of one of bytes.
func (s *Session) Path() string {
	if s.file == nil {
		return ""
	}
	return s.model.Path
}

// Device names where the session runs.
func (s *Session) Device() string { return cmp.Or(s.options.Kind, "cpu") }

// names quotes some names.
func names(all []string) string {
	quoted := make([]string, len(all))
	for i, n := range all {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
}

func portNames(ports []onnx.Port) (all []string) {
	for _, p := range ports {
		all = append(all, p.Name)
	}
	return all
}

func hasPort(ports []onnx.Port, name string) bool {
	return slices.ContainsFunc(ports, func(p onnx.Port) bool { return p.Name == name })
}
