package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"memopt/internal/visible"
	"memopt/planner"
)

// Frontier prints peak against extra cost as a table and a plot, with the results of other methods
// on the same axes.
func Frontier(w io.Writer, c *planner.Curve) {
	rows := [][]string{{"peak", "arena", "total", "extra", "run again", ""}}
	add := func(p planner.Point, note string) {
		rows = append(rows, []string{Bytes(p.Peak), Bytes(p.Arena), Bytes(p.Total), Extra(p.Overhead, 2), fmt.Sprint(p.Again), note})
	}
	for i, p := range c.Points {
		var notes []string
		if i == 0 {
			notes = append(notes, "everything kept")
		}
		if p.Form != "" {
			notes = append(notes, p.Form)
		}
		if p.Moved > 0 {
			notes = append(notes, Bytes(p.Moved)+" moved")
		}
		if p.Sent != nil {
			notes = append(notes, fmt.Sprintf("%s of states on the %s", Bytes(p.Sent.Bytes), p.Sent.Place))
		}
		if p.Knee {
			notes = append(notes, "the knee")
		}
		add(p, strings.Join(notes, ", "))
	}
	for i, p := range c.References {
		add(p, string(marks[i%len(marks)])+"  "+p.Name)
	}
	Table(w, "=rrrrrt", rows)
	Text(w, 2, "\nproven minimum of the peak: %s, because of %s\n\n", Bytes(c.Floor.Peak), c.Floor.Node)
	if c.ByTotal {
		Text(w, 2, "%s\n\n", sent(c))
	}
	plot(w, c)
}

// sent says what the extra cost of a curve has in it of the states that leave.
func sent(c *planner.Curve) string {
	if c.Time == 0 {
		return "the extra cost counts flops and bytes, in which copies of states have no price"
	}
	return "the extra time has in it what copies of states take, as if nothing hid them: they run beside the step as far as it is as long"
}

// marks are the references' symbols in a plot; the curve's points are *, its knee K, and points
// above the plot ^.
const marks = "12LR"

// The size of a plot.
const (
	mostWidth   = 72
	leastWidth  = 24
	plotHeight  = 18
	besideWidth = 12 // width of the labels on the left
)

// axes are the ranges of a plot: bytes to the right, of the arena or in total, extra cost upwards. Points above 100 % extra
// are drawn at the upper edge, as plans near the floor may cost several steps and would flatten the
// rest, unless all cost that much. The axis may begin below 0, as a form of the step may cost less
// than the plain one.
type axes struct {
	left, right, bottom, top float64
	size                     func(planner.Point) int64
}

func axesOf(c *planner.Curve) axes {
	a := axes{left: math.Inf(1), size: c.Size}
	var most float64
	for _, list := range [][]planner.Point{c.Points, c.References} {
		for _, p := range list {
			a.left, a.right, most = min(a.left, float64(c.Size(p))), max(a.right, float64(c.Size(p))), max(most, p.Overhead)
			a.bottom = min(a.bottom, p.Overhead)
			if p.Overhead <= 1 {
				a.top = max(a.top, p.Overhead)
			}
		}
	}
	if a.top <= 0 {
		a.top = most
	}
	if floor := float64(c.Floor.Peak); floor < a.left && !c.ByTotal {
		a.left = floor
	}
	if a.right <= a.left {
		a.right = a.left + 1
	}
	if a.top <= a.bottom {
		a.top = a.bottom + 0.01
	}
	return a
}

// place is a point's position, both coordinates from 0 to 1, and whether it is above the plot.
func (a axes) place(p planner.Point) (x, y float64, above bool) {
	return (float64(a.size(p)) - a.left) / (a.right - a.left), min(1, (p.Overhead-a.bottom)/(a.top-a.bottom)), p.Overhead > a.top
}

func plot(w io.Writer, c *planner.Curve) {
	plotWidth := mostWidth
	if n := Width(w); n > 0 {
		plotWidth = max(leastWidth, min(mostWidth, n-besideWidth))
	}
	a := axesOf(c)
	grid := make([][]byte, plotHeight)
	for i := range grid {
		grid[i] = []byte(strings.Repeat(" ", plotWidth))
	}
	beyond := false
	put := func(p planner.Point, mark byte) {
		x, y, above := a.place(p)
		if above {
			mark, beyond = '^', true
		}
		grid[plotHeight-1-int(math.Round(y*(plotHeight-1)))][int(math.Round(x*float64(plotWidth-1)))] = mark
	}
	for _, p := range c.Points {
		put(p, '*')
	}
	for i, p := range c.References {
		put(p, marks[i%len(marks)])
	}
	for _, p := range c.Points {
		if p.Knee {
			put(p, 'K')
		}
	}
	for i, line := range grid {
		label := ""
		switch i {
		case 0:
			label = Extra(a.top, 1)
		case plotHeight - 1:
			if label = "0 %"; a.bottom < 0 {
				label = Extra(a.bottom, 1)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%9s |%s", label, line), " "))
	}
	fmt.Fprintf(w, "%9s +%s\n", "extra", strings.Repeat("-", plotWidth))
	left, right := Bytes(int64(a.left)), Bytes(int64(a.right))
	fmt.Fprintf(w, "%11s%s%*s\n", "", left, plotWidth-len(left), right)
	if beyond {
		fmt.Fprintf(w, "\n^ costs more than %.1f %% extra\n", 100*a.top)
	}
}

// FrontierSVG draws the curve as a self-contained file. Extra costs are of the unit.
func FrontierSVG(w io.Writer, c *planner.Curve, title, unit string) error {
	const width, height, margin = 760.0, 460.0, 70.0
	a, across := axesOf(c), "arena"
	if c.ByTotal {
		across = "total"
	}
	at := func(p planner.Point) (left, down float64, above bool) {
		x, y, above := a.place(p)
		return margin + x*(width-2*margin), height - margin - y*(height-2*margin), above
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%g" y="24" font-size="15">%s</text>`+"\n", margin, escape(title))
	fmt.Fprintf(&b, `<path d="M%g %gV%gH%g" fill="none" stroke="black"/>`+"\n", margin, margin, height-margin, width-margin)
	const ticks = 4
	for i := range ticks + 1 {
		share := float64(i) / ticks
		x, y := margin+share*(width-2*margin), height-margin-share*(height-2*margin)
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x, height-margin+18, Bytes(int64(a.left+share*(a.right-a.left))))
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%.1f %%</text>`+"\n", margin-8, y+4, 100*(a.bottom+share*(a.top-a.bottom)))
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", width/2, height-margin+40, across)
	fmt.Fprintf(&b, `<text x="18" y="%g" text-anchor="middle" transform="rotate(-90 18 %g)">extra %s</text>`+"\n", height/2, height/2, unit)
	// A curve of steps: a budget between two plans costs as much as the lower plan.
	var path strings.Builder
	for i, p := range c.Points {
		x, y, _ := at(p)
		if i == 0 {
			fmt.Fprintf(&path, "M%.1f %.1f", x, y)
		} else {
			fmt.Fprintf(&path, "V%.1fH%.1f", y, x)
		}
	}
	fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#2060c0" stroke-width="1.5"/>`+"\n", path.String())
	for _, p := range c.Points {
		x, y, above := at(p)
		if above {
			fmt.Fprintf(&b, `<path d="M%.1f %.1fm-5 0l5 -8l5 8z" fill="#2060c0"><title>%s, %s</title></path><text x="%.1f" y="%.1f" font-size="10" text-anchor="middle">%s</text>`+"\n", x, y, Bytes(c.Size(p)), Extra(p.Overhead, 2), x, y-12, Extra(p.Overhead, 0))
			continue
		}
		radius, colour := 2.5, "#2060c0"
		if p.Knee {
			radius, colour = 5, "#c02020"
		}
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s"><title>%s, %s</title></circle>`+"\n", x, y, radius, colour, Bytes(c.Size(p)), Extra(p.Overhead, 2))
		if p.Knee {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s">knee: %s, %s</text>`+"\n", x+8, y-6, colour, Bytes(c.Size(p)), Extra(p.Overhead, 1))
		}
	}
	type label struct{ x, y float64 }
	var labels []label
	for i, p := range c.References {
		same := func(q planner.Point) bool { return c.Size(q) == c.Size(p) && q.Overhead == p.Overhead }
		if slices.ContainsFunc(c.References[:i], same) {
			continue
		}
		var names []string
		for _, q := range c.References[i:] {
			if same(q) {
				names = append(names, q.Name)
			}
		}
		x, y, _ := at(p)
		side, anchor := 8.0, "start" // right of the point, unless the picture ends there
		if x > width-3*margin {
			side, anchor = -side, "end"
		}
		l := label{x, y + 4}
		for _, m := range labels { // do not overlap other labels
			if math.Abs(m.x-l.x) < width/4 && math.Abs(m.y-l.y) < 12 {
				l.y = m.y + math.Copysign(12, l.y-m.y)
			}
		}
		labels = append(labels, l)
		fmt.Fprintf(&b, `<path d="M%.1f %.1fm-4 -4l8 8m0 -8l-8 8" stroke="#606060" stroke-width="1.5"/><text x="%.1f" y="%.1f" fill="#606060" text-anchor="%s">%s</text>`+"\n", x, y, l.x+side, l.y, anchor, escape(strings.Join(names, ", ")))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(s string) string { return escaper.Replace(visible.Line(s)) }
