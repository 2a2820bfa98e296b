package kernels

import (
	"slices"
	"testing"
)

// level is a kind of instructions that loops over rows and products are
// written for; a CPU with the best of them has the others too.
type level struct {
	name string
	use  func()
}

// atEachLevel runs f at each level of this machine below its best, which is
// what all other tests run at.
func atEachLevel(t *testing.T, f func(t *testing.T)) {
	list := lowerLevels()
	if len(list) == 0 {
		t.Log("this machine has but one level")
	}
	for _, l := range list {
		t.Run(l.name, func(t *testing.T) {
			t.Cleanup(holdLevel())
			l.use()
			f(t)
		})
	}
}

// only leaves the micro-kernel of a name as the best.
func only(name string) {
	i := slices.IndexFunc(tiles, func(t tile) bool { return t.name == name })
	tiles = tiles[i:]
}

// TestLevels: what a lesser CPU would compute agrees with Eval as well, over
// the samples of every operator, and the rows with math's functions.
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
		t.Run("rows", TestMathf)
		t.Run("rows by place", TestRowsByPlace)
		t.Run("moments", TestMoments)
	})
}
