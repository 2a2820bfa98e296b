package bytesize

import (
	"math"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		n                                       int64
		text, column, exact, above, near, below string
	}{
		{0, "0 B", "0 B", "0 bytes", "0", "0", "0"},
		{1023, "1023 B", "1023 B", "1023 bytes", "1023", "1023", "1023"},
		{12 << 10, "12 KiB", "12.00 KiB", "12288 bytes", "12288", "12288", "12288"},
		{1<<20 - 1, "1.00 MiB", "1.00 MiB", "1048575 bytes", "1048575", "1048575", "1048575"},
		{3<<20 + 1, "3.00 MiB", "3.00 MiB", "3.0 MiB (3145729 bytes)", "3.1MiB", "3145729", "3145729"},
		{20<<20 + 1, "20.00 MiB", "20.00 MiB", "20.0 MiB (20971521 bytes)", "20.1MiB", "20.1MiB", "20.0MiB"},
		{3 << 29, "1.50 GiB", "1.50 GiB", "1.50 GiB (1610612736 bytes)", "1.5GiB", "1536.0MiB", "1536.0MiB"},
		{-2048, "-2 KiB", "-2.00 KiB", "-2048 bytes", "-2048", "-2048", "-2048"},
		{math.MinInt64, "-8192 PiB", "-8192.00 PiB", "-9223372036854775808 bytes", "-9223372036854775808", "-9223372036854775808", "-9223372036854775808"},
	} {
		got := []string{Text(c.n), Column(c.n), Exact(c.n), Above(c.n), Near(c.n), Below(c.n)}
		for i, want := range []string{c.text, c.column, c.exact, c.above, c.near, c.below} {
			if got[i] != want {
				t.Errorf("%d: %q, want %q", c.n, got[i], want)
			}
		}
	}
}
