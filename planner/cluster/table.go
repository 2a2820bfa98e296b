package cluster

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Line is a line of the plan table.
type Line struct {
	Key Key
	On  bool
	// Saving is Key.Raw read as a formula, under Compat Key.RawORT; Value what it
	// comes to, as text, and Bytes the same as a number, 0 if sizes are missing.
	Saving Expression
	Value  string
	Bytes  float64
}

// Table lists the keys of an analysis as ONNX Runtime does: what saves most at
// the given sizes comes first, and between equals the lesser text. A line is on
// if a place of it is made again; under Compat, if the requests name all of its
// plans with any count but 0.
func (a *Analysis) Table(requests []Request, sizes map[string]int64) ([]Line, error) {
	chosen := map[Choice]bool{}
	for _, c := range a.Choose(requests).Choices {
		chosen[c] = true
	}
	named := map[Part]bool{}
	for _, r := range requests {
		named[Part{r.ID, r.Type}] = r.Count != 0
	}
	var lines []Line
	for _, k := range a.Keys() {
		raw := k.Raw
		on := slices.ContainsFunc(k.Members, func(m Member) bool { return a.isOn(m, chosen) })
		if a.Rules.Compat != "" {
			raw = k.RawORT
			on = !slices.ContainsFunc(k.Parts, func(p Part) bool { return !named[p] })
		}
		e, err := ParseSaving(raw)
		if err != nil {
			return nil, fmt.Errorf("%w (of %s)", err, &k)
		}
		l := Line{Key: k, On: on, Saving: e, Value: ValueText(e, sizes)}
		l.Bytes, _ = e.At(sizes).Number()
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Key.String(), b.Key.String()))
	})
	return lines, nil
}

func (a *Analysis) isOn(m Member, chosen map[Choice]bool) bool {
	return chosen[Choice{m.Plan, m.Option}] && !slices.ContainsFunc(m.Reusing, func(with Member) bool { return !a.isOn(with, chosen) })
}

// KeysOf lists the keys of a table in its order.
func KeysOf(lines []Line) (keys []Key) {
	for _, l := range lines {
		keys = append(keys, l.Key)
	}
	return keys
}

// ValueText is what the table shows for a saving at the sizes that are known:
// a whole number in groups of thousands, or what is left of the formula.
func ValueText(e Expression, sizes map[string]int64) string {
	at := e.At(sizes)
	x, ok := at.Number()
	if !ok {
		return at.String()
	}
	return thousands(x)
}

func thousands(x float64) string {
	digits := new(big.Float).SetFloat64(x).Text('f', 0)
	sign := ""
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, groups...), ",")
}
