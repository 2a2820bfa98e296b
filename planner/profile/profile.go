// Package profile says what operators cost on a device, in nanoseconds.
//
// An operator takes the time of its launches and of its work, whichever of arithmetic and memory traffic takes longer:
//
//	calls × launch + max(flops ÷ rate(class, type), bytes ÷ bandwidth(class))
//
// The program that launches takes host time for each call. On a graphics processor that is a second clock, which runs
// beside the device's: a step takes as long as the slower one; Clock chooses it for a whole step, and operators are priced
// by it. Where the program runs on the device itself, a processor, the two add up.
//
// A second run takes other host time than a first one: a trainer's own operators pass its modules and its autograd, while
// what runs again is called by whoever replays the plan, in C++ or in Python.
//
// A profile is data: measured once on a device (memopt profile), or shipped, made from the data sheet of a well-known
// device. The same profile gives the same prices on any machine, in whole nanoseconds.
package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/whole"
)

// Format is the format and version of profiles.
const Format = "memopt.device/1"

// Profile is what a device can do. Times are nanoseconds, rates are per nanosecond.
type Profile struct {
	Format string `json:"format"`
	Name   string `json:"name"`             // h100, or what the device calls itself
	Driver string `json:"driver,omitempty"` // its driver or library, with the version
	Source string `json:"source"`           // "data sheet", or "measured" with the date
	// OneClock says that the launching program runs on the device itself, so that their times add up.
	OneClock bool `json:"one_clock,omitempty"`
	// Launch is what one launch takes on the device, however small. Host is what the launching program takes for a first
	// run, and Second for another one.
	Launch float64 `json:"launch_ns"`
	Host   float64 `json:"host_ns"`
	Second
	// Replays has the host times of second runs by who replays the plan, where that is several; see By.
	Replays map[string]Second `json:"replays,omitempty"`
	Replay  string            `json:"replay,omitempty"` // whose times Second has
	// Bandwidth is bytes moved, by class of kernel; Rates are operations, by class and type. "" stands for all that are
	// not named.
	Bandwidth map[string]float64            `json:"bytes_per_ns"`
	Rates     map[string]map[string]float64 `json:"flops_per_ns"`
	// Copies is what copies to other places and back take, where that was measured; CopiesTo knows what is usual.
	Copies map[string]Copies `json:"copies,omitempty"`
}

// Second is host times of what runs again: Again for each call, Dropped for each tensor that a second run makes, which
// was dropped and has to be found again.
type Second struct {
	Again   float64 `json:"again_ns"`
	Dropped float64 `json:"dropped_ns,omitempty"`
}

// Who may replay a plan.
const (
	Native   = "native"   // in C++, operator by operator
	Python   = "python"   // in Python, operator by operator
	Compiled = "compiled" // as part of compiled graphs
	Captured = "graph"    // as part of a captured graph, without a program
)

// By is the profile for a plan that is replayed so, where the profile tells several apart.
func (p *Profile) By(replay string) *Profile {
	second, known := p.Replays[replay]
	if !known {
		return p
	}
	by := *p
	by.Second, by.Replay, by.Replays = second, replay, nil
	if replay == Captured || replay == Compiled {
		by.Host = second.Again // nor does a first run need a program
	}
	return &by
}

// Work is what one run of an operator does.
type Work struct {
	Kernel graph.KernelClass
	Type   graph.DType
	Calls  int64
	Flops  int64
	Moved  float64 // bytes
	Makes  int64   // tensors
	// Steps are what the parts of an operator take that run one after another; their times add up. Empty: it is one kernel's work.
	Steps []Work
}

// Price is what an operator takes on each clock.
type Price struct{ Device, Host int64 }

// most is above any price; sums of as many as a step has nodes are numbers.
const most = 1 << 50

// Price is what a first run of an operator takes.
func (p *Profile) Price(w Work) Price {
	return p.price(w, p.Host)
}

// PriceAgain is what a second run of an operator takes.
func (p *Profile) PriceAgain(w Work) Price {
	return p.price(w, p.Again+float64(w.Makes)*p.Dropped/float64(max(w.Calls, 1)))
}

// price is what an operator takes whose calls take so much of the program each.
func (p *Profile) price(w Work, host float64) Price {
	calls := float64(max(w.Calls, 1))
	work := p.work(w)
	if len(w.Steps) > 0 {
		work = 0
		for _, s := range w.Steps {
			work += p.work(s)
		}
	}
	device := calls*p.Launch + work
	host *= calls
	if p.OneClock {
		return Price{whole64(device + host), 0}
	}
	return Price{whole64(device), whole64(host)}
}

// work is the longer of arithmetic and memory traffic.
func (p *Profile) work(w Work) float64 {
	moved := w.Moved / of(p.Bandwidth, known(p.Bandwidth, w.Kernel))
	if w.Flops == 0 {
		return moved
	}
	return max(moved, float64(w.Flops)/p.rate(w))
}

// Clock tells which clock a step takes its time by, from the sums of the prices of its operators.
func (s Price) Clock() func(Price) int64 {
	if s.Host > s.Device {
		return func(p Price) int64 { return p.Host }
	}
	return func(p Price) int64 { return p.Device }
}

// Plus is the sum of prices.
func (s Price) Plus(p Price) Price { return Price{s.Device + p.Device, s.Host + p.Host} }

func whole64(ns float64) int64 { return int64(min(max(math.Round(ns), 1), most)) }

// rate is the operations per nanosecond of an operator's class and type.
func (p *Profile) rate(w Work) float64 {
	return of(p.Rates[known(p.Rates, w.Kernel)], w.Type.String())
}

// known is the name under which a table has a class, or one like it; "" if it has neither.
func known[T any](table map[string]T, k graph.KernelClass) string {
	for _, k := range []graph.KernelClass{k, k.Like()} {
		if _, has := table[k.String()]; has {
			return k.String()
		}
	}
	return ""
}

// of is a table's entry of a name, or that of all others.
func of(table map[string]float64, name string) float64 {
	if n, known := table[name]; known {
		return n
	}
	return table[""]
}

// mostFile bounds the file of a profile.
const mostFile = 1 << 20

// Read reads a profile from a file.
func Read(path string) (*Profile, error) {
	data, err := whole.Read(path, "a profile", mostFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Parse reads a profile from JSON, and refuses one that does not give every operator a price.
func Parse(data []byte) (*Profile, error) {
	p := &Profile{}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("not a profile of a device: %w", err)
	}
	return p, p.Check()
}

// fastest is more than any device does in a nanosecond, of bytes or operations.
const fastest = 1e9

// Check says what is wrong with a profile.
func (p *Profile) Check() error {
	if p.Format != Format {
		return fmt.Errorf("the profile has format %q; this version reads %q", p.Format, Format)
	}
	if p.Name == "" || p.Source == "" {
		return fmt.Errorf("the profile has no name or no source")
	}
	times := map[string]float64{"launch_ns": p.Launch, "host_ns": p.Host, "again_ns": p.Again, "dropped_ns": p.Dropped}
	for replay, second := range p.Replays {
		times["again_ns of "+replay], times["dropped_ns of "+replay] = second.Again, second.Dropped
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		if ns := times[name]; !(ns >= 0 && ns <= fastest) {
			return fmt.Errorf("%s is %v, not a number of nanoseconds from 0 to a second", name, ns)
		}
	}
	if err := complete("bytes_per_ns", p.Bandwidth, classNames()); err != nil {
		return err
	}
	if _, all := p.Rates[""]; !all {
		return fmt.Errorf(`flops_per_ns has no entry "", for classes that it does not name`)
	}
	for _, class := range slices.Sorted(maps.Keys(p.Rates)) {
		if class != "" && !slices.Contains(classNames(), class) {
			return fmt.Errorf("flops_per_ns: there is no class of kernels %q; there are %s", class, strings.Join(classNames(), ", "))
		}
		if err := complete(fmt.Sprintf("flops_per_ns.%q", class), p.Rates[class], nil); err != nil {
			return err
		}
	}
	return p.checkCopies()
}

// complete checks a table of rates: each a positive number, and one for all that are not named.
func complete(what string, table map[string]float64, names []string) error {
	if _, all := table[""]; !all {
		return fmt.Errorf(`%s has no entry "", for all that it does not name`, what)
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if rate := table[name]; !(rate > 0 && rate <= fastest) {
			return fmt.Errorf("%s: %q is %v, not a rate above 0", what, name, rate)
		}
		if names != nil && name != "" && !slices.Contains(names, name) {
			return fmt.Errorf("%s: there is no class of kernels %q; there are %s", what, name, strings.Join(names, ", "))
		}
		if _, typed := graph.ParseDType(name); names == nil && name != "" && !typed {
			return fmt.Errorf("%s: there is no type %q", what, name)
		}
	}
	return nil
}

func classNames() (names []string) {
	for _, k := range graph.KernelClasses() {
		names = append(names, k.String())
	}
	return names
}

// String names a profile as reports do.
func (p *Profile) String() string {
	text := p.Name
	if p.Replay != "" {
		text += ", " + p.Replay + " replay"
	}
	if p.Driver != "" {
		text += ", " + p.Driver
	}
	return text + " (" + p.Source + ")"
}

// JSON is the profile as its file has it.
func (p *Profile) JSON() []byte {
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		panic(err) // numbers and strings
	}
	return append(data, '\n')
}
