package kernels

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestKnown: an operator's facet Known lists the inputs without whose contents its shape rule fails, and no others.
func TestKnown(t *testing.T) {
	for _, op := range Library.All() {
		needs := map[int]bool{}
		for _, sample := range op.Samples {
			body, rest, picked := strings.Cut(sample, "->")
			inputs, attrs, _ := strings.Cut(body, ";")
			list := splitTop(inputs)
			for i, f := range list {
				if !strings.Contains(f, "{") {
					continue
				}
				fed := slices.Clone(list)
				fed[i] = unknownInput(f)
				text := strings.Join(fed, ", ") + "; " + attrs
				if picked {
					text += "->" + rest
				}
				if strings.Contains(whyNot(op, text), "known before the step runs") {
					needs[i] = true
				}
			}
		}
		for i := range needs {
			if !slices.Contains(op.Known, i) {
				t.Errorf("%s %d needs input %d known before the step runs, and its facet Known does not say so", op.FullName(), op.Since, i)
			}
		}
		for _, i := range op.Known {
			if len(op.Samples) > 0 && !needs[i] {
				t.Errorf("%s %d: no sample fails without knowing input %d", op.FullName(), op.Since, i)
			}
		}
	}
}

// unknownInput is an input of a sample without its contents: i64{1,0} becomes i64[2]<1.
func unknownInput(f string) string {
	typ, numbers, _ := strings.Cut(f, "{")
	if !strings.Contains(typ, "[") {
		typ += fmt.Sprintf("[%d]", len(splitTop(strings.TrimSuffix(numbers, "}"))))
	}
	if strings.HasPrefix(typ, "i") {
		typ += "<1"
	}
	return typ
}

// whyNot is the error of a sample; "" if there is none.
func whyNot(op *graph.Op, sample string) (why string) {
	defer func() {
		if wrong := recover(); wrong != nil {
			why = "" // no node is left of it
		}
	}()
	if _, err := newCase(op, sample, nil); err != nil {
		return err.Error()
	}
	return ""
}
