package pack

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// columns are what ReadCSV looks for in the first line; it steps over others, such as the offset that WriteCSV adds.
var columns = []struct {
	name   string
	needed bool
	least  int64
	most   int64
	set    func(b *Buffer, x int64)
}{
	{"lower", true, math.MinInt32, math.MaxInt32, func(b *Buffer, x int64) { b.First = int32(x) }},
	{"upper", true, math.MinInt32, math.MaxInt32, func(b *Buffer, x int64) { b.Last = int32(x) }},
	{"size", true, 0, math.MaxInt64, func(b *Buffer, x int64) { b.Size = x }},
	{"alignment", false, 0, math.MaxInt64, func(b *Buffer, x int64) { b.Align = x }},
}

// ReadCSV reads a problem in the format of the MiniMalloc benchmarks: a line of column names, then a line a buffer,
// with its id, the first moment it is alive, the first moment it no longer is, its size and, if there is such a column,
// its alignment:
//
//	id,lower,upper,size
//	b1,0,3,4
//	b2,3,9,4
//
// The columns may stand in any order. What cannot be read is an error that names its line; so is an id given twice.
func ReadCSV(r io.Reader) (ids []string, p Problem, err error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err == io.EOF {
		return nil, Problem{}, errors.New("pack: line 1: no column names; want id,lower,upper,size")
	}
	if err != nil {
		return nil, Problem{}, lineError(err)
	}
	head = slices.Clone(head)
	head[0] = strings.TrimPrefix(head[0], "\ufeff") // some editors begin a file with a byte order mark
	id, err := column(head, "id", true)
	if err != nil {
		return nil, Problem{}, err
	}
	at := make([]int, len(columns))
	for i, c := range columns {
		if at[i], err = column(head, c.name, c.needed); err != nil {
			return nil, Problem{}, err
		}
	}

	lines := map[string]int{} // on which line an id stands
	for {
		record, err := in.Read()
		if err == io.EOF {
			return ids, p, nil
		}
		if err != nil {
			return nil, Problem{}, lineError(err)
		}
		line, _ := in.FieldPos(0)
		name := strings.Clone(record[id]) // alone: a field holds on to its whole line
		if other := lines[name]; other > 0 {
			return nil, Problem{}, fmt.Errorf("pack: line %d: id %.40q stands on line %d already", line, name, other)
		}
		lines[name] = line
		var b Buffer
		for i, c := range columns {
			if at[i] < 0 {
				continue
			}
			text := strings.TrimSpace(record[at[i]])
			x, err := strconv.ParseInt(text, 10, 64)
			if err != nil || x < c.least || x > c.most {
				return nil, Problem{}, fmt.Errorf("pack: line %d: %s is %.40q; want a whole number from %d to %d",
					line, c.name, text, c.least, c.most)
			}
			c.set(&b, x)
		}
		if b.Last < b.First {
			return nil, Problem{}, fmt.Errorf("pack: line %d: upper %d is below lower %d", line, b.Last, b.First)
		}
		ids, p.Buffers = append(ids, name), append(p.Buffers, b)
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

// WriteCSV writes p and s as ReadCSV reads them, with a last column for the offset of each buffer, and one for the
// alignment before it if any buffer has one. There is one id a buffer.
func WriteCSV(w io.Writer, ids []string, p Problem, s Solution) error {
	if len(ids) != len(p.Buffers) || len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("pack: %d ids and %d offsets for %d buffers", len(ids), len(s.Offsets), len(p.Buffers))
	}
	aligned := slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.Align > 1 })
	record := []string{"id", "lower", "upper", "size"}
	if aligned {
		record = append(record, "alignment")
	}
	out := csv.NewWriter(w)
	out.Write(append(record, "offset")) // the first error is kept until the end
	for i, b := range p.Buffers {
		record = append(record[:0], ids[i])
		for _, x := range []int64{int64(b.First), int64(b.Last), b.Size} {
			record = append(record, strconv.FormatInt(x, 10))
		}
		if aligned {
			record = append(record, strconv.FormatInt(b.Align, 10))
		}
		out.Write(append(record, strconv.FormatInt(s.Offsets[i], 10)))
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}
