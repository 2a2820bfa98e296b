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

// MostCSV is the largest file that is worth reading: some millions of buffers.
const MostCSV = 1 << 28

// csvLine is what a line says of a buffer.
type csvLine struct {
	number       int
	id           string
	buffer       Buffer
	lower, upper int64 // timestamps
}

// csvColumns are the columns that ReadCSV looks for in the first line. It skips others, such as the offset that WriteCSV
// adds.
var csvColumns = []struct {
	name        string
	needed      bool
	least, most int64                     // of numbers
	number      func(l *csvLine, x int64) // nil: text is called
	text        func(l *csvLine, s string)
}{
	{"id", true, 0, 0, nil, func(l *csvLine, s string) { l.id = s }},
	{"lower", true, math.MinInt64, math.MaxInt64, func(l *csvLine, x int64) { l.lower = x }, nil},
	{"upper", true, math.MinInt64, math.MaxInt64, func(l *csvLine, x int64) { l.upper = x }, nil},
	{"size", true, 0, math.MaxInt64, func(l *csvLine, x int64) { l.buffer.Size = x }, nil},
	{"alignment", false, 0, math.MaxInt64, func(l *csvLine, x int64) { l.buffer.Align = x }, nil},
}

// ReadCSV reads a problem in the format of the MiniMalloc benchmarks: a line of column names, then a line a buffer,
// with its id, the first moment it is alive, the first moment it no longer is, and its size:
//
//	id,lower,upper,size
//	b1,0,3,4
//	b2,3,9,4
//
// There may be a column alignment. Columns may stand in any order, and those of other names are skipped: a buffer with gaps
// or a hint is one without. Times may be any whole numbers, such as nanoseconds of a trace. What cannot be read is an error
// that names its line; so is an id given twice.
func ReadCSV(r io.Reader) (Problem, error) {
	text := bufio.NewReader(r)
	if mark, err := text.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = text.Discard(3) // some editors begin a file with a byte order mark
	}
	in := csv.NewReader(text)
	in.ReuseRecord = true
	head, err := in.Read()
	if err == io.EOF {
		return Problem{}, errors.New("line 1: no column names; want id,lower,upper,size")
	}
	if err != nil {
		return Problem{}, lineError(err)
	}
	fields := len(head)
	places, err := findColumns(head)
	if err != nil {
		return Problem{}, err
	}
	var lines []csvLine
	byID := map[string]int{}
	for {
		record, err := in.Read()
		if err == io.EOF {
			return problemOf(lines), nil
		}
		if err != nil && !errors.Is(err, csv.ErrFieldCount) {
			return Problem{}, lineError(err)
		}
		number, _ := in.FieldPos(0)
		if err != nil {
			return Problem{}, fmt.Errorf("line %d: %d fields, but the first line has %d", number, len(record), fields)
		}
		l := csvLine{number: number}
		if err := l.parse(record, places, lines, byID); err != nil {
			return Problem{}, fmt.Errorf("line %d: %w", number, err)
		}
		byID[l.id] = len(lines)
		lines = append(lines, l)
	}
}

// findColumns is where each of csvColumns stands in the first line; -1 if it does not.
func findColumns(head []string) (places []int, err error) {
	for _, c := range csvColumns {
		place := -1
		for i, name := range head {
			if strings.TrimSpace(name) != c.name {
				continue
			}
			if place >= 0 {
				return nil, fmt.Errorf("line 1: column %s stands there twice", c.name)
			}
			place = i
		}
		if c.needed && place < 0 {
			return nil, fmt.Errorf("line 1: no column %s; want id,lower,upper,size", c.name)
		}
		places = append(places, place)
	}
	return places, nil
}

// parse reads the fields of a line that comes after lines.
func (l *csvLine) parse(record []string, places []int, lines []csvLine, byID map[string]int) error {
	for i, c := range csvColumns {
		if places[i] < 0 {
			continue
		}
		field := record[places[i]]
		if c.text != nil {
			c.text(l, strings.Clone(field)) // a field shares the memory of its line
			if other, ok := byID[l.id]; ok && c.name == "id" {
				return fmt.Errorf("id %.40q stands on line %d already", l.id, lines[other].number)
			}
			continue
		}
		field = strings.TrimSpace(field)
		x, err := strconv.ParseInt(field, 10, 64)
		if err != nil || x < c.least || x > c.most {
			return fmt.Errorf("%s is %.40q; want a whole number from %d to %d", c.name, field, c.least, c.most)
		}
		c.number(l, x)
	}
	if l.upper < l.lower {
		return fmt.Errorf("upper %d is below lower %d", l.upper, l.lower)
	}
	return nil
}

// problemOf is what all lines say together.
func problemOf(lines []csvLine) (p Problem) {
	for _, l := range lines {
		p.Names, p.Buffers = append(p.Names, l.id), append(p.Buffers, l.buffer)
	}
	p.setTimes(lines)
	return p
}

// setTimes sets when buffers are alive. If a timestamp is no int32, moments are the positions of timestamps in p.Times, in
// their order.
func (p *Problem) setTimes(lines []csvLine) {
	moment := func(timestamp int64) int32 { return int32(timestamp) }
	if slices.ContainsFunc(lines, func(l csvLine) bool { return l.lower < math.MinInt32 || l.upper > math.MaxInt32 }) {
		var all []int64
		for _, l := range lines {
			all = append(all, l.lower, l.upper)
		}
		slices.Sort(all)
		p.Times = slices.Compact(all)
		moment = func(timestamp int64) int32 {
			i, _ := slices.BinarySearch(p.Times, timestamp)
			return int32(i)
		}
	}
	for i, l := range lines {
		p.Buffers[i].First, p.Buffers[i].Last = moment(l.lower), moment(l.upper)
	}
}

// lineError turns an error of package csv into one of ours.
func lineError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("line %d: %w", parse.Line, parse.Err)
	}
	return err
}

// WriteCSV writes p and s as ReadCSV reads them, with a last column for the offset of each buffer, and one for
// alignments before it if there are any.
func WriteCSV(w io.Writer, p Problem, s Solution) error {
	if len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(s.Offsets), len(p.Buffers))
	}
	aligned := slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.Align > 1 })
	head := []string{"id", "lower", "upper", "size"}
	if aligned {
		head = append(head, "alignment")
	}
	out := csv.NewWriter(w)
	out.Write(append(head, "offset")) // the writer keeps its first error
	number := func(x int64) string { return strconv.FormatInt(x, 10) }
	for i, b := range p.Buffers {
		record := []string{p.label(i), number(p.timestamp(b.First)), number(p.timestamp(b.Last)), number(b.Size)}
		if aligned {
			record = append(record, number(b.Align))
		}
		out.Write(append(record, number(s.Offsets[i])))
	}
	out.Flush()
	return out.Error()
}
