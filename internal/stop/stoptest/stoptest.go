// Package stoptest holds tests to leaving no goroutine behind.
package stoptest

import (
	"runtime"
	"testing"
	"time"
)

// Ended fails the test unless no more goroutines are there than before. One
// that has told its waiter that it is done is counted until it has returned,
// which takes as long as the system keeps it from a processor: Ended waits for
// up to ten seconds.
func Ended(t testing.TB, before int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
