package kernels

import "testing"

// The vectors that come with the authors' Random123 library.
func TestPhilox(t *testing.T) {
	for _, v := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
			[2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		var got [4]uint32
		c, k := v.counter, v.key
		got[0], got[1], got[2], got[3] = philox(c[0], c[1], c[2], c[3], k[0], k[1])
		if got != v.want {
			t.Errorf("philox(%x, %x) is %x, not %x", v.counter, v.key, got, v.want)
		}
	}
}

func BenchmarkPhilox(b *testing.B) {
	words := make([]uint32, 1<<12)
	b.SetBytes(int64(4 * len(words)))
	for b.Loop() {
		stream{}.fill(words, 0)
	}
}
