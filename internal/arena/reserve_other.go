//go:build !unix

package arena

func addresses(n int64) ([]byte, error) { return pages(n) }

// touchable does nothing: reserved bytes are accessible.
func touchable(_ []byte, from, to int64) (int64, error) { return max(0, to-from), nil }

// Resident is the mapped bytes.
func Resident(b []byte) int64 { return int64(len(b)) }

// release does nothing: the garbage collector has whole blocks only.
func release([]byte) {}
