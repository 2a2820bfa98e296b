package spirv

import (
	endian "encoding/binary"
	"fmt"
	"testing"
)

// TestSubgroupsInParts: the analysis finds what it is for, in a shader that asks under ?:.
func TestSubgroupsInParts(t *testing.T) {
	words := make([]uint32, spirvHeader)
	add := func(op int, operands ...uint32) { words = append(words, newInstruction(op, operands...).words...) }
	add(opDecorate, 10, builtIn, 41) // the number of a lane
	add(opVariable, 1, 10, 1)
	add(opFunction, 1, 11, 0, 1)
	add(opLabel, 20)
	add(opLoad, 2, 30, 10)
	add(170, 3, 31, 30, 5) // is it 5?
	add(opSelectionMerge, 22, 0)
	add(opBranchConditional, 31, 21, 22)
	add(opLabel, 21)
	add(337, 2, 32, 6, 30, 5) // a broadcast
	add(opBranch, 22)
	add(opLabel, 22)
	add(337, 2, 33, 6, 30, 5)
	add(opReturn)
	code := make([]byte, 4*len(words))
	for i, w := range words {
		endian.LittleEndian.PutUint32(code[4*i:], w)
	}
	s := readBlocks(code)
	s.spread()
	if got := fmt.Sprint(s.partly); got != "[false true false]" {
		t.Errorf("%s of three blocks run in parts, not the second alone", got)
	}
}
