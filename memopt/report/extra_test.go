package report_test

import (
	"testing"

	"memopt/memopt/report"
)

func TestExtra(t *testing.T) {
	for _, c := range []struct {
		share  float64
		digits int
		want   string
	}{
		{0.489, 1, "+48.9 %"}, {0, 1, "+0.0 %"}, {-0.000048, 2, "+0.00 %"}, {-0.0004, 1, "+0.0 %"}, {-0.004, 0, "+0 %"},
		{-0.0006, 1, "-0.1 %"}, {-0.1, 0, "-10 %"}, {12, 0, "+1200 %"},
	} {
		if got := report.Extra(c.share, c.digits); got != c.want {
			t.Errorf("%v to %d digits: %q, not %q", c.share, c.digits, got, c.want)
		}
	}
}
