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
	s := readBlocks(code, nil)
	s.spread()
	if got := fmt.Sprint(s.partly); got != "[false true false]" {
		t.Errorf("%s of three blocks run in parts, not the second alone", got)
	}
}

// TestSubgroupsBySpecialization: what a specialization constant excludes is no condition between lanes.
func TestSubgroupsBySpecialization(t *testing.T) {
	words := make([]uint32, spirvHeader)
	add := func(op int, operands ...uint32) { words = append(words, newInstruction(op, operands...).words...) }
	add(opDecorate, 10, builtIn, 41) // the number of a lane
	add(opDecorate, 40, specID, 7)
	add(opVariable, 1, 10, 1)
	add(opConstant, 2, 5, 1)
	add(opSpecConstant, 2, 40, 0)
	add(opSpecConstantOp, 3, 41, 170, 40, 5) // is constant 7 one?
	add(opFunction, 1, 11, 0, 1)
	add(opLabel, 20)
	add(opLoad, 2, 30, 10)
	add(opSelect, 2, 31, 41, 30, 5) // the lane's number if so, else 1
	add(170, 3, 32, 31, 5)
	add(opSelectionMerge, 22, 0)
	add(opBranchConditional, 32, 21, 22)
	add(opLabel, 21)
	add(337, 2, 33, 6, 30, 5) // a broadcast
	add(opBranch, 22)
	add(opLabel, 22)
	add(opReturn)
	code := make([]byte, 4*len(words))
	for i, w := range words {
		endian.LittleEndian.PutUint32(code[4*i:], w)
	}
	for _, c := range []struct {
		spec map[uint32]uint32
		want int
	}{{nil, 1}, {map[uint32]uint32{7: 1}, 1}, {map[uint32]uint32{7: 0}, 0}} {
		if _, partly := Subgroups(code, c.spec); len(partly) != c.want {
			t.Errorf("with %v: %q", c.spec, partly)
		}
	}
}
