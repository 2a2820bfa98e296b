package kernels

import (
	"testing"

	"memopt/kernels/internal/f32"
)

// atEachLevel runs f at each level of this machine below its best, which is
// what all other tests run at.
func atEachLevel(t *testing.T, f func(t *testing.T)) {
	list := f32.Levels()[1:]
	if len(list) == 0 {
		t.Log("this machine has but one level")
	}
	for _, name := range list {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(f32.UseLevel(name))
			f(t)
		})
	}
}

// TestLevels: what a lesser CPU would compute agrees with Eval as well, over
// the samples of every operator.
func TestLevels(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, op := range Library.All() {
			if op.Rewrite != nil || op.Fast == nil {
				continue
			}
			cases, err := Cases(op)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cases {
				t.Run(op.FullName()+" "+c.Text, func(t *testing.T) {
					got := evaluate(t, c, op.Fast, 1)
					near(t, "Fast against Eval", got, evaluate(t, c, op.Eval, 1))
					sameBits(t, "Fast with three workers", evaluate(t, c, op.Fast, 3), got)
				})
			}
		}
	})
}
