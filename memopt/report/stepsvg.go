package report

import (
	_ "embed" // the template
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"memopt/planner/planfile"
)

//go:embed step.tmpl
var stepText string

// The frame of the drawing, in the units of its view box; step.tmpl draws it.
const (
	stepLeft, stepTop     = 90, 80
	stepWidth, stepHeight = 750, 240
	stepBottom            = stepTop + stepHeight
	stepKeyWidth          = 375 // two entries in a row
)

// stepKey is one entry of the legend.
type stepKey struct {
	Class, Text             string
	X, End, Y, TextX, TextY int
}

// StepSVG draws the bytes alive over one training step: the plan in front of the step with
// everything kept, with budget and floor as lines. The file is self-contained and follows the
// reader's light or dark colours.
func StepSVG(w io.Writer, p Page) error {
	v := layout(p)
	if v.Timeline == nil {
		return errors.New("a plan read from a file has no launches to draw")
	}
	r := p.File.Result
	subtitle := fmt.Sprintf("bytes alive at each of %s launches, %s of them run again: %s extra %s",
		Thousands(int64(v.Timeline.Launches)), Thousands(int64(v.Timeline.Again)), Extra(r.Overhead, 1), p.File.Unit())
	keys := []stepKey{
		{Class: "plan", Text: "this plan: peak " + Bytes(r.Peak)},
		{Class: "kept", Text: kept(p.File)},
	}
	for _, l := range v.Timeline.Lines {
		keys = append(keys, stepKey{Class: l.Class, Text: l.Text})
	}
	if v.Timeline.Remade != "" {
		keys = append(keys, stepKey{Class: "again", Text: "launches that run again"})
	}
	for i := range keys {
		k := &keys[i]
		k.X, k.Y = stepLeft+i%2*stepKeyWidth, stepBottom+30+i/2*20
		k.End, k.TextX, k.TextY = k.X+22, k.X+30, k.Y+4
	}
	t, err := parsed("step", stepText, template.FuncMap{
		"planeWidth":  func() int { return planeWidth },
		"planeHeight": func() int { return planeHeight },
		"across":      func(percent float64) float64 { return round(stepLeft + percent/100*stepWidth) },
		"beside":      func(percent float64) float64 { return round(stepLeft + percent/100*stepWidth + 4) },
		"down":        func(percent float64) float64 { return round(stepBottom - percent/100*stepHeight) },
		"baseline":    func(percent float64) float64 { return round(stepBottom - percent/100*stepHeight + 4) },
	})
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		view
		Title, Subtitle string
		Keys            []stepKey
	}{v, p.Title, subtitle, keys})
}

// BeforeArea is the curve of the step with everything kept, closed for filling.
func (t *timelineView) BeforeArea() string {
	return strings.Replace(t.Before, "M0 ", fmt.Sprintf("M0 %dV", planeHeight), 1) + fmt.Sprintf("V%dZ", planeHeight)
}

// kept labels the curve of everything kept, which is of the plan's form.
func kept(f *planfile.File) string {
	if f.Form == nil {
		return "everything kept: peak " + Bytes(f.Baseline.Peak)
	}
	return "everything kept, this form: peak " + Bytes(f.Form.Peak)
}
