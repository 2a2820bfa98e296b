package pack

// turn is a stretch of a skyline in the queue: its height and its first section.
type stretch struct {
	height int64
	begin  int32
}

func (a stretch) before(b stretch) bool {
	return a.height < b.height || a.height == b.height && a.begin < b.begin
}

// queue is a heap, with up to four below each, of whose turn is next.
type queue []stretch

func (q *queue) push(t stretch) {
	*q = append(*q, t)
	h, i := *q, len(*q)-1
	for ; i > 0 && t.before(h[(i-1)/4]); i = (i - 1) / 4 {
		h[i] = h[(i-1)/4]
	}
	h[i] = t
}

func (q *queue) pop() {
	last := len(*q) - 1
	t := (*q)[last]
	if *q = (*q)[:last]; last > 0 {
		q.replace(t)
	}
}

// replace puts t in the place of the first.
func (q queue) replace(t stretch) {
	i := 0
	for {
		least := 4*i + 1
		if least >= len(q) {
			break
		}
		for k := least + 1; k < min(4*i+5, len(q)); k++ {
			if q[k].before(q[least]) {
				least = k
			}
		}
		if !q[least].before(t) {
			break
		}
		q[i], i = q[least], least
	}
	q[i] = t
}

// turns is a queue in which what is taken leaves its place to what is pushed next, which mostly comes soon after it.
type turns struct {
	queue
	taken bool // the first of the queue
}

// more is whether anybody has a turn.
func (q *turns) more() bool { return len(q.queue) > 1 || len(q.queue) == 1 && !q.taken }

// first is whose turn is next.
func (q *turns) first() stretch {
	if q.taken {
		q.taken = false
		q.pop()
	}
	return q.queue[0]
}

// take is first, and takes it from q.
func (q *turns) take() stretch {
	t := q.first()
	q.taken = true
	return t
}

func (q *turns) push(t stretch) {
	if q.taken {
		q.taken = false
		q.replace(t)
	} else {
		q.queue.push(t)
	}
}
