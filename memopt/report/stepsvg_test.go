package report_test

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/memopt/report"
)

// TestStepSVG: the drawing of a small step, byte for byte, and valid XML even with markup in a
// name.
func TestStepSVG(t *testing.T) {
	var b strings.Builder
	if err := report.StepSVG(&b, tiny(t)); err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/tiny.svg", b.String())

	page := tiny(t)
	page.Title = `</text><script>alert("&")</script>`
	b.Reset()
	if err := report.StepSVG(&b, page); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script") {
		t.Error("a title becomes an element")
	}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}

	page.Picture = nil
	if err := report.StepSVG(io.Discard, page); err == nil {
		t.Error("a plan without launches was drawn")
	}
}
