package kernels

import (
	"fmt"
	"slices"

	"memopt/memopt/graph"
)

// InPieces is attention that no operator stands for, and why: the first product with
// probabilities that it is so of, and how many there are.
type InPieces struct {
	Node  *graph.Node
	Why   string
	Count int
}

// AttentionInPieces lists, by reason, the attention of a forward pass that is left in
// pieces where FlashAttention or AttentionInRows was to stand for them.
func AttentionInPieces(g *graph.Graph) (left []InPieces) {
	uses := g.Uses()
	for _, n := range g.Nodes {
		if n.Phase != graph.Forward || !isOneOf(n, "MatMul", microsoft+".FusedMatMul") {
			continue
		}
		why := whyInPieces(g, uses, n)
		if why == "" {
			continue
		}
		if i := slices.IndexFunc(left, func(p InPieces) bool { return p.Why == why }); i >= 0 {
			left[i].Count++
			continue
		}
		left = append(left, InPieces{n, why, 1})
	}
	return left
}

func isOneOf(n *graph.Node, ops ...string) bool {
	return n != nil && slices.Contains(ops, n.Op.FullName())
}

// whyInPieces says why attention whose last product this is stays in pieces; "" if it is
// no attention.
func whyInPieces(g *graph.Graph, uses *graph.Uses, n *graph.Node) string {
	soft := n.Inputs[0]
	for isOneOf(soft.Def, "Reshape", "Transpose") {
		soft = soft.Def.Inputs[0]
	}
	switch {
	case isOneOf(soft.Def, microsoft+".BiasSoftmaxDropout"),
		isOneOf(soft.Def, "Dropout", microsoft+".BitmaskDropout", own+".Dropout") && isSoftmax(soft.Def.Inputs[0].Def):
		return "probabilities are dropped out of"
	case !isSoftmax(soft.Def):
		return ""
	case soft != n.Inputs[0]:
		return fmt.Sprintf("probabilities are laid out anew (%s) before they meet the values", n.Inputs[0].Def.Op.Name)
	case slices.Contains(g.Outputs, soft):
		return "probabilities are an output"
	case slices.ContainsFunc(uses.Of(soft), func(r *graph.Node) bool { return r.Phase == graph.Forward && r != n }):
		return "probabilities are read by others too"
	}
	scores, added := soft.Def.Inputs[0], 0
	if isOneOf(soft.Def, microsoft+".BiasSoftmax") {
		added++
	}
	for from := scores.Def; ; from = scores.Def {
		switch {
		case isOneOf(from, "Add"):
			added++
			at := slices.IndexFunc(from.Inputs, func(v *graph.Value) bool {
				return v.Shape.Equal(scores.Shape) && isOneOf(v.Def, "Add", "Where", own+".BandMask", "MatMul", microsoft+".FusedMatMul")
			})
			if at < 0 {
				return "what is added up to scores is no product"
			}
			scores = from.Inputs[at]
			continue
		case isOneOf(from, own+".BandMask"):
			scores = from.Inputs[0]
			continue
		case isOneOf(from, "Where") && from.Inputs[1].Shape.Equal(scores.Shape):
			scores = from.Inputs[1]
			continue
		case isOneOf(from, "MatMul", microsoft+".FusedMatMul"):
			return whyProducts(from, n, scores, added)
		case from == nil:
			return "scores are given, not computed"
		}
		return fmt.Sprintf("scores go through %s", from.Op.Name)
	}
}

func isSoftmax(n *graph.Node) bool {
	return isOneOf(n, "Softmax", own+".SafeSoftmax", microsoft+".BiasSoftmax")
}

func whyProducts(made, n *graph.Node, scores *graph.Value, added int) string {
	for i, v := range []*graph.Value{made.Inputs[1], n.Inputs[1]} {
		what := [...]string{"keys", "values"}[i]
		if v.Rank() != scores.Rank() || !v.Shape[:v.Rank()-2].Equal(scores.Shape[:v.Rank()-2]) {
			return fmt.Sprintf("%s %s are shared by queries %s", what, v.Shape, made.Inputs[0].Shape)
		}
	}
	switch {
	case added > 1:
		return fmt.Sprintf("%d numbers are added to a score; one can be", added)
	case scores.Type != graph.Float32:
		return fmt.Sprintf("%s is rounded at every step", scores.Type)
	}
	return "its mask or layout is none that is known, or others read its queries, keys or values, too"
}
