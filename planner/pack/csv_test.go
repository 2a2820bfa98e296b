package pack

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadCSV(t *testing.T) {
	p, err := ReadCSV(strings.NewReader("\ufeffsize,id,lower,color,upper,alignment\r\n4,\"a,b\",0,red, 3 ,8\r\n5,c,-1,,7,0\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Problem{Buffers: []Buffer{{0, 3, 4, 8}, {-1, 7, 5, 0}}, Names: []string{"a,b", "c"}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

func TestReadCSVErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "line 1: no column names; want id,lower,upper,size"},
		{"id,lower,size\n", "line 1: no column upper; want id,lower,upper,size"},
		{"id,lower,upper,size,lower\n", "line 1: column lower stands there twice"},
		{"id,lower,upper,size\na,0,1\n", "line 2: 3 fields, but the first line has 4"},
		{"id,lower,upper,size\na,0,1,4\n\nb,0,x,4\n",
			`line 4: upper is "x"; want a whole number from -9223372036854775808 to 9223372036854775807`},
		{"id,lower,upper,size\na,0,9223372036854775808,4\n",
			`line 2: upper is "9223372036854775808"; want a whole number from -9223372036854775808 to 9223372036854775807`},
		{"id,lower,upper,size\na,0,1,-4\n", `line 2: size is "-4"; want a whole number from 0 to 9223372036854775807`},
		{"id,lower,upper,size\na,3,1,4\n", "line 2: upper 1 is below lower 3"},
		{"id,lower,upper,size\na,0,1,4\nb,0,1,4\na,0,1,4\n", `line 4: id "a" stands on line 2 already`},
		{"id,lower,upper,size\n\"a,0,1,4\n", `line 2: extraneous or missing " in quoted-field`},
	} {
		if _, err := ReadCSV(strings.NewReader(c.in)); err == nil || err.Error() != c.want {
			t.Errorf("ReadCSV(%q)\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

// Timestamps that are no int32 are written as they were read.
func TestTimesCSV(t *testing.T) {
	const in = `id,lower,upper,size,offset
a,-9223372036854775808,1700000000000000000,4,4
b,1700000000000000000,9223372036854775807,4,4
c,0,5,8,8
d,5,1700000000000000000,12,8
`
	p, err := ReadCSV(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	s := solved(t, p)
	if err := Check(p, s); err != nil {
		t.Fatal(err)
	}
	if s.Height != 16 {
		t.Errorf("the height is %d, not 16", s.Height)
	}
	var out strings.Builder
	if err := WriteCSV(&out, p, s); err != nil {
		t.Fatal(err)
	}
	offset := regexp.MustCompile(`(?m)\d+$`)
	if diff := cmp.Diff(offset.ReplaceAllString(in, ""), offset.ReplaceAllString(out.String(), "")); diff != "" {
		t.Error(diff)
	}
	p.Buffers[0].Size = -1
	if err := Valid(p); err == nil || err.Error() != `buffer "a": size -1 is negative` {
		t.Errorf("%v; want that the size is negative", err)
	}
	p.Buffers[0] = Buffer{First: p.Buffers[1].Last, Last: p.Buffers[0].First}
	if err := Valid(p); err == nil || err.Error() != `buffer "a": ends at -9223372036854775808, before it begins at 9223372036854775807` {
		t.Errorf("%v; want timestamps as they were read", err)
	}
}

func TestWriteCSV(t *testing.T) {
	in, err := os.Open("testdata/input.12.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p, err := ReadCSV(in)
	if err != nil {
		t.Fatal(err)
	}
	p.Capacity = 12
	s, err := Solve(p, Effort{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteCSV(&out, p, s); err != nil {
		t.Fatal(err)
	}
	want := `id,lower,upper,size,offset
b1,0,3,4,8
b2,3,9,4,8
b3,0,9,4,4
b4,9,21,4,4
b5,0,21,4,0
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if err := WriteCSV(&out, p, Solution{}); err == nil {
		t.Error("no offsets are no error")
	}
	if err := WriteCSV(full{}, p, s); err == nil || err.Error() != "disk is full" {
		t.Errorf("a full disk gives %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk is full") }

func FuzzReadCSV(f *testing.F) {
	for _, seed := range []string{
		"id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n",
		"alignment,id,lower,upper,size\r\n64,\"a\n\",0,3,4\r\n",
		"id,lower,upper,size\na,0,1,9223372036854775807\nb,0,1,1\n",
		"id,lower,upper,size\n\"",
		"id,lower,upper,size\na,-5,1700000000000000000,1\nb,1700000000000000001,9223372036854775807,1\n",
		"\ufeff\"id\",lower,upper,size,hint\na,0,3,4,8\nb,2,5,4,\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadCSV(bytes.NewReader(data))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Fatalf("an error without a line: %v", err)
			}
			return
		}
		s, err := Solve(p, Effort{})
		if err != nil {
			return // sums that are no numbers
		}
		if err := Check(p, s); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := WriteCSV(&out, p, s); err != nil {
			t.Fatal(err)
		}
		q, err := ReadCSV(&out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		for i := range p.Buffers { // an alignment of 1 is none, and without others it is not written
			p.Buffers[i].Align, q.Buffers[i].Align = max(p.Buffers[i].Align, 1), max(q.Buffers[i].Align, 1)
		}
		if !cmp.Equal(p, q) {
			t.Fatalf("read back differently:\n%v\n%v", p, q)
		}
	})
}
