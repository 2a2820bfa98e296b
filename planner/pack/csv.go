package pack

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// columns are the numbers that ReadCSV looks for in the first line; it steps over others, such as the offset that WriteCSV
// adds.
var columns = []struct {
	name   string
	needed bool
	empty  bool // a field may be
	least  int64
	most   int64
	set    func(l *csvLine, x int64)
}{
	{"lower", true, false, math.MinInt64, math.MaxInt64, func(l *csvLine, x int64) { l.alive.lower = x }},
	{"upper", true, false, math.MinInt64, math.MaxInt64, func(l *csvLine, x int64) { l.alive.upper = x }},
	{"size", true, false, 0, math.MaxInt64, func(l *csvLine, x int64) { l.buffer.Size = x }},
	{"alignment", false, false, 0, math.MaxInt64, func(l *csvLine, x int64) { l.buffer.Align = x }},
	{"fixed", false, true, 0, math.MaxInt64, func(l *csvLine, x int64) { l.fixed = x }},
}

// csvLine is what a line says of a buffer.
type csvLine struct {
	number    int
	id        string
	buffer    Buffer
	alive     timestamps
	fixed     int64
	takesOver string // the id of the buffer whose bytes it may take over; "" for none
}

// stamps are when a buffer is alive, as a file says.
type timestamps struct{ lower, upper int64 }

// MostCSV is the largest file that is worth reading: some millions of buffers.
const MostCSV = 1 << 28

// ReadCSV reads a problem in the format of the MiniMalloc benchmarks: a line of column names, then a line a buffer,
// with its id, the first moment it is alive, the first moment it no longer is, and its size:
//
//	id,lower,upper,size
//	b1,0,3,4
//	b2,3,9,4
//
// There may be columns alignment, fixed (the only offset that will do; empty for any) and inplace (the id of the buffer that
// ends a moment after this one begins, whose bytes it may take over; empty for none). They may stand in any order, and
// those of other names are not looked at: a buffer with gaps or a hint is one without. Times may be any whole numbers, as
// nanoseconds of a trace. What cannot be read is an error that names its line; so is an id given twice.
func ReadCSV(r io.Reader) (Problem, error) {
	f, err := newCSVReader(r)
	if err != nil {
		return Problem{}, err
	}
	for {
		switch err := f.next(); {
		case err == io.EOF:
			return f.problem()
		case err != nil:
			return Problem{}, err
		}
	}
}

// csvReader reads a problem line by line.
type csvReader struct {
	in        *csv.Reader
	fields    int   // of the first line
	id        int   // where the columns stand, -1 for one that there is not
	takesOver int   // inplace
	columnAt  []int // those of columns
	lines     []csvLine
	found     map[string]int // by id: which of lines
}

// newCSVReader reads the first line.
func newCSVReader(r io.Reader) (*csvReader, error) {
	text := bufio.NewReader(r)
	if mark, err := text.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = text.Discard(3) // some editors begin a file with a byte order mark
	}
	f := &csvReader{in: csv.NewReader(text), columnAt: make([]int, len(columns)), found: map[string]int{}}
	f.in.ReuseRecord = true
	head, err := f.in.Read()
	if err == io.EOF {
		return nil, errors.New("line 1: no column names; want id,lower,upper,size")
	}
	if err != nil {
		return nil, lineError(err)
	}
	f.fields = len(head)
	if f.id, err = column(head, "id", true); err != nil {
		return nil, err
	}
	for i, c := range columns {
		if f.columnAt[i], err = column(head, c.name, c.needed); err != nil {
			return nil, err
		}
	}
	if f.takesOver, err = column(head, "inplace", false); err != nil {
		return nil, err
	}
	return f, nil
}

// next reads a line, or says io.EOF if there is none.
func (f *csvReader) next() error {
	record, err := f.in.Read()
	if err == io.EOF {
		return err
	}
	if errors.Is(err, csv.ErrFieldCount) {
		line, _ := f.in.FieldPos(0)
		return fmt.Errorf("line %d: %d fields, but the first line has %d", line, len(record), f.fields)
	}
	if err != nil {
		return lineError(err)
	}
	l := csvLine{id: strings.Clone(record[f.id]), fixed: notFixed} // alone: a field holds on to its whole line
	l.number, _ = f.in.FieldPos(0)
	if other, ok := f.found[l.id]; ok {
		return fmt.Errorf("line %d: id %.40q stands on line %d already", l.number, l.id, f.lines[other].number)
	}
	for i, c := range columns {
		if f.columnAt[i] < 0 {
			continue
		}
		text := strings.TrimSpace(record[f.columnAt[i]])
		if text == "" && c.empty {
			continue
		}
		x, err := strconv.ParseInt(text, 10, 64)
		if err != nil || x < c.least || x > c.most {
			return fmt.Errorf("line %d: %s is %.40q; want a whole number from %d to %d", l.number, c.name, text, c.least, c.most)
		}
		c.set(&l, x)
	}
	if f.takesOver >= 0 {
		l.takesOver = strings.Clone(record[f.takesOver])
	}
	if l.alive.upper < l.alive.lower {
		return fmt.Errorf("line %d: upper %d is below lower %d", l.number, l.alive.upper, l.alive.lower)
	}
	f.found[l.id] = len(f.lines)
	f.lines = append(f.lines, l)
	return nil
}

// problem is what all lines say.
func (f *csvReader) problem() (p Problem, err error) {
	var spans []timestamps
	for i, l := range f.lines {
		p.Names, p.Buffers, spans = append(p.Names, l.id), append(p.Buffers, l.buffer), append(spans, l.alive)
		if l.fixed != notFixed {
			p.Fixed = append(p.Fixed, Fixed{i, l.fixed})
		}
		if l.takesOver == "" {
			continue
		}
		from, ok := f.found[l.takesOver]
		if !ok {
			return Problem{}, fmt.Errorf("line %d: inplace is %.40q, but no line has that id", l.number, l.takesOver)
		}
		p.InPlace = append(p.InPlace, InPlace{from, i})
	}
	p.setTimes(spans)
	return p, nil
}

// setTimes has the buffers of p alive in spans. Where their times are no moments, moments are numbered in their order:
// those that follow each other, as of a buffer that takes over another, by numbers that do.
func (p *Problem) setTimes(spans []timestamps) {
	moments := !slices.ContainsFunc(spans, func(x timestamps) bool { return x.lower < math.MinInt32 || x.upper > math.MaxInt32 })
	moment := func(time int64) int32 { return int32(time) }
	if !moments {
		var times []int64
		for _, x := range spans {
			times = append(times, x.lower, x.upper)
		}
		slices.Sort(times)
		for _, t := range slices.Compact(times) {
			if n := len(p.Times); n > 0 && p.Times[n-1] != t-1 {
				p.Times = append(p.Times, t-1) // a moment between
			}
			p.Times = append(p.Times, t)
		}
		moment = func(time int64) int32 {
			at, _ := slices.BinarySearch(p.Times, time)
			return int32(at)
		}
	}
	for i, x := range spans {
		p.Buffers[i].First, p.Buffers[i].Last = moment(x.lower), moment(x.upper)
	}
}

// column is where the column of that name stands in head, -1 if it does not.
func column(head []string, name string, needed bool) (at int, err error) {
	at = -1
	for i, h := range head {
		if strings.TrimSpace(h) != name {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("line 1: column %s stands there twice", name)
		}
		at = i
	}
	if needed && at < 0 {
		return 0, fmt.Errorf("line 1: no column %s; want id,lower,upper,size", name)
	}
	return at, nil
}

// lineError is an error of the csv package as one of ours.
func lineError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("line %d: %w", parse.Line, parse.Err)
	}
	return err
}

// WriteCSV writes p and s as ReadCSV reads them, with a last column for the offset of each buffer, and before it one each
// for alignments, fixed offsets and buffers that are taken over if there are any.
func WriteCSV(w io.Writer, p Problem, s Solution) error {
	if len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(s.Offsets), len(p.Buffers))
	}
	aligned := slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.Align > 1 })
	fixed := p.fixedOffsets()
	from := map[int]string{} // by buffer: the one that it may take over
	for _, x := range p.InPlace {
		from[x.To] = p.label(x.From)
	}
	record := []string{"id", "lower", "upper", "size"}
	for _, c := range []struct {
		name string
		on   bool
	}{{"alignment", aligned}, {"fixed", fixed != nil}, {"inplace", len(p.InPlace) > 0}} {
		if c.on {
			record = append(record, c.name)
		}
	}
	out := csv.NewWriter(w)
	out.Write(append(record, "offset")) // the first error is kept until the end
	for i, b := range p.Buffers {
		record = append(record[:0], p.label(i))
		for _, x := range []int64{p.timestamp(b.First), p.timestamp(b.Last), b.Size} {
			record = append(record, strconv.FormatInt(x, 10))
		}
		if aligned {
			record = append(record, strconv.FormatInt(b.Align, 10))
		}
		if fixed != nil && fixed[i] != notFixed {
			record = append(record, strconv.FormatInt(fixed[i], 10))
		} else if fixed != nil {
			record = append(record, "")
		}
		if len(p.InPlace) > 0 {
			record = append(record, from[i])
		}
		out.Write(append(record, strconv.FormatInt(s.Offsets[i], 10)))
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return err
	}
	return nil
}
