package graph

import "testing"

func TestParseLine(t *testing.T) {
	for line, want := range map[string]Line{
		`h f32[batch, 64] = MatMul(x, w)`:                                                            {"h", "MatMul", ""},
		`y f32[2], mask bool[2] = Dropout(h, _, on) seed=7 @"layer 0/drop = out"`:                    {"layer 0/drop = out", "Dropout", "layer 0"},
		`"a = \"b\", c" f32[2] = aten.add.Tensor("x (y", z) literals="[\" @no\"]" module="blocks.0"`: {`a = "b", c`, "aten.add.Tensor", "blocks.0"},
		`"transformer.h.0.mlp/Gelu" f32[2] = com.microsoft.Gelu(x)`:                                  {"transformer.h.0.mlp/Gelu", "com.microsoft.Gelu", "transformer.h.0.mlp"},
		`"/h.0/mlp/c_fc/Gemm" f32[2] = Gemm(x)`:                                                      {"/h.0/mlp/c_fc/Gemm", "Gemm", "h.0.mlp.c_fc"},
		`"h.0.mlp.c_fc" f32[2] = Gemm(x)`:                                                            {"h.0.mlp.c_fc", "Gemm", "h.0.mlp.c_fc"},
		`x`:                                                                                          {"x", "", ""},
		``:                                                                                           {"", "", ""},
		`"`:                                                                                          {`"`, "", ""},
	} {
		if got := ParseLine(line); got != want {
			t.Errorf("%s\nis %+v, not %+v", line, got, want)
		}
	}
}
