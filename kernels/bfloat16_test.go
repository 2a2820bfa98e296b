package kernels

import (
	"bytes"
	endian "encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"memopt/kernels/internal/spirv"
	"memopt/kernels/lower"
)

// TestBFloat16Kernels: kernels with cooperative matrices of bfloat16 are those of float16 with another type, which they convert from
// and to float32, move and multiply in matrices, and nothing else; they are valid.
func TestBFloat16Kernels(t *testing.T) {
	validate := newestCompiler.command("spirv-val", "--version").Run() == nil
	if !validate {
		t.Logf("not validated: there is no spirv-val (%s)", newestCompiler.packages)
	}
	all := lower.BFloat16Kernels()
	if len(all) != 18 {
		t.Errorf("%d kernels, not 18: products and convolutions in three sizes, three parts of attention, and a half form of each", len(all))
	}
	for _, k := range all {
		code := k.Code()
		if !bytes.Contains(code, []byte("SPV_KHR_bfloat16\x00")) {
			t.Errorf("%s does not ask for its extension", k.Name)
		}
		for _, op := range arithmeticOf16Bits(code) {
			t.Errorf("%s: opcode %d computes in bfloat16", k.Name, op)
		}
		path := filepath.Join(t.TempDir(), "kernel.spv")
		if err := os.WriteFile(path, code, 0o644); err != nil {
			t.Fatal(err)
		}
		if !validate {
			continue
		}
		if out, err := newestCompiler.command("spirv-val", "--target-env", "vulkan1.2", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", k.Name, out)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a constant of float16 becomes bfloat16 without its bits")
		}
	}()
	const opTypeFloat, opConstant = 22, 43
	module := make([]byte, 4*5)
	for _, w := range []uint32{3<<16 | opTypeFloat, 1, 16, 4<<16 | opConstant, 1, 2, 0x3c00} {
		module = endian.LittleEndian.AppendUint32(module, w)
	}
	spirv.BFloat16(module)
}

// arithmeticOf16Bits lists the opcodes of a module with results of 16-bit floats, alone or in vectors, that neither convert nor move them.
func arithmeticOf16Bits(code []byte) (ops []uint32) {
	const header, opTypeFloat, opTypeVector, opExtInst, opFNegate, opLastProduct = 5, 22, 23, 12, 127, 148
	of := map[uint32]bool{}
	for at := 4 * header; at < len(code); {
		word := func(i int) uint32 { return endian.LittleEndian.Uint32(code[at+4*i:]) }
		n, op := word(0)>>16, word(0)&0xffff
		switch {
		case op == opTypeFloat && word(2) == 16, op == opTypeVector && of[word(2)]:
			of[word(1)] = true
		case n > 2 && of[word(1)] && (op == opExtInst || op >= opFNegate && op <= opLastProduct): // up to products of vectors and matrices
			ops = append(ops, op)
		}
		at += int(4 * n)
	}
	return ops
}
