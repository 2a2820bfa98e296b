package zoo

import (
	"fmt"
	"slices"
	"strings"
)

// Spec has the numbers of a model. A zero means the family's default; numbers that the family does not read must be
// zero.
type Spec struct {
	Family string

	Layers    int // blocks; resnet: blocks in each of the four stages; mlp: hidden layers
	Width     int // size of a token's or hidden vector; resnet: channels of the first stage
	Heads     int // attention heads; they divide the width
	KVHeads   int // heads of keys and values; they divide the heads
	Hidden    int // size inside the feed-forward part
	Vocab     int // tokens
	Positions int // maximum length of a sequence
	Inputs    int // length of an input row
	Channels  int // of an image
	Image     int // height and width of an image
	Classes   int

	Dropout float64 // probability; 0 adds no nodes
	Untied  bool    // the head has its own matrix instead of the embedding's
	Gelu    string  // "none" (exact) or "tanh"
	Seed    uint64  // of the initial values
}

// Number is one of a Spec's integers.
type Number struct {
	Name string // as a flag
	Doc  string
	Of   func(*Spec) *int
	// with is the number that the default scales with, if any.
	with func(*Spec) *int
	// divides says that the default must divide that number.
	divides bool
	max     int
}

// Numbers lists the integers of a Spec.
func Numbers() []Number { return slices.Clone(numbers) }

var numbers = []Number{
	{Name: "layers", Doc: "blocks; resnet: in each of the four stages; mlp: hidden layers", Of: func(s *Spec) *int { return &s.Layers }, max: 1e5},
	{Name: "width", Doc: "size of a token's or hidden vector; resnet: channels of the first stage", Of: width, max: 1e6},
	{Name: "heads", Doc: "attention heads", Of: heads, max: 1e6},
	{Name: "kv-heads", Doc: "heads of keys and values", Of: func(s *Spec) *int { return &s.KVHeads }, with: heads, divides: true, max: 1e6},
	{Name: "hidden", Doc: "size inside the feed-forward part", Of: func(s *Spec) *int { return &s.Hidden }, with: width, max: 1e7},
	{Name: "vocab", Doc: "tokens", Of: func(s *Spec) *int { return &s.Vocab }, max: 1e7},
	{Name: "positions", Doc: "the longest sequence", Of: func(s *Spec) *int { return &s.Positions }, max: 1e7},
	{Name: "inputs", Doc: "numbers in a row of input", Of: func(s *Spec) *int { return &s.Inputs }, max: 1e7},
	{Name: "channels", Doc: "of an image", Of: func(s *Spec) *int { return &s.Channels }, max: 1e5},
	{Name: "image", Doc: "height and width of an image", Of: func(s *Spec) *int { return &s.Image }, max: 1e5},
	{Name: "classes", Doc: "to tell apart", Of: func(s *Spec) *int { return &s.Classes }, max: 1e6},
}

func width(s *Spec) *int { return &s.Width }
func heads(s *Spec) *int { return &s.Heads }

// Complete fills in the family's defaults and checks the numbers.
func (s Spec) Complete() (Spec, error) {
	s, err := s.complete()
	if err != nil {
		return Spec{}, err
	}
	return s, nil
}

func (s Spec) complete() (Spec, error) {
	f, err := find(s.Family)
	if err != nil {
		return s, err
	}
	for _, n := range numbers {
		v, d := n.Of(&s), *n.Of(&f.Defaults)
		switch {
		case *v != 0 && d == 0:
			return s, fmt.Errorf("%s has no %s; it reads %s", f.Name, n.Name, strings.Join(f.Reads(), ", "))
		case d == 0:
		case *v < 0 || *v > n.max:
			return s, fmt.Errorf("%s: %d %s; it should be from 1 to %d", f.Name, *v, n.Name, n.max)
		case *v == 0 && n.with != nil:
			*v = min(n.max, max(1, *n.with(&s)*d / *n.with(&f.Defaults)))
			for n.divides && *n.with(&s)%*v != 0 {
				*v--
			}
		case *v == 0:
			*v = d
		}
	}
	for _, o := range []struct {
		name string
		set  bool
	}{{"dropout", s.Dropout != 0}, {"gelu", s.Gelu != ""}, {"untied", s.Untied}} {
		if o.set && !slices.Contains(f.Options, o.name) {
			return s, fmt.Errorf("%s has no %s; it reads %s", f.Name, o.name, strings.Join(f.Reads(), ", "))
		}
	}
	if s.Gelu == "" {
		s.Gelu = f.Defaults.Gelu
	}
	switch {
	case s.Heads > 0 && s.Width%s.Heads != 0:
		return s, fmt.Errorf("%s: %d heads do not divide a width of %d; %s would", f.Name, s.Heads, s.Width, divisors(s.Width))
	case s.KVHeads > 0 && s.Heads%s.KVHeads != 0:
		return s, fmt.Errorf("%s: %d kv-heads do not divide %d heads; %s would", f.Name, s.KVHeads, s.Heads, divisors(s.Heads))
	case !(s.Dropout >= 0 && s.Dropout < 1):
		return s, fmt.Errorf("%s: dropout %v; it should be from 0 to below 1", f.Name, s.Dropout)
	case s.Gelu != "" && s.Gelu != "none" && s.Gelu != "tanh":
		return s, fmt.Errorf("%s: gelu %q; there are none and tanh", f.Name, s.Gelu)
	}
	if f.check != nil {
		if err := f.check(s); err != nil {
			return s, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return s, nil
}

// divisors lists divisors of n up to 64, for messages.
func divisors(n int) string {
	var list []string
	for i := 1; i <= n && i <= 64; i++ {
		if n%i == 0 {
			list = append(list, fmt.Sprint(i))
		}
	}
	return strings.Join(list, ", ")
}
