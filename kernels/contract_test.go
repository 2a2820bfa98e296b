package kernels

import (
	order "encoding/binary"
	"slices"
	"strings"
	"testing"
)

// A driver may compute a·b + c with one rounding or with two, as it likes, in one
// shader so and in another otherwise, unless each operation is marked. So all
// are: two kernels that write the same sum in the same order have the same bits
// on any device. A kernel that wants one rounding says fma.

// The words of SPIR-V that are looked at.
const (
	opExtInst       = 12
	opTypeFirst     = 19 // types and constants follow the decorations
	opFAdd          = 129
	opFSub          = 131
	opFMul          = 133
	opFDiv          = 136
	opVectorByScale = 142
	opDot           = 148
	extFma          = 50 // of GLSL.std.450
	noContraction   = 42
)

// rounds reports whether an instruction computes floats that a driver might fuse
// with others, or take apart.
func (i instruction) rounds() bool {
	return slices.Contains([]int{opFAdd, opFSub, opFMul, opFDiv, opVectorByScale, opDot}, i.op) || i.fuses()
}

func (i instruction) fuses() bool { return i.op == opExtInst && i.words[4] == extFma }

// unmarked are the instructions that compute floats without a mark.
func unmarked(all []instruction) []instruction {
	marks := map[uint32]bool{}
	for _, i := range all {
		if i.op == opDecorate && i.words[2] == noContraction {
			marks[i.words[1]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(i instruction) bool { return !i.rounds() || marks[i.words[2]] })
}

// marked is a shader in which every operation on floats stands for itself.
func marked(code []byte) []byte {
	words := wordsOf(code)
	all := instructions(words)
	var marks []byte
	for _, i := range unmarked(all) {
		for _, w := range []uint32{3<<16 | opDecorate, i.words[2], noContraction} {
			marks = order.LittleEndian.AppendUint32(marks, w)
		}
	}
	first := slices.IndexFunc(all, func(i instruction) bool { return i.op == opDecorate || i.op == opTypeFirst })
	return slices.Insert(slices.Clone(code), 4*all[first].at, marks...)
}

// TestNothingFuses: what lies in spv computes floats as it is written.
func TestNothingFuses(t *testing.T) {
	rounding := 0
	for _, s := range shaders {
		all := instructions(wordsOf(s.kernel.Code))
		if n := len(unmarked(all)); n > 0 {
			t.Errorf("%s: a driver may fuse %d operations", s.kernel.Name, n)
		}
		says := strings.Contains(shaderText(t, s), "fma(")
		for _, i := range all {
			if i.rounds() {
				rounding++
			}
			if i.fuses() && !says {
				t.Errorf("%s: a product and a sum are fused, and its source does not say so", s.kernel.Name)
				break
			}
		}
	}
	if rounding < 1000 {
		t.Errorf("only %d operations were seen", rounding)
	}
}

// TestMarks: marking finds every operation, once, and leaves the rest as it is.
func TestMarks(t *testing.T) {
	op := func(code int, words ...uint32) []uint32 {
		return append([]uint32{uint32(1+len(words))<<16 | uint32(code)}, words...)
	}
	const float, set, a, b, product, sum, fused, root = 1, 2, 3, 4, 5, 6, 7, 8
	decoration := op(opDecorate, a, 0)
	body := slices.Concat(op(opTypeFirst, float), op(opFMul, float, product, a, b), op(opFAdd, float, sum, product, a),
		op(opExtInst, float, fused, set, extFma, a, b, a), op(opExtInst, float, root, set, 31, a))
	bytesOf := func(words ...[]uint32) (code []byte) {
		for _, w := range slices.Concat(words...) {
			code = order.LittleEndian.AppendUint32(code, w)
		}
		return code
	}
	header := make([]uint32, spirvHeader)
	got := marked(bytesOf(header, decoration, body))
	want := bytesOf(header, op(opDecorate, product, noContraction), op(opDecorate, sum, noContraction), op(opDecorate, fused, noContraction), decoration, body)
	if !slices.Equal(got, want) {
		t.Errorf("got %v", wordsOf(got))
	}
	if again := marked(got); !slices.Equal(again, got) {
		t.Errorf("marked twice: %v", wordsOf(again))
	}
	if n := len(unmarked(instructions(wordsOf(bytesOf(header, decoration, body))))); n != 3 {
		t.Errorf("%d operations without a mark, not 3", n)
	}
}

// largestShader is the most bytes that a shader may have: drivers for the
// processor have crashed on code that was made by unrolling without end.
const largestShader = 256 << 10

// TestShaderSizes: no shader is so large that drivers fail on it.
func TestShaderSizes(t *testing.T) {
	for _, s := range shaders {
		if n := len(s.kernel.Code); n == 0 || n > largestShader {
			t.Errorf("%s has %d bytes; at most %d", s.kernel.Name, n, largestShader)
		}
	}
}
