package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"memopt/planner/cluster"
)

// TestSaving: how a raw saving is simplified, and what it is for some sizes, as
// ONNX Runtime's tools print both. The expected texts are sympy's own.
func TestSaving(t *testing.T) {
	sizes := map[string]int64{"a": 8, "b": 128, "n": 64, "batch": 1, "seq_len": 1024, "labels_dim0": 4, "labels_dim1": 32, "the batch": 3}
	for _, c := range []struct{ raw, simple, value string }{
		{"(((((n)*(500)) * 4 * 1.000000)))", "2000.0*n", "128,000"},
		{"((((3)) * 8 * 1.000000))", "24.0000000000000", "24"},
		{"((((a)*((b) - 1)*(1024)) * 2 * 0.500000)) + ((((a)*((b) - 1)*(1024)) * 2 * 1.000000))", "3072.0*a*(b - 1)", "3,121,152"},
		{"(((a)*(b)) * 2 * 1.000000) + (((a)*(b)*(b)) * 4 * 1.000000)", "a*b*(4.0*b + 2.0)", "526,336"},
		{"(((floor(a/2))*(3)) * 4 * 1.000000)", "12.0*floor(a/2)", "48"},
		{"(((16*a)*(b)*(64)) * 2 * 1.000000)", "2048.0*a*b", "2,097,152"},
		{"((((a*(b - 1))*(250880)) * 2 * 1.000000))", "501760.0*a*(b - 1)", "509,788,160"},
		{"((unknown * 4 * 1.000000))", "4.0*unknown", "4.0*unknown"},
		{"(((empty_dim_param0)*(1)*(b)*(b)) * 1 * 1.000000)", "1.0*b**2*empty_dim_param0", "16384.0*empty_dim_param0"},
		{"(((batch)*(seq_len)*(seq_len)*(32)) * 4 * 1.000000)", "128.0*batch*seq_len**2", "134,217,728"},
		{"(((batch)*(seq_len)*(seq_len - 1)*(32)) * 4 * 1.000000)", "128.0*batch*seq_len*(seq_len - 1)", "134,086,656"},
		{"(((((labels_dim0*(labels_dim1 - 1))) * 8 * 1.000000))) + (((((empty_dim_param6)*(64)) * 4 * 1.000000)))",
			"256.0*empty_dim_param6 + 8.0*labels_dim0*(labels_dim1 - 1)", "256.0*empty_dim_param6 + 992.0"},
		{"(((1)) * 4 * 1.000000)", "4.00000000000000", "4"},
		{`(((("the batch")*(64)) * 4 * 1.000000))`, `256.0*"the batch"`, "768"},
		{"0", "0", "0"},
		{"0 + (((a)*(b)) * 4 * 1.000000)", "4.0*a*b", "4,096"},
		{"((5)*(7)) * 4 * 0.750000", "105.000000000000", "105"},
		{"((a)*(5)) * 4 * 0.333333", "6.66666*a", "53"},
		{"((589299712)) * 1 * 1.000000", "589299712.000000", "589,299,712"},
		{"((a)*(10000000000000000)) * 1 * 1.000000", "1.0e+16*a", "80,000,000,000,000,000"},
		{"((12345678901234567)) * 1 * 1.000000", "1.23456789012346e+16", "12,345,678,901,234,568"},
		{"((123456789012345)) * 1 * 1.000000", "123456789012345.", "123,456,789,012,345"},
		{"((a)*(b)*4*1.0) + ((c)*(d)*4*1.0) + (a*d*4*1.0)", "4.0*a*b + 4.0*a*d + 4.0*c*d", "4.0*c*d + 32.0*d + 4096.0"},
		{"(a*b*4*1.0)+(a*d*4*1.0)+(a*4*1.0)", "4.0*a*(b + d + 1)", "32.0*d + 4128.0"},
		{"(a*(b-1)*8*1.0)+(a*b*4*1.0)+(c*4*1.0)", "12.0*a*b - 8.0*a + 4.0*c", "4.0*c + 12224.0"},
		{"(a*(b-1)*4.0)+8.0*(b-1)", "4.0*a*(b - 1) + 8.0*b - 8.0", "5,080"},
		{"((b - 1)*8*1.0)", "8.0*b - 8.0", "1,016"},
		{"((2*b-4)*a*8*1.0)", "16.0*a*(b - 2)", "16,128"},
		{"(a*(c-1)*(c-1)*2*1.0)", "2.0*a*(c - 1)**2", "16.0*(c - 1)**2"},
		{"(floor(a/2)+1)*c*8*1.0", "8.0*c*(floor(a/2) + 1)", "40.0*c"},
		{"(a*(b-1)*4.0)+(a*(b-1)*c*8.0)", "a*(b - 1)*(8.0*c + 4.0)", "8128.0*c + 4064.0"},
		{"(b*(28.0*s - 4.0))", "b*(28.0*s - 4.0)", "3584.0*s - 512.0"},
		{"24.0 - 1.0*c*d", "-1.0*c*d + 24.0", "-1.0*c*d + 24.0"},
	} {
		e, err := cluster.ParseSaving(c.raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.String(); got != c.simple {
			t.Errorf("%s is %s, not %s", c.raw, got, c.simple)
		}
		if got := cluster.ValueText(e, sizes); got != c.value {
			t.Errorf("%s comes to %s, not %s", c.raw, got, c.value)
		}
	}
}

// TestBadSaving: what is no saving is an error that says where.
func TestBadSaving(t *testing.T) {
	for _, raw := range []string{"", "(", "a*", "a b", "a**b", "1.2.3", "a**999", "floor(a", `"a`, strings.Repeat("(", 5000), "a)", "$"} {
		if e, err := cluster.ParseSaving(raw); err == nil || !strings.Contains(err.Error(), "at byte ") {
			t.Errorf("%.20q is %v (%v)", raw, e, err)
		}
	}
	// Brackets that would make too many products stay closed.
	var raw strings.Builder
	raw.WriteString("1.0")
	for i := range 20 {
		fmt.Fprintf(&raw, "*(a%d + b%d)", i, i)
	}
	if e, err := cluster.ParseSaving(raw.String()); err != nil || !strings.HasSuffix(e.String(), "*(a8 + b8)*(a9 + b9)") {
		t.Errorf("%v (%v)", e, err)
	}
}
