package verify

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/visible"
)

// Outcome is the outcome of a case.
type Outcome uint8

// The outcomes of a case.
const (
	Passed Outcome = iota
	Failed
	NotApplicable
)

// String is the outcome as the report spells it.
func (o Outcome) String() string { return [...]string{"passed", "failed", "not applicable"}[o] }

// MarshalText is String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Result is the result of a case.
type Result struct {
	Case    string        `json:"case"`
	Op      string        `json:"op"` // row of the table
	Ops     []string      `json:"-"`  // operators of all nodes
	Types   []graph.DType `json:"-"`  // types of inputs and outputs, sorted
	Outcome Outcome       `json:"outcome"`
	Reason  string        `json:"reason,omitempty"` // unless it passed
	Known   []string      `json:"known,omitempty"`  // inputs that became constants of the graph
	Loose   bool          `json:"loose,omitempty"`  // passed only by the tolerance of units
}

// Report has the results in the order of the cases.
type Report struct{ Results []Result }

// Count is the number of cases with an outcome.
func (r *Report) Count(o Outcome) (n int) {
	for _, x := range r.Results {
		if x.Outcome == o {
			n++
		}
	}
	return n
}

// Row has the counts of one operator.
type Row struct {
	Op            string `json:"op"`
	Passed        int    `json:"passed"`
	Failed        int    `json:"failed"`
	NotApplicable int    `json:"not_applicable"`
}

// Rows are the counts by operator, sorted.
func (r *Report) Rows() []Row {
	rows := map[string]*Row{}
	for _, x := range r.Results {
		row := rows[x.Op]
		if row == nil {
			row = &Row{Op: x.Op}
			rows[x.Op] = row
		}
		switch x.Outcome {
		case Passed:
			row.Passed++
		case Failed:
			row.Failed++
		case NotApplicable:
			row.NotApplicable++
		}
	}
	out := make([]Row, 0, len(rows))
	for _, op := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, *rows[op])
	}
	return out
}

// Table formats the counts, then every case that did not pass with its reason, grouped by reason if not applicable,
// and then the cases that passed only by the tolerance of units.
func (r *Report) Table() string {
	var sb strings.Builder
	t := tabwriter.NewWriter(&sb, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "operator\tpassed\tfailed\tnot applicable")
	for _, row := range r.Rows() {
		visible.Fprintf(t, "%s\t%d\t%d\t%d\n", row.Op, row.Passed, row.Failed, row.NotApplicable)
	}
	t.Flush()
	reasons := map[string][]string{}
	var loose []string
	for _, x := range r.Results {
		if x.Loose {
			loose = append(loose, x.Case)
		}
		switch x.Outcome {
		case Failed:
			visible.Fprintf(&sb, "failed: %s: %s\n", x.Case, x.Reason)
		case NotApplicable:
			reasons[x.Reason] = append(reasons[x.Reason], x.Case)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		visible.Fprintf(&sb, "not applicable: %s: %s\n", reason, strings.Join(reasons[reason], ", "))
	}
	if len(loose) > 0 {
		visible.Fprintf(&sb, "passed within %d units of the last place (float32: of the output's greatest number), but not within a thousandth: %s\n", units, strings.Join(loose, ", "))
	}
	for _, p := range parts {
		if passed, _, total := p.count(r); total > 0 {
			fmt.Fprintf(&sb, "%s: %d of %d passed\n", p.name, passed, total)
		}
	}
	fmt.Fprintf(&sb, "%d of %d passed, %d failed, %d not applicable\n", r.Count(Passed), len(r.Results), r.Count(Failed), r.Count(NotApplicable))
	return sb.String()
}

// classify converts an error to outcome and reason. The reason omits the file's name, since the case is named next
// to it.
func classify(err error) (Outcome, string) {
	if reason := foreign(err); reason != "" {
		return NotApplicable, reason
	}
	var u *onnx.UnsupportedError
	if errors.As(err, &u) {
		return Failed, u.Items[0].String()
	}
	return Failed, err.Error()
}
