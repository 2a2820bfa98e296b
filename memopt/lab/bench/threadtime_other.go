//go:build !linux

package bench

import "time"

// onThread runs a function and returns wall time, as threads have no clock here.
func onThread(f func() error) (time.Duration, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin), err
}
