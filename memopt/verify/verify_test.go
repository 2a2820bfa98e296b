package verify

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"memopt/memopt/graph"
)

var update = flag.Bool("update", false, "rewrite the list of cases that do not pass")

const (
	casesFile    = "testdata/onnx-node-1.23.2.zip"
	expectedFile = "testdata/expected.txt"
	looseReason  = "passed: within two units of the last place; equal bits would take a softmax that rounds every step to 16 bits, see TestHalfFloatsRoundedSoftmax"
)

// TestONNX runs the vendored node tests. Cases that do not pass are listed with
// their reasons, so that none is passed over in silence and none stays listed
// when it passes.
func TestONNX(t *testing.T) {
	cases, closer, err := OpenZip(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	report, err := Run(cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bars {
		passed, loose, total := b.count(report)
		t.Logf("%s: %d of %d, %d of them within %d units of 16-bit floats only", b.name, passed, total, loose, units)
		if total != b.total || passed < b.least {
			t.Errorf("%s: %d of %d pass; %d of %d should", b.name, passed, total, b.least, b.total)
		}
	}
	t.Logf("all: %d of %d pass, %d fail, %d are not applicable", report.Count(Passed), len(report.Results), report.Count(Failed), report.Count(NotApplicable))
	listed := readList(t, expectedFile)
	if *update {
		writeExpected(t, report, listed)
		return
	}
	for _, r := range report.Results {
		want, is := listed[r.Case]
		delete(listed, r.Case)
		switch {
		case r.Loose:
			if want != looseReason {
				t.Errorf("%s passes only loosely, but is listed as %q", r.Case, want)
			}
		case r.Outcome == Passed && is:
			t.Errorf("%s passes, but is listed (%s)", r.Case, want)
		case r.Outcome != Passed && !is:
			t.Errorf("%s is %s and not listed: %s", r.Case, r.Outcome, r.Reason)
		case r.Outcome != Passed && !strings.HasPrefix(want, r.Outcome.String()+": "):
			t.Errorf("%s is %s (%s), but listed as %s", r.Case, r.Outcome, r.Reason, want)
		case r.Outcome == NotApplicable && want != r.Outcome.String()+": "+r.Reason:
			t.Errorf("%s: the reason is %q, but listed as %q", r.Case, r.Reason, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("%s is listed, but there is no such case", name)
	}
}

// readList reads a list of cases: on a line the case, two spaces and the reason.
func readList(t *testing.T, file string) map[string]string {
	src, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, why, ok := strings.Cut(line, "  ")
		if _, twice := listed[name]; !ok || twice {
			t.Fatalf("%s: %q is not a case and a reason, or listed twice", file, line)
		}
		listed[name] = why
	}
	return listed
}

// writeExpected keeps the reasons that were given for failures: a wrong number
// is no reason.
func writeExpected(t *testing.T, report *Report, listed map[string]string) {
	var sb strings.Builder
	sb.WriteString("# The cases of " + casesFile + " that do not pass, or only loosely, with the reason.\n")
	for _, r := range report.Results {
		if r.Loose {
			fmt.Fprintf(&sb, "%s  %s\n", r.Case, looseReason)
		}
		if r.Outcome == Passed {
			continue
		}
		why := fmt.Sprintf("%s: %s", r.Outcome, r.Reason)
		if old := listed[r.Case]; r.Outcome == Failed && strings.HasPrefix(old, Failed.String()+": ") {
			why = old
		}
		fmt.Fprintf(&sb, "%s  %s\n", r.Case, why)
	}
	if err := os.WriteFile(expectedFile, []byte(sb.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// bar is a part of the cases, and how many of it pass at least.
type bar struct {
	name         string
	in           func(r Result) bool
	least, total int
}

func (b bar) count(report *Report) (passed, loose, total int) {
	for _, r := range report.Results {
		if !b.in(r) {
			continue
		}
		total++
		if r.Outcome == Passed {
			passed++
		}
		if r.Loose {
			loose++
		}
	}
	return passed, loose, total
}

// The bars: single nodes of the operators that training of the usual networks
// needs, by element types, and the same as graphs; then PyTorch's own.
var bars = []bar{
	{"core types", func(r Result) bool { return single(r) && within(r, core) }, 619, 619},
	{"core types and small integers", func(r Result) bool { return single(r) && within(r, core, small) }, 701, 701},
	{"all of these and half floats", func(r Result) bool { return single(r) && within(r, core, small, half) }, 730, 730},
	{"expanded graphs", func(r Result) bool { return r.Op == "(expanded)" && within(r, core) && among(r, asked, helpers) }, 357, 357},
	{"PyTorch's layers", func(r Result) bool { return strings.HasPrefix(r.Case, "pytorch-converted/") }, 80, 80},
	{"PyTorch's operators", func(r Result) bool { return strings.HasPrefix(r.Case, "pytorch-operator/") }, 34, 34},
	{"preview gradients", func(r Result) bool { return strings.HasPrefix(r.Case, "simple/test_gradient_of_") }, 2, 2},
}

func single(r Result) bool {
	return strings.HasPrefix(r.Case, "node/") && r.Op != "(expanded)" && len(r.Ops) == 1 && among(r, asked) && r.Reason != numpyMask
}

func among(r Result, lists ...[]string) bool {
	return !slices.ContainsFunc(r.Ops, func(op string) bool { return !slices.Contains(slices.Concat(lists...), op) })
}

func within(r Result, lists ...[]graph.DType) bool {
	return len(r.Types) > 0 && !slices.ContainsFunc(r.Types, func(t graph.DType) bool { return !slices.Contains(slices.Concat(lists...), t) })
}

var (
	core  = []graph.DType{graph.Float32, graph.Float64, graph.Int32, graph.Int64, graph.Bool}
	small = []graph.DType{graph.Int8, graph.Int16, graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64}
	half  = []graph.DType{graph.Float16, graph.BFloat16}

	asked = strings.Fields(`
		Add Sub Mul Div Pow Sqrt Exp Log Erf Tanh Sigmoid Relu Gelu Swish Softmax LogSoftmax LayerNormalization
		RMSNormalization GroupNormalization BatchNormalization MatMul Gemm Conv MaxPool AveragePool GlobalAveragePool
		Gather GatherND ScatterElements Slice Concat Split Transpose Reshape Squeeze Unsqueeze Expand Tile Where Cast
		ReduceSum ReduceMean ReduceMax Dropout SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss Attention
		RotaryEmbedding Trilu ConstantOfShape Range Shape Size ArgMax TopK CumSum Einsum Clip Mod Neg Abs Max Min Equal
		Greater Less And Or Not Identity IsNaN OneHot Pad Resize QuantizeLinear DequantizeLinear DynamicQuantizeLinear
		MatMulInteger ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum ai.onnx.preview.training.Adagrad`)
	helpers = strings.Fields(`
		Constant CastLike Reciprocal Flatten GatherElements LessOrEqual GreaterOrEqual Sum ReduceMin Cos Ceil`)
)
