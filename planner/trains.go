package planner

import (
	"fmt"
	"slices"
	"strings"
)

// Trains lists what a step trains and what it leaves as it is, by name.
type Trains struct {
	Parameters int      `json:"parameters"`
	Bytes      int64    `json:"bytes"`
	Names      []string `json:"names"`
	Folded     []string `json:"folded"` // those the exporter folded from parameters
	Added      []string `json:"added"`  // those that are no parameters, but named in trainable

	Buffers    []string `json:"buffers"`    // that never change
	Statistics []string `json:"statistics"` // running statistics, which follow the batches
	Frozen     []string `json:"frozen"`     // parameters that are named frozen
	Others     []string `json:"others"`     // parameters that trainable does not name
	Unused     []string `json:"unused"`     // parameters that the loss does not depend on
}

// Equal reports whether two steps train the same.
func (t *Trains) Equal(u *Trains) bool {
	lists := func(t *Trains) [][]string {
		return [][]string{t.Names, t.Folded, t.Added, t.Buffers, t.Statistics, t.Frozen, t.Others, t.Unused}
	}
	return t.Parameters == u.Parameters && t.Bytes == u.Bytes && slices.EqualFunc(lists(t), lists(u), slices.Equal)
}

// String says it in one line.
func (t *Trains) String() string {
	s := fmt.Sprintf("trains %s (%s B)", howMany(t.Parameters, "parameter"), thousands(t.Bytes))
	if n := len(t.Folded); n > 0 {
		s += fmt.Sprintf(", %d of them folded from parameters (%s)", n, Some(t.Folded))
	}
	if n := len(t.Added); n > 0 {
		s += fmt.Sprintf(", %s among them (%s)", howMany(n, "named buffer"), Some(t.Added))
	}
	var not []string
	if n := len(t.Buffers); n > 0 {
		not = append(not, fmt.Sprintf("%s (%s)", howMany(n, "buffer"), Some(t.Buffers)))
	}
	for _, c := range []struct {
		names []string
		what  string
	}{{t.Frozen, "named frozen"}, {t.Others, "not named trainable"}, {t.Unused, "not reached from the loss"}} {
		if n := len(c.names); n > 0 {
			not = append(not, fmt.Sprintf("%d %s (%s)", n, c.what, Some(c.names)))
		}
	}
	if len(not) > 0 {
		s += "; not trained: " + strings.Join(not, ", ")
	}
	if n := len(t.Statistics); n > 0 {
		follow := "follow"
		if n == 1 {
			follow = "follows"
		}
		s += fmt.Sprintf("; %s %s the batches (%s)", howMany(n, "running statistic"), follow, Some(t.Statistics))
	}
	return s
}

func howMany(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return thousands(int64(n)) + " " + what
}

// Some is the first of a list of names.
func Some(names []string) string {
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// thousands is a number with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
