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
	least  int64
	most   int64
	set    func(b *Buffer, alive *stamps, x int64)
}{
	{"lower", true, math.MinInt64, math.MaxInt64, func(_ *Buffer, alive *stamps, x int64) { alive.lower = x }},
	{"upper", true, math.MinInt64, math.MaxInt64, func(_ *Buffer, alive *stamps, x int64) { alive.upper = x }},
	{"size", true, 0, math.MaxInt64, func(b *Buffer, _ *stamps, x int64) { b.Size = x }},
	{"alignment", false, 0, math.MaxInt64, func(b *Buffer, _ *stamps, x int64) { b.Align = x }},
}

// stamps are when a buffer is alive, as a file says.
type stamps struct{ lower, upper int64 }

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
func ReadCSV(r io.Reader) (p Problem, err error) {
	text := bufio.NewReader(r)
	if mark, err := text.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = text.Discard(3) // some editors begin a file with a byte order mark
	}
	in := csv.NewReader(text)
	in.ReuseRecord = true
	head, err := in.Read()
	if err == io.EOF {
		return Problem{}, errors.New("pack: line 1: no column names; want id,lower,upper,size")
	}
	if err != nil {
		return Problem{}, lineError(err)
	}
	head = slices.Clone(head)
	id, err := column(head, "id", true)
	if err != nil {
		return Problem{}, err
	}
	at := make([]int, len(columns))
	for i, c := range columns {
		if at[i], err = column(head, c.name, c.needed); err != nil {
			return Problem{}, err
		}
	}

	fixed, err := column(head, "fixed", false)
	if err != nil {
		return Problem{}, err
	}
	inPlace, err := column(head, "inplace", false)
	if err != nil {
		return Problem{}, err
	}

	type place struct{ line, buffer int }
	found := map[string]place{} // where an id stands
	type pair struct {
		place
		from string
	}
	var later []pair   // ids that may stand further down
	var spans []stamps // by buffer
	for {
		record, err := in.Read()
		if err == io.EOF {
			for _, x := range later {
				from, ok := found[x.from]
				if !ok {
					return Problem{}, fmt.Errorf("pack: line %d: inplace is %.40q, but no line has that id", x.line, x.from)
				}
				p.InPlace = append(p.InPlace, InPlace{from.buffer, x.buffer})
			}
			p.setTimes(spans)
			return p, nil
		}
		if errors.Is(err, csv.ErrFieldCount) {
			line, _ := in.FieldPos(0)
			return Problem{}, fmt.Errorf("pack: line %d: %d fields, but the first line has %d", line, len(record), len(head))
		}
		if err != nil {
			return Problem{}, lineError(err)
		}
		line, _ := in.FieldPos(0)
		name := strings.Clone(record[id]) // alone: a field holds on to its whole line
		if other, ok := found[name]; ok {
			return Problem{}, fmt.Errorf("pack: line %d: id %.40q stands on line %d already", line, name, other.line)
		}
		here := place{line, len(p.Buffers)}
		found[name] = here
		var b Buffer
		var alive stamps
		for i, c := range columns {
			if at[i] < 0 {
				continue
			}
			x, err := number(line, c.name, record[at[i]], c.least, c.most)
			if err != nil {
				return Problem{}, err
			}
			c.set(&b, &alive, x)
		}
		if fixed >= 0 && strings.TrimSpace(record[fixed]) != "" {
			x, err := number(line, "fixed", record[fixed], 0, math.MaxInt64)
			if err != nil {
				return Problem{}, err
			}
			p.Fixed = append(p.Fixed, Fixed{here.buffer, x})
		}
		if inPlace >= 0 && record[inPlace] != "" {
			later = append(later, pair{here, strings.Clone(record[inPlace])})
		}
		if alive.upper < alive.lower {
			return Problem{}, fmt.Errorf("pack: line %d: upper %d is below lower %d", line, alive.upper, alive.lower)
		}
		p.Names, p.Buffers, spans = append(p.Names, name), append(p.Buffers, b), append(spans, alive)
	}
}

// setTimes has the buffers of p alive in spans. Where their times are no moments, moments are numbered in their order:
// those that follow each other, as of a buffer that takes over another, by numbers that do.
func (p *Problem) setTimes(spans []stamps) {
	moments := !slices.ContainsFunc(spans, func(x stamps) bool { return x.lower < math.MinInt32 || x.upper > math.MaxInt32 })
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

// number is the whole number that a field of some column holds.
func number(line int, name, field string, least, most int64) (int64, error) {
	text := strings.TrimSpace(field)
	x, err := strconv.ParseInt(text, 10, 64)
	if err != nil || x < least || x > most {
		return 0, fmt.Errorf("pack: line %d: %s is %.40q; want a whole number from %d to %d", line, name, text, least, most)
	}
	return x, nil
}

// column is where the column of that name stands in head, -1 if it does not.
func column(head []string, name string, needed bool) (at int, err error) {
	at = -1
	for i, h := range head {
		if strings.TrimSpace(h) != name {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("pack: line 1: column %s stands there twice", name)
		}
		at = i
	}
	if needed && at < 0 {
		return 0, fmt.Errorf("pack: line 1: no column %s; want id,lower,upper,size", name)
	}
	return at, nil
}

// lineError is an error of the csv package as one of ours.
func lineError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("pack: line %d: %w", parse.Line, parse.Err)
	}
	return fmt.Errorf("pack: %w", err)
}

// WriteCSV writes p and s as ReadCSV reads them, with a last column for the offset of each buffer, and before it one each
// for alignments, fixed offsets and buffers that are taken over if there are any.
func WriteCSV(w io.Writer, p Problem, s Solution) error {
	if len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("pack: %d offsets for %d buffers", len(s.Offsets), len(p.Buffers))
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
		for _, x := range []int64{p.time(b.First), p.time(b.Last), b.Size} {
			record = append(record, strconv.FormatInt(x, 10))
		}
		if aligned {
			record = append(record, strconv.FormatInt(b.Align, 10))
		}
		if fixed != nil && fixed[i] != free {
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
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}
