package joint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/internal/whole"
)

// Read reads a joint graph's file as a graph.
func Read(path string) (*graph.Graph, error) { return ReadContext(context.Background(), path) }

// ReadContext is Read with a context, which it polls as package stop describes.
func ReadContext(ctx context.Context, path string) (*graph.Graph, error) {
	name := filepath.Base(path)
	data, err := whole.Read(path, "a joint graph", mostText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Parse(ctx, name, data)
}

// Parse reads the contents of a joint graph's file as a graph; name is the file's name in errors.
func Parse(ctx context.Context, name string, data []byte) (*graph.Graph, error) {
	text, err := unpack(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	g, err := parseGraph(ctx, text)
	if err != nil {
		return nil, where(name, text, err)
	}
	return g, nil
}

func parseGraph(ctx context.Context, text []byte) (*graph.Graph, error) {
	f, err := parse(ctx, text)
	if err != nil {
		return nil, err
	}
	lib := newLibrary(f.nodes)
	r := &reader{file: f, lib: lib, b: graph.NewBuilder(graph.New(lib.again, f.Model)),
		of: make(map[string][]*graph.Value, len(f.nodes)), selects: map[string][]*node{},
		chosen: map[string]*graph.Value{}, parts: map[string]*node{}, ran: make(map[string]*graph.Node, len(f.nodes))}
	r.b.Context = ctx
	if f.Threads != 0 {
		r.b.Graph.Recorded = append(r.b.Graph.Recorded, graph.Recorded{Name: "threads", Value: fmt.Sprint(f.Threads)})
	}
	for _, c := range []graph.Recorded{{Name: "layout", Value: f.Layout}, {Name: graph.Allocator, Value: f.Allocator}} {
		if c.Value != "" {
			r.b.Graph.Recorded = append(r.b.Graph.Recorded, c)
		}
	}
	if f.FlopsPerByte != 0 {
		r.b.Graph.Recorded = append(r.b.Graph.Recorded, graph.Recorded{Name: graph.FlopsPerByte, Value: fmt.Sprint(f.FlopsPerByte)})
	}
	r.b.Graph.Trainer = f.trainer()
	if err := r.run(); err != nil {
		return nil, err
	}
	stop.Poll(ctx)
	return r.b.Graph, r.b.Graph.Check()
}

// trainer is where the step ran. Recordings that do not name a device ran on a processor, unless they tell a balance of flops
// and bytes.
func (f *file) trainer() graph.Trainer {
	t := graph.Trainer{Device: f.Device, Driver: f.Driver, Threads: f.Threads}
	if t.Device == "" && f.FlopsPerByte == 0 {
		t.Device = "cpu"
	}
	return t
}

// reader builds the graph, node by node.
type reader struct {
	file *file
	lib  *library
	b    *graph.Builder
	// of has the values of each node, by name: one, or all outputs of an operator with several.
	of      map[string][]*graph.Value
	selects map[string][]*node      // by operator: its getitems, in order
	chosen  map[string]*graph.Value // by getitem: the selected output
	parts   map[string]*node        // views with several outputs, which are defined at their getitems
	params  []*graph.Value          // inputs that are not tangents, in order
	ran     map[string]*graph.Node  // by node: the last node up to it that runs, or nil
	last    *graph.Node             // the last node so far that runs
	held    []hold
	bytes   int64 // total size of the storages
	flops   int64
}

// hold says that the program holds a value until a node; by is the node whose output says so.
type hold struct {
	by    *node
	value *graph.Value
	until string
}

// Limits for sums, so that they fit in 64 bits.
const (
	mostBytes = 1 << 58
	mostFlops = 1 << 60
	mostCalls = 1 << 20
)

// mostFlopsPerByte is more than any device's.
const mostFlopsPerByte = 1 << 20

func (r *reader) run() error {
	nodes := r.file.nodes
	for i := range nodes {
		if n := &nodes[i]; n.Op == selecting {
			if len(n.Inputs) != 1 {
				return n.fail("selects from %d inputs, not from one", len(n.Inputs))
			}
			r.selects[n.Inputs[0]] = append(r.selects[n.Inputs[0]], n)
		}
	}
	for i := range nodes {
		if err := r.node(&nodes[i]); err != nil {
			return err
		}
		r.ran[nodes[i].Name] = r.last
	}
	if err := r.holds(); err != nil {
		return err
	}
	return r.results()
}

// hold notes the holds of a node's outputs.
func (r *reader) hold(n *node, outs []output, values []*graph.Value) {
	for i, o := range outs {
		if o.Until != "" {
			r.held = append(r.held, hold{n, values[min(i, len(values)-1)], o.Until})
		}
	}
}

// holds adds the holds to the graph. A hold of a view holds its base. A node that does not run stands for the last
// one before it that does.
func (r *reader) holds() error {
	g := r.b.Graph
	for _, h := range r.held {
		v := h.value
		for v.Def != nil && v.Def.Op.View {
			v = v.Def.Inputs[0]
		}
		until, known := r.ran[h.until]
		switch {
		case !known:
			return h.by.fail("is held until %q, which is no node", h.until)
		case v.Def != nil && until != nil && until.ID >= v.Def.ID: // else v is an input, or was released before
			g.Holds = append(g.Holds, graph.Hold{Value: v, Until: until})
		}
	}
	return nil
}

// Names of nodes that are not operators.
const (
	feeding   = "input"
	selecting = "getitem"
)

func (n *node) fail(format string, args ...any) error {
	return at(n.at, "node %q: %s", n.Name, fmt.Sprintf(format, args...))
}

func (r *reader) node(n *node) error {
	switch {
	case r.of[n.Name] != nil || r.parts[n.Name] != nil:
		return n.fail("there is another node of that name")
	case n.Op == "" || strings.ContainsFunc(n.Op, odd):
		return n.fail("%q is no operator", n.Op)
	case slices.Contains(n.Flags, "mutates"):
		return n.fail("%s changes its input; a joint graph is to be functional", n.Op)
	case n.Calls < 0 || n.Calls > mostCalls:
		return n.fail("%d calls", n.Calls)
	case !n.Flops.within(mostFlops - r.flops):
		return n.fail("%s flops", n.Flops)
	}
	flops, _ := n.Flops.Const()
	r.flops += flops
	for i, o := range n.Outputs {
		if !o.Bytes.within(mostBytes) {
			return n.fail("output %d has %s bytes", i, o.Bytes)
		}
	}
	if n.Op != feeding { // tangents are inputs of the graph
		r.b.Phase = graph.Forward
		if n.Backward {
			r.b.Phase = graph.Backward
		}
	}
	switch {
	case n.Op == feeding:
		return r.input(n)
	case n.Op == selecting:
		return r.selected(n)
	case n.AliasOf != "" || slices.Contains(n.Flags, "view"):
		return r.view(n)
	}
	return r.operator(n)
}

// odd reports whether a character cannot be part of an operator's name in the text form.
func odd(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_.:-", c))
}

// kinds are the kinds of inputs.
var kinds = map[string]graph.Kind{"param": graph.Param, "buffer": graph.Const, "data": graph.Input, "tangent": graph.Input}

func (r *reader) input(n *node) error {
	kind, ok := kinds[n.Kind]
	switch {
	case !ok:
		return n.fail("an input of kind %q; there are param, buffer, data and tangent", n.Kind)
	case len(n.Outputs) != 1:
		return n.fail("an input with %d outputs, not one", len(n.Outputs))
	}
	t, shape := n.Outputs[0].stored()
	if err := r.count(n, n.Outputs[0].Bytes); err != nil {
		return err
	}
	v, err := r.b.Define(kind, n.Name, t, shape)
	if err != nil {
		return n.fail("%s", err)
	}
	r.of[n.Name] = []*graph.Value{v}
	if n.Kind != "tangent" {
		r.params = append(r.params, v)
	}
	return nil
}

// count adds to the total size of the storages.
func (r *reader) count(n *node, size number) error {
	bytes, _ := size.Const()
	if r.bytes += bytes; r.bytes > mostBytes {
		return n.fail("with it, all tensors together have more than %d bytes", int64(mostBytes))
	}
	return nil
}

func (r *reader) operator(n *node) error {
	in, err := r.inputs(n)
	if err != nil {
		return err
	}
	outs := n.Outputs
	if len(outs) == 0 {
		outs = []output{{Shape: make([]number, 1), DType: "uint8"}} // an assertion: it runs and has no result
	}
	types, names := make([]string, len(outs)), make([]string, len(outs))
	for i, o := range outs {
		if err := r.count(n, o.Bytes); err != nil {
			return err
		}
		t, shape := o.stored()
		types[i] = typeText(t, shape)
	}
	places, err := r.places(n, outs)
	if err != nil {
		return err
	}
	for k, place := range places {
		if name := r.selects[n.Name][k].Name; names[place] == "" && !slices.Contains(names, name) {
			names[place] = name
		}
	}
	if len(outs) == 1 && names[0] == "" {
		names[0] = n.Name
	}
	made, err := r.b.Node(r.lib.op(n), n.Name, n.attributes(types), in, names)
	if err != nil {
		return at(n.at, "%s", err)
	}
	for k, place := range places {
		r.chosen[r.selects[n.Name][k].Name] = made[place]
	}
	r.of[n.Name], r.last = made, made[0].Def
	r.hold(n, n.Outputs, made)
	return nil
}

// places finds the output that each getitem of an operator selects. The list of outputs omits those that were not
// computed: if the indices do not match the list, each getitem takes the next output of the same type and shape.
func (r *reader) places(n *node, outs []output) ([]int, error) {
	selects := r.selects[n.Name]
	direct := func() (places []int, ok bool) {
		for _, s := range selects {
			if s.Index < 0 || s.Index >= len(outs) || len(s.Outputs) != 1 || !outs[s.Index].like(s.Outputs[0]) {
				return nil, false
			}
			places = append(places, s.Index)
		}
		return places, true
	}
	if places, ok := direct(); ok {
		return places, nil
	}
	order := make([]int, len(selects))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return selects[a].Index - selects[b].Index })
	places, next := make([]int, len(selects)), 0
	for k, i := range order {
		s := selects[i]
		if k > 0 && s.Index == selects[order[k-1]].Index {
			places[i] = places[order[k-1]]
			continue
		}
		for next < len(outs) && (len(s.Outputs) != 1 || !outs[next].like(s.Outputs[0])) {
			next++
		}
		if next == len(outs) {
			return nil, s.fail("selects output %d of %q, whose %d outputs have none like it", s.Index, n.Name, len(outs))
		}
		places[i] = next
		next++
	}
	return places, nil
}

// selected defines a getitem: as another name of an operator's output, which is already named after its first
// getitem, or as a view of a view's base.
func (r *reader) selected(n *node) error {
	from := n.Inputs[0]
	if whole := r.parts[from]; whole != nil {
		return r.alias(n, whole.Op, r.of[from][0])
	}
	v := r.chosen[n.Name]
	if v == nil {
		return n.fail("selects from %q, which is no operator before it", from)
	}
	r.of[n.Name] = []*graph.Value{v}
	r.hold(n, n.Outputs, r.of[n.Name])
	return nil
}

// view defines a node without bytes of its own.
func (r *reader) view(n *node) error {
	source := n.AliasOf
	if source == "" && len(n.Inputs) > 0 {
		source = n.Inputs[0]
	}
	of := r.of[source]
	if of == nil {
		return n.fail("is a view of %q, which is not made before it", source)
	}
	if len(n.Outputs) == 1 {
		return r.alias(n, n.Op, of[0])
	}
	r.parts[n.Name], r.of[n.Name] = n, of[:1]
	r.hold(n, n.Outputs, of[:1])
	return nil
}

func (r *reader) alias(n *node, op string, of *graph.Value) error {
	if len(n.Outputs) != 1 {
		return n.fail("a view with %d outputs, not one", len(n.Outputs))
	}
	t, shape := n.Outputs[0].shown()
	made, err := r.b.Node(r.lib.view(op), n.Name, n.attributes([]string{typeText(t, shape)}), []*graph.Value{of}, []string{n.Name})
	if err != nil {
		return at(n.at, "%s", err)
	}
	r.of[n.Name] = made
	r.hold(n, n.Outputs, made)
	return nil
}

// inputs are the values that a node reads. A node that reads an operator with several outputs by its own name reads
// all of them.
func (r *reader) inputs(n *node) (in []*graph.Value, err error) {
	for _, name := range n.Inputs {
		of := r.of[name]
		if of == nil {
			return nil, n.fail("reads %q, which is not made before it", name)
		}
		in = append(in, of...)
	}
	return in, nil
}

// attributes are the remaining properties of a node, sorted by name.
func (n *node) attributes(types []string) (attrs []graph.Attr) {
	if n.Calls > 1 {
		attrs = append(attrs, graph.Attr{Name: "calls", Value: n.Calls})
	}
	if flops, known := n.Flops.Const(); !known {
		attrs = append(attrs, graph.Attr{Name: "formula", Value: n.Flops.String()})
	} else if flops > 0 {
		attrs = append(attrs, graph.Attr{Name: "flops", Value: flops})
	}
	var literals bytes.Buffer
	if len(n.Attrs) > 0 && json.Compact(&literals, n.Attrs) == nil {
		attrs = append(attrs, graph.Attr{Name: "literals", Value: literals.String()})
	}
	if n.Module != "" {
		attrs = append(attrs, graph.Attr{Name: "module", Value: n.Module})
	}
	if slices.Contains(n.Flags, once) {
		attrs = append(attrs, graph.Attr{Name: once, Value: int64(1)})
	}
	return append(attrs, graph.Attr{Name: "types", Value: types})
}

// results sets the graph's outputs, its loss and the gradients of its inputs.
func (r *reader) results() error {
	g, f := r.b.Graph, r.file
	if f.Forward < 0 || f.Forward > len(f.Outputs) {
		return fmt.Errorf("num_fwd_outputs is %d, but there are %d outputs", f.Forward, len(f.Outputs))
	}
	for i, name := range f.Outputs {
		if name == nil {
			continue
		}
		of := r.of[*name]
		if of == nil {
			return fmt.Errorf("output %d is %q, which is no node", i, *name)
		}
		v := of[0]
		if !slices.Contains(g.Outputs, v) {
			g.Outputs = append(g.Outputs, v)
		}
		if i == f.Forward-1 && v.Type.IsFloat() && v.Shape.Elems().Is(1) {
			g.Loss = v
		}
		k := i - f.Forward
		if k >= 0 && k < len(r.params) && r.params[k].Kind == graph.Param && r.params[k].Type == v.Type && r.params[k].Shape.Equal(v.Shape) {
			g.Grads = append(g.Grads, graph.Grad{Param: r.params[k], Grad: v})
		}
	}
	if len(g.Outputs) == 0 {
		return errors.New("has no outputs, so nothing of it is needed")
	}
	return nil
}

// dtypes are PyTorch's names of element types.
var dtypes = map[string]graph.DType{
	"float32": graph.Float32, "float64": graph.Float64, "float16": graph.Float16, "bfloat16": graph.BFloat16,
	"int8": graph.Int8, "int16": graph.Int16, "int32": graph.Int32, "int64": graph.Int64,
	"uint8": graph.Uint8, "uint16": graph.Uint16, "uint32": graph.Uint32, "uint64": graph.Uint64, "bool": graph.Bool,
	"float8_e4m3fn": graph.Float8E4M3FN, "float8_e4m3fnuz": graph.Float8E4M3FNUZ, "float8_e5m2": graph.Float8E5M2, "float8_e5m2fnuz": graph.Float8E5M2FNUZ,
}

// stored is the type and shape of a storage: those of the tensor if it fills the storage, else raw bytes.
func (o output) stored() (graph.DType, graph.Shape) {
	if size, known := o.size(); known && size.Equal(o.Bytes.Dim) {
		return o.shown()
	}
	return graph.Uint8, graph.Shape{o.Bytes.Dim}
}

// shown is the type and shape of a tensor, or raw bytes if graphs do not have its type.
func (o output) shown() (graph.DType, graph.Shape) {
	if _, known := o.size(); !known {
		return graph.Uint8, graph.Shape{o.Bytes.Dim}
	}
	return dtypes[o.DType], shapeOf(o.Shape)
}

// size is the size of a contiguous tensor in bytes, if it is known.
func (o output) size() (size graph.Dim, known bool) {
	n := dtypes[o.DType].Size()
	if n == 0 {
		return size, false
	}
	size = graph.Num(n)
	defer func() {
		if r := recover(); r != nil {
			if _, large := r.(*graph.DimError); !large {
				panic(r)
			}
			known = false
		}
	}()
	for _, d := range o.Shape {
		if i, number := d.Const(); number {
			if s, _ := size.Const(); i < 0 || i > 0 && s > math.MaxInt64/i {
				return size, false
			}
		}
		size = size.Mul(d.Dim)
	}
	return size, true
}

// like reports whether two tensors have the same type, shape and size.
func (o output) like(p output) bool {
	return o.DType == p.DType && o.Bytes.Equal(p.Bytes.Dim) && slices.EqualFunc(o.Shape, p.Shape, func(a, b number) bool { return a.Equal(b.Dim) })
}
