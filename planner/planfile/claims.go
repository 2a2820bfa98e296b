package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"memopt/planner"
)

// claims holds all that a file tells of its plan against the plan. Costs in times of a device can only be known again
// from a profile of it.
func (f *File) claims(p *planner.Plan) error {
	type claimed struct {
		Model Model `json:"model"`
		Fields
	}
	says, err := plainly(claimed{f.Model, f.Fields})
	if err != nil {
		return err
	}
	fields := fieldsOf(p)
	if f.Form == nil { // as in files of before there was one
		fields.Form = nil
	}
	is, err := plainly(claimed{modelOf(p, f.Model.Path, f.Model.Fingerprint), fields})
	if err != nil {
		return err
	}
	if names, _ := planner.Strategies(); f.Strategy != "" && !slices.Contains(names, p.Strategy) { // steps may be of no strategy
		return fmt.Errorf("the file says that its strategy is %q; there are %s", f.Strategy, strings.Join(names, ", "))
	}
	d := differing{costs: f.Request.Measured == (len(p.Request.Costs) > 0)}
	if where, a, b := d.first("", says, is); where != "" {
		return fmt.Errorf("the file says that %s is %s, but its plan has %s", where, a, b)
	}
	if f.Request.MaxOverhead < 0 {
		return fmt.Errorf("the plan has a limit of %g of extra cost", f.Request.MaxOverhead)
	}
	if gap := f.Result.Overhead - f.Bound.Overhead; math.Abs(gap-f.Bound.Gap) > 1e-9 {
		return fmt.Errorf("the plan claims to be %g above its bound, but its figures are %g apart", f.Bound.Gap, gap)
	}
	return nil
}

// plainly is a value as JSON has it, whole numbers exact.
func plainly(x any) (out any, err error) {
	data, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	return out, nil
}

// differing looks for the first place at which two JSON values differ.
type differing struct {
	costs bool // whether costs are in the same units
}

// costKeys are the figures in units of cost.
var costKeys = []string{"overhead", "cost"}

// first is where two values differ, and how; "" if they do not.
func (d differing) first(at string, a, b any) (where, says, is string) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			both := maps.Clone(x)
			maps.Copy(both, y)
			for _, key := range slices.Sorted(maps.Keys(both)) {
				if !d.costs && slices.Contains(costKeys, key) {
					continue
				}
				if where, says, is := d.first(at+"."+key, x[key], y[key]); where != "" {
					return where, says, is
				}
			}
			return "", "", ""
		}
	case []any:
		if y, ok := b.([]any); ok {
			for i := range min(len(x), len(y)) {
				if where, says, is := d.first(fmt.Sprintf("%s[%d]", at, i), x[i], y[i]); where != "" {
					return where, says, is
				}
			}
			if len(x) != len(y) {
				return at[1:], fmt.Sprintf("%d entries long", len(x)), fmt.Sprint(len(y))
			}
			return "", "", ""
		}
	case json.Number:
		if y, ok := b.(json.Number); ok && near(x, y) {
			return "", "", ""
		}
	}
	if reflect.DeepEqual(a, b) {
		return "", "", ""
	}
	return at[1:], brief(a), brief(b)
}

// near is whether two numbers are the same, however they are spelled (0 and -0), but for the last digits of what was
// summed in another order.
func near(a, b json.Number) bool {
	n, notWhole := a.Int64()
	m, either := b.Int64()
	if notWhole == nil && either == nil {
		return n == m
	}
	x, _ := a.Float64()
	y, _ := b.Float64()
	return a == b || math.Abs(x-y) <= 1e-9*max(1, math.Abs(x))
}

// brief is a JSON value for a message.
func brief(x any) string {
	text, err := json.Marshal(x)
	if err != nil || x == nil {
		return "nothing"
	}
	return clip(string(text))
}
