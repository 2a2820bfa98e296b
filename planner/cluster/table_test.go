package cluster_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"memopt/internal/graph"
	"memopt/planner/cluster"
)

// recorded is a block of a file under testdata/ort.
type recorded struct {
	model, what string
	lines       []string
}

func recordedBlocks(t *testing.T, path string) (blocks []recorded) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(string(src), "\n"), "\n\n") {
		head, rest, _ := strings.Cut(block, "\n")
		model, what, _ := strings.Cut(head, " ")
		blocks = append(blocks, recorded{model, what, strings.Split(rest, "\n")})
	}
	return blocks
}

// table splits a recorded table into its first line, rows and notes.
func (r recorded) table() (head string, rows, notes []string) {
	head, rows = r.lines[0], r.lines[1:]
	if i := slices.IndexFunc(rows, func(l string) bool { return strings.HasPrefix(l, "Note 1") }); i >= 0 {
		rows, notes = rows[:i], rows[i:]
	}
	return head, rows, notes
}

// firstBatch is the sizes in the last note.
func firstBatch(t *testing.T, notes []string) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	if len(notes) == 0 {
		return sizes
	}
	for _, part := range strings.Split(strings.TrimSuffix(strings.TrimSpace(notes[len(notes)-1]), ","), ",  ") {
		name, n, _ := strings.Cut(part, "=")
		size, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = size
	}
	return sizes
}

var blanks = regexp.MustCompile(`  +`)

// cells splits a row where two blanks are, and takes the colons out.
func cells(row string) (out []string) {
	for _, c := range blanks.Split(strings.TrimSpace(row), -1) {
		if c != ":" {
			out = append(out, c)
		}
	}
	return out
}

// TestTableForm: every table that was recorded is printed blank for blank from
// what its cells say; formulas are read and come back as they were.
func TestTableForm(t *testing.T) {
	for _, r := range recordedBlocks(t, "testdata/ort/tables.txt") {
		head, rows, _ := r.table()
		first := cells(head)
		h := cluster.Heading{On: first[1] == "ON"}
		if h.On {
			level, path, ok := strings.Cut(strings.TrimPrefix(first[2], "Memory Optimization Level: ["), "], Optimization Config: [")
			if !ok {
				t.Fatal(head)
			}
			h.Level = slices.Index([]string{"USER_SPECIFIED", "TRANSFORMER_LAYERWISE_RECOMPUTE", "TRANSFORMER_LAYERWISE_RECOMPUTE_WITH_COMPROMISE"}, level)
			h.Path = strings.TrimSuffix(path, "]")
		}
		var lines []cluster.Line
		for _, row := range rows[min(1, len(rows)):] {
			c := cells(row)
			e, err := cluster.ParseSaving(c[5])
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(c[3])
			if err != nil {
				t.Fatal(err)
			}
			k := cluster.Key{Members: make([]cluster.Member, n)}
			for _, p := range requests(t, c[2]) {
				k.Parts = append(k.Parts, cluster.Part{ID: p.ID, Type: p.Type})
			}
			lines = append(lines, cluster.Line{Key: k, On: c[1] == "ON", Saving: e, Value: c[4]})
		}
		var out strings.Builder
		if err := cluster.PrintTable(&out, h, lines); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]string{head}, rows...), strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")); diff != "" {
			t.Errorf("%s %s:\n%s", r.model, r.what, diff)
		}
	}
}

// TestTableContent: under Compat the tables say what the recorded ones say: the
// same plans in the same order, on and off, with the same values. Of a node with
// several kept outputs ONNX Runtime counts any one; those rows may differ in
// value and place. A shape that the session inferred and did not save is unknown
// here.
func TestTableContent(t *testing.T) {
	anyOne := regexp.MustCompile(`LayerNormalization\+|Dropout\+`)
	unnamed := regexp.MustCompile(`\d+\.0\*(empty_dim_param\d+|unknown)`)
	tables := 0
	for _, r := range recordedBlocks(t, "testdata/ort/tables.txt") {
		_, rows, notes := r.table()
		sizes := firstBatch(t, notes)
		kind, arg, _ := strings.Cut(r.what, " ")
		level := 0
		if kind == "level" {
			level, _ = strconv.Atoi(arg)
		}
		a := probe(t, byIndex(t, r.model), cluster.Rules{ProbeLevel: 1, Boundary: level > 0, Compat: "1.19"})
		var asked []cluster.Request
		switch {
		case kind == "config" && arg != "":
			asked = requests(t, arg)
		case level > 0:
			asked = atLevel(t, a, level)
		}
		lines, err := a.Table(asked, sizes)
		if err != nil {
			t.Fatal(err)
		}
		tables++
		var want, got, wantAny, gotAny []string
		for _, row := range rows[min(1, len(rows)):] {
			c := cells(row)
			if anyOne.MatchString(c[2]) {
				wantAny = append(wantAny, strings.Join(c[1:4], " "))
				continue
			}
			want = append(want, unnamed.ReplaceAllString(strings.Join(c[1:5], " "), "unnamed"))
		}
		for _, l := range lines {
			state := "OFF"
			if l.On {
				state = "ON"
			}
			row := state + " " + l.Key.String() + " " + strconv.Itoa(len(l.Key.Members))
			if anyOne.MatchString(row) {
				gotAny = append(gotAny, row)
				continue
			}
			got = append(got, unnamed.ReplaceAllString(row+" "+l.Value, "unnamed"))
		}
		slices.Sort(wantAny)
		slices.Sort(gotAny)
		if diff := cmp.Diff(append(want, wantAny...), append(got, gotAny...)); diff != "" {
			t.Errorf("%s %s:\n%s", r.model, r.what, diff)
		}
	}
	if tables < 15 {
		t.Errorf("%d tables", tables)
	}
}

// TestNotes: what stands under a table, with the sizes of the first batch.
func TestNotes(t *testing.T) {
	for _, r := range recordedBlocks(t, "testdata/ort/tables.txt") {
		_, _, notes := r.table()
		if len(notes) == 0 {
			continue
		}
		o := &graph.Outline{Values: map[string]graph.OutlineValue{}}
		for _, part := range strings.Fields(notes[len(notes)-1]) {
			name, _, _ := strings.Cut(part, "=")
			o.Inputs = append(o.Inputs, name)
			o.Values[name] = graph.OutlineValue{Shape: graph.Shape{graph.Sym(name), graph.Num(3)}, Known: true}
		}
		var out strings.Builder
		if err := cluster.PrintNotes(&out, o, firstBatch(t, notes)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(notes, strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")); diff != "" {
			t.Errorf("%s %s:\n%s", r.model, r.what, diff)
		}
	}
}

// TestSavingsAddUp: at any sizes the formula of a key comes to the bytes of all
// outputs of all its places, one by one, and prints so that it reads back.
func TestSavingsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, model := range []string{"mlp", "gpt2", "bert", "resnet", "onnxruntime/3layer_bloom_optimized_training"} {
		for _, rules := range []cluster.Rules{{ProbeLevel: 1, Boundary: true}, {ProbeLevel: 1, Compat: "1.19"}} {
			o := training(t, model)
			a := probe(t, o, rules)
			lines, err := a.Table(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				sizes := map[string]int64{}
				for _, v := range o.Values {
					for _, d := range v.Shape {
						for _, name := range d.Names() {
							if sizes[name] == 0 {
								sizes[name] = 2 + rng.Int64N(500)
							}
						}
					}
				}
				// One size for each name, whatever order the values came in.
				names := make([]string, 0, len(sizes))
				for name := range sizes {
					names = append(names, name)
				}
				slices.Sort(names)
				for _, name := range names {
					sizes[name] = 2 + rng.Int64N(500)
				}
				binding, err := graph.Bind(sizes)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range lines {
					want, known := 0.0, true
					for _, m := range l.Key.Members {
						for _, opt := range a.Options(m) {
							for _, s := range opt.Outputs {
								v := a.ValueOf(s.Name)
								known = known && v.Known && s.Shape != "unknown"
								if s.Reused >= 0 || !known {
									continue
								}
								shape, err := binding.Shape(v.Shape)
								if err != nil {
									known = false
									continue
								}
								n := float64(v.Type.Size())
								for _, d := range shape {
									n *= float64(d)
								}
								want += n * opt.Ratio
							}
						}
					}
					if !known {
						continue
					}
					e, err := cluster.ParseSaving(a.Raw(&l.Key, false))
					if err != nil {
						t.Fatal(err)
					}
					back, err := cluster.ParseSaving(e.String())
					if err != nil {
						t.Fatal(err)
					}
					for _, x := range []cluster.Expression{e, back} {
						if got, ok := x.At(sizes).Number(); !ok || got != want {
							t.Fatalf("%s: %s is %s = %v, and the outputs take %v", model, &l.Key, x, got, want)
						}
					}
				}
			}
		}
	}
}

// TestOddNames: what a file calls a dim may be no word. It is a name in quotes
// then, and has its size.
func TestOddNames(t *testing.T) {
	for _, name := range []string{"the batch", "2x", "n*", "(n", "n)*(m", "数", `say "n"`} {
		o := outline(t, "a0 Add x c -> x0\na com.microsoft.Gelu x0 -> g\nY YieldOp g -> dg\nb GeluGrad dg x0 g -> e\noutputs e\nvalue x0 f32 n 64\nvalue g f32 n 64")
		for value, v := range o.Values {
			v.Shape, v.Spelled = graph.Shape{graph.Sym(name), graph.Num(64)}, []string{name, "64"}
			o.Values[value] = v
		}
		for _, compat := range []string{"1.19", ""} {
			a := probe(t, o, cluster.Rules{ProbeLevel: 1, Compat: compat})
			lines, err := a.Table(nil, map[string]int64{name: 5})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, l := range lines {
				if l.Value != "1,280" || !strings.Contains(l.Saving.String(), strconv.Quote(name)) {
					t.Errorf("%q, compat %q: %s saves %s = %s", name, compat, &l.Key, l.Saving, l.Value)
				}
			}
		}
	}
}
