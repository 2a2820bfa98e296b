package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Request asks to recompute a cluster, written as ONNX Runtime does: BiasGelu+:1:-1. It may list
// layers instead of a count: BiasGelu+:1:{0-3,7}.
type Request struct {
	Cluster  string  // the cluster's id, BiasGelu+
	Strategy int     // 0 off, 1 recompute, 2 recompute with a compromise
	Count    int     // number of occurrences, the first in execution order; -1: all, or those in Layers
	Layers   []Range // occurrences, from 0, ascending and disjoint; empty: use Count
	Pos      Pos     // where it is written
}

// Range is the numbers from First to Last, both included.
type Range struct{ First, Last int }

// String prints the request in the form that is read.
func (r Request) String() string {
	if len(r.Layers) == 0 {
		return fmt.Sprintf("%s:%d:%d", r.Cluster, r.Strategy, r.Count)
	}
	parts := make([]string, len(r.Layers))
	for i, l := range r.Layers {
		parts[i] = strconv.Itoa(l.First)
		if l.Last != l.First {
			parts[i] += "-" + strconv.Itoa(l.Last)
		}
	}
	return fmt.Sprintf("%s:%d:{%s}", r.Cluster, r.Strategy, strings.Join(parts, ","))
}

// requestForms completes error messages about requests.
const requestForms = "write id:strategy:count as in BiasGelu+:1:-1"

// maxItems bounds lists of any kind. Models have tens of clusters; more entries are a mistake or an
// attack.
const maxItems = 4096

// ParseRequests reads requests separated by commas, ONNX Runtime's form before 1.19. Errors call
// the source where. An empty text is no requests.
func ParseRequests(src, where string) ([]Request, error) {
	if len(src) > maxSize {
		return nil, &Error{Pos{File: where}, fmt.Sprintf("%d bytes, need at most %d", len(src), maxSize)}
	}
	t := &text{name: where, s: unmarked(src)}
	var list requests
	if err := list.add(textValue(t)); err != nil {
		return nil, err
	}
	return list.all, nil
}

// parseRequests reads a string of requests or an array of them.
func parseRequests(v value) ([]Request, error) {
	var list requests
	if !v.json.IsArray() {
		if v.json.IsObject() {
			return nil, v.fail("is an object, need an array of cluster strings: [\"BiasGelu+:1:-1\"]")
		}
		err := list.add(v)
		return list.all, err
	}
	var err error
	i := 0
	v.json.ForEach(func(_, item gjson.Result) bool {
		el := jsonValue(v.from, v.field, item)
		if item.Type != gjson.String {
			err = el.fail("element %d is %s, need a cluster string like \"BiasGelu+:1:-1\"", i, typeName(item))
		} else {
			err = list.add(el)
		}
		i++
		return err == nil
	})
	return list.all, err
}

// requests collects the requests of a setting.
type requests struct {
	all  []Request
	seen map[string][]Request // by cluster, at most one of each strategy
}

// add reads the requests of one string.
func (l *requests) add(v value) error {
	if v.s == "" {
		return nil
	}
	if i := strings.IndexFunc(v.s, notInRequest); i >= 0 {
		c, _ := utf8.DecodeRuneInString(v.s[i:])
		return v.failAt(i, "%q in %s, remove it: %s", c, quote(v.s), requestForms)
	}
	for start := 0; ; {
		end, err := requestEnd(v, start)
		if err != nil {
			return err
		}
		if start == end {
			return v.failAt(max(0, start-1), "comma in %s with no request on one side, remove it", quote(v.s))
		}
		r, err := parseRequest(v, start, end)
		if err != nil {
			return err
		}
		if err := l.enter(v, start, r); err != nil {
			return err
		}
		if end == len(v.s) {
			return nil
		}
		start = end + 1
	}
}

// notInRequest reports characters that a cluster string cannot have.
func notInRequest(r rune) bool {
	return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`"'[]`, r)
}

// requestEnd finds the comma or the end after the request at start, skipping commas in braces.
func requestEnd(v value, start int) (int, error) {
	open := -1
	for i := start; i < len(v.s); i++ {
		switch c := v.s[i]; {
		case c == '{' && open < 0:
			open = i
		case c == '{':
			return 0, v.failAt(i, "a brace within braces in %s, write layers as in {0-3,7}", quote(v.s[start:]))
		case c == '}' && open < 0:
			return 0, v.failAt(i, "a closing brace without an opening one in %s", quote(v.s[start:]))
		case c == '}':
			open = -1
		case c == ',' && open < 0:
			return i, nil
		}
	}
	if open >= 0 {
		return 0, v.failAt(open, "a brace that is never closed in %s", quote(v.s[start:]))
	}
	return len(v.s), nil
}

// parseRequest reads the request at v.s[start:end].
func parseRequest(v value, start, end int) (Request, error) {
	all := v.s[start:end]
	id, rest, ok := strings.Cut(all, ":")
	strategy, count, ok2 := strings.Cut(rest, ":")
	switch {
	case !ok || !ok2:
		return Request{}, v.failAt(start, "%s has %d of 3 parts, %s", quote(all), 1+strings.Count(all, ":"), requestForms)
	case strings.Contains(count, ":"):
		return Request{}, v.failAt(start, "%s has %d parts instead of 3, %s", quote(all), 1+strings.Count(all, ":"), requestForms)
	case id == "":
		return Request{}, v.failAt(start, "%s has no cluster id, %s", quote(all), requestForms)
	case strings.ContainsAny(id, "{}"):
		return Request{}, v.failAt(start, "%s has braces in the cluster id, layers come last as in BiasGelu+:1:{0-3,7}", quote(all))
	}
	r := Request{Cluster: id, Count: -1, Pos: v.pos(start)}
	at := start + len(id) + 1
	n, ok := integer(strategy)
	if !ok || n < 0 || n > 2 {
		return Request{}, v.failAt(at, "%s in %s is not a strategy, use 0 (off), 1 (recompute) or 2 (recompute with compromise)", quote(strategy), quote(all))
	}
	r.Strategy = n
	at += len(strategy) + 1
	if strings.HasPrefix(count, "{") {
		layers, err := parseLayers(v, at, count)
		r.Layers = layers
		return r, err
	}
	n, ok = integer(count)
	if !ok || n < -1 {
		return Request{}, v.failAt(at, "%s in %s is not a count, use -1 (all), 0 (none), a number up to %d, or layers as in {0-3,7}", quote(count), quote(all), math.MaxInt32)
	}
	r.Count = n
	return r, nil
}

// parseLayers reads {0-3,7} at v.s[at:].
func parseLayers(v value, at int, set string) ([]Range, error) {
	inner, ok := strings.CutSuffix(set[1:], "}")
	if !ok {
		return nil, v.failAt(at+strings.IndexByte(set, '}')+1, "%s: something follows the layers", quote(set))
	}
	at++
	var layers []Range
	for part := range strings.SplitSeq(inner, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, ok1 := integer(low)
		last, ok2 := integer(high)
		switch {
		case !ok1 || !ok2 || first < 0 || last < first:
			return nil, v.failAt(at, "%s in %s is not a layer or a range of layers, write them as in {0-3,7}", quote(part), quote(set))
		case len(layers) > 0 && first <= layers[len(layers)-1].Last:
			return nil, v.failAt(at, "%s in %s is not above the layers before it, write them rising as in {0-3,7}", quote(part), quote(set))
		case len(layers) == maxItems:
			return nil, v.failAt(at, "more than %d ranges of layers", maxItems)
		}
		layers = append(layers, Range{first, last})
		at += len(part) + 1
	}
	return layers, nil
}

// integer reads a number in its shortest form.
func integer(s string) (int, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n), err == nil && strconv.FormatInt(n, 10) == s
}

// enter adds a request. A cluster may have one request, or one of each strategy for layers that do
// not overlap: ONNX Runtime would use the last one for all.
func (l *requests) enter(v value, at int, r Request) error {
	for _, first := range l.seen[r.Cluster] {
		switch {
		case first.Strategy == r.Strategy:
			return v.failAt(at, "%s is asked for a second time, first at %s: remove one", quote(fmt.Sprintf("%s:%d", r.Cluster, r.Strategy)), first.Pos)
		case r.contradicts(first):
			return v.failAt(at, "%s contradicts %s at %s: remove one, or give each layers of its own as in %s:1:{0-3} and %s:2:{4,5}",
				quote(r.String()), quote(first.String()), first.Pos, quoteless(r.Cluster), quoteless(r.Cluster))
		}
	}
	if len(l.all) == maxItems {
		return v.failAt(at, "more than %d requests", maxItems)
	}
	if l.seen == nil {
		l.seen = map[string][]Request{}
	}
	l.seen[r.Cluster] = append(l.seen[r.Cluster], r)
	l.all = append(l.all, r)
	return nil
}

// contradicts reports whether two requests of different strategies share occurrences of a cluster.
// One with a count is for all of them.
func (r Request) contradicts(other Request) bool {
	if len(r.Layers) == 0 || len(other.Layers) == 0 {
		return true
	}
	a, b := r.Layers, other.Layers // both rising
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Last < b[0].First:
			a = a[1:]
		case b[0].Last < a[0].First:
			b = b[1:]
		default:
			return true
		}
	}
	return false
}

// printRequests is the inverse of ParseRequests.
func printRequests(rs []Request) string {
	parts := make([]string, len(rs))
	for i, r := range rs {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}
