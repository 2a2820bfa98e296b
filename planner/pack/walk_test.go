package pack

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A walk is a packing, whatever lives there are and wherever it has to go back: no two share a byte, all have their alignments,
// and it ends at its limit. It is the same each time.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		q, goal := wholeOf(p)
		if len(q.lives) == 0 {
			return
		}
		if rapid.Bool().Draw(t, "backward") {
			q = q.backward()
		}
		seed := rapid.Uint64().Draw(t, "seed")
		looks := rapid.IntRange(200, 2000).Draw(t, "looks") * len(q.lives)
		s := newWalk(q)
		if !s.run(goal, none/4, seed, looks, never) {
			t.Fatal("gave up")
		}
		got := Solution{Offsets: make([]int64, len(p.Buffers))}
		for i, l := range q.lives {
			got.Offsets[l.id] = s.at[i]
		}
		for i, b := range p.Buffers {
			if takesRoom(b) {
				got.Height = max(got.Height, got.Offsets[i]+b.Size)
			}
		}
		if top := topOf(q.lives, s.at); top > s.limit {
			t.Errorf("%d is above the limit of %d", top, s.limit)
		}
		if err := Check(p, got); err != nil {
			t.Error(err)
		}
		again := newWalk(q)
		again.run(goal, none/4, seed+1, looks, never)
		if again.run(goal, none/4, seed, looks, never); !slices.Equal(s.at, again.at) {
			t.Error("the second walk is another one")
		}
		if most := rapid.Int64Range(goal, 2*goal).Draw(t, "most"); again.run(goal, most, seed, looks, never) && again.limit >= most {
			t.Errorf("limit %d, not below %d", again.limit, most)
		}
	})
}

// What was tried and taken back leaves nothing behind, however far it went back.
func TestWalkGoesBack(t *testing.T) {
	p := Problem{}
	for i := range 4000 { // which come to be too many again and again
		at, length := int32(i), int32(20+i*i%200)
		p.Buffers = append(p.Buffers, Buffer{First: at, Last: at + length, Size: int64(1 + i*i*i%1000)})
	}
	q, goal := wholeOf(p)
	s := newWalk(q)
	for seed := range uint64(20) {
		if !s.run(goal, none/4, seed, paces*len(q.lives), never) {
			t.Fatal("gave up")
		}
		apartAt(t, q, s.at, s.limit)
	}
}

// Where room is short at all times a walk is far below the skylines that a climb begins with. Where it is not, it is not taken unless
// one is enough that never had to raise the limit, which costs no time.
func TestWalksWhereShort(t *testing.T) {
	for _, c := range []struct {
		family      string
		lives       int
		short, walk bool
	}{{"second chances", 6000, true, true}, {"pipeline", 20_000, false, true}, {"chains", 6000, false, false}, {"weave", 6000, false, false}} {
		for _, f := range all() {
			if f.name != c.family {
				continue
			}
			q, goal := wholeOf(f.make(c.lives, 4))
			q.unplaced()
			timed([]*part{q}, func(q *part) {
				s, _ := newClimb(q, goal, content).first()
				if is := q.short(goal, s.highest); is != c.short {
					t.Errorf("%s: room is short: %v", c.family, is)
				}
				before := q.clock.alone()
				if did := q.walks(goal, s.highest); did != c.walk || did && q.top-goal > (s.highest-goal)*3/4 {
					t.Errorf("%s: %v, a top of %d for one of %d, above %d", c.family, did, q.top, s.highest, goal)
				}
				if spent := q.clock.alone() < before; spent != c.short || !c.short && c.walk && q.far(goal, fair) {
					t.Errorf("%s: spent %v, and came to %d above %d", c.family, spent, q.top, goal)
				}
			})
			if c.walk {
				apartAt(t, q, q.offsets, q.top)
			}
		}
	}
}
