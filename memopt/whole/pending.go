package whole

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// unfinished are the files that do not have their names yet. Its lock orders the
// last steps of all calls.
var unfinished struct {
	sync.Mutex
	files map[*os.File]bool
}

// pending is a file that is written, and the path that it is to have.
type pending struct {
	f    *os.File
	path string
}

// create makes a file that is unfinished.
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

// drop removes the file, if it has no name of its own.
func (p pending) drop() {
	unfinished.Lock()
	defer unfinished.Unlock()
	if unfinished.files[p.f] {
		delete(unfinished.files, p.f)
		p.f.Close()
		os.Remove(p.f.Name())
	}
}

// name gives files their names, if nobody has given them up by then.
func name(ctx context.Context, files ...pending) error {
	unfinished.Lock()
	defer unfinished.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range files {
		// The name comes first: once the file is closed it counts as left behind.
		if err := rename(p.f, p.path); err != nil {
			return err
		}
		delete(unfinished.files, p.f)
		p.f.Close() // what it holds is on the disk
	}
	return nil
}

// Abandon removes whatever is being written, for a program that ends at once: no
// file gets its name from now on.
func Abandon() {
	unfinished.Lock() // for good
	for f := range unfinished.files {
		os.Remove(f.Name())
	}
}

type batchKey struct{}

type batch struct {
	ctx   context.Context
	files []pending
}

// Together returns a context under which files are written, but get their names only
// when commit is called: then all do, or none if the context has ended. Close removes
// those that have none. Below another such context that one's commit is awaited.
func Together(ctx context.Context) (_ context.Context, commit func() error, close func()) {
	if ctx == nil {
		ctx = context.Background()
	}
	if _, within := ctx.Value(batchKey{}).(*batch); within {
		return ctx, func() error { return nil }, func() {}
	}
	b := &batch{}
	b.ctx = context.WithValue(ctx, batchKey{}, b)
	return b.ctx, b.commit, b.close
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

// until writes to a file as long as a context goes on, in pieces that take little
// time.
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

// flush has the bytes reach the disk. Who waits for a context does not wait longer for
// the disk.
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
