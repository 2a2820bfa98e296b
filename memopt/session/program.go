package session

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/onnx"
	"memopt/internal/weights"
	"memopt/kernels"
)

// program is the model as read with some knowledge of its inputs.
type program struct {
	g      *graph.Graph
	source *onnx.Source
	// outputs is the graph's outputs, by their names in the file.
	outputs map[string]*graph.Value
	owned   int64 // bytes of weights that no other program of the session uses
	held    []*weights.Shared[contents]
	roots   int // number of devices that share its weights
	// computed is the bytes of values computed while reading.
	computed int64
	passes   graph.Report
}

// Levels of knowledge of the inputs. A model is read at the lowest level that works.
const (
	byNames  = iota // dims are names
	byShapes        // dims are numbers
	byWhole         // and integer inputs are constants
	byAll           // and all inputs are constants
)

// from is the options for reading at a level. Inputs with an initializer replace it.
func (s *Session) from(level int, in map[string]*graph.Tensor) onnx.From {
	given := s.given
	if s.stripped {
		if given = maps.Clone(given); given == nil {
			given = map[string]*graph.Tensor{}
		}
		for _, w := range s.weights {
			given[w.name] = w.Tensor
		}
	}
	f := onnx.From{Path: s.model.Path, Bytes: s.bytes, Given: given, Files: s.model.Files, Forward: true, Shapes: map[string][]int{}, Known: map[string]*graph.Tensor{}}
	own := func(x *graph.Tensor) *graph.Tensor {
		y := graph.NewTensor(x.Type, x.Shape...)
		copy(y.Bytes, x.Bytes)
		return y
	}
	for name, x := range in {
		if hasPort(s.Signature.Overridable, name) {
			f.Given = maps.Clone(f.Given)
			if f.Given == nil {
				f.Given = map[string]*graph.Tensor{}
			}
			f.Given[name] = own(x)
			continue
		}
		if level >= byShapes {
			f.Shapes[name] = x.Shape
		}
		if s.known(level, x) {
			f.Known[name] = own(x)
		}
	}
	return f
}

// known reports whether an input is a constant at a level.
func (s *Session) known(level int, x *graph.Tensor) bool {
	return level == byAll || level == byWhole && !x.Type.IsReal()
}

// reading is the cache key of reading at a level; "" for the first program.
func (s *Session) reading(level int, in map[string]*graph.Tensor) string {
	key, numbers := "", sha256.New()
	hashed := false
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if x := in[name]; s.known(level, x) || hasPort(s.Signature.Overridable, name) {
			fmt.Fprintf(numbers, "%q%d ", name, len(x.Bytes))
			numbers.Write(x.Bytes)
			hashed = true
		}
	}
	if level >= byShapes {
		key = fmt.Sprint(level, keyOf(in))
	}
	if hashed {
		key += fmt.Sprintf(" %x", numbers.Sum(nil))
	}
	return key
}

// read reads the model at a level, and optimizes it.
func (s *Session) read(ctx context.Context, level int, in map[string]*graph.Tensor) (p *program, err error) {
	defer weights.Guard(&err)()
	if s.bytes == nil && s.model.Path == "" {
		return nil, fmt.Errorf("the model was opened from bytes that are gone, but has to be read again for these inputs")
	}
	if s.file != nil && s.first != nil {
		if err := s.file.Unchanged(); err != nil {
			return nil, err
		}
	}
	p = &program{outputs: map[string]*graph.Value{}}
	var short error
	take := func(bytes int64) error {
		if short = s.fits(bytes); short == nil {
			short = s.account.Take(ownComputed, bytes)
		}
		if short == nil {
			p.computed += bytes
		}
		return short
	}
	for name, x := range in {
		if s.known(level, x) || hasPort(s.Signature.Overridable, name) {
			if err := take(int64(len(x.Bytes))); err != nil {
				p.close(s)
				return nil, err
			}
		}
	}
	from := s.from(level, in)
	if level == byAll {
		from.Eager = take
	}
	if p.g, p.source, err = from.Read(ctx, kernels.Library); err != nil {
		p.close(s)
		return nil, cmp.Or(short, err)
	}
	if err := s.prepare(ctx, p); err != nil {
		p.close(s)
		return nil, err
	}
	return p, nil
}

// prepare makes a program of a graph.
func (s *Session) prepare(ctx context.Context, p *program) error {
	for name := range s.given {
		if !slices.Contains(p.source.Taken, name) {
			return fmt.Errorf("the model has no initializer %q, for which a tensor is given", name)
		}
	}
	if len(p.g.Outputs) != len(s.Signature.Outputs) {
		return fmt.Errorf("the graph has %d outputs, but the file has %d", len(p.g.Outputs), len(s.Signature.Outputs))
	}
	s.begin(OptimizeStage, nil)
	p.clean(ctx, s.options.Optimize)
	for i, port := range s.Signature.Outputs {
		p.outputs[port.Name] = p.g.Outputs[i]
	}
	return p.settle(s)
}

// clean runs the passes of an optimization level.
func (p *program) clean(ctx context.Context, level string) {
	o := graph.CleanOptions{Context: ctx}
	switch level {
	case "off":
		p.g.Prune()
		return
	case "fuse":
		o.Fuse = kernels.Fusions
	}
	p.passes = p.g.Clean(o)
}

// settle holds content that does not depend on shapes, and has the graph refer to it.
func (p *program) settle(s *Session) error {
	if s.first == nil {
		mapped := int64(0)
		for _, v := range p.g.Values {
			if block, is := v.Data.(*weights.Block); is && block.Kind() == weights.KindMapped {
				mapped += block.Len()
			}
		}
		s.copies = mapped <= smallFile || s.options.Load == loader.InPlace
	}
	if s.direct && s.first == nil {
		s.begin(WeighStage, func() (int64, int64) { return s.weighs(p), 0 })
	}
	none, err := graph.Bind(nil)
	if err != nil {
		return err
	}
	for _, v := range p.g.Values {
		if v.Data == nil || v.Kind == graph.Computed || v.Kind == graph.Input || !s.keeps(v.Data) {
			continue
		}
		x, err := v.Tensor(none)
		if err != nil {
			return err
		}
		if x, err = s.weight(p, v, x); err != nil {
			return err
		}
		v.Data = graph.Bytes(x.Bytes)
	}
	return nil
}

// keyOfWeight is the key of a weight's content.
func keyOfWeight(v *graph.Value, bytes int64) string {
	return fmt.Sprintf("%s %d %d", v.Name, v.Type, bytes)
}

// weight is the content of a value, shared by all programs of the session if it is in the file or
// given by the caller.
func (s *Session) weight(p *program, v *graph.Value, x *graph.Tensor) (*graph.Tensor, error) {
	if len(x.Bytes) == 0 {
		return x, nil
	}
	block, mapped := v.Data.(*weights.Block)
	inFile := mapped || within(x.Bytes, s.bytes)
	all := keyOfWeight(v, int64(len(x.Bytes)))
	w, is := s.weights[all]
	if is && &w.Bytes[0] == &x.Bytes[0] {
		return w.Tensor, nil
	}
	key := ""
	if inFile || s.given[v.Name] != nil && &s.given[v.Name].Bytes[0] == &x.Bytes[0] {
		if key = all; is {
			return w.Tensor, nil
		}
	}
	host := key != "" && !inFile
	if host && isAligned(x.Bytes, x.Type) {
		s.weights[key] = weight{x, v.Name}
		s.hostBytes += int64(len(x.Bytes))
		return x, nil
	}
	if p.computed > 0 && key == "" {
		return x.Aligned(), nil // on the account already
	}
	return s.hold(p, v.Name, key, x, block)
}

// contents is a weight's content, which sessions of this process share.
type contents struct {
	bytes []byte
	block *weights.Block // in a file; nil: in memory
	own   bool           // mapped memory, to be freed
}

// held is the weights of all sessions.
var held weights.Store[contents]

// shareable is the least size of weights to share among sessions.
const shareable = 1 << 10

// hold stores a weight once for all sessions: in the mapped file, or in memory if it is not aligned
// there, if the weights are small, or if it was computed.
func (s *Session) hold(p *program, name, key string, x *graph.Tensor, block *weights.Block) (*graph.Tensor, error) {
	n := int64(len(x.Bytes))
	if err := s.account.Take(ownWeights, n); err != nil {
		return nil, err
	}
	inFile := key != "" && block != nil && block.Kind() == weights.KindMapped
	aligned := isAligned(x.Bytes, x.Type)
	mapped := inFile && aligned && !s.copies
	make := func() (contents, error) {
		switch {
		case mapped || s.options.dry && block != nil:
			block.Retain()
			return contents{bytes: x.Bytes, block: block}, nil
		case s.options.dry:
			return contents{bytes: x.Bytes}, nil
		case key == "": // computed
			return contents{bytes: x.Aligned().Bytes}, nil
		}
		own, err := memory{s}.Take(n)
		if err != nil {
			return contents{}, err
		}
		copy(own, x.Bytes)
		if inFile && !aligned {
			weights.CountUnaligned(n)
		}
		return contents{bytes: own, own: true}, nil
	}
	free := func(c contents) {
		switch {
		case c.block != nil:
			c.block.Drop()
		case c.own:
			arena.Unmap(c.bytes)
		}
	}
	// Content of a mapped file may change; content in memory does not.
	same := func(c contents) bool { return (c.block != nil) == mapped && bytes.Equal(c.bytes, x.Bytes) }
	sum, store := weights.Probe(x.Bytes), &held
	if n < shareable || s.options.dry {
		store = new(weights.Store[contents]) // not shared
	}
	h, made, err := store.Hold(sum, n, same, make, free)
	if err != nil {
		s.account.Give(ownWeights, n)
		return nil, s.account.Short(ownWeights, n, err)
	}
	if inFile && !(made && mapped) {
		block.ReleasePages()
	}
	if key != "" && (mapped || !made) { // it takes no memory
		s.account.Note(ownWeights, 0, -n)
	}
	x = &graph.Tensor{Type: x.Type, Shape: x.Shape, Bytes: h.Value.bytes}
	switch {
	case key == "":
		p.owned += n
		p.held = append(p.held, h)
		return x, nil
	case mapped:
		s.mappedBytes += n
	default:
		s.copiedBytes += n
		if inFile && !aligned {
			s.unalignedBytes += n
		}
	}
	s.held = append(s.held, h)
	s.weights[key] = weight{x, name}
	return x, nil
}

// isAligned reports whether elements of a type are aligned.
func isAligned(b []byte, t graph.DType) bool {
	return len(b) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(max(t.Size(), 1)) == 0
}

// within reports whether a lies in b.
func within(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	at, from := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= from && at < from+uintptr(len(b))
}

// overlap reports whether two slices share memory.
func overlap(a, b []byte) bool { return within(a, b) || within(b, a) }

func (p *program) close(s *Session) {
	if p.owned > 0 {
		s.account.Give(ownWeights, p.owned)
	}
	if p.computed > 0 {
		s.account.Give(ownComputed, p.computed)
	}
	for _, h := range p.held {
		h.Drop()
	}
	p.owned, p.computed, p.held = 0, 0, nil
	p.source.Close()
}

// fixable reports whether a model that cannot be read by names may be readable with more knowledge:
// the error is of a rule of an operator, not of a feature that is not supported at all.
func fixable(err error) bool {
	var u *onnx.UnsupportedError
	if !errors.As(err, &u) {
		return false
	}
	return !slices.ContainsFunc(u.Items, func(item onnx.Unsupported) bool { return item.Foreign })
}
