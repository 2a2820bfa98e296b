package onnx

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/internal/graph"
	"memopt/internal/weights"
	"memopt/internal/whole"
)

// WriteTrained writes the model at from to path, with new contents for some of its initializers; the rest of the
// file is copied byte by byte. Contents are fetched one initializer at a time. Parameters that From.Apart tells apart get
// initializers of their own.
//
// Weights in external files are written to new external files next to path, named "<name>.data", then
// "<name>.data.2" and so on, with every tensor at its old offset, and the model refers to those. All files appear
// together. None of them may be one that the model is read from.
func WriteTrained(path, from string, numbers map[string]graph.Data) (err error) {
	f, err := openModel(from)
	if err != nil {
		return err
	}
	defer f.Close()
	t := &trainedWriter{r: newReader(f.Bytes(), from, from, nil, nil), path: path, from: from, numbers: maps.Clone(numbers),
		done: map[string]bool{}, read: []*weights.File{f}, layouts: map[string]*trainedLayout{}}
	defer t.close()
	s, err := t.model()
	if changed := t.unchanged(); changed != nil {
		return changed
	}
	if err == nil {
		err = t.check(s)
	}
	if err != nil {
		return err
	}
	ctx, commit, close := whole.Together(context.Background())
	defer close()
	for _, l := range t.order {
		if err := replace(ctx, l.path, t.whole(l.stream(t.numbers).writeTo)); err != nil {
			return err
		}
	}
	if err := replace(ctx, path, t.whole(s.writeTo)); err != nil {
		return err
	}
	return commit()
}

// trainedWriter writes a model with new contents for some initializers.
type trainedWriter struct {
	r          *reader
	path, from string
	numbers    map[string]graph.Data
	done       map[string]bool // initializers found so far
	read       []*weights.File // the model, and its external files
	apart      *apart          // parameters that get initializers of their own; nil for none
	layouts    map[string]*trainedLayout
	order      []*trainedLayout
}

// trainedLayout is an external file of weights.
type trainedLayout struct {
	file   *weights.File
	path   string // of the new file
	places []trainedPlace
	blocks []*weights.Block
	end    int64 // size of the new file
}

// trainedPlace is the place of a tensor in the new file.
type trainedPlace struct {
	name     string
	at, size int64
}

func (t *trainedWriter) close() {
	for _, f := range t.read[1:] {
		f.Close()
	}
	for _, b := range t.r.blocks {
		b.Drop()
	}
	for _, f := range t.r.externals {
		f.Close()
	}
	for _, l := range t.order {
		for _, b := range l.blocks {
			b.Drop()
		}
	}
}

// whole wraps write with a check that none of the files being read has changed.
func (t *trainedWriter) whole(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := write(w); err != nil {
			return err
		}
		return t.unchanged()
	}
}

func (t *trainedWriter) unchanged() error {
	for _, f := range t.read {
		if err := f.Unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what cannot be written correctly.
func (t *trainedWriter) check(s *stream) error {
	if s.size > maxMessage {
		return fmt.Errorf("%s: the model takes %d bytes, and a file at most %d", t.path, s.size, maxMessage)
	}
	for name := range t.numbers {
		if !t.done[name] {
			return fmt.Errorf("%s: %s is no initializer of the main graph, so its new numbers have no place there", t.from, quote(name))
		}
	}
	written := []string{t.path}
	for _, l := range t.order {
		written = append(written, l.path)
	}
	for _, to := range written {
		for _, f := range t.read {
			if sameFile(to, f.Name()) {
				return fmt.Errorf("%s is read, and would be overwritten; choose another name", to)
			}
		}
	}
	return nil
}

func (t *trainedWriter) model() (s *stream, err error) {
	defer func() {
		if wrong := caught(recover(), t.r.file); wrong != nil {
			s, err = nil, wrong
		}
	}()
	t.r.readModel()
	t.r.wantsApart = true
	whole := t.r.readBody("the graph", t.r.model.graph)
	t.r.origins = t.r.readOrigins(&whole)
	if t.apart = t.r.readApart(&whole); t.apart != nil && !t.apart.changes() {
		t.apart = nil
	}
	if err := t.lookAtPlaces(); err != nil {
		return nil, err
	}
	s = &stream{}
	m := t.r.message("the model", t.r.src)
	for before := m.rest; m.next(); before = m.rest {
		if m.num != modelGraph {
			s.add(part{bytes: m.raw(before)})
			continue
		}
		body := &stream{}
		g := t.r.message("the graph", m.bytes())
		nodes := false
		for before := g.rest; g.next(); before = g.rest {
			switch {
			case g.num == graphInput && t.dropped(g.bytes()): // an initializer that is an input, too
			case g.num == graphInit:
				x := readTensor(t.r.message("an initializer", g.bytes()), initializerName)
				body.append(t.initializer(x, g.bytes(), g.raw(before)))
				body.append(t.givenFor(x.name))
			case g.num != graphNode || t.apart == nil:
				body.add(part{bytes: g.raw(before)})
			case !nodes:
				nodes = true
				for _, b := range t.apart.bodies() {
					body.add(part{bytes: appendBytes(nil, graphNode, b)})
				}
			}
		}
		if t.apart != nil {
			body.append(t.givenFor(""))
			body.append(t.newShapes())
		}
		s.append(field(modelGraph, body))
	}
	return s, nil
}

// lookAtPlaces finds the places of external tensors. Tensors with new contents whose bytes overlap another tensor's
// move to the end of the new file.
func (t *trainedWriter) lookAtPlaces() error {
	g := t.r.readBody("the graph", t.r.model.graph)
	for _, b := range g.inits {
		x := readTensor(t.r.message("an initializer", b), initializerName)
		if !x.external {
			continue
		}
		l := t.layouts[x.location]
		if l == nil {
			path, err := weights.ExternalPath(t.from, x.location)
			if err != nil {
				return err
			}
			f, err := weights.OpenFile(path)
			if err != nil {
				return err
			}
			t.read = append(t.read, f)
			l = &trainedLayout{file: f, path: t.path + ".data", end: f.Size()}
			if n := len(t.order); n > 0 {
				l.path += "." + strconv.Itoa(n+1)
			}
			t.layouts[x.location], t.order = l, append(t.order, l)
		}
		if x.offset > l.file.Size() || x.size > l.file.Size()-x.offset {
			x.fail("%d bytes from byte %d on are not in %s, which has %d", x.size, x.offset, quote(x.location), l.file.Size())
		}
		l.places = append(l.places, trainedPlace{x.name, x.offset, x.size})
	}
	t.placeGiven()
	for _, l := range t.order {
		slices.SortStableFunc(l.places, func(a, b trainedPlace) int { return cmp.Compare(a.at, b.at) })
		end := int64(0)
		for i := range l.places {
			p := &l.places[i]
			shared := p.size > 0 && (p.at < end || i+1 < len(l.places) && l.places[i+1].size > 0 && l.places[i+1].at < p.at+p.size)
			end = max(end, p.at+p.size)
			if shared && t.numbers[p.name] != nil {
				p.at = (l.end + lineSize - 1) / lineSize * lineSize
				l.end = p.at + p.size
			}
		}
		slices.SortStableFunc(l.places, func(a, b trainedPlace) int { return cmp.Compare(a.at, b.at) })
	}
	return nil
}

// initializer returns the field of a TensorProto, unchanged or with new contents.
func (t *trainedWriter) initializer(x *tensor, b, raw []byte) *stream {
	d, s := t.numbers[x.name], &stream{}
	switch {
	case t.apart != nil && t.apart.drop[x.name]:
		return s
	case d != nil && t.done[x.name]:
		x.fail("two values are named so")
	case d != nil && d.Len() != x.size:
		x.fail("%d bytes of new numbers, but %s%v takes %d", d.Len(), x.dtype, x.dims, x.size)
	case x.external:
		s.add(part{bytes: appendBytes(nil, graphInit, t.external(x, b))})
	case d == nil:
		s.add(part{bytes: raw})
	default:
		body := &stream{}
		m := t.r.message("an initializer", b)
		numbers := func() {
			body.add(part{bytes: protowire.AppendVarint(protowire.AppendTag(nil, tensorRaw, protowire.BytesType), uint64(d.Len()))})
			body.add(part{data: d})
		}
		placed := false
		for before := m.rest; m.next(); before = m.rest {
			if m.num != tensorRaw && m.num != typedFields[x.dtype].num {
				body.add(part{bytes: m.raw(before)})
			} else if !placed {
				placed = true
				numbers()
			}
		}
		if !placed {
			numbers()
		}
		s.append(field(graphInit, body))
	}
	t.done[x.name] = true
	return s
}

// dropped reports whether an input stands for an initializer that is dropped.
func (t *trainedWriter) dropped(input []byte) bool {
	if t.apart == nil {
		return false
	}
	for m := t.r.message("an input", input); m.next(); {
		if m.num == valueName {
			return t.apart.drop[m.text()]
		}
	}
	return false
}

// placeGiven finds places in external files for the parameters that get initializers of their own: that of the
// initializer that is dropped for it, or the end.
func (t *trainedWriter) placeGiven() {
	if t.apart == nil {
		return
	}
	for _, g := range t.apart.given {
		if g.like == nil || !g.like.external {
			continue
		}
		if t.numbers[g.name] == nil {
			t.numbers[g.name] = t.apart.numbers(g)
		}
		l, size := t.layouts[g.like.location], t.numbers[g.name].Len()
		at := slices.IndexFunc(l.places, func(p trainedPlace) bool { return p.name == g.like.name })
		if at >= 0 && t.apart.drop[g.like.name] && l.places[at].size == size {
			l.places[at].name = g.name
			continue
		}
		l.end = (l.end + lineSize - 1) / lineSize * lineSize
		l.places = append(l.places, trainedPlace{g.name, l.end, size})
		l.end += size
	}
}

// givenFor are the initializers of the parameters that get ones of their own beside another, or "" for those that had none.
func (t *trainedWriter) givenFor(like string) *stream {
	s := &stream{}
	if t.apart == nil {
		return s
	}
	for _, g := range t.apart.given {
		if g.like == nil && like != "" || g.like != nil && g.like.name != like {
			continue
		}
		head := appendTensorHead(g.name, g.dtype, g.dims)
		t.done[g.name] = true
		if g.like != nil && g.like.external {
			l := t.layouts[g.like.location]
			p := l.places[slices.IndexFunc(l.places, func(p trainedPlace) bool { return p.name == g.name })]
			head = appendEntry(head, tensorExternal, "location", filepath.Base(l.path))
			head = appendEntry(head, tensorExternal, "offset", strconv.FormatInt(p.at, 10))
			head = appendEntry(head, tensorExternal, "length", strconv.FormatInt(p.size, 10))
			s.add(part{bytes: appendBytes(nil, graphInit, appendInt(head, tensorLocation, 1))})
			continue
		}
		d := t.numbers[g.name]
		if d == nil {
			d = t.apart.numbers(g)
		}
		body := &stream{}
		body.add(part{bytes: protowire.AppendVarint(protowire.AppendTag(head, tensorRaw, protowire.BytesType), uint64(d.Len()))})
		body.add(part{data: d})
		s.append(field(graphInit, body))
	}
	return s
}

// newShapes are the initializers of whole numbers that new nodes read.
func (t *trainedWriter) newShapes() *stream {
	s := &stream{}
	for i, x := range t.apart.consts {
		head := appendTensorHead(t.apart.names[i], x.Type, sizes64(x.Shape))
		s.add(part{bytes: appendBytes(nil, graphInit, appendBytes(head, tensorRaw, x.Bytes))})
	}
	return s
}

// external is a TensorProto that refers to the new external file.
func (t *trainedWriter) external(x *tensor, b []byte) (out []byte) {
	l := t.layouts[x.location]
	place := l.places[slices.IndexFunc(l.places, func(p trainedPlace) bool { return p.name == x.name })]
	offset := false
	m := t.r.message("an initializer", b)
	for before := m.rest; m.next(); before = m.rest {
		if m.num != tensorExternal {
			out = append(out, m.raw(before)...)
			continue
		}
		switch key, _ := m.entry(); key {
		case "location":
			out = appendEntry(out, tensorExternal, key, filepath.Base(l.path))
		case "offset":
			offset = true
			out = appendEntry(out, tensorExternal, key, strconv.FormatInt(place.at, 10))
		case "checksum":
			if t.numbers[x.name] == nil {
				out = append(out, m.raw(before)...)
			}
		default:
			out = append(out, m.raw(before)...)
		}
	}
	if !offset && place.at > 0 {
		out = appendEntry(out, tensorExternal, "offset", strconv.FormatInt(place.at, 10))
	}
	return out
}

// stream is the new file: the old one's bytes, with the new contents in their places.
func (l *trainedLayout) stream(numbers map[string]graph.Data) *stream {
	s, at := &stream{}, int64(0)
	old := func(to int64) { // copies the old bytes up to an offset
		const most = 64 << 20 // size of a block, whose pages are released together
		for at < min(to, l.file.Size()) {
			b, err := l.file.Block(at, min(most, min(to, l.file.Size())-at))
			if err != nil {
				panic(err) // the length was checked
			}
			l.blocks = append(l.blocks, b)
			s.add(part{data: b})
			at += b.Len()
		}
		if at < to {
			s.add(part{zeros: to - at})
			at = to
		}
	}
	for _, p := range l.places {
		if d := numbers[p.name]; d != nil && p.size > 0 {
			old(p.at)
			s.add(part{data: d})
			at = p.at + p.size
		}
	}
	old(l.end)
	return s
}

// sameFile reports whether both paths lead to the same existing file.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

func sizes64(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, n := range shape {
		out[i] = int64(n)
	}
	return out
}
