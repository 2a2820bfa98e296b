package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/onnx"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/kernels/cpu"
)

// Model is the model to open: a file, or bytes, which the session does not use after Open returns.
type Model struct {
	Path  string // with Bytes: the file in whose folder external data lies, "": none
	Bytes []byte
	Name  string // for errors; "": the path
	// Given replaces initializers. Their bytes are shared until the session is closed.
	Given map[string]*graph.Tensor
	// Files is the contents of files with external data, by their names in the model, shared in the
	// same way.
	Files map[string][]byte
	// Arena names an arena that sessions share; "": an arena of the session's own.
	Arena string
}

// Options of a session.
type Options struct {
	Optimize string // passes over the graph: off, clean, fuse; "": fuse
	Pattern  bool   // place values by a pattern, else allocate them one by one
	Patterns int    // size of the cache of patterns; 0: depends on the graph's size
	// MemoryLimit limits everything that the session holds; 0: no limit.
	MemoryLimit int64
	Arena       arena.Options
	// Fits returns an error if the machine has too little memory; nil: do not check.
	Fits    func(bytes int64) error
	Seed    uint64 // seed of random operators
	Threads int    // threads per operator; 0: one per processor
	// Device makes devices with memory of their own. Nil makes those of the processor, which work in memory that the session
	// gives to each run, so that nothing is copied.
	Device Opener
	// Load is how weights come to the processor. Streamed, or "", reads them where their file is mapped; InPlace copies
	// them into memory when the model is opened, so that its files may change while the session is open. Modes that hold
	// another copy for a transfer are an error. A Device has its own mode.
	Load loader.Mode
	// Memory opens the memory of that device for a session.
	Memory func() (DeviceMemory, error)
	// Lowered: the device runs kernels.
	Lowered bool
	Kind    string // name of the device; "": cpu
	// Share returns an arena that other sessions use, too, and a function to call when the session
	// is closed. MemoryLimit does not apply to it. Nil: the session has its own arena.
	Share  func() (*arena.Arena, func() error)
	SaveTo string // file to write the optimized graph to; "": none
	// SaveBeside is the name of a file in the same folder for weights of at least SaveFrom bytes;
	// "": weights are inside.
	SaveBeside string
	SaveFrom   int64
	Watch      Watch

	dry bool // only count memory
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

// Session is an open forward program. Its methods may be called from several goroutines; one runs
// at a time.
type Session struct {
	Signature onnx.Signature

	mu       sync.Mutex
	model    Model
	options  Options
	bytes    []byte // the model, to read it again; nil: it is in its file
	given    map[string]*graph.Tensor
	account  *arena.Account
	arena    *arena.Arena
	unshare  func() error // of a shared arena
	pool     *cpu.Pool
	file     *weights.File // the model's file
	closed   bool
	stripped bool // bytes lacks weights that the session has
	copies   bool // weights are copied from their files, as they are small or by Options.Load

	level    int // lowest level at which the model can be read
	first    *program
	programs *recent[*program]
	plans    *recent[*pattern] // by shapes and results
	patterns *recent[*pattern] // by places, too: those that have a device
	direct   bool              // devices work in memory of the process, which each run gives them
	// For devices with memory of their own:
	device     DeviceMemory
	imports    *recent[Buffer] // by address range; nil: cannot be imported
	grow       int64           // size of the next block, if blocks double
	extensions int64

	weights                             map[string]weight
	held                                []*weights.Shared[contents]
	owned                               [][]byte
	mappedBytes, copiedBytes, hostBytes int64
	unalignedBytes                      int64 // part of copiedBytes that is not aligned in its file

	kept  map[string]kept // results that the session keeps
	runs  uint64
	stats counters
	// The memory of the last run.
	promised, measured Memory
	reported           ledger
}

// weight is an initializer that all programs share.
type weight struct {
	*graph.Tensor
	name string
}

// counters of all runs.
type counters struct {
	hits, misses        int64
	fallback            int64 // bytes allocated value by value
	copiedIn, copiedOut int64
}

// kept is a result in the session's memory, or on a device.
type kept struct {
	x  *graph.Tensor
	c  *arena.Chunk
	on *pattern
	of string // name of the value
}

// smallFile is the bytes of weights up to which they are copied from their files, which may then be
// modified.
const smallFile = 16 << 20

// mostPrograms is the number of cached programs besides the first.
const mostPrograms = 8

// Open reads a model.
func Open(ctx context.Context, m Model, o Options) (*Session, error) {
	return stop.When(ctx, func() (*Session, error) { return open(ctx, m, o) })
}

func open(ctx context.Context, m Model, o Options) (opened *Session, err error) {
	if o.Optimize == "" {
		o.Optimize = "fuse"
	}
	if o.Device == nil && o.Load.Reads() {
		return nil, &loader.UnsuitedError{Mode: o.Load, Why: fmt.Sprintf("load mode %s holds copies of weights for a transfer, and a session on the processor has none to make; use %s, which reads weights where their file is mapped, or %s, which reads them into memory",
			o.Load, loader.Streamed, loader.InPlace)}
	}
	s := &Session{model: m, options: o, given: m.Given, account: arena.NewAccount(o.MemoryLimit), weights: map[string]weight{}, kept: map[string]kept{}}
	o.Arena = o.Arena.Filled()
	o.Arena.Account, o.Arena.Memory = s.account, memory{s}
	s.options, s.grow, s.direct = o, o.Arena.InitialChunkBytes, o.Device == nil
	s.watched()
	s.begin(OpenStage, nil)
	if o.Share != nil {
		s.arena, s.unshare = o.Share()
	} else {
		s.arena = arena.New(o.Arena)
	}
	if tell := o.Watch.Arena; tell != nil {
		tell(s.arena)
	}
	s.patterns, s.plans = newRecent(max(o.Patterns, 1), s.forget), newRecent[*pattern](mostPlans, nil)
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
	s.bytes = m.Bytes // until keepBytes
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
	if s.direct {
		s.plans.most = s.patterns.most // a plan is all that a pattern holds
	}
	if err := s.planAhead(ctx); err != nil {
		return nil, err
	}
	return s, s.keepBytes()
}

// signature reads the model's inputs and outputs.
func (s *Session) signature() (sig onnx.Signature, err error) {
	if s.model.Bytes != nil {
		return onnx.ParseSignature(s.model.Bytes, "")
	}
	if s.file, err = weights.OpenFile(s.model.Path); err != nil {
		return sig, err
	}
	sig, err = onnx.ParseSignature(s.file.Bytes(), s.model.Path)
	if changed := s.file.Unchanged(); changed != nil {
		err = changed // also where the cut end reads as a broken model
	}
	return sig, err
}

// planAhead makes the pattern of a model whose inputs have fixed shapes.
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
		return nil // a run reports the error
	}
	var fetches []Fetch
	for _, p := range s.Signature.Outputs {
		fetches = append(fetches, Fetch{Name: p.Name})
	}
	t, _, err := s.planned(ctx, in, fetches, byNames)
	if err == nil {
		_, _, err = s.ready(t, fetches, nil)
	}
	return err
}

// fits checks whether the machine has enough memory, for sizes that matter.
func (s *Session) fits(bytes int64) error {
	const least = 1 << 20
	if s.options.Fits == nil || bytes < least {
		return nil
	}
	return s.options.Fits(bytes)
}

// memory allocates system memory for a session.
type memory struct{ *Session }

func (s memory) Take(n int64) ([]byte, error) {
	if err := s.fits(n); err != nil {
		return nil, err
	}
	return arena.Map(n)
}

func (s memory) Give(b []byte, _ int64) { arena.Unmap(b) }

// keepBytes keeps the bytes of a model, in case it has to be read again.
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

// drop closes a program and drops its patterns.
func (s *Session) drop(p *program) {
	for _, cache := range []*recent[*pattern]{s.patterns, s.plans} {
		cache.removeIf(func(t *pattern) bool { return t.p == p })
	}
	p.close(s)
}

// Close frees everything. Closing twice does nothing.
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
	if s.pool != nil {
		s.pool.Close()
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
		s.unreport()
	}
	return err
}

// release frees kept results.
func (s *Session) release() {
	for name, k := range s.kept {
		if k.c != nil {
			s.arena.Free(k.c)
		}
		delete(s.kept, name)
	}
}

// Kept is the type and shape of a kept result of the last run, and a function that copies its
// bytes.
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
		return fmt.Errorf("no result %q of the last run is kept", name)
	}
	if n := int64(k.x.Len()) * k.x.Type.Size(); int64(len(to)) != n {
		return fmt.Errorf("result %q has %d bytes, but there is room for %d", name, n, len(to))
	}
	s.stats.copiedOut += int64(len(to))
	if k.on == nil {
		copy(to, k.x.Bytes)
		return nil
	}
	return k.on.device.WriteOutput(&into{to}, k.of)
}

// Release frees the results that the session keeps.
func (s *Session) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// Shrink frees idle memory of the arena, and that of all patterns but the last used one, and returns its bytes.
func (s *Session) Shrink() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shrink()
}

func (s *Session) shrink() int64 {
	before, _ := s.account.Held()
	s.tidy()
	for s.evict(1) {
	}
	s.grow = s.options.Arena.InitialGrowthBytes
	after, _ := s.account.Held()
	return before - after + s.arena.Shrink()
}

// Path is the file that the model was opened from; "": it was given as bytes.
func (s *Session) Path() string {
	if s.file == nil {
		return ""
	}
	return s.model.Path
}

// Device is the name of the session's device.
func (s *Session) Device() string { return cmp.Or(s.options.Kind, "cpu") }

// names quotes and joins names.
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
