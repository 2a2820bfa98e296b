package kernels_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"memopt/kernels"
)

// TestRowsKeepBits: attention some queries at a time changes no bit of the loss or of any
// gradient, with a mask or without, over several blocks of queries and of keys, whole and
// not, on any number of workers.
func TestRowsKeepBits(t *testing.T) {
	for _, c := range []struct{ batch, queries, keys, width, out int }{{5, 7, 9, 5, 3}, {2, 300, 300, 16, 20}, {1, 130, 700, 24, 8}, {3, 640, 200, 8, 8}} {
		for _, form := range []string{
			"s = com.microsoft.FusedMatMul(q, k) transB=1 alpha=0.3\np = Softmax(s)",
			"s = com.microsoft.FusedMatMul(q, turned) alpha=0.3\np = Softmax(s)",
			"s = MatMul(q, turned)\nseen = memopt.BandMask(s) right=0 fill=-1e30\np = Softmax(seen)",
			"s = com.microsoft.FusedMatMul(q, k) transB=1 alpha=0.7\nseen = memopt.BandMask(s) left=90 right=70 fill=-1e30\np = Softmax(seen)",
			"s = MatMul(q, turned)\nbiased = Add(s, bias)\np = Softmax(biased)",
			"s = MatMul(q, turned)\nbiased = Add(s, bias)\np = memopt.SafeSoftmax(biased)",
			"s = MatMul(q, turned)\nfill f32[1] = const{-1e30}\nmasked = Where(mask, s, fill)\np = Softmax(masked)",
			"s = MatMul(q, turned)\nfill f32[1] = const{-3}\nmasked = Where(mask, fill, s)\np = Softmax(masked)",
		} {
			text := fmt.Sprintf(`x f32[%[1]d,%[2]d,%[4]d] = input
y f32[%[1]d,%[3]d,%[4]d] = input
bias f32[%[3]d] = input
mask bool[%[2]d,%[3]d] = input
a f32[%[4]d] = param
b f32[%[4]d] = param
w f32[%[4]d,%[5]d] = param
q = Mul(x, a)
k = Mul(y, b)
turned = Transpose(k) perm=[0, 2, 1]
v = MatMul(y, w)
%[6]s
z = MatMul(p, v)
squares = Mul(z, z)
mean = ReduceMean(squares) keepdims=0
output mean`, c.batch, c.queries, c.keys, c.width, c.out, form)
			if !strings.Contains(form, "bias") {
				text = strings.Replace(text, "bias f32", "unread f32", 1)
			}
			if !strings.Contains(form, "mask") {
				text = strings.Replace(text, "mask bool", "nobody bool", 1)
			}
			if !strings.Contains(form, "turned") {
				text = strings.Replace(text, "turned = Transpose(k) perm=[0, 2, 1]\n", "", 1)
			}
			want := stepBytes(t, text, nil, 1)
			for workers := 1; workers <= 3; workers++ {
				got := stepBytes(t, text, kernels.AttentionInRows, workers)
				for name, x := range want {
					if !bytes.Equal(got[name], x) {
						t.Errorf("%v, %s, %d workers: %s has other bits", c, form, workers, name)
					}
				}
			}
		}
	}
}
