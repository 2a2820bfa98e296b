package onnx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"memopt/internal/graph"
	"memopt/internal/weights"
)

// Open reads the model at path. Weights stay in its files, which are mapped until
// the source is closed.
func Open(path string, lib *graph.Library) (*graph.Graph, *Source, error) {
	return OpenAt(context.Background(), path, lib, nil)
}

// OpenAt is Open with a context (see package stop) and sizes of dims. Loops whose number of
// iterations depends on these dims are unrolled, and the graph is then valid for these sizes only.
func OpenAt(ctx context.Context, path string, lib *graph.Library, dims map[string]int64) (*graph.Graph, *Source, error) {
	return From{Path: path, Dims: dims}.Read(ctx, lib)
}

// From says which model to read, and what is known of its inputs and initializers.
type From struct {
	// Path is the model's file. If Bytes is set, it is the model, which the graph shares; Path is then only the base
	// of external data and a name for errors.
	Path  string
	Bytes []byte
	// Dims are sizes of dims, as for OpenAt.
	Dims map[string]int64
	// Shapes are shapes of inputs. The graph is valid for these only.
	Shapes map[string][]int
	// Known are contents of inputs, which become constants as in ParseKnown.
	Known map[string]*graph.Tensor
	// Given are replacements of initializers by name, of the same type and shape. The graph shares their bytes and
	// does not read the model's. They may also replace inputs with an initializer.
	Given map[string]*graph.Tensor
	// Files are contents of external data by the model's file names, instead of files in its folder. The graph shares
	// their bytes.
	Files map[string][]byte
	// Forward reads the model for inference: no initializer is a parameter, and no output is the loss or the next
	// value of a statistic.
	Forward bool
	// Apart gives each parameter that PyTorch's exporter lists an initializer of its own, also those that it merged, folded or
	// left out; see Source.
	Apart bool
	// Eager, if not nil, evaluates what depends only on constants while the model is read, so that shapes may depend
	// on it; see graph.Builder.
	Eager func(bytes int64) error
}

// Read reads the model. Weights of a file stay in it, which is mapped until the source is closed.
func (from From) Read(ctx context.Context, lib *graph.Library) (*graph.Graph, *Source, error) {
	src, mapped := from.Bytes, (*weights.File)(nil)
	if src == nil {
		f, err := openModel(from.Path)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		src, mapped = f.Bytes(), f
	}
	r := newReader(src, from.Path, from.Path, lib, mapped)
	r.ctx, r.dims, r.known, r.shapes, r.given = ctx, from.Dims, from.Known, from.Shapes, from.Given
	r.forward, r.eager, r.files, r.wantsApart = from.Forward, from.Eager, from.Files, from.Apart
	g, err := r.run()
	// If the file changed meanwhile, report that rather than an error that it may have caused.
	if changed := r.source.Unchanged(); changed != nil {
		if err == nil {
			r.source.Close()
		}
		return nil, nil, changed
	}
	if err != nil {
		return nil, nil, err
	}
	return g, r.source, nil
}

// openModel maps the file of a model.
func openModel(path string) (*weights.File, error) {
	f, err := weights.OpenFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file", path)
	case err != nil:
		return nil, err
	}
	return f, nil
}

// Parse reads a model from bytes, which the graph shares; name is for errors. External data is
// refused.
func Parse(src []byte, name string, lib *graph.Library) (*graph.Graph, error) {
	return newReader(src, name, "", lib, nil).run()
}

// reader reads one file.
type reader struct {
	file   string // for errors
	path   string // base of external data; "" refuses it
	src    []byte // capacity = length: see message.broken
	lib    *graph.Library
	ctx    context.Context // polled at each node; nil is none
	mapped *weights.File   // the file that src maps, if any

	b          *graph.Builder
	model      model
	functions  map[funcKey]*function
	bad        complaints
	inlined    int // nodes made by inlining so far
	limit      int // of inlined
	externals  map[string]*weights.File
	blocks     []*weights.Block
	source     *Source
	lent       map[*byte]graph.Data
	words      map[string]string    // interned operator names and domains
	inside     map[*byte]innerValue // initializers of subgraphs
	known      map[string]*graph.Tensor
	shapes     map[string][]int         // see From
	given      map[string]*graph.Tensor // see From
	files      map[string][]byte        // see From
	forward    bool
	wantsApart bool // see From.Apart
	eager      func(int64) error
	origins    *origins              // of initializers
	apart      *apart                // parameters that get initializers of their own; nil for none
	stored     []stored              // float initializers
	fixed      map[*graph.Value]bool // those that operators need known before the step runs
	sizes      map[string]graph.Dim  // replacements of dims by name
	same       []graph.Assume        // these as equations
	dims       map[string]int64      // given sizes of dims
	wantsSizes bool                  // a loop's number of iterations depends on given sizes
	unrolled   int                   // nodes made by unrolling so far
	reads      int                   // how often the file was read before, to merge dims
}

// model is a ModelProto with unparsed parts.
type model struct {
	ir        int64
	producer  string
	opsets    map[string]int
	graph     []byte
	functions [][]byte
	metadata  map[string]string
}

// body is a GraphProto with unparsed parts.
type body struct {
	name                          string
	nodes, inits, inputs, outputs [][]byte
	infos                         [][]byte // of values other than inputs and outputs
	sparse                        int
	signature                     string // PyTorch's list of parameters and buffers
}

func newReader(src []byte, file, path string, lib *graph.Library, mapped *weights.File) *reader {
	source := &Source{}
	if mapped != nil {
		source.files = append(source.files, mapped)
	}
	return &reader{
		file: file, path: path, src: src[:len(src):len(src)], lib: lib, mapped: mapped,
		functions: map[funcKey]*function{},
		externals: map[string]*weights.File{},
		source:    source,
		lent:      map[*byte]graph.Data{},
		words:     map[string]string{},
		inside:    map[*byte]innerValue{},
		fixed:     map[*graph.Value]bool{},
		bad:       complaints{at: map[complaint]int{}},
	}
}

// run reads the file.
func (r *reader) run() (g *graph.Graph, err error) {
	defer func() {
		for _, f := range r.externals {
			f.Close() // blocks keep the mapping alive; it is ours, so it closes
		}
		if g == nil {
			for _, b := range r.blocks {
				b.Drop()
			}
		}
	}()
	defer func() {
		if wrong := caught(recover(), r.file); wrong != nil {
			g, err = nil, wrong
		}
	}()
	r.readModel()
	top := r.readGraph()
	if again := r.withNumbers(); again != nil {
		return again.run()
	}
	if err := r.bad.err(r.file); err != nil {
		return nil, err
	}
	if again := r.withSizes(); again != nil {
		return again.run()
	}
	read := r.b.Graph
	if r.forward {
		read.Assumed = append(read.Assumed, r.same...)
		read.FoldInts()
	} else {
		r.readFacts(top)
		r.tellKinds(top)
		read.FoldInts()
		r.part()
		r.restoreOrder()
	}
	if err := read.Check(); err != nil {
		fail("%s", err)
	}
	r.settle()
	return read, nil
}

func (r *reader) message(what string, b []byte) *message {
	return &message{what: what, total: len(r.src), rest: b}
}

// word interns a name.
func (r *reader) word(m *message) string {
	if w, ok := r.words[string(m.bytes())]; ok {
		return w
	}
	w := m.text()
	r.words[w] = w
	return w
}

func (r *reader) readModel() {
	r.model.opsets = map[string]int{}
	r.model.metadata = map[string]string{}
	for m := r.message("the model", r.src); m.next(); {
		switch m.num {
		case modelIR:
			r.model.ir = m.int()
		case modelProducer:
			r.model.producer = m.text()
		case modelOpset:
			r.opset(m, r.model.opsets)
		case modelGraph:
			if r.model.graph != nil {
				fail("holds two graphs")
			}
			r.model.graph = m.bytes()
		case modelFunction:
			r.model.functions = append(r.model.functions, m.bytes())
		case modelMetadata:
			k, v := m.entry()
			r.model.metadata[k] = v
		case modelTraining:
			r.bad.file("training_info is not read; only the graph itself is")
		}
	}
	if r.model.graph == nil {
		fail("holds no graph; is it an ONNX model?")
	}
	r.checkOpset("the model", r.model.opsets)
}

// opset reads one OperatorSetIdProto.
func (r *reader) opset(m *message, into map[string]int) {
	domain, version := "", int64(0)
	for o := m.sub("an opset import"); o.next(); {
		switch o.num {
		case opsetDomain:
			domain = r.word(o)
		case opsetVersion:
			version = o.int()
		}
	}
	domain = plainDomain(domain)
	if version < 1 || version > 1<<30 {
		fail("opset %d of domain %s is not a version", version, quote(domain))
	}
	if old, twice := into[domain]; twice && old != int(version) {
		fail("domain %s is imported as opset %d and %d", quote(domain), old, version)
	}
	into[domain] = int(version)
}

// plainDomain normalizes ONNX's own domain to "".
func plainDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

func (r *reader) checkOpset(what string, opsets map[string]int) {
	if v, ok := opsets[""]; ok && (v < oldestOpset || v > newestOpset) {
		panic(&OpsetError{what, v, oldestOpset, newestOpset})
	}
}

// smallestNode is the minimum size of a node with an operator. Smaller nodes are refused before
// they are listed, as the list would be many times larger than a hostile file.
const smallestNode = 3

func (r *reader) readBody(what string, b []byte) body {
	var g body
	for m := r.message(what, b); m.next(); {
		switch m.num {
		case graphName:
			g.name = m.text()
		case graphNode:
			if len(m.bytes()) < smallestNode {
				fail("node %d of %s has no operator", len(g.nodes), what)
			}
			g.nodes = append(g.nodes, m.bytes())
		case graphInit:
			g.inits = append(g.inits, m.bytes())
		case graphInput:
			g.inputs = append(g.inputs, m.bytes())
		case graphOutput:
			g.outputs = append(g.outputs, m.bytes())
		case graphInfo:
			g.infos = append(g.infos, m.bytes())
		case graphSparse:
			g.sparse++
		case graphMetadata:
			if key, value := m.entry(); key == signatureKey {
				g.signature = value
			}
		}
	}
	return g
}

// Inlining may make inlineBase nodes and inlineRatio for each node of the file. Functions that call
// each other twice, twenty deep, would make a million nodes of a kilobyte.
const (
	inlineBase  = 20_000
	inlineRatio = 200
)

// readGraph builds the main graph, with the outputs that could be made.
func (r *reader) readGraph() *scope {
	g := r.readBody("the graph", r.model.graph)
	r.b = graph.NewBuilder(graph.New(r.lib, g.name))
	r.b.Context, r.b.Eager = r.ctx, r.eager
	r.readFunctions()
	r.source.Nodes = len(g.nodes)
	r.limit += inlineBase + inlineRatio*len(g.nodes)
	top := &scope{values: make(map[string]*graph.Value, len(g.nodes)+len(g.inits)), opsets: r.model.opsets}
	if g.sparse > 0 {
		r.bad.file("%d sparse initializers; only dense ones are read", g.sparse)
	}
	inputs := make([]valueInfo, len(g.inputs))
	given := make(map[string]bool, len(g.inputs)) // by name: there is an initializer
	for i, b := range g.inputs {
		inputs[i] = r.valueInfo("input", b)
		if _, twice := given[inputs[i].name]; twice {
			fail("%s: two inputs are named so", inputs[i].what)
		}
		given[inputs[i].name] = false
	}
	// Before IR version 4 initializers had to be inputs, too.
	for _, b := range g.inits {
		for m := r.message("an initializer", b); m.next(); {
			if m.num == tensorName {
				if _, ok := given[string(m.bytes())]; ok {
					given[string(m.bytes())] = true
				}
				break
			}
		}
	}
	for i := range inputs {
		if !given[inputs[i].name] {
			r.input(top, &inputs[i])
		}
	}
	r.origins = r.readOrigins(&g)
	nodes := g.nodes
	if r.apart = r.readApart(&g); r.apart != nil {
		nodes = r.apart.bodies()
	}
	r.initializers(top, g.inits)
	r.nodes(top, nodes)
	for _, b := range g.outputs {
		r.output(top, b)
	}
	if len(g.outputs) == 0 {
		fail("the graph has no outputs")
	}
	return top
}

// input adds an Input. Dims without a number or a name get a generated name.
func (r *reader) input(top *scope, in *valueInfo) {
	if shape, known := r.shapes[in.name]; in.bad == "" && !in.hasShape && known {
		in.shape = make(graph.Shape, len(shape))
		for i, n := range shape {
			in.shape[i] = graph.Num(int64(n))
		}
	} else if in.bad == "" && !in.hasShape {
		r.bad.open("%s has no shape, not even a rank", in.what)
		top.values[in.name] = poison
		return
	}
	if in.bad != "" {
		r.bad.file("%s %s", in.what, in.bad)
		top.values[in.name] = poison
		return
	}
	if x := r.known[in.name]; x != nil {
		r.constant(top, in, x)
		return
	}
	r.inNumbers(in)
	for i, d := range in.shape {
		in.shape[i] = d.Subst(r.sizes)
	}
	v, err := r.b.Define(graph.Input, in.name, in.dtype, in.shape)
	if err != nil {
		fail("%s: %s", in.what, err)
	}
	if err := graph.Try(func() { v.Bytes() }); err != nil {
		fail("%s: shape %s: %v", in.what, in.shape, err)
	}
	top.values[in.name] = v
}

// inNumbers sets an input's shape to the given one, if any.
func (r *reader) inNumbers(in *valueInfo) {
	shape, known := r.shapes[in.name]
	if !known {
		return
	}
	if len(shape) != len(in.shape) {
		fail("%s is %s%s, but its shape is %v", in.what, in.dtype, in.shape, shape)
	}
	for i, n := range shape {
		if is, ok := in.shape[i].Const(); ok && is != int64(n) {
			fail("%s is %s%s, but its shape is %v", in.what, in.dtype, in.shape, shape)
		}
		in.shape[i] = graph.Num(int64(n))
	}
}

// valueInfo is a ValueInfoProto.
type valueInfo struct {
	what, name string
	elem       int64  // ONNX's element type
	kind       string // ONNX's type if it is not a tensor
	dtype      graph.DType
	shape      graph.Shape
	spelled    []string // dims as written; "" for neither a number nor a name
	denoted    []string // denotations of dims, such as DATA_BATCH
	hasShape   bool
	bad        string
}

func (r *reader) valueInfo(what string, b []byte) valueInfo {
	info := valueInfo{}
	var typ *message
	for m := r.message("an "+what, b); m.next(); {
		switch m.num {
		case valueName:
			info.name = m.text()
		case valueType:
			typ = m.sub("a type")
		}
	}
	info.what = what + " " + quote(info.name)
	if info.name == "" {
		fail("an %s has no name", what)
	}
	info.bad = "has no type"
	for typ != nil && typ.next() {
		if typ.num != typeTensor {
			info.bad, info.kind = "is not a tensor", typeKinds[typ.num]
			continue
		}
		info.bad = ""
		elem := int64(0)
		for t := typ.sub("a tensor type"); t.next(); {
			switch t.num {
			case tensorTypeElem:
				elem = t.int()
			case tensorTypeShape:
				info.hasShape, info.shape = true, graph.Shape{}
				for s := t.sub("a shape"); s.next(); {
					if s.num == shapeDim {
						info.shape = append(info.shape, info.dim(s))
					}
				}
			}
		}
		info.elem = elem
		if info.dtype = graph.DType(elem); elem < 0 || elem > 255 || !info.dtype.Valid() {
			info.bad = "has element type " + elemName(elem)
		}
	}
	return info
}

func (info *valueInfo) dim(m *message) graph.Dim {
	i := len(info.shape)
	if i == maxRank {
		fail("%s has more than %d dims", info.what, maxRank)
	}
	dim, spelled, denoted := graph.Sym(fmt.Sprintf("%s_dim%d", info.name, i)), "", ""
	for d := m.sub("a dim"); d.next(); {
		switch d.num {
		case dimValue:
			// ONNX Runtime's tools write −1 for an unknown size.
			if n := d.int(); n >= 0 {
				dim, spelled = graph.Num(n), strconv.FormatInt(n, 10)
			}
		case dimParam:
			if s := d.text(); s != "" {
				dim, spelled = DimOf(s), s
			}
		case dimDenotation:
			denoted = d.text()
		}
	}
	info.spelled, info.denoted = append(info.spelled, spelled), append(info.denoted, denoted)
	return dim
}

// output adds to the graph's outputs.
func (r *reader) output(top *scope, b []byte) {
	g := r.b.Graph
	name := r.valueInfo("output", b).name
	v, ok := top.values[name]
	switch {
	case !ok:
		fail("output %s is made by no node", quote(name))
	case v == poison:
		return
	case v.Kind == graph.Sequence:
		r.bad.file("output %s is a sequence", quote(name))
		return
	case v.Kind == graph.Ragged:
		r.bad.file("output %s has rows whose number is only known when the step runs", quote(name))
		return
	}
	// If an Identity was dropped, keep the output's name.
	if v.Kind == graph.Computed && v.Name != name && g.ByName(name) == nil && !slices.Contains(g.Outputs, v) {
		g.Rename(v, name)
	}
	top.outputs = append(top.outputs, name)
	g.Outputs = append(g.Outputs, v)
}
