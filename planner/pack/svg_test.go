package pack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteSVG(t *testing.T) {
	p := Problem{Buffers: []Buffer{{0, 3, 6, 0}, {3, 6, 2, 0}, {4, 4, 9, 0}}, Names: []string{"</title><a&b>", "b", "none"}}
	var out strings.Builder
	if err := WriteSVG(&out, p, Solution{Offsets: []int64{2, 0, 0}, Height: 8, Bound: 6}); err != nil {
		t.Fatal(err)
	}
	want := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 1208 708" stroke="#fff" stroke-width="0.3">
<title>height 8, no arena is lower than 6</title>
<rect x="0.00" y="0.00" width="600.00" height="525.00" fill="hsl(0,55%,60%)"><title>&lt;/title&gt;&lt;a&amp;b&gt;: 6 bytes at 2, [0, 3)</title></rect>
<rect x="600.00" y="525.00" width="600.00" height="175.00" fill="hsl(137,55%,60%)"><title>b: 2 bytes at 0, [3, 6)</title></rect>
<line x1="0" x2="1200" y1="175.00" y2="175.00" stroke="#c00" stroke-width="1"/>
</svg>
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if err := WriteSVG(full{}, Problem{Buffers: p.Buffers[:1]}, Solution{Offsets: []int64{0}}); err == nil {
		t.Error("a full disk is no error")
	}
}
