package report

import (
	_ "embed" // the template
	"io"
	"maps"

	"memopt/internal/fitwords"
	"memopt/planner"
	"memopt/planner/planfile"
)

// FitPage is the content of the page of an answer whether a step fits.
type FitPage struct {
	Title, Device, Verdict string
	Fits                   bool
	Budget                 int64 // 0: none
	Phases, Rungs          []Held
	Owners, Ladder         [][]string // tables, with their heads
	Notes                  []string
	// Picture is of the step as it is; its peak and the lowest one of any plan are drawn.
	Picture     *planner.Picture
	Peak, Floor int64
}

// Held is what is held by owner: in a phase, or under a plan.
type Held struct {
	Name  string
	Bytes map[string]int64
}

// FitOwners are the owners of a step's memory, in the order in which they are shown.
var FitOwners = []string{"weights", "optimizer states", "gradients", "activations", "inputs", OfStep, "context", "slack"}

// OfStep is the owner of all that a step allocates, where that is not told apart.
const OfStep = "what a step allocates"

var fitColours = map[string]string{"weights": "c4", "optimizer states": "c3", "gradients": "c2", "activations": "c0", "inputs": "c1", OfStep: "c0", "context": "c5", "slack": "seen"}

//go:embed fit.html
var fitText string

// FitHTML writes a page that stands alone. Equal input gives equal bytes.
func FitHTML(w io.Writer, p FitPage) error {
	t, err := parsed("page", pageText+fitText, figures{}.functions())
	if err != nil {
		return err
	}
	view := struct {
		Title, Device, Verdict string
		Fits                   bool
		Phases, Rungs          heldView
		Owners, Ladder         gridView
		Timeline               *timelineView
		Notes, Heads           []string
	}{p.Title, p.Device, p.Verdict, p.Fits, held(p.Phases, p.Budget), held(p.Rungs, p.Budget), grid(p.Owners), grid(p.Ladder), nil, p.Notes, []string{fitwords.HeadPhases, fitwords.HeadLadder, fitwords.HeadTimeline}}
	if p.Picture != nil && len(p.Picture.Launches) > 0 {
		f := &planfile.File{}
		f.Baseline.Peak, f.Result.Peak, f.Floor.Peak = p.Peak, p.Peak, p.Floor
		view.Timeline = timeline(f, p.Picture)
	}
	return t.ExecuteTemplate(w, "fit", view)
}

// gridView is a table.
type gridView struct {
	Head []string
	Rows [][]string
}

func grid(rows [][]string) gridView { return gridView{rows[0], rows[1:]} }

// heldView is a chart of columns, with what is held by owner, below the line of the budget.
type heldView struct {
	Columns []phaseColumn
	Bars    []phaseBar
	Marks   []phaseMark
	Ticks   []mark
	Legend  []phaseKey
	Budget  string
}

func held(rows []Held, budget int64) heldView {
	most := int64(1)
	for _, r := range rows {
		sum := int64(0)
		for n := range maps.Values(r.Bytes) {
			sum += n
		}
		most = max(most, sum)
	}
	v := heldView{}
	drawn := budget > 0 && budget/3 < most // else what is held would be too small beside it
	if budget > 0 {
		v.Budget = "budget " + Bytes(budget)
		if !drawn {
			v.Budget += ", above the drawing"
		}
	}
	if drawn {
		most = max(most, budget)
	}
	top := 1.05 * float64(most)
	v.Ticks = ticks(top)
	n, seen := len(rows), map[string]bool{}
	for i, r := range rows {
		v.Columns = append(v.Columns, phaseColumn{r.Name, "", percentOf(i, n), percentOf(1, n)})
		from, to := (10*i+2)*planeWidth/(10*n), (10*i+8)*planeWidth/(10*n)
		stack := int64(0)
		for _, owner := range FitOwners {
			bytes := r.Bytes[owner]
			if bytes == 0 {
				continue
			}
			y := planeHeight - height(stack+bytes, top)
			v.Bars = append(v.Bars, phaseBar{from, y, to - from, planeHeight - height(stack, top) - y, fitColours[owner], r.Name + ": " + owner + " " + Bytes(bytes)})
			stack += bytes
			seen[owner] = true
		}
	}
	for _, owner := range FitOwners {
		if seen[owner] {
			v.Legend = append(v.Legend, phaseKey{fitColours[owner], owner})
		}
	}
	if drawn {
		v.Marks = []phaseMark{{0, planeHeight - height(budget, top), planeWidth, v.Budget}}
	}
	return v
}
