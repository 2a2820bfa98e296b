package kernels

import "memopt/internal/graph"

// philox is Philox4x32-10, a counter-based generator: four random words from a counter and a
// key, without state (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011). The
// words are separate variables, not an array, so that they stay in registers.
func philox(c0, c1, c2, c3, k0, k1 uint32) (uint32, uint32, uint32, uint32) {
	for range 10 {
		a, b := uint64(c0)*0xd2511f53, uint64(c2)*0xcd9e8d57
		c0, c1, c2, c3 = uint32(b>>32)^c1^k0, uint32(b), uint32(a>>32)^c3^k1, uint32(a)
		k0 += 0x9e3779b9
		k1 += 0xbb67ae85
	}
	return c0, c1, c2, c3
}

// stream is the random words of one node in one step. Word i depends only on the seed, the
// step, the node's identity and i, so it can be drawn again in any order.
type stream struct {
	key  [2]uint32
	step uint32
	who  [2]uint32
}

func newStream(c *graph.Call, who uint64) stream {
	return stream{
		key:  [2]uint32{uint32(c.Seed), uint32(c.Seed >> 32)},
		step: uint32(c.Step),
		who:  [2]uint32{uint32(who), uint32(who >> 32)},
	}
}

// fill draws the words of four consecutive elements for each of blocks
// [block, block + len(words)/4).
func (s stream) fill(words []uint32, block int) {
	for ; len(words) >= 4; words = words[4:] {
		words[0], words[1], words[2], words[3] = philox(uint32(block), s.step, s.who[0], s.who[1], s.key[0], s.key[1])
		block++
	}
}
