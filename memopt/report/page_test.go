package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/kernels"
	"memopt/memopt/report"
	"memopt/planner"
	"memopt/planner/formulas"
	"memopt/planner/planfile"
)

// planned is a small step under a budget, with clusters on and off, and a name that contains
// markup.
func planned(t *testing.T, r planner.Request) *planner.Plan {
	t.Helper()
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 64] = input
w f32[64, 64] = param
s f32[64] = param
v f32[64, 64] = param
h = MatMul(x, w)
n = LayerNormalization(h, s, _)
a = Tanh(n)
b = Gelu(a)
c = MatMul(b, v)
d = Tanh(c)
l = ReduceMean(d, _) keepdims=0
output l
`)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "adamw", ClipNorm: 1}); err != nil {
		t.Fatal(err)
	}
	r.Dims = map[string]int64{"batch": 64}
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pageOf(t *testing.T, p report.Page) string {
	t.Helper()
	var b strings.Builder
	if err := report.HTML(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tiny(t *testing.T) report.Page {
	p := planned(t, planner.Request{Budget: planner.Size{Bytes: 195000}})
	return report.Page{Title: "tiny.onnx", File: planfile.Of(p, "tiny.onnx"), Picture: p.Picture(), Command: "memopt plan tiny.onnx --budget 195000",
		Settings: []report.Setting{{Name: "budget", Value: "195000", Source: "--budget"}}}
}

// TestPage: the page of a small step, byte for byte.
func TestPage(t *testing.T) {
	golden.File(t, "testdata/tiny.html", pageOf(t, tiny(t)))
}

var figure = regexp.MustCompile(`<data value="([^"]*)" data-at="([^"]*)" title="[^"]*">([^<]*)</data>`)

// TestPageFigures: every figure of the page equals the figure in the plan's JSON at the path given,
// exactly and as shown; the curves reach as high as the peaks.
func TestPageFigures(t *testing.T) {
	page := tiny(t)
	data, err := json.Marshal(page.File)
	if err != nil {
		t.Fatal(err)
	}
	doc, text, seen := gjson.ParseBytes(data), pageOf(t, page), map[string]bool{}
	for _, m := range figure.FindAllStringSubmatch(text, -1) {
		at := doc.Get(m[2])
		seen[m[2]] = true
		if at.Type != gjson.Number || at.Raw != m[1] {
			t.Errorf("%s is %s, the JSON has %q", m[2], m[1], at.Raw)
		}
		n, x := at.Int(), 100*at.Float()
		shown := []string{report.Bytes(n), report.Thousands(n), "−" + report.Bytes(n), "+" + report.Bytes(-n),
			fmt.Sprintf("%+.2f %%", x), fmt.Sprintf("%.2f points", x), fmt.Sprintf("%.4g %%", x)}
		if !strings.Contains("\n"+strings.Join(shown, "\n")+"\n", "\n"+html.UnescapeString(m[3])+"\n") {
			t.Errorf("%s is %s and shown as %q", m[2], m[1], m[3])
		}
	}
	for _, path := range []string{"result.peak", "baseline.peak", "floor.peak", "result.arena", "baseline.arena", "result.overhead", "bound.gap", "bound.overhead",
		"memory.total", "memory.weights", "memory.gradients", "memory.activations", "request.budget", "dominant.0.bytes", "dominant.2.bytes", "formulas.ranges.0.pieces.0.from", "formulas.ranges.0.at"} {
		if !seen[path] {
			t.Errorf("the page does not show %s", path)
		}
	}
	for i := range page.File.Clusters {
		for _, name := range []string{"freq", "bytes", "peak_effect", "peak_alone", "cost"} {
			if path := fmt.Sprintf("clusters.%d.%s", i, name); !seen[path] {
				t.Errorf("the page does not show %s", path)
			}
		}
	}
	if len(page.File.Clusters) < 2 || page.File.Result.Recomputed == 0 {
		t.Fatalf("%d clusters and %d nodes again show little", len(page.File.Clusters), page.File.Result.Recomputed)
	}
	area, before := highest(t, text, "area"), highest(t, text, "before-line")
	if got, want := area/before, float64(page.File.Result.Peak)/float64(page.File.Baseline.Peak); math.Abs(got-want) > 0.001 {
		t.Errorf("the curves' heights are as %.4f, the peaks as %.4f", got, want)
	}
	if n := strings.Count(text, "<rect class=\"c"); n == 0 || n > len(page.File.Offsets) {
		t.Errorf("%d rectangles for %d lives", n, len(page.File.Offsets))
	}
}

// highest is the height that a path of steps reaches.
func highest(t *testing.T, text, class string) float64 {
	t.Helper()
	m := regexp.MustCompile(`<path class="` + class + `" d="([^"]*)"`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no path %s", class)
	}
	least := math.Inf(1)
	for _, v := range regexp.MustCompile(`(?:^M0 |V)(\d+)`).FindAllStringSubmatch(m[1], -1) {
		var y float64
		fmt.Sscan(v[1], &y)
		least = min(least, y)
	}
	return 4000 - least
}

// TestPageHostile: names are shown as text everywhere, and a page loads nothing from elsewhere.
func TestPageHostile(t *testing.T) {
	const name = `</title></style></svg><script src=//evil>alert("1")</script>'&{{.}}`
	page := tiny(t)
	page.Title, page.Command = name, name
	page.Settings = []report.Setting{{Name: name, Value: name, Source: name}}
	page.File.Model.Path, page.File.Model.Fingerprint, page.File.Strategy, page.File.Request.Compat = name, name, name, name
	page.File.Dims = map[string]int64{name: 3, "b\x00": 4}
	page.File.Result.PeakNode, page.File.Warnings, page.File.Clusters[0].Key, page.File.Clusters[0].Saving = name, []string{name}, name, name
	page.File.Dominant[0].Value = name
	page.File.Formulas.Peaks[0] = formulas.PeakFormula{Formula: name, Node: name}
	page.File.Formulas.Ranges[0].Dim, page.File.Formulas.Flops, page.File.Formulas.ExtraFlops = name, name, name
	for i := range page.Picture.Launches {
		page.Picture.Launches[i].Node = name
	}
	for i := range page.Picture.Lives {
		page.Picture.Lives[i].Value = name
	}
	page.Trained = &report.Trained{Device: name, Stopped: name, Lossy: name, Losses: []float64{1, math.NaN(), math.Inf(1), 0.5},
		Lines: []report.Line{{Name: name, Promised: 1, Measured: 2}}}
	text := pageOf(t, page)
	for _, bad := range []string{"<script", "alert(\"", "://evil", "//evil>", "http:", "https:", "@import", "url("} {
		if i := strings.Index(text, bad); i >= 0 {
			t.Errorf("the page holds %q: …%s…", bad, text[max(0, i-80):min(len(text), i+80)])
		}
	}
	if strings.Count(text, "</title>") != 1+strings.Count(text, "<rect") || strings.Count(text, "</style>") != 1 {
		t.Error("a name ends an element")
	}
	if !strings.Contains(text, "at 2 steps it was no number") {
		t.Error("losses that are no number are not told")
	}
}

// TestPageEdges: empty plans, and extreme figures, make a page.
func TestPageEdges(t *testing.T) {
	const most = math.MaxInt64
	for name, p := range map[string]report.Page{
		"nothing": {File: &planfile.File{}},
		"empty":   {File: &planfile.File{}, Picture: &planner.Picture{}, Trained: &report.Trained{}},
		"one launch": {File: &planfile.File{}, Picture: &planner.Picture{Launches: []planner.PictureLaunch{{Node: "a", Phase: "forward"}},
			Lives: []planner.PictureLife{{Last: 1}}}, Trained: &report.Trained{Losses: []float64{1}}},
		"huge": {File: &planfile.File{Fields: planfile.Fields{Result: planfile.Result{Peak: most, Arena: most}, Baseline: planfile.Baseline{Peak: most},
			Memory: planner.Memory{Total: most, Weights: most}}, Request: planfile.Request{Budget: most}},
			Picture: &planner.Picture{Launches: []planner.PictureLaunch{{Phase: "update", Live: most, Before: most}}, Lives: []planner.PictureLife{{Last: 1, Bytes: most}}},
			Trained: &report.Trained{Losses: []float64{math.MaxFloat64, -math.MaxFloat64}}},
		"flat loss": {File: &planfile.File{}, Trained: &report.Trained{Losses: []float64{0, 0, 0}}},
		"no loss":   {File: &planfile.File{}, Trained: &report.Trained{Losses: []float64{math.NaN(), math.Inf(-1)}}},
	} {
		text := pageOf(t, p)
		if strings.Contains(text, "NaN%") || strings.Contains(text, "Inf%") || strings.Contains(text, "ZgotmplZ") || !strings.HasSuffix(text, "</html>\n") {
			t.Errorf("%s: a spoiled page:\n%s", name, text)
		}
	}
}

// TestPageLong: a page about 40,000 launches with as many live ranges has less than two megabytes,
// and says what it leaves out.
func TestPageLong(t *testing.T) {
	const n = 40_000
	page := tiny(t)
	pic := &planner.Picture{Peak: n / 2}
	for i := range n {
		pic.Launches = append(pic.Launches, planner.PictureLaunch{Node: fmt.Sprintf("transformer.h.%d.attention.projection", i), Phase: []string{"forward", "backward", "update"}[3*i/n],
			Again: i%7 == 3 && i > n/2, Live: int64(i % 5000), Before: int64(i % 9000)})
		pic.Lives = append(pic.Lives, planner.PictureLife{Value: fmt.Sprintf("transformer.h.%d.attention.projection", i), Class: planner.Class(i % 6), First: i, Last: min(n, i+50+i%1000),
			Offset: int64(i%64) * page.File.Result.Arena / 64, Bytes: page.File.Result.Arena / 64})
	}
	page.Picture = pic
	page.File.Clusters = nil
	for i := range 5000 {
		page.File.Clusters = append(page.File.Clusters, planner.Cluster{Key: fmt.Sprintf("%s%d:1:-1", strings.Repeat("Gelu+", 100), i), Freq: 1, Saving: strings.Repeat("4*batch + ", 100)})
	}
	for range 100 {
		page.File.Formulas.Peaks = append(page.File.Formulas.Peaks, formulas.PeakFormula{Formula: strings.Repeat("4*batch + ", 5000), Node: "n"})
	}
	text := pageOf(t, page)
	if len(text) > 2<<20 {
		t.Errorf("the page has %d bytes", len(text))
	}
	for _, want := range []string{"of them are too small to be drawn", "4,800 more are in", "40,000 launches from left to right"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestRunsPage: the page of runs has a bar for each figure of its phases, what was promised, and no name that ends an element.
func TestRunsPage(t *testing.T) {
	rows := []loader.Phase{
		{Name: "P3a", What: "weights in", Device: loader.Gauge{Point: 100, High: 100}, Promised: 128, Owners: []loader.Counts{{Owner: "weights", Requested: 100}}, System: loader.Gauge{Point: 900, High: 1000}},
		{Name: "R1", What: `first run, </title><script>x`, Device: loader.Gauge{Point: 100, High: 164}, Promised: 164, PromisedHost: 2000, Owners: []loader.Counts{{Owner: "weights", Requested: 100}, {Owner: "activations", Requested: 64}}, System: loader.Gauge{Point: 900, High: 1064}},
	}
	var page bytes.Buffer
	if err := report.RunsHTML(&page, "m</title>.onnx", "m.onnx on cpu: a run takes 1.00 ms", []report.Line{{Name: "total", Promised: 164, Measured: 164}}, rows, "added"); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for want, n := range map[string]int{"<rect": 5, `class="promise"`: 3, "<script": 0, "</html>": 1, "<td>R1</td>": 1, ">164</td>": 2, "Made by": 0} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("the page has %q %d times, not %d", want, got, n)
		}
	}
	if strings.Count(text, "</title>") != 1+strings.Count(text, "<rect")+strings.Count(text, `class="promise"`) || !strings.HasSuffix(text, "</html>\n") {
		t.Errorf("a spoiled page:\n%s", text)
	}
}
