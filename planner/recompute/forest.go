package recompute

// forest is which of some things hang together: each points towards the first of them.
type forest []int32

func newForest(n int) forest { return each(n) }

// top is the first of those that i hangs together with.
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

// each is every number standing for itself.
func each(n int) []int32 {
	of := make([]int32, n)
	for v := range of {
		of[v] = int32(v)
	}
	return of
}
