package kernels

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// InPieces is attention that no fused operator replaces, for one reason: the first such
// node (the product with the values), and how many there are.
type InPieces struct {
	Node  *graph.Node
	Why   string
	Count int
}

// AttentionInPieces lists, by reason, the attention in the forward pass that neither
// FlashAttention nor AttentionInRows could replace.
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

// launches is what an operator in pieces costs beside its work: that of the kernels which it runs for each piece, of which it has
// two or so where it is so small that they count.
func launches(n int64) func(*graph.Node) int64 { return func(*graph.Node) int64 { return n } }

func isOneOf(n *graph.Node, ops ...string) bool {
	return n != nil && slices.Contains(ops, n.Op.FullName())
}

// whyInPieces returns why the attention that ends in product n is not fused; "" if n does
// not end an attention.
func whyInPieces(g *graph.Graph, uses *graph.Uses, n *graph.Node) string {
	soft := n.Inputs[0]
	for isOneOf(soft.Def, "Reshape", "Transpose") {
		soft = soft.Def.Inputs[0]
	}
	switch {
	case isOneOf(soft.Def, microsoft+".BiasSoftmaxDropout"),
		isOneOf(soft.Def, "Dropout", microsoft+".BitmaskDropout", own+".Dropout") && isSoftmax(soft.Def.Inputs[0].Def):
		return "there is dropout on the probabilities"
	case !isSoftmax(soft.Def):
		return ""
	case soft != n.Inputs[0]:
		return fmt.Sprintf("%s stands between the softmax and the product with the values", n.Inputs[0].Def.Op.Name)
	case slices.Contains(g.Outputs, soft):
		return "the probabilities are an output of the graph"
	case slices.ContainsFunc(uses.Of(soft), func(r *graph.Node) bool { return r.Phase == graph.Forward && r != n }):
		return "other nodes read the probabilities"
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
				return "an Add in front of the softmax has no product of queries and keys as an input"
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
			return "the scores are an input, not a product of queries and keys"
		}
		return fmt.Sprintf("%s stands between the product and the softmax", from.Op.Name)
	}
}

func isSoftmax(n *graph.Node) bool {
	return isOneOf(n, "Softmax", own+".SafeSoftmax", microsoft+".BiasSoftmax")
}

func whyProducts(made, n *graph.Node, scores *graph.Value, added int) string {
	for i, v := range []*graph.Value{made.Inputs[1], n.Inputs[1]} {
		what := [...]string{"keys", "values"}[i]
		if v.Rank() != scores.Rank() || !v.Shape[:v.Rank()-2].Equal(scores.Shape[:v.Rank()-2]) {
			return fmt.Sprintf("%s %s are broadcast to queries %s", what, v.Shape, made.Inputs[0].Shape)
		}
	}
	switch {
	case added > 1:
		return fmt.Sprintf("%d biases are added to the scores; at most one is supported", added)
	case scores.Type != graph.Float32:
		return fmt.Sprintf("the scores are %s; only f32 is fused, as 16-bit types round at every step", scores.Type)
	}
	return "its mask or layout is not supported, or other nodes read its queries, keys or values"
}
