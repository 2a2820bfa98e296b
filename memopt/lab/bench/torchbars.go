package bench

import (
	"fmt"
	"math"

	"memopt/memopt/report"
)

// The bars of PyTorch's bench.
const (
	promiseShare = 1e-3     // difference of promised and measured bytes, in eager mode
	promiseBytes = 64 << 10 // allowed besides that share
	extraPoints  = 1e-3     // difference of promised and counted FLOPs
	timeBar      = 1.03     // time relative to PyTorch's best within the same budget
	timePoints   = 0.1      // extra time above the promised, as a share of the step's
	tinyBar      = 2.2      // time of a step of tiny operators relative to eager mode
	deepBar      = 3000.0   // milliseconds to record and to plan a deep model
	roundingBar  = 1e-6     // error of values, compiled
	wrongValues  = 1e-3     // a rival's gradients may differ by this much
)

// judge finds the rivals of each planned row, and whether the promises were kept.
func (m *TorchModel) judge() {
	var above *TorchRow // the plan with the next larger budget
	for i := range m.Rows {
		r := &m.Rows[i]
		if r.Kind == "loop" {
			r.bar("within the budget", r.Measured <= r.Asked, "%s above", report.Bytes(r.Measured-r.Asked))
			r.bar("bits", r.Bits != nil && *r.Bits, "other losses")
			continue
		}
		if r.Kind != "memopt" && r.Kind != "memopt compiled" {
			continue
		}
		if r.Error != "" {
			r.bar("runs", false, "%s", r.Error)
			continue
		}
		if r.BesideMS > 0 {
			r.bar("planned soon", r.BesideMS <= deepBar, "%.0f ms", r.BesideMS)
			continue
		}
		r.bar("within the budget", r.Measured <= r.Asked, "%s above", report.Bytes(r.Measured-r.Asked))
		checkpoint, knob := m.best(r, "checkpoint"), m.best(r, "knob")
		if r.Kind == "memopt" {
			r.bar("promise", math.Abs(float64(r.Measured-r.Promised)) <= promiseShare*float64(r.Promised)+promiseBytes, "%+d B", r.Measured-r.Promised)
			r.bar("bits", r.Bits != nil && *r.Bits, "%v", r.Wrong)
			r.bar("FLOPs promised", math.Abs(r.Extra-r.ExtraPromised) <= extraPoints, "%+.2f points", 100*(r.Extra-r.ExtraPromised))
			if above != nil && r.Asked <= above.Asked {
				r.bar("monotone", r.Promised <= above.Promised && r.Overhead >= above.Overhead, "after %s", above.Name)
			}
			above = r
			if r.Timed {
				r.bar("time promised", r.Ratio-1 <= r.Overhead+timePoints, "%+.1f points", 100*(r.Ratio-1-r.Overhead))
			}
			if checkpoint != nil && !r.Timed { // what is least in time need not be in FLOPs
				least := *m.cheapest(r, "checkpoint")
				r.bar("FLOPs", r.Extra <= least.Extra+1e-9, "%s against %s of %s", report.Extra(r.Extra, 1), report.Extra(least.Extra, 1), least.Name)
			}
		} else {
			r.bar("values", r.Bits != nil && *r.Bits || r.ErrorOfValues <= roundingBar, "%.1e", r.ErrorOfValues)
		}
		for _, rival := range []*TorchRow{checkpoint, knob} {
			if rival != nil && rival.Ratio > 0 {
				r.bar("time of "+rival.Kind, r.Ratio <= timeBar*rival.Ratio, "× %.2f against × %.2f", r.Ratio, rival.Ratio)
			}
		}
		if m.Model == "tiny" {
			r.bar("time of eager mode", r.Ratio <= tinyBar, "× %.2f", r.Ratio)
		}
		if checkpoint != nil {
			r.Checkpoint = checkpoint.Name
		}
		if knob != nil {
			r.Knob = knob.Name
		}
	}
}

func (r *TorchRow) bar(name string, met bool, format string, args ...any) {
	b := TorchBar{Name: name, Met: met}
	if !met {
		b.Says = fmt.Sprintf(format, args...)
	}
	r.Bars = append(r.Bars, b)
}

// best is the fastest rival of a kind that meets a row's budget and computes the right gradients.
func (m *TorchModel) best(r *TorchRow, kind string) *TorchRow {
	return m.least(r, kind, func(x *TorchRow) float64 { return x.Ratio })
}

// cheapest is the one with the least FLOPs.
func (m *TorchModel) cheapest(r *TorchRow, kind string) *TorchRow {
	return m.least(r, kind, func(x *TorchRow) float64 { return x.Extra })
}

func (m *TorchModel) least(r *TorchRow, kind string, of func(*TorchRow) float64) (found *TorchRow) {
	for i := range m.Rows {
		x := &m.Rows[i]
		if x.Kind == kind && x.Error == "" && x.Measured <= r.Asked && x.ErrorOfValues <= wrongValues && (found == nil || of(x) < of(found)) {
			found = x
		}
	}
	return found
}

// bars counts the bars, and those met.
func (r *TorchReport) bars() (met, all int) {
	for _, m := range r.Models {
		if m.Error != "" {
			all++
		}
		for _, row := range m.Rows {
			for _, b := range row.Bars {
				if all++; b.Met {
					met++
				}
			}
		}
	}
	return met, all
}
