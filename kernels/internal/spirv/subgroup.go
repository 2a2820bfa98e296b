package spirv

import "fmt"

// Subgroups finds subgroup operations in non-uniform control flow, where they are
// undefined: CPU drivers still do what was meant, but GPU drivers do not. A condition is
// non-uniform if it may depend on the lane's index, on a scan, or on memory at an address
// that does. asked counts the subgroup operations, and partly describes those under such a
// condition. Calls are not followed, as optimized modules have none. spec has values of specialization constants by
// number: what they exclude is left out.
func Subgroups(code []byte, spec map[uint32]uint32) (asked int, partly []string) {
	s := readBlocks(code, spec)
	s.spread()
	for b, block := range s.blocks {
		for _, in := range block.code {
			if !in.wantsAll() {
				continue
			}
			if asked++; s.partly[b] {
				partly = append(partly, fmt.Sprintf("opcode %d in block %%%d runs under a condition that differs between lanes", in.op, block.label))
			}
		}
	}
	return asked, partly
}

// Opcodes that the analysis distinguishes.
const (
	opVectorShuffle     = 79
	opCompositeExtract  = 81
	opControlBarrier    = 224
	opFirstAtomic       = 227
	opLastAtomic        = 242
	opPhi               = 245
	opBranchConditional = 250
	opSwitch            = 251
	opElect             = 333
	opBallot            = 339
	opFirstArithmetic   = 349
	opLastArithmetic    = 364
	opLastSubgroup      = 366
	opFirstCooperative  = 4456
	opLastCooperative   = 4460
	builtIn             = 11 // a decoration
)

// wantsAll reports whether an instruction needs all lanes.
func (in instruction) wantsAll() bool {
	return in.op >= opElect && in.op <= opLastSubgroup || in.op == opControlBarrier || in.op >= opFirstCooperative && in.op <= opLastCooperative
}

// reads lists the ids that an instruction's result depends on.
func (in instruction) reads() []uint32 {
	w := in.words
	switch in.op {
	case opExtInst:
		return w[5:]
	case opLoad, opCompositeExtract:
		return w[3:4]
	case opVectorShuffle:
		return w[3:5]
	case opPhi:
		var all []uint32
		for i := 3; i < len(w); i += 2 {
			all = append(all, w[i])
		}
		return all
	}
	return w[3:]
}

// same reports whether the result is uniform whatever the operands are.
func (in instruction) same() bool {
	switch {
	case in.op > opElect && in.op <= opBallot: // all, any, equal, broadcasts, the ballot
		return true
	case in.op >= opFirstArithmetic && in.op <= opLastArithmetic:
		return in.words[4] == 0 // a reduction rather than a scan
	}
	return false
}

type basicBlock struct {
	label uint32
	code  []instruction
	next  []int
}

// analyzed is a module's only function, with the values and blocks that differ between lanes.
type analyzed struct {
	blocks  []*basicBlock
	differs map[uint32]bool
	known   known
	partly  []bool // by block: only some lanes may enter
}

func readBlocks(code []byte, spec map[uint32]uint32) *analyzed {
	s := &analyzed{differs: map[uint32]bool{}, known: known{}}
	numbers := map[uint32]uint32{} // of specialization constants, by id
	var block *basicBlock
	of := map[uint32]int{}
	for _, in := range instructions(wordsOf(code)) {
		s.known.learn(in, spec, numbers)
		switch {
		case in.op == opDecorate && in.words[2] == specID:
			numbers[in.words[1]] = in.words[3]
		case in.op == opDecorate && in.words[2] == builtIn:
			switch in.words[3] {
			case 27, 28, 29, 41: // LocalInvocationId, GlobalInvocationId, LocalInvocationIndex, SubgroupLocalInvocationId
				s.differs[in.words[1]] = true
			}
		case in.op == opLabel:
			block = &basicBlock{label: in.words[1]}
			of[block.label] = len(s.blocks)
			s.blocks = append(s.blocks, block)
		case block != nil && in.op != opFunctionEnd:
			block.code = append(block.code, in)
		}
	}
	for _, b := range s.blocks {
		last := b.code[len(b.code)-1]
		var to []uint32
		switch last.op {
		case opBranch:
			to = last.words[1:]
		case opBranchConditional:
			to = last.words[2:4]
			if v, ok := s.known[last.words[1]]; ok {
				to = last.words[3-v : 4-v]
			}
		case opSwitch:
			to = append(to, last.words[2])
			for i := 4; i < len(last.words); i += 2 {
				to = append(to, last.words[i])
			}
		}
		for _, label := range to {
			b.next = append(b.next, of[label])
		}
	}
	s.prune()
	s.partly = make([]bool, len(s.blocks))
	return s
}

// spread propagates non-uniformity to a fixed point.
func (s *analyzed) spread() {
	meets := s.meet()
	for changed := true; changed; {
		changed = false
		mark := func(id uint32) {
			if !s.differs[id] {
				s.differs[id], changed = true, true
			}
		}
		for b, block := range s.blocks {
			for _, in := range block.code {
				switch {
				case in.op == opStore:
					if s.differs[in.words[2]] || s.partly[b] {
						mark(in.words[1])
					}
				case in.op >= opLoopMerge && in.op <= opUnreachable || len(in.words) < 3 || in.op == opVariable || in.same():
				case in.op == opElect || in.op > opBallot && in.op < opFirstArithmetic || in.op >= opFirstAtomic && in.op <= opLastAtomic:
					mark(in.result())
				case in.op == opSelect && s.isKnown(in.words[3]):
					if s.differs[in.words[5-s.known[in.words[3]]]] {
						mark(in.result())
					}
				default:
					for _, id := range in.reads() {
						if s.differs[id] {
							mark(in.result())
						}
					}
				}
			}
			last := block.code[len(block.code)-1]
			if last.op != opBranchConditional && last.op != opSwitch || !s.differs[last.words[1]] {
				continue
			}
			meet := meets[b]
			for c := range s.before(b, meet) {
				if !s.partly[c] {
					s.partly[c], changed = true, true
				}
				s.markPhis(c, mark)
			}
			if meet >= 0 {
				s.markPhis(meet, mark)
			}
		}
	}
}

func (s *analyzed) isKnown(id uint32) bool {
	_, ok := s.known[id]
	return ok
}

func (s *analyzed) markPhis(b int, mark func(uint32)) {
	for _, in := range s.blocks[b].code {
		if in.op == opPhi {
			mark(in.words[1])
		}
	}
}

// before returns the blocks that are reachable from b before lanes meet again.
func (s *analyzed) before(b, meet int) map[int]bool {
	found := map[int]bool{}
	var visit func(int)
	visit = func(c int) {
		if c == meet || found[c] {
			return
		}
		found[c] = true
		for _, n := range s.blocks[c].next {
			visit(n)
		}
	}
	for _, n := range s.blocks[b].next {
		visit(n)
	}
	return found
}

// meet computes each block's immediate postdominator, where lanes that diverge at the block
// reconverge; -1 is the end. It is the block's declared merge, unless lanes leave by break
// or continue.
func (s *analyzed) meet() []int {
	n := len(s.blocks)
	rank, order := make([]int, n), []int(nil) // of the reversed graph, from the end
	from := make([][]int, n)
	for b, block := range s.blocks {
		rank[b] = -1
		for _, c := range block.next {
			from[c] = append(from[c], b)
		}
	}
	seen := make([]bool, n)
	var visit func(int)
	visit = func(b int) {
		if seen[b] {
			return
		}
		seen[b] = true
		for _, p := range from[b] {
			visit(p)
		}
		order = append(order, b)
	}
	for b, block := range s.blocks {
		if len(block.next) == 0 {
			visit(b)
		}
	}
	for i, b := range order {
		rank[b] = i
	}
	meets, known := make([]int, n), make([]bool, n)
	common := func(a, b int) int {
		for a != b && a >= 0 && b >= 0 {
			if rank[a] < rank[b] {
				a = meets[a]
			} else {
				b = meets[b]
			}
		}
		if a != b {
			return -1
		}
		return a
	}
	for changed := true; changed; {
		changed = false
		for i := len(order) - 1; i >= 0; i-- {
			b, at, any := order[i], -1, false
			for _, c := range s.blocks[b].next {
				switch {
				case !known[c]:
				case !any:
					at, any = c, true
				default:
					at = common(at, c)
				}
			}
			if !known[b] || meets[b] != at {
				meets[b], known[b], changed = at, true, true
			}
		}
	}
	return meets
}
