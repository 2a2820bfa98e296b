package configs

import (
	"strings"
	"testing"
)

func TestNearestCluster(t *testing.T) {
	known := []string{"LayerNormalization+", "MatMul+Add+Add+", "MatMul+Add+Reshape+Split+Transpose+", "FastGelu+", "Cast+Where+Softmax+"}
	for _, c := range []struct{ word, want string }{
		{"FastGelu", "FastGelu+"},
		{"fastgelu+", "FastGelu+"},
		{"LayerNorm+", "LayerNormalization+"},
		{"MatMul+Add+", "MatMul+Add+Add+"},
		{"MatMul+Add+Reshape+Transpose+", "MatMul+Add+Reshape+Split+Transpose+"},
		{"Where+Softmax+", "Cast+Where+Softmax+"},
		{"Conv+Relu+", ""},
		{"", ""},
		{strings.Repeat("Add+", 5000), ""},
	} {
		if got, _ := NearestCluster(c.word, known); got != c.want {
			t.Errorf("%.40q: %q, not %q", c.word, got, c.want)
		}
	}
}
