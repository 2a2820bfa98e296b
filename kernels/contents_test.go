package kernels_test

import (
	"fmt"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

// Exporters join the scales of a Resize from constants; they are numbers that
// are known, though no chain of integers.
func TestScalesMadeOfConstants(t *testing.T) {
	const text = `
x f32[batch, 3, 8, 8] = input
a f32[2] = const {1, 1}
b f32[2] = const {4, 1}
c f32[2] = const {2, 2}
half = Div(b, c)
scales = Concat(a, half) axis=0
y = Resize(x, _, scales)
output y
`
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Outputs[0].Shape.String(); got != "[batch, 3, 16, 4]" {
		t.Fatalf("shape %s", got)
	}
	_, err = graph.Parse(kernels.Library, strings.Replace(text, "a f32[2] = const {1, 1}", "a f32[2] = input", 1))
	if err == nil || !strings.Contains(err.Error(), `scales ("scales") are not known before the step runs`) {
		t.Fatalf("scales that are fed: %v", err)
	}
	// Each node reads the one before twice: looked into without a limit, this
	// would not end.
	doubled := strings.Replace(text, "half = Div(b, c)", "d00 = Div(b, c)\n"+chain(60)+"half = Div(d60, d60)", 1)
	_, err = graph.Parse(kernels.Library, doubled)
	if err == nil || !strings.Contains(err.Error(), "not known before the step runs") {
		t.Fatalf("a deep chain: %v", err)
	}
}

func chain(n int) string {
	var sb strings.Builder
	for i := range n {
		sb.WriteString("d" + itoa(i+1) + " = Add(d" + itoa(i) + ", d" + itoa(i) + ")\n")
	}
	return sb.String()
}

func itoa(n int) string { return fmt.Sprintf("%02d", n) }
