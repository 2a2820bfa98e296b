//go:build !linux

package bench

import "time"

// onThread runs something; without a clock of threads it takes the wall's.
func onThread(f func() error) (time.Duration, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin), err
}
