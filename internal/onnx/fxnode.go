package onnx

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// PyTorch's exporter notes at each node the node of its own program that the node came from, and at which place in the
// module it stood:
//
//	%linear_1 : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%view_7, %p_w, %p_b), kwargs = {})
//	['', 'encoder', 'encoder.layers.0', 'linear_1']
const (
	fxKey     = "pkg.torch.onnx.fx_node"
	scopesKey = "pkg.torch.onnx.name_scopes"
	rulesKey  = "pkg.onnxscript.rewriter.rule_name"
)

// fxNode is a node of the exporter's program.
type fxNode struct {
	name  string   // linear_1
	op    string   // aten.linear, without the overload
	args  []string // as written
	reads []string // the names of all values among the arguments, in order
}

var fxRead = regexp.MustCompile(`%(\w+)`)

// parseFx reads the exporter's text of a node; nil if it is another text.
func parseFx(text string) *fxNode {
	name, rest, ok := strings.Cut(strings.TrimPrefix(text, "%"), " ")
	_, rest, called := strings.Cut(rest, "[target=")
	target, rest, closed := strings.Cut(rest, "](args = (")
	if !ok || !called || !closed {
		return nil
	}
	f := &fxNode{name: name, op: strings.TrimPrefix(target, "torch.ops.")}
	if parts := strings.Split(f.op, "."); len(parts) > 2 {
		f.op = strings.Join(parts[:2], ".")
	}
	list, kwargs := topLevel(rest)
	f.args = list
	for _, m := range fxRead.FindAllStringSubmatch(strings.Join(list, ",")+kwargs, -1) {
		f.reads = append(f.reads, m[1])
	}
	return f
}

// topLevel splits a list at its commas up to the closing parenthesis, and returns what follows.
func topLevel(s string) (list []string, rest string) {
	depth, start := 0, 0
	add := func(end int) {
		if item := strings.TrimSpace(s[start:end]); item != "" {
			list = append(list, item)
		}
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(', '[', '{':
			depth++
		case ']', '}':
			depth--
		case ')':
			if depth--; depth < 0 {
				add(i)
				return list, s[i+1:]
			}
		case ',':
			if depth == 0 {
				add(i)
				start = i + 1
			}
		}
	}
	return list, ""
}

// arg is argument i as written; "" if there is none.
func (f *fxNode) arg(i int) string {
	if f == nil || i < 0 || i >= len(f.args) {
		return ""
	}
	return f.args[i]
}

// baseName is a name of the exporter's program without its number: linear_1 is a linear.
func baseName(name string) string {
	at := strings.LastIndexByte(name, '_')
	if at > 0 && strings.Trim(name[at+1:], "0123456789") == "" {
		return name[:at]
	}
	return name
}

// moduleOf is the module in which a node stood, from the exporter's list of scopes.
func moduleOf(scopes string) string {
	list := pythonStrings(scopes)
	if len(list) < 2 {
		return ""
	}
	return list[len(list)-2]
}

// fxPorts says which argument of an operator of PyTorch's an input of a node is, by PyTorch's operator and ONNX's;
// −1 is none of its parameters. These are the operators whose parameters the exporter merges, folds and drops.
var fxPorts = []struct {
	ops   []string
	ports map[string][]int
}{
	{[]string{"aten.linear"}, map[string][]int{"MatMul": {-1, 1}, "Gemm": {-1, 1, 2}, "Add": {2, 2}}},
	{[]string{"aten.addmm"}, map[string][]int{"MatMul": {-1, 2}, "Gemm": {-1, 2, 0}, "Add": {0, 0}}},
	{
		[]string{"aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution", "aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"},
		map[string][]int{"Conv": {-1, 1, 2}, "ConvTranspose": {-1, 1, 2}},
	},
	{[]string{"aten.embedding"}, map[string][]int{"Gather": {0}}},
	{[]string{"aten.layer_norm"}, map[string][]int{"LayerNormalization": {-1, 2, 3}}},
	{[]string{"aten.rms_norm"}, map[string][]int{"RMSNormalization": {-1, 2}, "Mul": {2, 2}}},
	{[]string{"aten.group_norm"}, map[string][]int{"GroupNormalization": {-1, 2, 3}, "Mul": {2, 2}, "Add": {3, 3}}},
	{[]string{"aten.instance_norm"}, map[string][]int{"InstanceNormalization": {-1, 1, 2}}},
	{
		[]string{"aten.batch_norm", "aten._native_batch_norm_legit", "aten._native_batch_norm_legit_functional", "aten._native_batch_norm_legit_no_training"},
		map[string][]int{"BatchNormalization": {-1, 1, 2, 3, 4}},
	},
	{[]string{"aten.prelu"}, map[string][]int{"PRelu": {-1, 1}}},
}

// fxPort is the argument that input i of a node is; −1 if the table does not say.
func fxPort(f *fxNode, op string, i int) int {
	for _, row := range fxPorts {
		if slices.Contains(row.ops, f.op) {
			if ports := row.ports[op]; i < len(ports) {
				return ports[i]
			}
		}
	}
	return -1
}

// fxBias is the argument that is the bias of a node without one; −1 if the node has no such input.
func fxBias(f *fxNode, n *wireNode) int {
	if len(n.in) != 2 || n.op != "Gemm" && n.op != "Conv" && n.op != "ConvTranspose" {
		return -1
	}
	return fxPort(f, n.op, 2)
}

// sameOrder are operators of PyTorch's whose result has the elements of their operand in their order.
var sameOrder = []string{
	"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "alias", "clone", "detach", "contiguous", "lift_fresh_copy",
}

// exchanging are those that exchange the dims of a matrix.
var exchanging = []string{"t", "numpy_T", "transpose", "permute"}

// repeating are those that repeat their operand along dims.
var repeating = []string{"expand", "repeat"}

// asTrained gives a node what training needs and ONNX loses: the row of an embedding that is not trained, and that a batch
// norm was in training mode, with its momentum.
func (r *reader) asTrained(n *node, attrs []graph.Attr, in []*graph.Value) ([]graph.Attr, []*graph.Value) {
	if !r.wantsApart || n.fx == "" || n.op != "Gather" && n.op != "BatchNormalization" {
		return attrs, in
	}
	f := parseFx(n.fx)
	switch {
	case f == nil:
	case n.op == "Gather" && f.op == "aten.embedding":
		row, err := strconv.Atoi(f.arg(2))
		op := r.lib.Find(ownDomain, "StopRow", 0)
		if err != nil || row < 0 || op == nil || len(in) == 0 || in[0] == nil || in[0].Kind == graph.Computed {
			break
		}
		stopped, err := r.b.Node(op, r.b.Fresh(n.name+"/padding"), []graph.Attr{{Name: "row", Value: int64(row)}}, in[:1], []string{r.b.Fresh(n.name + "/padding")})
		if err == nil {
			in = slices.Concat(stopped[:1], in[1:])
		}
	case n.op == "BatchNormalization" && f.arg(5) == "True" && len(f.args) >= 8:
		momentum, err := strconv.ParseFloat(f.arg(6), 64)
		if err != nil || len(n.out) == 0 {
			break
		}
		attrs = slices.DeleteFunc(slices.Clone(attrs), func(a graph.Attr) bool { return a.Name == "momentum" || a.Name == "training_mode" })
		attrs = append(attrs, graph.Attr{Name: "momentum", Value: 1 - momentum}, graph.Attr{Name: "training_mode", Value: int64(1)})
		for _, more := range []string{"_mean", "_var"}[:max(0, 3-len(n.out))] {
			n.out = append(n.out, r.b.Fresh(n.out[0]+more))
		}
	}
	return attrs, in
}

// ownDomain is the domain of memopt's operators.
const ownDomain = "memopt"
