package onnx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"memopt/internal/graph"
	"memopt/internal/weights"
	"memopt/internal/whole"
)

// Option changes how a model is written.
type Option func(*options)

type options struct {
	external bool
	name     string // of the external file; "" is the model's name with .data
	from     int64  // smaller weights stay in the model; 0 is the default
	brought  bool
	ctx      context.Context
}

// External puts weights into "<name>.data" beside the model, whatever its size.
func External(o *options) { o.external = true }

// Beside puts weights of at least from bytes into a file of that name beside the model.
func Beside(name string, from int64) Option {
	return func(o *options) { o.external, o.name, o.from = true, name, from }
}

// layout is the external file's layout, nil if weights are inside the model.
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

// Brought makes parameters and buffers inputs, as in the files of ONNX Runtime's trainer: the file has no weights.
func Brought(o *options) { o.brought = true }

// Until sets a context that cancels writing; see package stop.
func Until(ctx context.Context) Option { return func(o *options) { o.ctx = ctx } }

// Written lists the files that Write may write: the model, and its weights beside it.
func Written(path string) []string { return []string{path, path + ".data"} }

// Write writes the model to path, replacing any file there. Weights are inside, or in
// "<name>.data" beside it if an option says so or they do not fit. Both files are replaced
// by rename, so readers of old files are not affected.
func Write(path string, g *graph.Graph, opts ...Option) error {
	o := optionsOf(opts)
	extern := o.layout(path)
	if extern != nil && (extern.name != filepath.Base(extern.name) || extern.name == "." || extern.name == ".." || extern.name == filepath.Base(path)) {
		return fmt.Errorf("%s: weights cannot be in %s; give another file name, without a folder", path, quote(extern.name))
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

// replace writes a file and renames it to path. If a file that it reads changes meanwhile,
// nothing is replaced.
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

// layout is the external file: where each tensor goes.
type layout struct {
	name  string
	from  int64 // minimum bytes of a tensor in it
	size  int64
	parts []placed
}

type placed struct {
	at int64
	part
}

const (
	externalFrom = 1 << 10 // smaller tensors stay in the model
	pageFrom     = 1 << 20 // larger ones are page-aligned, so that they can be mapped alone
	pageSize     = 4096
	lineSize     = 64
)

// place assigns a tensor its offset and completes its message.
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
