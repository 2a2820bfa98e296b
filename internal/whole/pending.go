package whole

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// unfinished lists the files that have not been renamed yet. Its lock serializes the
// renames of all calls.
var unfinished struct {
	sync.Mutex
	files map[*os.File]bool
}

// pending is a temporary file and its final path.
type pending struct {
	f    *os.File
	path string
}

// create creates a temporary file.
func create(name string, mode fs.FileMode) (*os.File, error) {
	unfinished.Lock()
	defer unfinished.Unlock()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err == nil {
		if unfinished.files == nil {
			unfinished.files = map[*os.File]bool{}
		}
		unfinished.files[f] = true
	}
	return f, err
}

// drop removes the file unless it was renamed.
func (p pending) drop() {
	unfinished.Lock()
	defer unfinished.Unlock()
	if unfinished.files[p.f] {
		delete(unfinished.files, p.f)
		p.f.Close()
		os.Remove(p.f.Name())
	}
}

// name renames the files, unless they were abandoned.
func name(ctx context.Context, files ...pending) error {
	unfinished.Lock()
	defer unfinished.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range files {
		// Rename before closing: a sweep may remove a file that is closed.
		if err := rename(p.f, p.path); err != nil {
			return err
		}
		delete(unfinished.files, p.f)
		p.f.Close() // the contents have been synced
	}
	return nil
}

// Abandon removes all temporary files, for a program that is about to exit. No file is
// renamed from now on.
func Abandon() {
	unfinished.Lock() // never unlocked
	for f := range unfinished.files {
		os.Remove(f.Name())
	}
}

type batchKey struct{}

type batch struct {
	ctx   context.Context
	files []pending
}

// Together returns a context under which files are written but only renamed by commit:
// then all are, or none if the context has ended. Close removes the others. If ctx is
// itself such a context, the files wait for that one's commit.
func Together(ctx context.Context) (_ context.Context, commit func() error, close func()) {
	if ctx == nil {
		ctx = context.Background()
	}
	if b, _ := ctx.Value(batchKey{}).(*batch); b != nil {
		return ctx, func() error { return nil }, func() {}
	}
	b := &batch{}
	b.ctx = context.WithValue(ctx, batchKey{}, b)
	return b.ctx, b.commit, b.close
}

// Apart returns a context under which files are renamed at once, also within Together: those that are
// only read on the way to others.
func Apart(ctx context.Context) context.Context {
	return context.WithValue(ctx, batchKey{}, (*batch)(nil))
}

func (b *batch) commit() error {
	if err := name(b.ctx, b.files...); err != nil {
		return fmt.Errorf("writing files: %w", bare(err))
	}
	return nil
}

func (b *batch) close() {
	for _, p := range b.files {
		p.drop()
	}
}

// until writes to a file until its context ends, in small pieces.
type until struct {
	ctx context.Context
	f   *os.File
}

func (u until) Write(p []byte) (n int, err error) {
	const piece = 1 << 20
	for len(p) > 0 && err == nil {
		if err := u.ctx.Err(); err != nil {
			return n, err
		}
		var k int
		k, err = u.f.Write(p[:min(len(p), piece)])
		n, p = n+k, p[k:]
	}
	return n, err
}

// flush syncs the file, but does not wait for that after the context has ended.
func flush(ctx context.Context, f *os.File) error {
	if ctx.Done() == nil {
		return f.Sync()
	}
	flushed := make(chan error, 1)
	go func() { flushed <- f.Sync() }()
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
