package recompute

// heap is a priority queue: pop returns the item that is before all others.
type heap[T ordered[T]] []T

// ordered is an item with an order.
type ordered[T any] interface{ before(T) bool }

func (q *heap[T]) push(x T) {
	all := append(*q, x)
	i := len(all) - 1
	for i > 0 && x.before(all[(i-1)/2]) {
		all[i] = all[(i-1)/2]
		i = (i - 1) / 2
	}
	all[i] = x
	*q = all
}

func (q *heap[T]) pop() T {
	all := *q
	top, x := all[0], all[len(all)-1]
	all = all[:len(all)-1]
	for i := 0; len(all) > 0; {
		child := 2*i + 1
		if child+1 < len(all) && all[child+1].before(all[child]) {
			child++
		}
		if child >= len(all) || !all[child].before(x) {
			all[i] = x
			break
		}
		all[i] = all[child]
		i = child
	}
	*q = all
	return top
}
