package cluster

import (
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// allowance is a row of ONNX Runtime 1.19's table of operators that may run again: the operator's
// versions, and the inputs that a cluster does not extend through.
type allowance struct {
	level   int
	forms   []int
	ignored []int
}

// allowances is the table by domain and operator. An operator may have several rows, for versions
// with different inputs.
var allowances = map[string][]allowance{}

func init() {
	for line := range strings.Lines(allowanceText) {
		fields := strings.Fields(line)
		row := allowance{level: len(fields[0]) - 1} // . is level 0, .. is level 1
		row.forms = numbers(fields[2])
		if len(fields) > 3 {
			row.ignored = numbers(fields[3])
		}
		allowances[fields[1]] = append(allowances[fields[1]], row)
	}
}

func numbers(list string) (ns []int) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			panic(err) // a typo in the table below
		}
		ns = append(ns, n)
	}
	return ns
}

// Columns: probe level as dots, operator, versions, ignored inputs.
const allowanceText = `.  Add                                         1,6,7,13,14
.  Div                                         1,6,7,13,14
.  Mul                                         1,6,7,13,14
.  Sub                                         1,6,7,13,14
.  BatchNormalization                          1,6,7,9,14,15
.  com.microsoft.BiasDropout                   1           3,4
.  com.microsoft.BiasGelu                      1
.  com.microsoft.BitmaskBiasDropout            1           3,4
.  com.microsoft.BitmaskDropout                1           1,2
.  Cast                                        1,6,9,13,19
.  com.microsoft.ConcatTraining                1
.  ConstantOfShape                             9,20        0
.  Cos                                         7
.  Sin                                         7
.  CumSum                                      11,14       1
.  Dropout                                     12,13       1,2
.  Einsum                                      12
.  Equal                                       1,7,11,13,19
.  Expand                                      8,13        1
.  com.microsoft.FastGelu                      1
.  com.microsoft.FlattenAndUnpad               1           1
.  Gather                                      1,11,13     1
.  Gelu                                        20
.  com.microsoft.Gelu                          1
.  Gemm                                        1,6,7,9,11,13
.  Less                                        1,7,9,13
.  MemcpyFromHost                              1           0
.  Neg                                         1,6,13
.  NonZero                                     9,13
.  com.microsoft.PadAndUnflatten               1           1,2
.  com.microsoft.PythonOp                      1
.  com.microsoft.QuickGelu                     1
.  Range                                       11          0,1,2
.  Reshape                                     1,5,13,14,19
.  Slice                                       1
.  Slice                                       10,11,13    1,2,3,4
.  Split                                       1           1
.  Split                                       2,11
.  Split                                       13,18       1
.  Squeeze                                     1,11
.  Squeeze                                     13          1
.  Unsqueeze                                   1,11
.  Unsqueeze                                   13          1
.  Tile                                        1           1,2
.  Tile                                        6,13        1
.  Transpose                                   1,13
.  Trilu                                       14          1
.  Where                                       9,16
.. com.microsoft.BiasSoftmax                   1
.. com.microsoft.BiasSoftmaxDropout            1           2
.. LayerNormalization                          1,17
.. SimplifiedLayerNormalization                1
.. com.microsoft.SkipLayerNormalization        1
.. com.microsoft.SkipSimplifiedLayerNormalization 1
.. MatMul                                      1,9,13
.. com.microsoft.FusedMatMul                   1
.. Softmax                                     1,11,13`

// fullName is a node's operator with its domain, as in the table.
func fullName(n *graph.OutlineNode) string {
	if n.Domain == "" {
		return n.Op
	}
	return n.Domain + "." + n.Op
}

// flash lists the Python functions that may run again; attentions those of them that contain a
// softmax.
var (
	flash = []string{"flash_attn.bert_padding.IndexFirstAxis", "flash_attn.bert_padding.IndexPutFirstAxis",
		"flash_attn.flash_attn_interface.FlashAttnFunc", "flash_attn.flash_attn_interface.FlashAttnVarlenFunc"}
	attentions = flash[2:]
)

// text is the value of a string attribute, or "".
func text(n *graph.OutlineNode, name string) string {
	for _, a := range n.Attrs {
		if s, ok := a.Value.(string); ok && a.Name == name {
			return s
		}
	}
	return ""
}

// allowed is the row that allows a node to run again, or nil.
func allowed(n *graph.OutlineNode, level int) *allowance {
	if n.Op == "PythonOp" && !slices.Contains(flash, text(n, "func_name")) {
		return nil
	}
	rows := allowances[fullName(n)]
	for i := range rows {
		if rows[i].level <= level && slices.Contains(rows[i].forms, n.Since) {
			return &rows[i]
		}
	}
	return nil
}

// may reports whether a node may run again. Beyond ONNX Runtime's table, and for later versions
// than the table has, the library decides.
func (p *prober) may(i int) bool {
	n := &p.a.Outline.Nodes[i]
	if allowed(n, p.level) != nil {
		return true
	}
	if p.a.Rules.compat() || p.a.Rules.Library == nil {
		return false
	}
	op := p.a.Rules.Library.Find(n.Domain, n.Op, n.Since)
	return op != nil && !op.Border && (op.Recompute != graph.Never || op.View || op.Rewrite != nil)
}

// ignored lists the inputs of a node that a cluster does not extend through.
func (p *prober) ignored(i int) []int {
	n := &p.a.Outline.Nodes[i]
	if row := allowed(n, p.level); row != nil {
		return row.ignored
	}
	// A later version than the table has takes the inputs of the last one in it.
	if rows := allowances[fullName(n)]; len(rows) > 0 && !p.a.Rules.compat() {
		return rows[len(rows)-1].ignored
	}
	return nil
}

// shows lists operators whose output 0 is a view of input 0.
var shows = map[string]bool{"Reshape": true, "Squeeze": true, "Unsqueeze": true, "Flatten": true, "Identity": true}

// overwrites lists operators that ONNX Runtime's CPU kernels were observed to run in place if their
// input has no later reader.
var overwrites = map[string]bool{"Softmax": true}

// shown reports whether output 0 of a node is a view of its input 0.
func (p *prober) shown(i int) bool {
	n := &p.a.Outline.Nodes[i]
	if n.Domain == "" && shows[n.Op] {
		return true
	}
	if p.a.Rules.compat() || p.a.Rules.Library == nil {
		return false
	}
	op := p.a.Rules.Library.Find(n.Domain, n.Op, n.Since)
	return op != nil && op.View
}
