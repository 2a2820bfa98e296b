package spirv

import (
	order "encoding/binary"
	"slices"
	"testing"
)

// TestMarks: marking finds every operation, once, and leaves the rest as it is.
func TestMarks(t *testing.T) {
	op := func(code int, words ...uint32) []uint32 {
		return append([]uint32{uint32(1+len(words))<<16 | uint32(code)}, words...)
	}
	const float, set, a, b, product, sum, fused, root = 1, 2, 3, 4, 5, 6, 7, 8
	decoration := op(opDecorate, a, 0)
	body := slices.Concat(op(opTypeVoid, float), op(opFMul, float, product, a, b), op(opFAdd, float, sum, product, a),
		op(opExtInst, float, fused, set, extFma, a, b, a), op(opExtInst, float, root, set, 31, a))
	bytesOf := func(words ...[]uint32) (code []byte) {
		for _, w := range slices.Concat(words...) {
			code = order.LittleEndian.AppendUint32(code, w)
		}
		return code
	}
	header := make([]uint32, spirvHeader)
	got := Exact(bytesOf(header, decoration, body))
	want := bytesOf(header, op(opDecorate, product, noContraction), op(opDecorate, sum, noContraction), op(opDecorate, fused, noContraction), decoration, body)
	if !slices.Equal(got, want) {
		t.Errorf("got %v", wordsOf(got))
	}
	if again := Exact(got); !slices.Equal(again, got) {
		t.Errorf("marked twice: %v", wordsOf(again))
	}
	if n := len(unmarked(instructions(wordsOf(bytesOf(header, decoration, body))))); n != 3 {
		t.Errorf("%d operations without a mark, not 3", n)
	}
}
