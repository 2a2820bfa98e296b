package onnx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"memopt/memopt/graph"
	"memopt/memopt/weights"
	"memopt/memopt/whole"
)

// Option changes how a model is written.
type Option func(*options)

type options struct {
	external bool
	name     string // of the file of weights; "" is the model's and .data
	from     int64  // weights of fewer bytes stay in the model; 0 is the default
	brought  bool
	ctx      context.Context
}

// External puts weights into "<name>.data" beside the model, whatever its size.
func External(o *options) { o.external = true }

// Beside puts weights of at least that many bytes into a file of that name beside the model.
func Beside(name string, from int64) Option {
	return func(o *options) { o.external, o.name, o.from = true, name, from }
}

// layout is the file of weights of a model, nil if they are to be inside.
func (o options) layout(path string) *layout {
	if !o.external {
		return nil
	}
	l := &layout{name: o.name, from: o.from}
	if l.name == "" {
		l.name = filepath.Base(path) + ".data"
	}
	if l.from == 0 {
		l.from = externalFrom
	}
	return l
}

// Brought makes parameters and buffers inputs, as trainers write the steps that they run: the file has no weights.
func Brought(o *options) { o.brought = true }

// Until has the writing end with a context, which it polls as package stop says.
func Until(ctx context.Context) Option { return func(o *options) { o.ctx = ctx } }

// Written are the files that Write may write: the model, and its weights beside it.
func Written(path string) []string { return []string{path, path + ".data"} }

// Write writes the model to path, over what is there. Weights are inside, or in
// "<name>.data" beside it if they are asked to be or do not fit. Both files
// appear together, by rename; a file that is being read stays as it is for its
// reader.
func Write(path string, g *graph.Graph, opts ...Option) error {
	o := optionsOf(opts)
	extern := o.layout(path)
	if extern != nil && (extern.name != filepath.Base(extern.name) || extern.name == "." || extern.name == ".." || extern.name == filepath.Base(path)) {
		return fmt.Errorf("%s: its weights cannot be in %s; give the name of another file, without a folder", path, quote(extern.name))
	}
	e, err := newEncoder(o, g, extern)
	if err != nil {
		return err
	}
	s := e.model()
	if s.size > maxMessage && extern == nil {
		return Write(path, g, append(opts, External)...)
	}
	if s.size > maxMessage {
		return fmt.Errorf("%s: the model without its weights takes %d bytes, and a file at most %d", path, s.size, maxMessage)
	}
	if extern != nil && len(extern.parts) > 0 {
		ctx, commit, close := whole.Together(o.ctx)
		defer close()
		if err := replace(ctx, filepath.Join(filepath.Dir(path), extern.name), extern.writeTo); err != nil {
			return err
		}
		if err := replace(ctx, path, s.writeTo); err != nil {
			return err
		}
		return commit()
	}
	return replace(o.ctx, path, s.writeTo)
}

func optionsOf(opts []Option) (o options) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// replace writes a file over what is at path. Files that are read for it must
// stay as they are until the end; else nothing is replaced.
func replace(ctx context.Context, path string, write func(io.Writer) error) error {
	err := whole.WriteContext(ctx, path, func(w io.Writer) (err error) {
		defer weights.Guard(&err)()
		return write(w)
	})
	var changed *weights.ChangedError
	switch {
	case errors.As(err, &changed):
		return changed
	case err != nil:
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// layout is the file of weights: where each tensor goes.
type layout struct {
	name  string
	from  int64 // the fewest bytes of a tensor in it
	size  int64
	parts []placed
}

type placed struct {
	at int64
	part
}

const (
	externalFrom = 1 << 10 // smaller tensors stay in the model
	pageFrom     = 1 << 20 // larger ones begin at a page, so that they can be mapped alone
	pageSize     = 4096
	lineSize     = 64
)

// place gives a tensor its place and finishes its message.
func (l *layout) place(head []byte, p part) []byte {
	align := int64(lineSize)
	if p.len() > pageFrom {
		align = pageSize
	}
	at := (l.size + align - 1) / align * align
	l.parts = append(l.parts, placed{at, p})
	l.size = at + p.len()
	head = appendEntry(head, tensorExternal, "location", l.name)
	head = appendEntry(head, tensorExternal, "offset", strconv.FormatInt(at, 10))
	head = appendEntry(head, tensorExternal, "length", strconv.FormatInt(p.len(), 10))
	return appendInt(head, tensorLocation, 1)
}

func (l *layout) writeTo(w io.Writer) error {
	at := int64(0)
	for _, p := range l.parts {
		if err := (part{zeros: p.at - at}).writeTo(w); err != nil {
			return err
		}
		if err := p.writeTo(w); err != nil {
			return err
		}
		at = p.at + p.len()
	}
	return nil
}
