package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/internal/visible"
	"memopt/planner"
	"memopt/planner/formulas"
	"memopt/planner/planfile"
)

// Size of the coordinate plane of plots; a page scales it to its own width.
const (
	planeWidth  = 10000
	planeHeight = 4000
)

// Limits that keep pages of long programs small: columns of a curve, tooltips, rectangles with and
// without names.
const (
	maxColumns = 2000
	maxPoints  = 300
	maxNamed   = 2500
	maxPlain   = 12000
	maxEdged   = 600 // number of rectangles up to which they have edges
)

// view is a page laid out.
type view struct {
	Page
	Saved               float64 // reduction of the peak by the plan, as a share
	Rows                []planner.Cluster
	Peaks               []formulas.PeakFormula
	Owners              []share
	DimNames            []string
	Timeline            *timelineView
	Arena               *arenaView
	Loss                *lossView
	Phases              *phasesView
	FirstStep, LastStep int
	AtFloor             bool
	Offload             string // "" if nothing may be moved
}

// share is one owner's part of the total.
type share struct {
	Name, Key string
	Percent   float64
}

// mark is a tick or line: its position in percent of the plane, and its text.
type mark struct {
	At   float64
	Text string
}

// band is a range of launches.
type band struct {
	Name        string
	From, Width float64 // percent
}

// point is a range of launches with a tooltip.
type point struct {
	X, Width int
	Text     visible.Lines
}

type timelineView struct {
	Area, Before    string // paths
	Ticks           []mark
	Bands           []band
	Points          []point
	PeakX, PeakY    float64
	Lines           []lineMark
	Unseen          []string // limits above the drawing
	Launches, Again int
	// Remade and Updating mark launches below the curve.
	Remade, Updating string
}

// lineMark is a horizontal line with its legend.
type lineMark struct {
	mark
	Y     int
	Class string
}

type arenaView struct {
	Named   []rectangle
	Plain   []plainPath
	Legend  []classShare
	Ticks   []mark
	Bands   []band
	PeakX   float64
	Lives   int
	Dropped int
	Dense   bool // edges would hide the rectangles
}

type rectangle struct {
	X, Y, W, H int
	Class      planner.Class
	Text       visible.Lines
}

// plainPath is the rectangles of one class without names.
type plainPath struct {
	Class planner.Class
	Path  string
}

// classShare is a class's part of the peak.
type classShare struct {
	Class planner.Class
	Lives int
	Bytes int64 // at the peak
}

type lossView struct {
	Path        string
	Ticks       []mark
	First, Last string
	From, To    int
	Mean        int // steps in a point
	Broken      int
}

func layout(p Page) view {
	f := p.File
	v := view{Page: p, Rows: f.Clusters[:min(len(f.Clusters), maxPageRows)], AtFloor: f.Result.Peak <= f.Floor.Peak, Offload: FileOffload(f)}
	if f.Baseline.Peak > 0 {
		v.Saved = 1 - float64(f.Result.Peak)/float64(f.Baseline.Peak)
	}
	if f.Formulas != nil {
		v.Peaks = f.Formulas.Peaks[:min(len(f.Formulas.Peaks), maxPagePeaks)]
	}
	for _, o := range []share{{Name: "parameters and constants", Key: "weights", Percent: float64(f.Memory.Weights)}, {Name: "optimizer states", Key: "optimizer", Percent: float64(f.Memory.Optimizer)},
		{Name: "inputs", Key: "staging", Percent: float64(f.Memory.Staging)}, {Name: "parameter gradients at the peak", Key: "gradients", Percent: float64(f.Memory.Gradients)},
		{Name: "the rest of the arena", Key: "activations", Percent: float64(f.Memory.Activations)}} {
		o.Percent = round(100 * max(o.Percent, 0) / math.Max(float64(f.Memory.Total), 1))
		v.Owners = append(v.Owners, o)
	}
	for name := range f.Dims {
		v.DimNames = append(v.DimNames, name)
	}
	slices.Sort(v.DimNames)
	if pic := p.Picture; pic != nil && len(pic.Launches) > 0 {
		v.Timeline, v.Arena = timeline(f, pic), arena(f, pic)
	}
	if t := p.Trained; t != nil {
		v.Phases = phases(t.Phases, t.Rule)
		v.FirstStep, v.LastStep = t.FirstStep+1, t.FirstStep+len(t.Losses)
		if len(t.Losses) > 1 {
			v.Loss = losses(t)
		}
	}
	return v
}

func round(x float64) float64 { return math.Round(1000*x) / 1000 }

// percentOf is a launch's horizontal position.
func percentOf(i, n int) float64 { return round(100 * float64(i) / float64(n)) }

func column(i, n int) int { return i * planeWidth / n }

// height is the vertical distance of a number of bytes from the bottom.
func height(bytes int64, top float64) int {
	return int(math.Round(float64(bytes) / top * planeHeight))
}

func timeline(f *planfile.File, pic *planner.Picture) *timelineView {
	n := len(pic.Launches)
	whole := f.Baseline.Peak
	if f.Form != nil {
		whole = f.Form.Peak
	}
	most := max(f.Result.Peak, whole, 1)
	type limit struct {
		name, class string
		bytes       int64
	}
	limits := []limit{{"floor", "floor", f.Floor.Peak}}
	if b := f.Request.ActivationBudget; b > 0 {
		limits = append(limits, limit{"activation budget", "budget", b})
	}
	if b := f.Request.Budget; b > 0 {
		limits = append(limits, limit{"budget, less what lies outside the arena", "budget", b - (f.Memory.Total - f.Result.Arena)})
	}
	t := &timelineView{Launches: n, Bands: bands(pic)}
	for _, l := range limits {
		if float64(l.bytes) <= 1.25*float64(most) {
			most = max(most, l.bytes)
		}
	}
	top := 1.05 * float64(most)
	t.Ticks = ticks(top)
	for _, l := range limits {
		text := l.name + " " + Bytes(l.bytes)
		if float64(l.bytes) > top {
			t.Unseen = append(t.Unseen, text)
			continue
		}
		t.Lines = append(t.Lines, lineMark{mark{round(100 * float64(l.bytes) / top), text}, planeHeight - height(l.bytes, top), l.class})
	}
	t.PeakX = percentOf(2*pic.Peak+1, 2*n)
	t.PeakY = round(100 * float64(pic.Launches[pic.Peak].Live) / top)
	var area, before strings.Builder
	fmt.Fprintf(&area, "M0 %d", planeHeight)
	for i, c := range columns(n, maxColumns) {
		var live, other int64
		for _, l := range pic.Launches[c.from:c.to] {
			live, other = max(live, l.Live), max(other, l.Before)
		}
		fmt.Fprintf(&area, "V%dH%d", planeHeight-height(live, top), column(c.to, n))
		if i == 0 {
			fmt.Fprintf(&before, "M0 %dH%d", planeHeight-height(other, top), column(c.to, n))
		} else {
			fmt.Fprintf(&before, "V%dH%d", planeHeight-height(other, top), column(c.to, n))
		}
	}
	fmt.Fprintf(&area, "V%dZ", planeHeight)
	t.Area, t.Before = area.String(), before.String()
	t.Remade = rug(pic, func(l planner.PictureLaunch) bool { return l.Again })
	t.Updating = rug(pic, func(l planner.PictureLaunch) bool { return l.Phase == "update" })
	for _, l := range pic.Launches {
		if l.Again {
			t.Again++
		}
	}
	for _, c := range columns(n, maxPoints) {
		at := c.from
		for i := c.from; i < c.to; i++ {
			if pic.Launches[i].Live > pic.Launches[at].Live {
				at = i
			}
		}
		l, again := pic.Launches[at], ""
		if l.Again {
			again = " again"
		}
		t.Points = append(t.Points, point{column(c.from, n), column(c.to, n) - column(c.from, n),
			visible.Lines(visible.Sprintf("launch %d of %d: %s%s\n%s alive, %s with everything kept", at+1, n, clip(l.Node, 120), again, Bytes(l.Live), Bytes(l.Before)))})
	}
	return t
}

// columns divides launches into at most most ranges.
func columns(n, most int) []struct{ from, to int } {
	k := min(n, most)
	out := make([]struct{ from, to int }, k)
	for i := range out {
		out[i].from, out[i].to = i*n/k, (i+1)*n/k
	}
	return out
}

// bands divides the step into its passes. Recomputed launches belong to the backward pass, and
// updates may lie between its launches.
func bands(pic *planner.Picture) (out []band) {
	n := len(pic.Launches)
	border, end, mixed := n, 0, false
	for i, l := range pic.Launches {
		switch {
		case l.Phase == "update":
		case l.Again || l.Phase != "forward":
			border, end = min(border, i), i+1
		}
	}
	end = max(end, min(border, n))
	for i, l := range pic.Launches {
		mixed = mixed || l.Phase == "update" && i < end
		if l.Phase == "update" && border == n { // a step without a backward pass
			border, end = i, i
		}
	}
	put := func(name string, from, to int) {
		if to > from {
			out = append(out, band{name, percentOf(from, n), round(percentOf(to, n) - percentOf(from, n))})
		}
	}
	backward := "backward"
	if mixed {
		backward = "backward and updates"
	}
	put("forward", 0, border)
	put(backward, border, end)
	put("update", end, n)
	return out
}

// rug draws marks for launches of a kind.
func rug(pic *planner.Picture, is func(planner.PictureLaunch) bool) string {
	n := len(pic.Launches)
	var path strings.Builder
	for _, c := range columns(n, maxColumns) {
		if slices.ContainsFunc(pic.Launches[c.from:c.to], is) {
			fmt.Fprintf(&path, "M%d 0h%dv1h-%dz", column(c.from, n), column(c.to, n)-column(c.from, n), column(c.to, n)-column(c.from, n))
		}
	}
	return path.String()
}

// ticks chooses a few round sizes.
func ticks(top float64) (out []mark) {
	step := math.Exp2(math.Ceil(math.Log2(math.Max(top, 1) / 6)))
	for x := 0.0; x <= 0.97*top; x += math.Max(step, 1) {
		out = append(out, mark{round(100 * x / top), strings.Replace(Bytes(int64(x)), ".00 ", " ", 1)})
	}
	return out
}

func arena(f *planfile.File, pic *planner.Picture) *arenaView {
	n := len(pic.Launches)
	highest := max(f.Result.Arena, 1) // more if live ranges were not placed
	for _, l := range pic.Lives {
		highest = max(highest, l.Offset+l.Bytes)
	}
	top := 1.01 * float64(highest)
	a := &arenaView{Lives: len(pic.Lives), Ticks: ticks(top), Bands: bands(pic), PeakX: percentOf(2*pic.Peak+1, 2*n)}
	shares := make([]classShare, planner.WorkSpace+1)
	order := make([]int, 0, len(pic.Lives))
	for i, l := range pic.Lives {
		s := &shares[l.Class]
		s.Class = l.Class
		s.Lives++
		if l.First <= pic.Peak && pic.Peak < l.Last {
			s.Bytes += l.Bytes
		}
		if l.Bytes > 0 {
			order = append(order, i)
		}
	}
	for _, s := range shares {
		if s.Lives > 0 {
			a.Legend = append(a.Legend, s)
		}
	}
	area := func(i int) float64 {
		return float64(pic.Lives[i].Bytes) * float64(pic.Lives[i].Last-pic.Lives[i].First)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(area(j), area(i)) })
	place := func(i int) rectangle {
		l := pic.Lives[i]
		high, low := height(l.Offset+l.Bytes, top), height(l.Offset, top)
		return rectangle{X: column(l.First, n), Y: planeHeight - high, W: column(l.Last, n) - column(l.First, n), H: high - low, Class: l.Class}
	}
	paths := make([]strings.Builder, len(shares))
	for rank, i := range order {
		r := place(i)
		switch l := pic.Lives[i]; {
		case rank < maxNamed && r.W > 0 && r.H > 0:
			over := ""
			if l.Over > 0 {
				over = fmt.Sprintf(", and %d written over it", l.Over)
			}
			r.Text = visible.Lines(visible.Sprintf("%s%s\n%s, %s at offset %s, launches %d to %d", clip(l.Value, 120), over, l.Class, Bytes(l.Bytes), Thousands(l.Offset), l.First+1, l.Last))
			a.Named = append(a.Named, r)
		case rank < maxNamed+maxPlain && r.W > 0 && r.H > 0:
			fmt.Fprintf(&paths[l.Class], "M%d %dh%dv%dh-%dz", r.X, r.Y, r.W, r.H, r.W)
		default:
			a.Dropped++
		}
	}
	a.Dense = len(order) > maxEdged
	for c := range paths {
		if paths[c].Len() > 0 {
			a.Plain = append(a.Plain, plainPath{planner.Class(c), paths[c].String()})
		}
	}
	return a
}

// losses is the curve of a run. With more steps than columns, a point is the mean of several.
func losses(t *Trained) *lossView {
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	n := len(t.Losses)
	v := &lossView{From: t.FirstStep + 1, To: t.FirstStep + n,
		First: fmt.Sprintf("%.6g", t.Losses[0]), Last: fmt.Sprintf("%.6g", t.Losses[n-1])}
	cells := columns(n, maxColumns)
	v.Mean = (n + len(cells) - 1) / len(cells)
	means, low, high := make([]float64, len(cells)), math.Inf(1), math.Inf(-1)
	for i, c := range cells {
		sum, k := 0.0, 0
		for _, x := range t.Losses[c.from:c.to] {
			if finite(x) {
				sum, k = sum+x, k+1
			} else {
				v.Broken++
			}
		}
		means[i] = sum / float64(k) // NaN if there are none
		if k > 0 {
			low, high = min(low, means[i]), max(high, means[i])
		}
	}
	if !finite(low) || !finite(high) || !finite(high-low) {
		return v
	}
	if low >= 0 && low < high/2 {
		low = 0
	}
	if high == low {
		high, low = high+0.5*math.Abs(high)+1e-9, low-0.5*math.Abs(low)-1e-9
	}
	span := (high - low) * 1.05
	var path strings.Builder
	pen := "M"
	for i, y := range means {
		if !finite(y) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%d %d", pen, i*planeWidth/max(len(means)-1, 1), planeHeight-int(math.Round((y-low)/span*planeHeight)))
		pen = "L"
	}
	v.Path = path.String()
	const parts = 4
	for i := range parts + 1 {
		share := float64(i) / parts / 1.05
		v.Ticks = append(v.Ticks, mark{round(100 * share), fmt.Sprintf("%.4g", low+share*span)})
	}
	return v
}
