package numbers

// Forest is a union-find over numbers: each points towards the smallest of its set.
type Forest []int32

// NewForest is a forest of n sets of one number.
func NewForest(n int) Forest { return Below(n) }

// Top is the smallest number in the set of i.
func (up Forest) Top(i int32) int32 {
	for up[i] != i {
		up[i] = up[up[i]]
		i = up[i]
	}
	return i
}

// Join makes one set of those of i and j.
func (up Forest) Join(i, j int32) {
	if i, j = up.Top(i), up.Top(j); i != j {
		up[max(i, j)] = min(i, j)
	}
}

// Below is the numbers below n.
func Below(n int) []int32 {
	of := make([]int32, n)
	for v := range of {
		of[v] = int32(v)
	}
	return of
}
