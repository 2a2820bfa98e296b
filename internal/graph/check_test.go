package graph

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// good has one of everything that Check looks at.
const good = `graph good
x f32[n, 4] = input
w f32[4, 4] = param
c i64[2] = const {n, 4}
d f32[2] = const {1, 2}
s f32[4, 4] = state
h f32[n, 4] = MatMul(x, w)
a f32[n, 4], m bool[n, 4] = Dropout(h)
y f32[n, 4] = Reshape(a, c)
l f32[] = Mean(y)
backward:
dw f32[4, 4] = Relu(w)
update:
w2 f32[4, 4] = memopt.Decay(w, dw)
s2 f32[4, 4] = Relu(s)
output y
output l
loss l
update w = w2
update s = s2
grad w = dw
hold a until dw
`

// TestCheck breaks a good graph in every way that Check knows; each has its
// message.
func TestCheck(t *testing.T) {
	type breakage struct {
		name, want string
		do         func(g *Graph)
	}
	v := func(g *Graph, name string) *Value { return g.ByName(name) }
	n := func(g *Graph, name string) *Node { return g.ByName(name).Def }
	breakages := []breakage{
		{"a nil value", `value 1 is nil`, func(g *Graph) { g.Values[1] = nil }},
		{"a wrong ID", `value "w" has ID 7 at place 1`, func(g *Graph) { v(g, "w").ID = 7 }},
		{"no name", `value 1 has no name`, func(g *Graph) { v(g, "w").Name = "" }},
		{"two of one name", `two values are named "x"`, func(g *Graph) { v(g, "w").Name = "x" }},
		{"a name of nothing", `14 names for 13 values`, func(g *Graph) { g.byName["ghost"] = v(g, "x") }},
		{"no type", `value "w" has no element type`, func(g *Graph) { v(g, "w").Type = Invalid }},
		{"a sequence", `value "w" is a sequence`, func(g *Graph) { v(g, "w").Kind = Sequence }},
		{"elements of a sequence", `value "w" is a sequence`, func(g *Graph) { v(g, "w").Seq = []*Value{} }},
		{"a node that is not known", `value "h" is computed, but its node says otherwise`, func(g *Graph) { v(g, "h").Def = nil }},
		{"a node of a param", `value "w" is param, but its node says otherwise`, func(g *Graph) { v(g, "w").Def = n(g, "h") }},
		{"contents of another size", `value "c": 1 known contents for shape [2]`, func(g *Graph) { v(g, "c").Ints = v(g, "c").Ints[:1] }},
		{"data of another size", `value "d": 4 bytes of data for f32[2]`, func(g *Graph) { v(g, "d").Data = make(Bytes, 4) }},
		{"data of a size that is too large", `4611686018427387904 × 4 is out of range`, func(g *Graph) { v(g, "d").Shape = Dims(1 << 62) }},
		{"a negative dim", `value "x" has a dim of -1`, func(g *Graph) { v(g, "x").Shape[0] = Num(-1) }},

		{"a nil node", `node 1 is nil`, func(g *Graph) { g.Nodes[1] = nil }},
		{"a wrong node ID", `node "a" has ID 0 at place 1`, func(g *Graph) { n(g, "a").ID = 0 }},
		{"no operator", `node "a" has no operator that can run`, func(g *Graph) { n(g, "a").Op = nil }},
		{"an operator for reading only", `node "a" has no operator that can run`, func(g *Graph) { n(g, "a").Op = testLibrary.Find("", "Twice", 0) }},
		{"forward too late", `node "w2" (Decay) is forward after the forward phase has ended`, func(g *Graph) { n(g, "w2").Phase = Forward }},
		{"too many inputs", `node "a" (Dropout): 4 inputs, at most 3 are known`, func(g *Graph) { n(g, "a").Inputs = make([]*Value, 4) }},
		{"an input omitted", `node "a" (Dropout): input 0 (data) is missing`, func(g *Graph) { n(g, "a").Inputs[0] = nil }},
		{"too few inputs", `node "h" (MatMul): input 1 (B) is missing`, func(g *Graph) { n(g, "h").Inputs = n(g, "h").Inputs[:1] }},
		{"too many outputs", `node "l" (Mean): 2 outputs, at most 1 are known`, func(g *Graph) { n(g, "l").Outputs = make([]*Value, 2) }},
		{"no outputs", `node "l" (Mean): output 0 (Y) is missing`, func(g *Graph) { n(g, "l").Outputs = nil }},
		{"an unknown attribute", `node "l" (Mean): attribute "b" is not known; this operator has none`, func(g *Graph) { n(g, "l").Attrs = []Attr{{"b", int64(1)}} }},
		{"an attribute of another kind", `node "a" (Dropout): attribute "seed" is int, not string`, func(g *Graph) { n(g, "a").Attrs = []Attr{{"seed", "1"}} }},
		{"an attribute of no kind", `node "a" (Dropout): attribute "seed" is int, not attribute`, func(g *Graph) { n(g, "a").Attrs = []Attr{{"seed", 1}} }},
		{"an attribute twice", `node "a" (Dropout): attribute "seed" is given twice or out of order`, func(g *Graph) { n(g, "a").Attrs = []Attr{{"seed", int64(1)}, {"seed", int64(2)}} }},
		{"an input from elsewhere", `node "a" (Dropout): input 0 (h) is not in this graph`, func(g *Graph) { n(g, "a").Inputs[0] = parse(t, good).ByName("h") }},
		{"an input with an ID of nothing", `node "a" (Dropout): input 0 (other) is not in this graph`, func(g *Graph) { n(g, "a").Inputs[0] = &Value{Name: "other", ID: -1} }},
		{"use before it is made", `node "h" (MatMul): input 0 (y) is used before it is made`, func(g *Graph) { n(g, "h").Inputs[0] = v(g, "y") }},
		{"a node that reads itself", `node "y" (Reshape): input 0 (y) is used before it is made`, func(g *Graph) { n(g, "y").Inputs[0] = v(g, "y") }},
		{"an output omitted", `node "l" (Mean): output 0 is missing`, func(g *Graph) { n(g, "l").Outputs[0] = nil }},
		{"an output of another node", `node "a" (Dropout): output 1 (h) belongs elsewhere`, func(g *Graph) { n(g, "a").Outputs[1] = v(g, "h") }},
		{"an output at another place", `node "a" (Dropout): output 0 (a) belongs elsewhere`, func(g *Graph) { v(g, "a").Out = 1 }},
		{"a node that is gone", `value "s2": its node "s2" is not in the graph`, func(g *Graph) { g.Nodes = g.Nodes[:len(g.Nodes)-1] }},

		{"an output that is not there", `an output is not in this graph`, func(g *Graph) { g.Outputs[0] = &Value{} }},
		{"a nil output", `an output is not in this graph`, func(g *Graph) { g.Outputs[0] = nil }},
		{"an input that is not there", `an input is not in this graph`, func(g *Graph) { g.Inputs[0] = nil }},
		{"an input that is none", `input "w" is param`, func(g *Graph) { g.Inputs[0] = v(g, "w") }},
		{"a loss of many", `loss y f32[n, 4] is not one float of this graph`, func(g *Graph) { g.Loss = v(g, "y") }},
		{"a loss of another type", `loss m bool[n, 4] is not one float of this graph`, func(g *Graph) { g.Loss = v(g, "m") }},
		{"a loss that is not there", `loss l f32[] is not one float of this graph`, func(g *Graph) { g.Loss = parse(t, good).Loss }},
		{"an update of nothing", `an update is not in this graph`, func(g *Graph) { g.Updates[0].State = nil }},
		{"an update by nothing", `an update is not in this graph`, func(g *Graph) { g.Updates[0].New = nil }},
		{"an update of an input", `update of "x", which is input`, func(g *Graph) { g.Updates[0].State = v(g, "x") }},
		{"two updates of one", `two updates of "w"`, func(g *Graph) { g.Updates[1].State = v(g, "w") }},
		{"an update of another type", `update of w f32[4, 4] by m bool[n, 4]`, func(g *Graph) { g.Updates[0].New = v(g, "m") }},
		{"an update of another shape", `update of w f32[4, 4] by h f32[n, 4]`, func(g *Graph) { g.Updates[0].New = v(g, "h") }},
		{"a gradient of another shape", `gradient h f32[n, 4] is not of parameter w f32[4, 4]`, func(g *Graph) { g.Grads[0].Grad = v(g, "h") }},
		{"a gradient that is not there", `gradient <nil> is not of parameter w f32[4, 4]`, func(g *Graph) { g.Grads[0].Grad = nil }},
		{"a hold of nothing", `a value that is held is not in this graph`, func(g *Graph) { g.Holds[0].Value = nil }},
		{"a hold for ever", `"a" is held until a node that is not in this graph, or a view`, func(g *Graph) { g.Holds[0].Until = nil }},
		{"a hold until a node from elsewhere", `"a" is held until a node that is not in this graph, or a view`, func(g *Graph) { g.Holds[0].Until = parse(t, good).Nodes[4] }},
		{"a hold until a view", `"a" is held until a node that is not in this graph, or a view`, func(g *Graph) { g.Holds[0].Until = n(g, "y") }},
		{"a hold that ends before it begins", `"a" is held until "h", which runs before it is made`, func(g *Graph) { g.Holds[0].Until = n(g, "h") }},
	}
	said := ""
	for _, c := range breakages {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, good)
			c.do(g)
			err := g.Check()
			if want := c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
		said += c.want + "\n"
	}

	// Every message of check.go is among them.
	src, err := os.ReadFile("check.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`bad\("([^"]*(?:\\"[^"]*)*)"`).FindAllStringSubmatch(string(src), -1) {
		pattern := regexp.MustCompile(`%[a-z]`).ReplaceAllString(regexp.QuoteMeta(strings.ReplaceAll(m[1], `\"`, `"`)), ".*")
		if !regexp.MustCompile(`(?m)^` + pattern + `$`).MatchString(said) {
			t.Errorf("no case is for the message %q", m[1])
		}
	}
}

func TestCheckTypes(t *testing.T) {
	for want, do := range map[string]func(g *Graph){
		`node "h" (MatMul): output h f64[n, 4] should be f32[n, 4]`:     func(g *Graph) { g.ByName("h").Type = Float64 },
		`node "l" (Mean): output l f32[1] should be f32[]`:              func(g *Graph) { g.ByName("l").Shape = Dims(1) },
		`node "a" (Dropout): output m bool[4, n] should be bool[n, 4]`:  func(g *Graph) { g.ByName("m").Shape = Shape{Num(4), Sym("n")} },
		`node "h" (MatMul): columns of A and rows of B: 4 and 5 differ`: func(g *Graph) { g.ByName("w").Shape = Dims(5, 4) },
	} {
		g := parse(t, good)
		if err := g.CheckTypes(); err != nil {
			t.Fatal(err)
		}
		do(g)
		assumed := len(g.Assumed)
		if err := g.CheckTypes(); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if len(g.Assumed) != assumed {
			t.Error("checking has assumed something")
		}
	}
}
