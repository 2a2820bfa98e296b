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
// Of a processor more is measured: what a call takes of the program in each pass (Passes), what operands take beside arithmetic, forward
// and backward (Arithmetic), how slowly other types move (Typed), and what it takes to fetch memory that caches no longer have (Far). Profiles that
// have none of it price without.
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
	// Passes has Host of the forward pass and of backward nodes apart.
	Passes *Passes `json:"passes,omitempty"`
	// Arithmetic and BackwardArithmetic, of backward nodes, take the place of Rates for the classes and types that they have. Typed is
	// Bandwidth by type.
	Arithmetic         map[string]map[string]Arithmetic `json:"arithmetic,omitempty"`
	BackwardArithmetic map[string]map[string]Arithmetic `json:"backward_arithmetic,omitempty"`
	Typed              map[string]map[string]float64    `json:"bytes_per_ns_of,omitempty"`
	// Far is what it takes beside to read or write bytes that caches no longer have, from near to far.
	Far []Far `json:"far,omitempty"`
	// Copies is what copies to other places and back take, where that was measured; CopiesTo knows what is usual.
	Copies map[string]Copies `json:"copies,omitempty"`
}

// Second is host times of what runs again: Again for each call, Dropped for each tensor that a second run makes, which
// was dropped and has to be found again.
type Second struct {
	Again   float64 `json:"again_ns"`
	Dropped float64 `json:"dropped_ns,omitempty"`
}

// Passes are host times of a call in each pass. In the forward pass modules call operators, and views come with them, which are
// no calls; backward nodes are run by autograd.
type Passes struct {
	Forward  float64 `json:"forward_ns"`
	Backward float64 `json:"backward_ns"`
}

// Arithmetic is what operations take, and beside it what operands do: rows are packed, converted, and begin and end, which counts where there is
// little arithmetic for a byte.
type Arithmetic struct {
	Flops float64 `json:"flops_per_ns"`
	Bytes float64 `json:"bytes_per_ns"`
}

// Far is at how many bytes in a nanosecond memory comes, beside the time of an operator, that was last touched so many other bytes ago.
type Far struct {
	Beyond int64   `json:"beyond"`
	Rate   float64 `json:"bytes_per_ns"`
}

// Touch is memory that an operator reads or writes, and how many bytes of other memory were touched since it was last, with its own.
type Touch struct{ Bytes, Since int64 }

// Who may replay a plan.
const (
	Checkpoint = "checkpoint" // no plan: PyTorch's own checkpoints run modules again

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
		by.Host, by.Passes = second.Again, nil // nor does a first run need a program
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
	// Backward says that it is a backward node's, and Touches is the memory that it touches; they count where profiles ask for them.
	Backward bool
	Touches  []Touch
	// Steps are what the parts of an operator take that run one after another; their times add up. Empty: it is one kernel's work.
	Steps []Work
}

// Price is what an operator takes on each clock.
type Price struct{ Device, Host int64 }

// most is above any price; sums of as many as a step has nodes are numbers.
const most = 1 << 50

// Price is what a first run of an operator takes.
func (p *Profile) Price(w Work) Price {
	host := p.Host
	if p.Passes != nil {
		if host = p.Passes.Forward; w.Backward {
			host = p.Passes.Backward
		}
	}
	return p.price(w, host)
}

// OneByOne reports whether nodes that are alike may have several prices: by their pass, or by what was touched before them.
func (p *Profile) OneByOne() bool {
	return p.Passes != nil || p.BackwardArithmetic != nil || p.Far != nil
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
	device := calls*p.Launch + work + p.late(w.Touches)
	host *= calls
	if p.OneClock {
		return Price{whole64(device + host), 0}
	}
	return Price{whole64(device), whole64(host)}
}

// work is the longer of arithmetic and memory traffic.
func (p *Profile) work(w Work) float64 {
	table := p.Bandwidth
	if typed, has := p.Typed[w.Type.String()]; has {
		table = typed
	}
	bandwidth, _ := of(table, known(table, w.Kernel))
	moved := w.Moved / bandwidth
	if w.Flops == 0 {
		return moved
	}
	all := p.Arithmetic
	if w.Backward {
		all = p.BackwardArithmetic
	}
	if a, has := of(all[known(all, w.Kernel)], w.Type.String()); has {
		return float64(w.Flops)/a.Flops + w.Moved/a.Bytes
	}
	return max(moved, float64(w.Flops)/p.rate(w))
}

// late is what it takes to fetch memory that is far.
func (p *Profile) late(touches []Touch) (ns float64) {
	for _, t := range touches {
		for _, f := range slices.Backward(p.Far) {
			if t.Since > f.Beyond {
				ns += float64(t.Bytes) / f.Rate
				break
			}
		}
	}
	return ns
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
	rate, _ := of(p.Rates[known(p.Rates, w.Kernel)], w.Type.String())
	return rate
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
func of[T any](table map[string]T, name string) (entry T, has bool) {
	if entry, has = table[name]; !has {
		entry, has = table[""]
	}
	return entry, has
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
	if p.Passes != nil {
		times["passes.forward_ns"], times["passes.backward_ns"] = p.Passes.Forward, p.Passes.Backward
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
	tables := map[string]map[string]map[string]float64{"flops_per_ns": p.Rates}
	for what, of := range map[string]map[string]map[string]Arithmetic{"arithmetic": p.Arithmetic, "backward_arithmetic": p.BackwardArithmetic} {
		flops, bytes := map[string]map[string]float64{}, map[string]map[string]float64{}
		for class, types := range of {
			flops[class], bytes[class] = map[string]float64{}, map[string]float64{}
			for name, a := range types {
				flops[class][name], bytes[class][name] = a.Flops, a.Bytes
			}
		}
		tables[what+".flops_per_ns"], tables[what+".bytes_per_ns"] = flops, bytes
	}
	for _, what := range slices.Sorted(maps.Keys(tables)) {
		for _, class := range slices.Sorted(maps.Keys(tables[what])) {
			if class != "" && !slices.Contains(classNames(), class) {
				return fmt.Errorf("%s: there is no class of kernels %q; there are %s", what, class, strings.Join(classNames(), ", "))
			}
			if err := complete(fmt.Sprintf("%s.%q", what, class), tables[what][class], nil); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Typed)) {
		if _, typed := graph.ParseDType(name); !typed {
			return fmt.Errorf("bytes_per_ns_of: there is no type %q", name)
		}
		if err := complete(fmt.Sprintf("bytes_per_ns_of.%q", name), p.Typed[name], classNames()); err != nil {
			return err
		}
	}
	for i, f := range p.Far {
		if f.Beyond < 0 || i > 0 && f.Beyond <= p.Far[i-1].Beyond {
			return fmt.Errorf("far[%d].beyond is %d: it is a number of bytes, and each is above the one before it", i, f.Beyond)
		}
		if !(f.Rate > 0 && f.Rate <= fastest) {
			return fmt.Errorf("far[%d].bytes_per_ns is %v, not a rate above 0", i, f.Rate)
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
