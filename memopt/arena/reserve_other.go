//go:build !unix

package arena

func addresses(n int64) ([]byte, error) { return pages(n) }

// touchable does nothing: what was reserved is there.
func touchable(_ []byte, from, to int64) (int64, error) { return max(0, to-from), nil }

// Resident is what was mapped.
func Resident(b []byte) int64 { return int64(len(b)) }
