package kernels

import "memopt/internal/graph"

// ONNX Runtime's RotaryEmbedding is older than ONNX's, which it is rewritten into: its inputs
// stand in another order, and positions may be those of a run of tokens from a first one.
var _ = define(graph.Op{
	Name:   "RotaryEmbedding",
	Domain: microsoft,
	Doc:    "ONNX's RotaryEmbedding, with positions of all tokens or the first one's",
	In:     "input, position_ids, cos_cache, sin_cache",
	Out:    "output",
	Attrs:  "interleaved int=0, is_packed_batching int=0, num_heads int=0, rotary_embedding_dim int=0, scale float=1",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x, at, cos := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		if n.Int("is_packed_batching") != 0 {
			n.Fail("is_packed_batching is not supported")
		}
		if r := x.Rank(); r != 3 && r != 4 || cos.Rank() != 2 {
			n.Fail("the input must be [B, S, H·D] or [B, H, S, D] and the caches [positions, half], but are %s and %s", x.Shape, cos.Shape)
		}
		wantType(n, 1, isIndex, "int64")
		tokens := x.Shape[x.Rank()-2]
		if at.Rank() < 2 {
			wantOne(n, 1, "position_ids")
			first := reshape(b, at, nil)
			places := b.Op("Add", nil, cast(b, b.Op("Range", nil, b.Int(graph.Num(0)), b.Int(tokens), b.Int(graph.Num(1))), at.Type), first)
			at = expandTo(b, reshape(b, places, graph.Shape{graph.Num(1), tokens}), graph.Shape{x.Shape[0], tokens})
		}
		attrs := graph.A{"interleaved": n.Int("interleaved"), "rotary_embedding_dim": n.Int("rotary_embedding_dim")}
		if x.Rank() == 3 {
			heads := n.Int("num_heads")
			if heads == 0 { // the caches tell the size of a head
				d, known := x.Shape[2].FloorDiv(cos.Shape[1].Mul(graph.Num(2))).Const()
				if !known {
					n.Fail("num_heads is not given, and %s by %s is no number", x.Shape, cos.Shape)
				}
				heads = int(d)
			}
			attrs["num_heads"] = heads
		}
		return []*graph.Value{b.Op("RotaryEmbedding", attrs, x, cos, n.Inputs[3], at)}
	},
	Samples: []string{
		"f32[2,3,8], i64[2,3]<5, f32[5,2], f32[5,2]; num_heads=2",
		"f32[2,2,3,4], i64{1}, f32[5,2], f32[5,2]; interleaved=1",
	},
})
