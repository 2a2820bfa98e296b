package session

import "container/list"

// recent is a cache of the most recently used entries.
type recent[T any] struct {
	most    int
	order   *list.List // front: most recent
	entries map[string]*list.Element
	drop    func(T)
	dropped int64
}

type entry[T any] struct {
	key   string
	value T
}

func newRecent[T any](most int, drop func(T)) *recent[T] {
	return &recent[T]{most: most, order: list.New(), entries: map[string]*list.Element{}, drop: drop}
}

func (r *recent[T]) get(key string) (value T, ok bool) {
	e := r.entries[key]
	if e == nil {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(*entry[T]).value, true
}

func (r *recent[T]) put(key string, value T) {
	for r.order.Len() >= max(r.most, 1) {
		r.dropped++
		r.removeLast()
	}
	r.entries[key] = r.order.PushFront(&entry[T]{key, value})
}

func (r *recent[T]) remove(e *list.Element) {
	x := e.Value.(*entry[T])
	r.order.Remove(e)
	delete(r.entries, x.key)
	if r.drop != nil {
		r.drop(x.value)
	}
}

// last is what was not used for longest; there is one.
func (r *recent[T]) last() T { return r.order.Back().Value.(*entry[T]).value }

// removeLast removes what was not used for longest.
func (r *recent[T]) removeLast() { r.remove(r.order.Back()) }

// removeIf removes the values for which a function says so.
func (r *recent[T]) removeIf(gone func(T) bool) {
	for e := r.order.Front(); e != nil; {
		next := e.Next()
		if gone(e.Value.(*entry[T]).value) {
			r.remove(e)
		}
		e = next
	}
}

func (r *recent[T]) clear() {
	for r.order.Len() > 0 {
		r.removeLast()
	}
}

// all is the values, the last used one first.
func (r *recent[T]) all(yield func(T) bool) {
	for e := r.order.Front(); e != nil && yield(e.Value.(*entry[T]).value); e = e.Next() {
	}
}

func (r *recent[T]) len() int { return r.order.Len() }
