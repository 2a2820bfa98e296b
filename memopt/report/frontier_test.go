package report

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"memopt/planner"
)

var curve = &planner.Curve{
	Floor: planner.Floor{Peak: 900, Node: "loss"},
	Points: []planner.Point{
		{Peak: 4000, Arena: 4096, Total: 5000},
		{Peak: 2000, Arena: 2048, Total: 3000, Overhead: 0.02, Again: 3, Knee: true},
		{Peak: 1000, Arena: 1024, Total: 2000, Overhead: 0.2, Again: 9},
	},
	References: []planner.Point{{Name: `<"level" & 1>`, Peak: 3000, Arena: 3072, Total: 4000, Overhead: 0.25, Again: 12}},
}

func TestFrontier(t *testing.T) {
	var b strings.Builder
	Frontier(&b, curve)
	for _, want := range []string{
		"everything kept\n", "+2.00 %          3  the knee\n", `1  <"level" & 1>`, "proven minimum of the peak: 900 B, because of loss",
		"  +25.0 % |" + strings.Repeat(" ", 48) + "1\n", "      0 % |" + strings.Repeat(" ", 71) + "*\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	// A single point, without references.
	Frontier(io.Discard, &planner.Curve{Points: curve.Points[:1]})
}

// TestFrontierBeyond: a plan that costs several steps does not flatten the others.
func TestFrontierBeyond(t *testing.T) {
	far := *curve
	far.Points = append(slices.Clone(curve.Points), planner.Point{Peak: 900, Arena: 900, Total: 1900, Overhead: 3.1, Again: 99})
	var b strings.Builder
	Frontier(&b, &far)
	for _, want := range []string{"  +25.0 % |^  ", "^ costs more than 25.0 % extra\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := FrontierSVG(&b, &far, "model", "time"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), ">+310 %</text>") || strings.Contains(b.String(), "310.0 %</text>") {
		t.Errorf("a plan at +310 %% is not told apart in\n%s", b.String())
	}
	// If all cost that much, all are shown.
	far.Points, far.References = far.Points[3:], nil
	b.Reset()
	if Frontier(&b, &far); !strings.Contains(b.String(), " +310.0 % |*\n") {
		t.Errorf("no point at +310 %% in\n%s", b.String())
	}
}

// TestFrontierBelow: a form of the step that costs less than the plain one lies on the plot.
func TestFrontierBelow(t *testing.T) {
	less := *curve
	less.Points = []planner.Point{
		{Peak: 2000, Arena: 2048, Total: 3000, Overhead: -0.15, Form: "extracts"},
		{Peak: 1000, Arena: 1024, Total: 2000, Overhead: 0.2, Again: 9, Knee: true},
	}
	var b strings.Builder
	Frontier(&b, &less)
	for _, want := range []string{"-15.00 %          0  everything kept, extracts\n", "  +25.0 % |", "\n  -15.0 % |" + strings.Repeat(" ", 38) + "*\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := FrontierSVG(&b, &less, "model", "time"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `<text x="62" y="394.0" text-anchor="end">-15.0 %</text>`) {
		t.Errorf("the axis does not begin at -15 %% in\n%s", b.String())
	}
	less.Points, less.References = less.Points[:1], nil
	Frontier(io.Discard, &less)
}

// TestFrontierByTotal: where plans differ in what lies outside the arena, the plot is of all bytes, and says which states leave.
func TestFrontierByTotal(t *testing.T) {
	sent := *curve
	sent.ByTotal, sent.Time = true, 1e6
	sent.Points = append(slices.Clone(curve.Points), planner.Point{Peak: 1000, Arena: 1024, Total: 1500, Overhead: 0.22, Again: 9, Sent: &planner.Streamed{Place: "disk", Bytes: 700}})
	var b strings.Builder
	Frontier(&b, &sent)
	for _, want := range []string{"+22.00 %          9  700 B of states on the disk\n", "the extra time has in it what copies of states take", "           1.46 KiB " + strings.Repeat(" ", 55) + "4.88 KiB\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := FrontierSVG(&b, &sent, "model", "time"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), ">total</text>") || strings.Contains(b.String(), ">arena</text>") {
		t.Errorf("the axis is not of all bytes in\n%s", b.String())
	}
}

// TestFrontierSVG: the drawing is valid XML with any names.
func TestFrontierSVG(t *testing.T) {
	var b strings.Builder
	if err := FrontierSVG(&b, curve, "<model>", "time"); err != nil {
		t.Fatal(err)
	}
	circles, d := 0, xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if circles != len(curve.Points) {
		t.Errorf("%d circles for %d points", circles, len(curve.Points))
	}
}
