package kernels

import "memopt/internal/graph"

var _ = defineSumMask(sumMask{
	name:   "BiasDropout",
	doc:    "Dropout of data + bias, plus a residual",
	biased: true,
	fuse:   fuseBiasDropout,
},
	"f32[5,7], f32[7], f32[5,7], f32[]{0.4}, bool[]{1}",
	"f32[5,7], f32[7], _, f32[]{0.4}, bool[]{1}; seed=3 -> y",
	"f32[3,50], f32[3,50], f32[3,50], _, bool[]{1}",
	"f32[4], f32[4], f32[4], f32[]{0}, bool[]{1}",
	"f32[4], f32[4], f32[4], f32[]{0.4}",
	"f32[2,3], f32[1], f32[2,3]",
	"f16[5], f16[5], f16[5], f32[]{0.4}, bool[]{1}",
	"f32[0,3], f32[3], _, f32[]{0.4}, bool[]{1}",
)

var _ = defineSumMask(sumMask{
	name:   "BitmaskBiasDropout",
	doc:    "BiasDropout with a mask of bits",
	biased: true,
	bits:   true,
},
	"f32[5,7], f32[7], f32[5,7], f32[]{0.4}, bool[]{1}",
	"f32[0,7], f32[7], f32[0,7], f32[]{0.4}, bool[]{1}",
	"f32[5,7], f32[7], _, f32[]{0.4}, bool[]{1}; seed=3 -> y",
	"f32[3,50], f32[3,50], f32[3,50], _, bool[]{1}",
	"f32[4], f32[4], f32[4], f32[]{0.4}",
)

// fuseBiasDropout fuses the bias before a dropout into BiasDropout, then the residual
// after it. The seed is the dropout's identity, so the same elements are dropped.
func fuseBiasDropout(m *graph.Match) []*graph.Value {
	p, n := pieces{m}, m.Node
	switch n.Op.FullName() {
	case "Dropout":
		x, bias := p.biased(n.Inputs[0])
		if x == nil || n.Output(1) != nil {
			return nil
		}
		return []*graph.Value{biasDropout(m, n, x, bias, nil, n.In(1), n.In(2))}
	case "Add":
		for i, v := range n.Inputs {
			drop, residual := p.Inner(v, "com.microsoft.BiasDropout"), n.Inputs[1-i]
			if drop != nil && drop.In(2) == nil && drop.Output(1) == nil && residual != v && residual.Shape.Equal(v.Shape) {
				return []*graph.Value{biasDropout(m, drop, drop.Inputs[0], drop.Inputs[1], residual, drop.In(3), drop.In(4))}
			}
		}
	}
	return nil
}

func biasDropout(m *graph.Match, drop *graph.Node, in ...*graph.Value) *graph.Value {
	return m.Builder.Op("com.microsoft.BiasDropout", graph.A{"seed": int64(drop.Identity())}, in...)
}
