package recompute

// forest is a union-find over numbers: each points towards the smallest of its set.
type forest []int32

func newForest(n int) forest { return each(n) }

// top is the smallest number in the set of i.
func (up forest) top(i int32) int32 {
	for up[i] != i {
		up[i] = up[up[i]]
		i = up[i]
	}
	return i
}

func (up forest) join(i, j int32) {
	if i, j = up.top(i), up.top(j); i != j {
		up[max(i, j)] = min(i, j)
	}
}

// each is the numbers below n.
func each(n int) []int32 {
	of := make([]int32, n)
	for v := range of {
		of[v] = int32(v)
	}
	return of
}
