package vulkan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/whole"
)

// Choosing kernels by measuring: the variants of a pick (graph.Pick) have the same bits, so whichever is fastest on
// this device may run. When a schedule is opened with Options.Tune, each class of picks that has not been measured on
// this device and driver is: a launch of it runs alone with every variant, results are compared bit for bit, and the
// fastest is kept in a file.

// Tuning limits: seconds for all that a schedule asks, bytes of a launch's operands, and the time that a variant runs for.
const (
	tuneTime  = 20 * time.Second
	tuneBytes = 256 << 20
	tuneEach  = 30 * time.Millisecond
	tuneRuns  = 5
)

// Tuning is what was measured for a schedule.
type Tuning struct {
	File     string  // where choices are kept
	Measured []Tuned // now
	Known    int     // classes that had been measured before
	// Left are classes that were not measured: the time was up, or no launch of theirs is small enough.
	Left []string
}

// Tuned is a class of picks with the times of its variants.
type Tuned struct {
	Class    string        `json:"class"`
	Variant  string        `json:"variant"` // the fastest
	Took     time.Duration `json:"ns"`
	Expected string        `json:"expected"` // the one that runs without measuring
	Would    time.Duration `json:"expected_ns"`
}

// choices is the file of a device's choices.
type choices struct {
	Format   string            `json:"format"`
	Device   string            `json:"device"`
	Driver   string            `json:"driver"`
	Groups   string            `json:"groups"`
	Variants map[string]string `json:"variants"` // by class
}

const choicesFormat = "memopt.tuned/1"

// Tuned reports what was measured when the device was opened; nil without Options.Tune.
func (d *Device) Tuned() *Tuning { return d.tuned }

// tune decides the picks of the schedule by what was measured, and measures what was not.
func (d *Device) tune() error {
	if d.options.Tune == "" || d.options.proving {
		return nil
	}
	c, path := d.readChoices()
	t := &Tuning{File: path}
	d.tuned = t
	if err := d.measure(c, t); err != nil {
		return fmt.Errorf("measuring kernels: %w", err)
	}
	if len(t.Measured) > 0 {
		if err := c.write(path); err != nil {
			d.unproved = append(d.unproved, fmt.Sprintf("what was measured of kernels cannot be kept: %v", err))
		}
	}
	d.options.Picker = picking(c.Variants)
	return nil
}

// picking decides picks by class.
func picking(variants map[string]string) *graph.Picker {
	return &graph.Picker{Pick: func(p graph.Pick) string { return variants[p.Class] }}
}

// readChoices reads the device's file; one that cannot be read is made again.
func (d *Device) readChoices() (c *choices, path string) {
	p := d.gpu.Physical
	c = &choices{Format: choicesFormat, Device: p.Name, Driver: p.Driver, Groups: GroupsAlone}
	if d.shared {
		c.Groups = GroupsShared
	}
	path = filepath.Join(d.options.Tune, plainName(c.Device, c.Driver, c.Groups)+".json")
	text, err := os.ReadFile(path)
	var old choices
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	switch {
	case err == nil && old.Format == c.Format && old.Device == c.Device && old.Driver == c.Driver && old.Groups == c.Groups:
		c.Variants = old.Variants
	case !errors.Is(err, fs.ErrNotExist):
		d.unproved = append(d.unproved, fmt.Sprintf("%s is not a file of measured kernels of this device; it is made again", path))
	}
	if c.Variants == nil {
		c.Variants = map[string]string{}
	}
	return c, path
}

// plainName is a file's name made of some names.
func plainName(parts ...string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, strings.Join(parts, "-"))
}

func (c *choices) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return err
	}
	return whole.Bytes(path, append(text, '\n'))
}

// measure adds the fastest variants of the schedule's classes to c.
func (d *Device) measure(c *choices, t *Tuning) error {
	var context *Context
	defer func() {
		if context != nil {
			context.Close()
		}
	}()
	began, limits := time.Now(), d.limits()
	known, tried, left := map[string]bool{}, map[string]bool{}, []string{}
	for _, l := range d.schedule.Launches {
		if l.Node == nil || l.Parts != nil || l.Node.Op.Lower == nil {
			continue
		}
		low, err := graph.Lower(l.Node, d.schedule.Binding, limits)
		if err != nil {
			return err
		}
		for _, p := range low.Picks() {
			switch {
			case known[p.Class] || tried[p.Class]:
				continue
			case len(p.Variants) == 1:
				continue
			case slices.Contains(p.Variants, c.Variants[p.Class]):
				known[p.Class] = true
				continue
			case operandBytes(l) > tuneBytes || l.Node.Op.Overwrites != nil || time.Since(began) > tuneTime:
				if !slices.Contains(left, p.Class) {
					left = append(left, p.Class)
				}
				continue
			}
			tried[p.Class] = true
			if context == nil {
				if context, err = newContext(d.gpu.Physical); err != nil {
					return err
				}
				context.gpu.Addressed = d.gpu.Physical.Addresses
			}
			x, err := d.fastest(context, l, p, c.Variants)
			if err != nil {
				return fmt.Errorf("node %q: %w", l.Node.Name, err)
			}
			c.Variants[p.Class] = x.Variant
			t.Measured = append(t.Measured, x)
		}
	}
	t.Known = len(known)
	t.Left = slices.DeleteFunc(left, func(class string) bool { return tried[class] })
	return nil
}

func operandBytes(l schedule.Launch) (bytes int64) {
	for _, r := range slices.Concat(l.In, l.Out) {
		bytes += r.Bytes
	}
	return bytes
}

// fastest runs a launch alone with every variant of a pick.
func (d *Device) fastest(context *Context, l schedule.Launch, p graph.Pick, others map[string]string) (best Tuned, err error) {
	s, in := alone(d.schedule.Binding, l)
	var want [][]byte
	best = Tuned{Class: p.Class, Expected: p.Variants[0]}
	for i, v := range p.Variants {
		took, results, err := d.timedAlone(context, s, in, &graph.Picker{Pick: func(q graph.Pick) string {
			if q.Class == p.Class {
				return v
			}
			return others[q.Class]
		}}, best.Took)
		if err != nil {
			return best, fmt.Errorf("variant %s: %w", v, err)
		}
		if i == 0 {
			want, best.Variant, best.Took, best.Would = results, v, took, took
			continue
		}
		if !slices.EqualFunc(results, want, bytes.Equal) {
			d.unproved = append(d.unproved, fmt.Sprintf("variant %s of %s gives other results than %s on this device; it is not used", v, p.Class, p.Variants[0]))
			continue
		}
		if took < best.Took {
			best.Variant, best.Took = v, took
		}
	}
	return best, nil
}

// timedAlone runs a schedule of one launch, and returns its least time and its results. One that takes far longer than the best
// so far is not run again.
func (d *Device) timedAlone(context *Context, s *schedule.Schedule, in map[string]*graph.Tensor, picker *graph.Picker, best time.Duration) (least time.Duration, results [][]byte, err error) {
	o := d.options
	o.Context, o.Picker, o.proving = context, picker, true
	o.Poison, o.Faults, o.Places, o.Load, o.Staged, o.Loaded, o.Count, o.Arena = false, nil, Places{}, nil, false, nil, nil, 0
	x, err := Open(s, d.gpu.Physical, o)
	if err != nil {
		return 0, nil, err
	}
	defer x.Close()
	began := time.Time{}
	for i := 0; i <= tuneRuns; i++ {
		t, err := x.Run(schedule.Run{Inputs: in, Times: true})
		if err != nil {
			return 0, nil, err
		}
		took := t.Launches[0]
		if i == 0 { // drivers compile late, so this one does not count
			began = time.Now()
			continue
		}
		if least == 0 || took < least {
			least = took
		}
		if best > 0 && least > 4*best || time.Since(began) > tuneEach {
			break
		}
	}
	for _, r := range s.Outputs {
		y, err := x.Output(r.Value.Name)
		if err != nil {
			return 0, nil, err
		}
		results = append(results, y.Bytes)
	}
	return least, results, nil
}
