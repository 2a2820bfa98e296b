package pack

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"memopt/internal/visible"
)

const (
	svgWidth  = 1200 // units of the picture, which scales
	svgHeight = 700
)

// WriteSVG draws a solution: time to the right, addresses upward, each buffer a rectangle with its name, and a line at the
// bound.
func WriteSVG(w io.Writer, p Problem, s Solution) error {
	if len(s.Offsets) != len(p.Buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(s.Offsets), len(p.Buffers))
	}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, b := range p.Buffers {
		if takesRoom(b) {
			first, last = min(first, p.timestamp(b.First)), max(last, p.timestamp(b.Last))
		}
	}
	x := func(t int32) float64 {
		return svgWidth * (float64(p.timestamp(t)) - float64(first)) / (float64(last) - float64(first))
	}
	y := func(address int64) float64 { return svgHeight - svgHeight*float64(address)/float64(max(s.Height, 1)) }
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 %d %d" stroke="#fff" stroke-width="0.3">`+"\n", svgWidth+8, svgHeight+8)
	fmt.Fprintf(out, "<title>height %d, no arena is lower than %d</title>\n", s.Height, s.Bound)
	for i, b := range p.Buffers {
		if !takesRoom(b) {
			continue
		}
		var id strings.Builder
		if err := xml.EscapeText(&id, []byte(visible.Line(p.label(i)))); err != nil {
			return err
		}
		offset := s.Offsets[i]
		fmt.Fprintf(out, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="hsl(%d,55%%,60%%)"><title>%s: %d bytes at %d, [%d, %d)</title></rect>`+"\n",
			x(b.First), y(offset+b.Size), x(b.Last)-x(b.First), y(offset)-y(offset+b.Size), i*137%360, id.String(), b.Size, offset, p.timestamp(b.First), p.timestamp(b.Last))
	}
	fmt.Fprintf(out, `<line x1="0" x2="%d" y1="%.2f" y2="%.2f" stroke="#c00" stroke-width="1"/>`+"\n</svg>\n", svgWidth, y(s.Bound), y(s.Bound))
	return out.Flush()
}
