package f32

// Packing with AVX-512. The elements that a tap of a convolution reads for sixteen adjacent
// positions are one masked load, wherever the edges are. Blocks of sixteen rows are transposed in
// registers.

// wide reports whether this CPU has the loops of this file.
func wide() bool { return vectors && lanes == 16 }

// tapTable lists what the taps of a convolution read of an image. The last axis has stride 1
// or 2.
type tapTable struct {
	positions, seen [3]int
	taps            int
	run             int      // number of positions that read elements at a constant stride: an image, or a line
	stride          [3]int   // between the elements that adjacent positions of an axis read
	at              []int    // by tap: offset from the element that tap 0 reads without padding
	bits            []uint64 // by tap: a bit for each position that does not read padding; then a row of zeros
	words           int      // length of a row of bits
}

func newTapTable(c *Convolution, back bool) *tapTable {
	l := &tapTable{positions: c.Out, seen: c.In, taps: Volume(c.Kernel), stride: c.Stride}
	if back {
		l.positions, l.seen = c.In, c.Out
	}
	if l.run = l.positions[2]; c.Stride == Ones && l.positions == l.seen {
		l.run = Volume(l.positions)
	}
	l.words = Volume(l.positions)/64 + 2
	l.at, l.bits = make([]int, l.taps), make([]uint64, (l.taps+1)*l.words)
	// see returns a tap's offset along an axis, and the positions [lo, hi) that do not read padding.
	see := func(axis, k int) (first, lo, hi int) {
		stride := c.Stride[axis]
		if first = k*c.Dilation[axis] - c.Pad[axis]; back {
			first = -first
		}
		lo = ceil(max(0, -first), stride)
		hi = min(l.positions[axis], ceil(max(0, l.seen[axis]-first), stride))
		return first, lo, hi
	}
	for tap := range l.taps {
		dz, z0, z1 := see(0, tap/(c.Kernel[1]*c.Kernel[2]))
		dy, y0, y1 := see(1, tap/c.Kernel[2]%c.Kernel[1])
		dx, x0, x1 := see(2, tap%c.Kernel[2])
		l.at[tap] = (dz*l.seen[1]+dy)*l.seen[2] + dx
		row := l.bits[tap*l.words:][:l.words]
		for z := z0; z < z1; z++ {
			for y := y0; y < y1; y++ {
				line := (z*l.positions[1] + y) * l.positions[2]
				setBits(row, line+x0, line+x1)
			}
		}
	}
	return l
}

// setBits sets bits [lo, hi).
func setBits(row []uint64, lo, hi int) {
	for lo < hi {
		n := min(64-lo%64, hi-lo)
		row[lo/64] |= (1<<n - 1) << (lo % 64)
		lo += n
	}
}

// sees is the mask of sixteen positions that do not read padding with a tap.
func (l *tapTable) sees(tap, at int) uint16 {
	row := l.bits[tap*l.words+at/64:]
	return uint16(row[0]>>(at%64) | row[1]<<(64-at%64))
}

// place is the element that tap 0 reads for a position without padding.
func (l *tapTable) place(at int) int {
	if l.run > l.positions[2] {
		return at
	}
	x, y, z := at%l.positions[2], at/l.positions[2]%l.positions[1], at/l.positions[2]/l.positions[1]
	return (z*l.stride[0]*l.seen[1]+y*l.stride[1])*l.seen[2] + x*l.stride[2]
}

// sight is what one tap reads for sixteen positions, for consecutive channels: source and
// destination offsets, and masks of the elements to load and to store. The assembly depends on the
// layout of the fields.
type sight struct {
	from, to     int
	channels     int32
	sees, writes uint16
}

// packWide is Pack with positions as the outer index.
func (m *columns) packWide(dst []float32, i0, i1, p0, p1, w int) {
	l := m.look
	all, size := Volume(l.positions), Volume(l.seen)
	var list [64]sight
	n := 0
	flush := func() {
		if l.stride[2] == 1 {
			copySeen(dst, m.images, list[:n], ceil(p1-p0, l.taps), size, l.taps*w)
		} else {
			copyPairs(dst, m.images, list[:n], size, l.taps*w)
		}
		n = 0
	}
	for q := i0; q < i1; {
		at, lane := q%all, (q-i0)%16
		run := min(l.run-at%l.run, i1-q, 16-lane)
		base, mine := q/all*m.step+l.place(at)-lane*l.stride[2], uint16(1<<run-1)
		writes := mine << lane
		if lane == 0 {
			writes = 1<<16 - 1 // write zeros beyond the end, too; later stores overwrite them
		}
		channels, more := (p1-p0)/l.taps, (p1-p0)%l.taps
		channel, tap := p0/l.taps, p0%l.taps
		for i := range min(l.taps, p1-p0) {
			if n == len(list) {
				flush()
			}
			s := &list[n]
			n++
			s.from, s.to = base+channel*size+l.at[tap], i*w+q-i0-lane
			s.channels, s.sees, s.writes = int32(channels), l.sees(tap, at)&mine<<lane, writes
			if i < more {
				s.channels++
			}
			if tap++; tap == l.taps {
				tap, channel = 0, channel+1
			}
		}
		q += run
	}
	flush()
}

// turning transposes sixteen rows: the offset of each in elements from base, the offset of its bits
// in bytes, and the lanes to store. The assembly depends on the layout of the fields.
type turning struct {
	from, seen [16]int
	base       int
	lanes      uint16
}

// turnWide is Pack with (channel, tap) as the outer index.
func (m *columns) turnWide(dst []float32, i0, i1, p0, p1, w int) {
	l := m.look
	all, size := Volume(l.positions), Volume(l.seen)
	for i := i0; i < i1; i += 16 {
		t := turning{lanes: firstLanes(w - (i - i0))}
		channel, tap := i/l.taps, i%l.taps
		for r := range t.from {
			if i+r >= i1 {
				t.seen[r] = 8 * l.taps * l.words
				continue
			}
			t.from[r], t.seen[r] = channel*size+l.at[tap], 8*tap*l.words
			if tap++; tap == l.taps {
				tap, channel = 0, channel+1
			}
		}
		for p := p0; p < p1; {
			at := p % all
			run := min(l.run-at%l.run, p1-p)
			t.base = p/all*m.step + l.place(at)
			to := dst[(p-p0)*w+i-i0:]
			if l.stride[2] == 1 {
				turnSeen(to, m.images, &t, run, w, l.bits, at)
			} else {
				turnPairs(to, m.images, &t, run, w, l.bits, at)
			}
			p += run
		}
	}
}

// firstLanes is the mask of the first n of sixteen lanes.
func firstLanes(n int) uint16 { return uint16(1<<min(n, 16) - 1) }

// turnRows transposes n rows of k floats.
func turnRows(dst, src []float32, n, k, ld, w int) {
	for i := 0; i < n; i += 16 {
		t := turning{base: i * ld, lanes: firstLanes(n - i)}
		for r := range t.from {
			t.from[r] = min(r, n-i-1) * ld
		}
		turnAll(dst[i:], src, &t, k, w)
	}
}

// turnTaps is Pack for filters with several taps, or with a subset of at most mostTaps taps.
func (f transposed) turnTaps(dst []float32, i0, i1, p0, p1, w int) {
	t := turning{lanes: firstLanes(i1 - i0)}
	for r := range t.from {
		t.from[r] = min(i0+r, i1-1) * f.taps
	}
	taps := f.taps
	if f.of != nil {
		taps = len(f.of)
	}
	for p := p0; p < p1; {
		outer, first := p/taps, p%taps
		n := min(taps-first, p1-p)
		t.base = outer * f.inner * f.taps
		if f.of == nil {
			t.base += first
			turnAll(dst[(p-p0)*w:], f.data, &t, n, w)
		} else {
			some := 0
			for _, tap := range f.of[first : first+n] {
				some |= 1 << tap
			}
			turnSome(dst[(p-p0)*w:], f.data, &t, n, w, f.taps, some)
		}
		p += n
	}
}

// mostTaps is the most taps of filters of which turnTaps can pack a subset.
const mostTaps = 16
