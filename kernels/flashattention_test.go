package kernels

import (
	"fmt"
	"math"
	"testing"

	"memopt/internal/graph"
)

// TestFlashAttentionIsExact: over more than a tile of queries and of keys, with scores
// far apart, Y and the gradients are as near to float64's as where a row's softmax is
// taken at once.
func TestFlashAttentionIsExact(t *testing.T) {
	const queries, keys, width = 300, 600, 16
	forward, back := *FlashAttention, *Library.Find(own, "FlashAttentionGrad", 0)
	for _, attrs := range []string{"scale=4.0", "scale=4.0 right=0 fill=-1e30", "scale=4.0 left=40 right=300 fill=-1e30"} {
		t.Run(attrs, func(t *testing.T) {
			q, k := fmt.Sprintf("f32[%d,%d]", queries, width), fmt.Sprintf("f32[%d,%d]", keys, width)
			forward.Samples = []string{fmt.Sprintf("%s, %s, %s; %s", q, k, k, attrs)}
			back.Samples = []string{fmt.Sprintf("%s, %s, %s, %s, %s, f32[%d,1]; %s", q, q, k, k, q, queries, attrs)}
			one := func(op *graph.Op) Case {
				cases, err := Cases(op)
				if err != nil {
					t.Fatal(err)
				}
				return cases[0]
			}
			f, b := one(&forward), one(&back)
			copy(f.In, b.In[1:4])
			want := evaluate(t, f, forward.Eval, 1)
			nearGreatest(t, "Y and logarithms", evaluate(t, f, forward.Fast, 1), want)
			copy(b.In[4:], want)
			wants := evaluate(t, b, back.Eval, 1)
			got := evaluate(t, b, back.Fast, 1)
			nearGreatest(t, "gradients", got, wants)
			sameBits(t, "with three workers", evaluate(t, b, back.Fast, 3), got)
		})
	}
}

// nearGreatest compares by what is greatest in each tensor: exponentials of scores that have
// a rounding error of their own.
func nearGreatest(t *testing.T, what string, got, want []*graph.Tensor) {
	t.Helper()
	for i, x := range want {
		worst, most := 0.0, 0.0
		for k := range x.Len() {
			worst = max(worst, math.Abs(got[i].Float(k)-x.Float(k)))
			most = max(most, math.Abs(x.Float(k)))
		}
		if !(worst <= 1e-5*most) {
			t.Errorf("%s: output %d differs by %.2g where the greatest is %.2g", what, i, worst, most)
		}
	}
}
