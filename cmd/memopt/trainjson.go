package main

import (
	"encoding/json"
	"math"

	"memopt/internal/compare"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/memopt/devices"
	"memopt/memopt/machine"
	"memopt/memopt/report"
	"memopt/memopt/training"
	"memopt/planner"
	"memopt/planner/chains"
)

// trainFile is the JSON of train.
type trainFile struct {
	Format    string          `json:"format"`
	Device    string          `json:"device"`
	Steps     int             `json:"steps"`
	FirstStep int             `json:"first_step"` // steps before a resumed run
	Trains    *planner.Trains `json:"trains,omitempty"`
	Loss      []number        `json:"loss"`
	StepMS    []float64       `json:"step_ms"`
	Promised  *float64        `json:"promised_step_ms,omitempty"` // by the plan's profile
	Overhead  *float64        `json:"overhead,omitempty"`         // promised share of time for what runs again, and for waits
	Extra     *float64        `json:"measured_overhead,omitempty"`
	Skipped   []int           `json:"skipped,omitempty"` // steps whose update was skipped
	LossScale float64         `json:"loss_scale,omitempty"`
	Memory    trainMemory     `json:"memory"`
	Submits   *devices.Counts `json:"submits,omitempty"` // by a step, to a driver
	Load      *loader.Report  `json:"load,omitempty"`    // of the weights
	Chains    *chainsFile     `json:"chains,omitempty"`
	Check     *checkFile      `json:"check,omitempty"`
	Against   *partingsFile   `json:"against,omitempty"`
	Lossy     *lossyFile      `json:"lossy,omitempty"`
	Stopped   string          `json:"stopped,omitempty"`
	phasesFile
	Warnings []string `json:"warnings"`
}

// trainMemory is the total and its parts, by memory space of the device and by owner.
type trainMemory struct {
	Promised int64 `json:"promised"`
	Measured int64 `json:"measured"`
	// Workspace is the device's work space, not included above.
	Workspace int64              `json:"workspace"`
	BySpace   map[string]besides `json:"by_space"`
	ByOwner   map[string]int64   `json:"by_owner"`
	// Anonymous is the process's memory without a file behind it; nil if the system does not report
	// it.
	Anonymous *anonymousFile `json:"anonymous,omitempty"`
	// Device is the driver's memory.
	Device *devices.Memory `json:"device,omitempty"`
}

// anonymousFile has a promise of 0 if the driver's own memory is part of it.
type anonymousFile struct {
	Promised int64 `json:"promised"`
	Measured int64 `json:"measured"`
	Data     int64 `json:"data"` // part of it: data that could not be mapped
}

func anonymousJSON(a *machine.Anonymous) *anonymousFile {
	if a == nil {
		return nil
	}
	return &anonymousFile{a.Promised, a.Measured, a.Data}
}

type besides struct {
	Promised int64 `json:"promised"`
	Measured int64 `json:"measured"`
}

// lossyFile is the error of a step with rounded values, relative to the exact step.
type lossyFile struct {
	Type       string    `json:"type"`
	Values     int       `json:"values"` // number of rounded values
	LossRelErr number    `json:"loss_rel_err"`
	Worst      paramFile `json:"worst"` // gradient
}

func lossyJSON(l *compare.Rounding) *lossyFile {
	if l == nil {
		return nil
	}
	return &lossyFile{l.Type, l.Values, number(l.LossRelErr), paramJSON(l.Worst)}
}

// chainsFile is the number of elementwise launches before and after fusing, and the memory traffic
// that this saves in a step.
type chainsFile struct {
	Launches int   `json:"launches"`
	As       int   `json:"as"`
	Saved    int64 `json:"saved_bytes"`
}

func chainsJSON(c *chains.Chains) *chainsFile {
	if c == nil {
		return nil
	}
	before, after := c.Launches()
	return &chainsFile{before, after, c.Saved}
}

// partingsFile is the values that differ between two devices.
type partingsFile struct {
	Device    string        `json:"device"`
	Tolerance number        `json:"tolerance"`
	Values    []partingFile `json:"values"`
}

type partingFile struct {
	Value  string `json:"value"`
	Node   string `json:"node"`
	Op     string `json:"op"`
	Shape  []int  `json:"shape"`
	RelErr number `json:"rel_err"`
	Off    int    `json:"elements_off"`
}

type checkFile struct {
	LossRelErr number      `json:"loss_rel_err"`
	Worst      paramFile   `json:"worst"`
	Params     int         `json:"params"`
	All        []paramFile `json:"all"`
	After      []paramFile `json:"after"` // running statistics after the step
	Missing    []string    `json:"missing"`
	Unchecked  []string    `json:"unchecked"`
	Tolerance  number      `json:"tolerance"`
	OK         bool        `json:"ok"`
}

type paramFile struct {
	Param  string `json:"param"`
	RelErr number `json:"rel_err"`
}

// number is null in JSON if it is infinite or NaN.
type number float64

func (x number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

const trainFormat = "memopt.train/1"

func trainJSON(r *training.Result, lines []report.Line) trainFile {
	f := trainFile{Format: trainFormat, Device: r.Device, Steps: len(r.Losses), FirstStep: r.FirstStep, Trains: r.Plan.Trains, Lossy: lossyJSON(r.Lossy), Chains: chainsJSON(r.Chains), Skipped: r.Skipped, LossScale: r.LossScale, Submits: r.Counts, Loss: []number{}, StepMS: []float64{},
		Memory: memoryJSON(r.Plan, lines, r.Trace, r.Memory, r.Anonymous), Warnings: append(append([]string{}, r.Plan.Warnings...), r.Warnings...)}
	for _, x := range r.Losses {
		f.Loss = append(f.Loss, number(x))
	}
	for _, t := range r.StepTimes {
		f.StepMS = append(f.StepMS, float64(t.Microseconds())/1000)
	}
	if r.Plan.Request.Profile != nil {
		promised, _ := r.Plan.Cost()
		promised /= 1e6
		f.Promised, f.Overhead, f.Extra = &promised, &r.Plan.Result.Overhead, r.Extra()
	}
	f.phasesFile, f.Load = phasesJSON(r.Phases), r.Load
	if r.Stopped != nil {
		f.Stopped = r.Stopped.Error()
	}
	return f
}

func checkJSON(c *training.Check, lines []report.Line) trainFile {
	return trainFile{Format: trainFormat, Device: c.Device, Steps: 1, Trains: c.Plan.Trains, Lossy: lossyJSON(c.Lossy), Loss: []number{number(c.Loss)},
		StepMS: []float64{float64(c.Trace.Took.Microseconds()) / 1000}, Memory: memoryJSON(c.Plan, lines, c.Trace, c.Memory, c.Anonymous()),
		Warnings: append([]string{}, c.Plan.Warnings...)}
}

func memoryJSON(p *planner.Plan, lines []report.Line, t schedule.Trace, device *devices.Memory, a *machine.Anonymous) trainMemory {
	m := trainMemory{Workspace: t.Workspace, Device: device, Anonymous: anonymousJSON(a), BySpace: map[string]besides{}, ByOwner: map[string]int64{}}
	for _, l := range lines {
		if l.Space == "" {
			m.Promised, m.Measured = l.Promised, l.Measured
		} else {
			m.BySpace[l.Space] = besides{l.Promised, l.Measured}
		}
	}
	for _, o := range report.Owners(p) {
		if o.Key != "total" {
			m.ByOwner[o.Key] = o.Bytes
		}
	}
	return m
}

// comparison is the part about a reference.
func comparison(c *training.Check, limit float64, ok bool) *checkFile {
	f := &checkFile{LossRelErr: number(c.LossRelErr), Worst: paramJSON(c.Worst), Params: len(c.Params), All: []paramFile{}, After: []paramFile{},
		Missing: append([]string{}, c.Missing...), Unchecked: append([]string{}, c.Unchecked...), Tolerance: number(limit), OK: ok}
	for _, p := range c.After {
		f.After = append(f.After, paramJSON(p))
	}
	for _, p := range c.Params {
		f.All = append(f.All, paramJSON(p))
	}
	return f
}

func partingsJSON(device string, limit float64, all []compare.Parting) *partingsFile {
	f := &partingsFile{Device: device, Tolerance: number(limit), Values: []partingFile{}}
	for _, p := range all {
		f.Values = append(f.Values, partingFile{p.Value, p.Node, p.Op, append([]int{}, p.Shape...), number(p.RelErr), p.Off})
	}
	return f
}

func paramJSON(p compare.Of) paramFile { return paramFile{p.Name, number(p.RelErr)} }
