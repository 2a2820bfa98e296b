// Package stop ends long work when its context ends. The work polls its
// context in its loops; a poll that finds it ended unwinds the stack up to
// When, so that nothing in between needs to pass on an error or can mistake
// unfinished work for a result.
package stop

import (
	"context"
	"fmt"
	"runtime/debug"
)

// ended is what a poll panics with.
type ended struct{ err error }

// Poll returns while ctx goes on, and does not return once it has ended: it
// must be called below a When. It takes a few nanoseconds. A nil context goes
// on for ever.
func Poll(ctx context.Context) {
	if ctx == nil {
		return
	}
	if err := ctx.Err(); err != nil {
		panic(ended{err})
	}
}

// When does work, and returns what it comes to; or nothing but the error of ctx
// if that has ended by then, however far the work is.
func When[T any](ctx context.Context, work func() (T, error)) (result T, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			err = r.err
		default:
			panic(r)
		}
		if ctx != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			result = *new(T)
		}
	}()
	return work()
}

// Go does work on a goroutine of its own. The function it returns waits for the
// end of it, and passes on its panic; it may be called again. A fault of memory is a
// panic there, as work may read a file that is mapped (see weights.Guard).
func Go(work func()) (wait func()) {
	done := make(chan struct{})
	var failed any
	go func() {
		debug.SetPanicOnFault(true)
		defer close(done)
		defer func() {
			if failed = recover(); failed == nil {
				return
			}
			switch failed.(type) {
			case ended, interface{ Addr() uintptr }:
			default:
				failed = fmt.Sprintf("%v\n\non another goroutine:\n%s", failed, debug.Stack())
			}
		}()
		work()
	}()
	return func() {
		<-done
		if failed != nil {
			panic(failed)
		}
	}
}

// All does some things at the same time, and returns once each has come to its
// end. A panic of one is passed on.
func All(works ...func()) {
	for _, work := range works[1:] {
		defer Go(work)()
	}
	works[0]()
}

// Closed reports whether a channel is closed; nil never is.
func Closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
