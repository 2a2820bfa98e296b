// Package fit finds what would fit where a request does not: changes of settings, each tried before it is offered. A
// training step, a forward program and a load each say how a change is tried and what it takes; the order and the words
// of offers are the same for all.
package fit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/bytesize"
	"memopt/planner"
	"memopt/planner/limits"
)

// Takes is what a request takes under changed settings.
type Takes struct {
	Bytes int64
	Of    string  // what Bytes are, as "of arena"; "" for all of the request, exactly
	Extra float64 // cost beyond the plain step's, as a share of it
	Unit  string  // what the cost is: time, or compute
}

// InAll is what Bytes are where they need not be exact.
const InAll = "in all"

// Memory prints the bytes.
func (t Takes) Memory() string {
	switch t.Of {
	case "":
		return fmt.Sprintf("%d bytes", t.Bytes)
	case InAll:
		return bytesize.Text(t.Bytes) + " " + InAll
	}
	return fmt.Sprintf("%d bytes %s", t.Bytes, t.Of)
}

// Cost prints the extra cost.
func (t Takes) Cost() string {
	if t.Extra < 5e-4 {
		return "no extra " + t.Unit
	}
	return fmt.Sprintf("+%.1f %% %s", 100*t.Extra, t.Unit)
}

// What is not looked for, and why.
const (
	Anything = "what would fit"
	Unsaid   = "the device does not say how much memory it has"
)

// Row is a change of settings to try.
type Row struct {
	Set   []planner.Setting
	Costs bool   // the offer says what the change costs, else what it takes
	Note  string // more to say of it
}

// Change is a row of one setting.
func Change(name, value string) Row { return Row{Set: []planner.Setting{{Name: name, Value: value}}} }

// Costing is the row with its cost in the offer.
func (r Row) Costing() Row {
	r.Costs = true
	return r
}

// And is the row with more to say of it.
func (r Row) And(note string) Row {
	r.Note = "; " + note
	return r
}

// MostNodes bounds the nodes that are planned in one search for what would fit: about a second of work.
const MostNodes = 10_000

// ErrLong is the error of a try for which there is no time. Its text says why.
type ErrLong struct{ Why string }

func (e *ErrLong) Error() string { return e.Why }

// ErrShort is the error of a try that does not fit.
var ErrShort = errors.New("it does not fit")

// Search looks for changes with which a request fits.
type Search struct {
	Asked configs.Config // the settings as the user gave them: offers are spelled alike
	// Try tries a change. The error is an *ErrLong where there is no time, any other says that the change does not fit.
	Try   func(set ...planner.Setting) (Takes, error)
	Found []planner.Change
	notes []string
	long  map[string][]string // by why there was no time: settings
	whys  []string            // keys of long in the order in which they came
}

// try is Try, with a note where there was no time.
func (s *Search) try(set []planner.Setting) (Takes, bool) {
	t, err := s.Try(set...)
	s.Late(err, set...)
	return t, err == nil
}

// Late notes the last of some settings if there was no time to try them, and reports whether the error says that.
func (s *Search) Late(err error, set ...planner.Setting) bool {
	var long *ErrLong
	if !errors.As(err, &long) || len(set) == 0 {
		return false
	}
	name := set[len(set)-1].Name
	if s.long == nil {
		s.long = map[string][]string{}
	}
	if s.long[long.Why] == nil {
		s.whys = append(s.whys, long.Why)
	}
	if name = s.Asked.Name(name); !slices.Contains(s.long[long.Why], name) {
		s.long[long.Why] = append(s.long[long.Why], name)
	}
	return true
}

// Skip notes what is not looked for, and why.
func (s *Search) Skip(why, what string) { s.notes = append(s.notes, notComputed(why, what)) }

func notComputed(why, what string) string { return fmt.Sprintf("not computed, as %s: %s", why, what) }

// Note is what was not computed, and why.
func (s *Search) Note() string {
	notes := s.notes
	for _, why := range s.whys {
		notes = append(notes, notComputed(why, strings.Join(s.long[why], ", ")))
	}
	return strings.Join(notes, "; ")
}

// Offer tries a change, and offers it if it fits.
func (s *Search) Offer(r Row) bool {
	t, ok := s.try(r.Set)
	if !ok {
		return false
	}
	note := t.Memory()
	if r.Costs {
		note = t.Cost()
	}
	s.Found = append(s.Found, planner.Change{Set: r.Set, Note: note + r.Note})
	return true
}

// First offers the first of some changes that fits.
func (s *Search) First(rows ...Row) bool { return slices.ContainsFunc(rows, s.Offer) }

// Together offers each of some changes that fits, or all of them together if none does alone.
func (s *Search) Together(rows ...Row) bool {
	found := false
	for _, r := range rows {
		found = s.Offer(r) || found
	}
	return found || len(rows) > 1 && s.Offer(All(rows...))
}

// All is some changes as one.
func All(rows ...Row) (all Row) {
	for _, r := range rows {
		all.Set = append(all.Set, r.Set...)
	}
	return all
}

// Price adds to offers of the settings named what they cost.
func (s *Search) Price(names ...string) {
	for i := range s.Found {
		if c := &s.Found[i]; slices.Contains(names, c.Set[0].Name) {
			if t, ok := s.try(c.Set); ok {
				c.Note = t.Cost()
			}
		}
	}
}

// Size offers the largest size of a dim, below what it is now, that fits. The error says why sizes cannot be tried.
func (s *Search) Size(dim string, now int64, fits func(n int64) error) error {
	if now < 2 {
		return nil
	}
	switch err := fits(1); {
	case errors.Is(err, ErrShort):
		return nil
	case err != nil:
		if !s.Late(err, planner.Setting{Name: "dims"}) {
			s.Skip(err.Error(), s.Asked.Name("dims"))
		}
		return err
	}
	// Where time runs out on the way, a size may be smaller than it has to be.
	n := limits.Halve(1, now, func(n int64) bool { return fits(n) != nil }) - 1
	s.Found = append(s.Found, Smaller(dim, n, now))
	return nil
}

// Smaller is the change of a dim's size to a smaller one.
func Smaller(dim string, n, now int64) planner.Change {
	return planner.Change{Set: Change("dims", fmt.Sprintf("%s=%d", dim, n)).Set, Share: float64(now-n) / float64(now)}
}

// SizeFound is the size of a dim in an offer that has one; 0 if none has.
func (s *Search) SizeFound(dim string) (n int64) {
	for _, c := range s.Found {
		if len(c.Set) > 0 && c.Set[0].Name == "dims" {
			if got, _ := fmt.Sscanf(c.Set[0].Value, dim+"=%d", &n); got == 1 {
				return n
			}
		}
	}
	return 0
}

// Spell gives offers their text, with settings spelled as the user wrote them, and returns all of them as the end of a
// sentence; "" if there are none.
func (s *Search) Spell() string {
	var all []string
	for i := range s.Found {
		c := &s.Found[i]
		if c.Text == "" {
			var parts []string
			for _, x := range c.Set {
				parts = append(parts, s.Asked.Say(x.Name, x.Value))
			}
			if c.Text = s.Asked.Together(parts); c.Note != "" {
				c.Text += " (" + c.Note + ")"
			}
		}
		all = append(all, c.Text)
	}
	if all == nil {
		return ""
	}
	return "; would fit: " + strings.Join(all, ", or ")
}
