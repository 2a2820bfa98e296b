package outside

import (
	"fmt"
	"slices"

	"memopt/planner/moving"
	"memopt/planner/profile"
)

// Elsewhere is a place beside the arena to which values may be moved while nothing touches them.
type Elsewhere struct {
	Place string `json:"place"` // profile.Host or profile.Disk
	Bytes int64  `json:"bytes"` // most that may lie there; 0 is no limit
}

// Move takes the bytes of a value elsewhere and back, beside launches of a plan's steps; see moving.Move for when.
type Move struct {
	Value string `json:"value"` // the one that lies there
	Bytes int64  `json:"bytes"`
	Out   int32  `json:"out"`
	Gone  int32  `json:"gone"`
	In    int32  `json:"in"`
	Back  int32  `json:"back"`
	Far   int64  `json:"far"` // its offset elsewhere
}

// Moved sums up what a plan moves.
type Moved struct {
	Place  string `json:"place"`
	Budget int64  `json:"budget"`  // of that place; 0 is no limit
	Values int    `json:"values"`  // moves
	Bytes  int64  `json:"bytes"`   // that leave, and come back
	Peak   int64  `json:"peak"`    // bytes of the place that are needed
	CopyNS int64  `json:"copy_ns"` // what all copies take
	WaitNS int64  `json:"wait_ns"` // what the step waits for them; the rest hides behind launches
	// Alone is what the cheapest plan found costs without a move, as a share of the plain step; −1 if none was found.
	Alone float64 `json:"overhead_alone"`
}

// Unlimited is the bytes of a place without a limit: more than any step moves.
const Unlimited = 1 << 62

// Check says why values cannot be moved there at the prices of a profile.
func (e *Elsewhere) Check(prices *profile.Profile) error {
	switch {
	case e == nil:
		return nil
	case !slices.Contains(profile.Places(), e.Place):
		return fmt.Errorf("values cannot be moved to %q; there are %v", e.Place, profile.Places())
	case e.Bytes < 0:
		return fmt.Errorf("the %s has %d bytes", e.Place, e.Bytes)
	case prices == nil:
		return fmt.Errorf("what copies cost is time, and this plan counts flops and bytes: name a profile")
	}
	return nil
}

// Far is the place as a program of numbers has it.
func (e *Elsewhere) Far(p *profile.Profile) moving.Far {
	c := p.CopiesTo(e.Place)
	f := moving.Far{Bytes: e.Bytes, Out: moving.Engine{Delay: int64(c.Delay), Rate: c.Out}, In: moving.Engine{Delay: int64(c.Delay), Rate: c.In}, One: e.Place == profile.Disk}
	if f.Bytes == 0 {
		f.Bytes = Unlimited
	}
	return f
}

// Launches is moves by the launches of their events.
type Launches struct {
	All                 []Move
	Out, Gone, In, Back map[int32][]int
}

// ByLaunch sorts moves.
func ByLaunch(moves []Move) Launches {
	b := Launches{moves, map[int32][]int{}, map[int32][]int{}, map[int32][]int{}, map[int32][]int{}}
	for k, x := range moves {
		b.Gone[x.Gone] = append(b.Gone[x.Gone], k)
		b.Out[x.Out], b.In[x.In], b.Back[x.Back] = append(b.Out[x.Out], k), append(b.In[x.In], k), append(b.Back[x.Back], k)
	}
	return b
}
