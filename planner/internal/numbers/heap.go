package numbers

// Heap is a priority queue: Pop returns the item that is before all others.
type Heap[T Ordered[T]] []T

// Ordered is an item with an order.
type Ordered[T any] interface{ Before(T) bool }

// Push adds an item.
func (q *Heap[T]) Push(x T) {
	all := append(*q, x)
	i := len(all) - 1
	for i > 0 && x.Before(all[(i-1)/2]) {
		all[i] = all[(i-1)/2]
		i = (i - 1) / 2
	}
	all[i] = x
	*q = all
}

// Pop removes the first item.
func (q *Heap[T]) Pop() T {
	all := *q
	top, x := all[0], all[len(all)-1]
	all = all[:len(all)-1]
	for i := 0; len(all) > 0; {
		child := 2*i + 1
		if child+1 < len(all) && all[child+1].Before(all[child]) {
			child++
		}
		if child >= len(all) || !all[child].Before(x) {
			all[i] = x
			break
		}
		all[i] = all[child]
		i = child
	}
	*q = all
	return top
}
