//go:build !unix

package arena

// Reserve is n bytes of memory.
func Reserve(n int64) ([]byte, error) { return Map(n) }

// Commit does nothing: what was reserved is there.
func Commit(_ []byte, from, to int64) (int64, error) { return max(0, to-from), nil }

// Resident is what was mapped.
func Resident(b []byte) int64 { return int64(len(b)) }
