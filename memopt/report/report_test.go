package report

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var b strings.Builder
	Table(&b, "lrl", [][]string{{"what", "bytes", ""}, {"größe", "1,024", "equal"}, {"x", "", ""}})
	want := "" +
		"what   bytes\n" +
		"größe  1,024  equal\n" +
		"x\n"
	if b.String() != want {
		t.Errorf("table is\n%s\nwant\n%s", b.String(), want)
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", -73728: "-72.00 KiB",
		1<<20 - 1: "1.00 MiB", 1 << 30: "1.00 GiB", 1<<63 - 1: "8192.00 PiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %q, want %q", n, got, want)
		}
	}
}
