package onnx

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"memopt/memopt/graph"
)

// Option changes how a model is written.
type Option func(*options)

type options struct{ external bool }

// External puts weights into "<name>.data" beside the model, whatever its size.
func External(o *options) { o.external = true }

// Write writes the model to path, over what is there. Weights are inside, or in
// "<name>.data" beside it if they are asked to be or do not fit. Both files
// appear by rename, the weights first; a file that is being read stays as it is
// for its reader.
func Write(path string, g *graph.Graph, opts ...Option) error {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	var extern *layout
	if o.external {
		extern = &layout{name: filepath.Base(path) + ".data"}
	}
	e, err := newEncoder(g, extern)
	if err != nil {
		return err
	}
	s := e.model()
	if s.size > maxMessage && extern == nil {
		return Write(path, g, append(opts, External)...)
	}
	if s.size > maxMessage {
		return fmt.Errorf("onnx: %s: the model without its weights takes %d bytes, and a file at most %d", path, s.size, maxMessage)
	}
	if extern != nil && len(extern.parts) > 0 {
		if err := replace(path+".data", extern.writeTo); err != nil {
			return err
		}
	}
	return replace(path, s.writeTo)
}

// replace writes a file beside path and renames it.
func replace(path string, write func(io.Writer) error) (err error) {
	fail := func(err error) error { return fmt.Errorf("onnx: writing %s: %w", path, err) }
	f, err := temporary(path)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	if err := write(w); err != nil {
		return fail(err)
	}
	if err := w.Flush(); err != nil {
		return fail(err)
	}
	if err := f.Close(); err != nil {
		return fail(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail(err)
	}
	return nil
}

// temporary makes a file in path's folder, with the permissions that a new file
// gets (os.CreateTemp would make it private).
func temporary(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for i := 0; ; i++ {
		name := filepath.Join(dir, "."+base+"."+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !os.IsExist(err) {
			return f, err
		}
	}
}

// layout is the file of weights: where each tensor goes.
type layout struct {
	name  string
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
