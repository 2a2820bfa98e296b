package onnx

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// PyTorch's exporter (torch.onnx.export with dynamo=True) by default makes one initializer of all that have equal numbers, folds
// what is computed from parameters alone, and leaves out biases of zeros. The file still lists every parameter,
// and each node says which of them it read. apart gives each parameter its own initializer again, under its own name and
// in its own shape, and computes what was folded from it.
type apart struct {
	r       *reader
	o       *origins
	inits   []*tensor          // floats of the main graph, in order
	byName  map[string]*tensor // the same
	all     map[string]bool    // names of all initializers
	nodes   []*wireNode
	makers  map[string]*wireNode   // by output
	readers map[string][]*wireNode // by input
	made    map[string]bool        // names of the exporter's program that the file still has
	uses    []apartUse             // what each float initializer stands for where it is read
	taken   map[string]bool        // names of values

	consts []*graph.Tensor // new initializers of whole numbers
	names  []string        // their names
	given  []*givenBack
	front  [][]byte // new nodes, before all others
	drop   map[string]bool
	lost   []string          // parameters whose place or form cannot be told
	fused  []string          // convolution and norm that became one
	parts  []string          // tables of which the file has some rows only
	tied   map[string]string // other names of parameters
	placed map[string]bool   // parameters whose place is known
}

// wireNode is a node of the main graph as far as apart reads it.
type wireNode struct {
	b        []byte
	op, name string
	in, out  []string
	fx       *fxNode
	module   string
	fused    bool // of a convolution and a batch norm
	changed  bool
	layer    int         // number of this recurrent node among those of one node of the exporter's
	copies   []*wireNode // of the node, for other modules, right behind it
}

// apartUse is an initializer that a node reads.
type apartUse struct {
	n    *wireNode
	in   int
	init *tensor
	of   string // the parameter or buffer that it stands for; "" for a constant
	port int    // the argument of PyTorch's operator; −1 if it is not known
}

// givenBack is a parameter that gets an initializer of its own again.
type givenBack struct {
	name   string
	like   *tensor // initializer with its numbers; nil for zeros
	dtype  graph.DType
	dims   []int64
	turn   func(graph.Data) graph.Data // from the initializer's numbers; nil: the same
	frozen bool                        // a constant
}

// readApart finds out what is to be given back; nil if the file has no metadata about its parameters, or if there is nothing to do.
func (r *reader) readApart(g *body) *apart {
	if _, ours := r.model.metadata[metaLoss]; ours || g.signature == "" || !r.wantsApart {
		return nil
	}
	a := &apart{
		r: r, o: r.origins, byName: map[string]*tensor{}, all: map[string]bool{}, makers: map[string]*wireNode{}, readers: map[string][]*wireNode{},
		made: map[string]bool{}, taken: map[string]bool{}, drop: map[string]bool{}, tied: map[string]string{}, placed: map[string]bool{},
	}
	a.look(g)
	if !slices.ContainsFunc(a.nodes, func(n *wireNode) bool { return n.fx != nil }) {
		return nil
	}
	for _, n := range a.nodes {
		a.read(n)
	}
	a.give()
	for _, n := range a.nodes {
		a.giveBias(n)
	}
	a.findTied()
	a.findLost(g)
	return a
}

// changes reports whether anything is to be given back.
func (a *apart) changes() bool {
	return len(a.given)+len(a.front)+len(a.drop) > 0 || slices.ContainsFunc(a.nodes, func(n *wireNode) bool { return n.changed || len(n.copies) > 0 })
}

// look reads initializers and nodes.
func (a *apart) look(g *body) {
	for _, b := range g.inits {
		t := readTensor(a.r.message("an initializer", b), initializerName)
		a.all[t.name], a.taken[t.name] = true, true
		if t.bad == "" && t.dtype.IsFloat() {
			a.inits, a.byName[t.name] = append(a.inits, t), t
		}
	}
	for name := range a.o.placeholders {
		a.made[name] = true
	}
	for name := range a.all {
		a.made[name] = true
	}
	for _, b := range g.inputs {
		for m := a.r.message("an input", b); m.next(); {
			if m.num == valueName {
				name := m.text()
				a.made[name], a.taken[name] = true, true
			}
		}
	}
	layers := map[string]int{}
	for _, b := range g.nodes {
		n := a.wire(b)
		a.nodes = append(a.nodes, n)
		for _, out := range n.out {
			a.makers[out], a.made[out], a.taken[out] = n, true, true
		}
		for _, in := range n.in {
			a.readers[in] = append(a.readers[in], n)
		}
		if n.fx != nil {
			a.made[n.fx.name] = true
			if n.op == "LSTM" || n.op == "GRU" {
				n.layer = layers[n.fx.name]
				layers[n.fx.name]++
			}
		}
	}
}

func (a *apart) wire(b []byte) *wireNode {
	n := &wireNode{b: b}
	domain := ""
	for m := a.r.message("a node", b); m.next(); {
		switch m.num {
		case nodeInput:
			n.in = append(n.in, m.text())
		case nodeOutput:
			n.out = append(n.out, m.text())
		case nodeName:
			n.name = m.text()
		case nodeOp:
			n.op = a.r.word(m)
		case nodeDomain:
			domain = plainDomain(a.r.word(m))
		case nodeMetadata:
			switch key, value := m.entry(); key {
			case fxKey:
				n.fx = parseFx(value)
			case scopesKey:
				n.module = moduleOf(value)
			case rulesKey:
				n.fused = strings.Contains(value, "FuseBatchNorm")
			}
		}
	}
	if domain != "" {
		n.op = domain + "." + n.op
	}
	return n
}

// origin is the parameter or buffer that an initializer is, or was folded from alone; "" for others.
func (a *apart) origin(t *tensor) string {
	if _, listed := a.o.signature[t.name]; listed {
		return t.name
	}
	if s := a.o.sources(t.name); len(s.from) == 1 {
		return s.from[0]
	}
	return ""
}

// present reports whether the file has a parameter under its own name, or something folded from it alone.
func (a *apart) present(name string) bool {
	if a.byName[name] != nil {
		return true
	}
	return slices.ContainsFunc(a.inits, func(t *tensor) bool { return a.origin(t) == name })
}

// read decides what a node's initializers stand for.
func (a *apart) read(n *wireNode) {
	for i, name := range n.in {
		t := a.byName[name]
		if t == nil {
			continue
		}
		u := apartUse{n: n, in: i, init: t, port: -1}
		switch of, how := a.standsFor(n, i, t, &u.port); how {
		case aListed:
			u.of = of
			a.uses = append(a.uses, u)
			a.placed[of] = true
		case aNumber:
			a.uses = append(a.uses, u)
		case unclear:
			a.lost = appendNew(a.lost, a.origin(t))
		}
	}
	if n.fx != nil && n.fused {
		conv, norm := "", ""
		if len(n.in) > 1 {
			conv = strings.TrimSuffix(n.in[1], ".weight")
		}
		for _, p := range n.fx.reads {
			if target := a.o.placeholders[p]; target != "" {
				a.placed[target] = true
				norm = strings.TrimSuffix(strings.TrimSuffix(target, ".running_var"), ".bias")
			}
		}
		a.fused = append(a.fused, conv+" and "+norm)
	}
}

// told says whether it is known what an initializer stands for.
type told int

const (
	asNamed told = iota // what its name says, or nothing that is listed
	aListed             // a listed parameter or buffer
	aNumber             // a number of the program
	unclear             // one of several
)

func (a *apart) standsFor(n *wireNode, i int, t *tensor, port *int) (string, told) {
	own := a.origin(t)
	keep := func() (string, told) {
		if own != "" {
			return own, aListed
		}
		return "", asNamed
	}
	if n.fx == nil {
		return a.byModule(n, own, keep)
	}
	if n.fused {
		return keep()
	}
	if *port = fxPort(n.fx, n.op, i); *port >= 0 {
		if arg, ok := strings.CutPrefix(n.fx.arg(*port), "%"); ok {
			if target := a.o.placeholders[arg]; target != "" {
				return target, aListed
			}
			if own == "" || arg == t.name || a.made[arg] {
				return keep()
			}
			return "", unclear
		}
	}
	var listed []string
	gone := false // the node read a value that the file does not have any more
	for _, name := range n.fx.reads {
		if target := a.o.placeholders[name]; target != "" {
			listed = appendNew(listed, target)
		} else {
			gone = gone || !a.made[name]
		}
	}
	switch {
	case own == "" || slices.Contains(listed, own) || slices.Contains(n.fx.reads, t.name):
		return keep()
	case a.recurrent(n):
		return keep()
	}
	listed = slices.DeleteFunc(listed, a.present)
	switch {
	case len(listed) == 1:
		return listed[0], aListed
	case len(listed) > 1 || gone:
		return "", unclear
	case t.elems == 1:
		return "", aNumber
	}
	return keep()
}

// byModule decides by the modules of what follows, for a node of the exporter's optimizer, which has no metadata: a bias that
// is split for two products, for example. The node gets a copy for each module.
func (a *apart) byModule(n *wireNode, own string, keep func() (string, told)) (string, told) {
	at := strings.LastIndexByte(own, '.')
	if own == "" || at < 0 {
		return keep()
	}
	targets := map[string][]*wireNode{}
	for _, out := range n.out {
		for _, after := range a.readers[out] {
			of := after.module + own[at:]
			if _, listed := a.o.signature[of]; !listed || of != own && a.byName[of] != nil {
				of = own
			}
			if !slices.Contains(targets[of], after) {
				targets[of] = append(targets[of], after)
			}
		}
	}
	names := slices.Sorted(maps.Keys(targets))
	if len(names) == 0 {
		return keep()
	}
	for _, of := range names[1:] {
		a.copyFor(n, own, of, targets[of])
	}
	return names[0], aListed
}

// copyFor makes a copy of a node that reads another parameter, for some of its readers.
func (a *apart) copyFor(n *wireNode, own, of string, readers []*wireNode) {
	c := *n
	c.name, c.in, c.out, c.changed, c.copies = a.fresh(n.name), slices.Clone(n.in), slices.Clone(n.out), true, nil
	for k, out := range n.out {
		c.out[k] = a.fresh(out)
		for _, after := range readers {
			for i, in := range after.in {
				if in == out {
					after.in[i], after.changed = c.out[k], true
				}
			}
		}
	}
	n.copies = append(n.copies, &c)
	for i, name := range c.in {
		if t := a.byName[name]; t != nil && a.origin(t) == own {
			a.uses = append(a.uses, apartUse{&c, i, t, of, -1})
			a.placed[of] = true
		}
	}
}

func (a *apart) fresh(name string) string {
	for i := 2; ; i++ {
		try := name + "_" + strconv.Itoa(i)
		if !a.taken[try] {
			a.taken[try] = true
			return try
		}
	}
}

// give makes the new initializers, and what computes folded values from them.
func (a *apart) give() {
	values := map[string]string{} // by initializer and parameter: what to read
	for _, t := range a.inits {
		_, listed := a.o.signature[t.name]
		for i := range a.uses {
			u := &a.uses[i]
			if u.init != t || listed && u.of == t.name {
				continue
			}
			key := t.name + "\x00" + u.of
			name, done := values[key]
			if !done {
				name = a.instead(t, u, listed)
				values[key] = name
			}
			if name != t.name {
				u.n.in[u.in], u.n.changed = name, true
			}
		}
		if !listed {
			a.unfold(t, values)
		}
	}
}

// instead is the name of the value to read instead of an initializer.
func (a *apart) instead(t *tensor, u *apartUse, listed bool) string {
	switch {
	case u.of == "":
		name := a.fresh(t.name)
		a.given = append(a.given, &givenBack{name: name, like: t, dtype: t.dtype, dims: t.dims, frozen: true})
		return name
	case !listed:
		return a.unfolded(t, u)
	case a.byName[u.of] == nil && !a.isGiven(u.of):
		a.given = append(a.given, &givenBack{name: u.of, like: t, dtype: t.dtype, dims: t.dims})
	}
	return u.of
}

func (a *apart) isGiven(name string) bool {
	return slices.ContainsFunc(a.given, func(g *givenBack) bool { return g.name == name })
}

// unfolded gives back the parameter that an initializer was folded from, and computes the folded value from it.
func (a *apart) unfolded(t *tensor, u *apartUse) string {
	g, op, attrs, shape := a.folding(t, u)
	if g == nil {
		a.lost = appendNew(a.lost, u.of)
		return t.name
	}
	if a.byName[u.of] != nil {
		if !a.agrees(t, g, a.byName[u.of]) {
			a.lost = appendNew(a.lost, u.of)
			return t.name
		}
	} else if !a.isGiven(u.of) {
		a.given = append(a.given, g)
	}
	name := t.name
	if a.origin(t) == u.of {
		a.drop[t.name] = true
	} else {
		name = a.fresh(t.name)
	}
	in := []string{u.of}
	if shape != nil {
		in = append(in, a.whole(name+"_shape", shape))
	}
	a.front = append(a.front, appendNode(op, name, in, []string{name}, attrs...))
	return name
}

// agrees reports whether an initializer is the folded form of another that is in the file, too.
func (a *apart) agrees(t *tensor, g *givenBack, of *tensor) bool {
	if !slices.Equal(g.dims, of.dims) || g.dtype != of.dtype {
		return false
	}
	d := a.r.data(t)
	if g.turn != nil {
		d = g.turn(d)
	}
	x, err := d.Bytes()
	if err != nil {
		t.fail("%s", err)
	}
	y, err := a.r.data(of).Bytes()
	if err != nil {
		of.fail("%s", err)
	}
	return string(x) == string(y)
}

// folding is the parameter before a fold, and the operator that does what the fold did; nil if that cannot be told.
func (a *apart) folding(t *tensor, u *apartUse) (g *givenBack, op string, attrs []graph.Attr, shape []int64) {
	g = &givenBack{name: u.of, like: t, dtype: t.dtype, dims: t.dims}
	elem := t.dtype.Size()
	exchanged := func() {
		g.dims = []int64{t.dims[1], t.dims[0]}
		g.turn = func(d graph.Data) graph.Data { return turned{d, t.dims[0], t.dims[1], elem} }
		op, attrs = "Transpose", []graph.Attr{{Name: "perm", Value: []int64{1, 0}}}
	}
	base := baseName(t.name)
	fx := ""
	if u.n.fx != nil {
		fx = u.n.fx.op
	}
	switch {
	case fx == "aten.linear" && u.port == 1 && u.n.op == "MatMul" && len(t.dims) == 2:
		exchanged()
	case slices.Contains([]string{"aten.prelu", "aten.group_norm"}, fx) && u.port > 0:
		g.dims, op, shape = []int64{t.elems}, "Reshape", t.dims
	case !a.plainFold(t):
		return nil, "", nil, nil
	case slices.Contains(exchanging, base) && len(t.dims) == 2:
		exchanged()
	case slices.Contains(sameOrder, base):
		op, shape = "Reshape", t.dims
		if of := a.byName[u.of]; of != nil {
			g.dims = of.dims
		} else if dims, ok := a.squeezed(t); ok {
			g.dims = dims
		}
	case slices.Contains(repeating, base) && len(t.dims) > 0 && t.elems > 0:
		left, runs := unrepeated(a.contents(t), t.dims, elem)
		g.dims, op, shape = left, "Expand", t.dims
		g.turn = func(d graph.Data) graph.Data { return picked{d, runs} }
	default:
		return nil, "", nil, nil
	}
	return g, op, attrs, shape
}

// plainFold reports whether all values of the exporter's program that went into a fold are views of each other.
func (a *apart) plainFold(t *tensor) bool {
	for _, part := range append([]string{t.name}, a.o.folded[t.name]...) {
		base := baseName(part)
		if _, listed := a.o.signature[part]; listed || base == "val" {
			continue
		}
		if !slices.Contains(sameOrder, base) && !slices.Contains(exchanging, base) && !slices.Contains(repeating, base) {
			return false
		}
	}
	return baseName(t.name) != "val"
}

// squeezed are a fold's dims without those that unsqueeze added, if that is all that was done.
func (a *apart) squeezed(t *tensor) (dims []int64, ok bool) {
	added := 0
	for _, part := range append([]string{t.name}, a.o.folded[t.name]...) {
		switch base := baseName(part); {
		case base == "unsqueeze":
			added++
		case base == "squeeze":
			added--
		case base == "view", base == "reshape", base == "flatten", base == "unflatten", base == "_unsafe_view":
			return nil, false
		}
	}
	if added <= 0 {
		return t.dims, added == 0
	}
	// Only one way to remove so many may be left: dims of 1 that stand together are alike.
	var left [][]int64
	var remove func(from, more int, dims []int64)
	remove = func(from, more int, dims []int64) {
		if more == 0 {
			if !slices.ContainsFunc(left, func(d []int64) bool { return slices.Equal(d, dims) }) {
				left = append(left, dims)
			}
			return
		}
		for i := from; i < len(dims); i++ {
			if dims[i] == 1 {
				remove(i, more-1, slices.Delete(slices.Clone(dims), i, i+1))
			}
		}
	}
	if added <= 4 {
		remove(0, added, t.dims)
	}
	if len(left) != 1 {
		return nil, false
	}
	return left[0], true
}

func (a *apart) contents(t *tensor) []byte {
	b, err := a.r.data(t).Bytes()
	if err != nil {
		t.fail("%s", err)
	}
	return b
}

// unfold gives back what an initializer was folded from if that is not one parameter as a whole: the weights of a recurrent
// layer, or rows of a table. What remains cannot be told.
func (a *apart) unfold(t *tensor, values map[string]string) {
	if a.drop[t.name] || len(a.o.folded[t.name]) == 0 {
		return
	}
	var from []string
	for _, name := range a.o.parts(t.name) {
		if a.o.signature[name] == graph.Param {
			from = append(from, name)
		}
	}
	readers := a.readers[t.name]
	switch {
	case len(from) == 0 || len(readers) == 0:
	case a.recurrent(readers[0]) && len(readers) == 1 && a.gates(readers[0], t):
	case len(from) == 1 && slices.Contains(lookups, baseName(t.name)) && a.rows(t, from[0]):
	default:
		for _, name := range from {
			a.lost = appendNew(a.lost, name)
		}
		return
	}
	for _, name := range from {
		a.placed[name] = true
		a.lost = slices.DeleteFunc(a.lost, func(lost string) bool { return lost == name })
	}
}

// rows gives back the rows of a table that were looked up while the exporter ran; it does not keep the others.
func (a *apart) rows(t *tensor, table string) bool {
	if len(t.dims) < 2 || t.elems == 0 || a.present(table) && a.byName[table] != nil {
		return false
	}
	width := t.dims[len(t.dims)-1]
	b := a.contents(t)
	first, index := rowsOf(b, width*t.dtype.Size())
	if len(index) > 1 && uniform(b, t.dtype.Size()) {
		return false // any row may be any other
	}
	a.given = append(a.given, &givenBack{
		name: table, like: t, dtype: t.dtype, dims: []int64{int64(len(first)), width},
		turn: func(d graph.Data) graph.Data { return picked{d, first} },
	})
	ids := a.wholeIn(t.name+"_rows", t.dims[:len(t.dims)-1], index)
	a.front = append(a.front, appendNode("Gather", t.name, []string{table, ids}, []string{t.name}))
	a.drop[t.name] = true
	a.parts = append(a.parts, table)
	return true
}

// lookups are operators of PyTorch's that take rows of a table.
var lookups = []string{"embedding", "index", "index_select"}

// recurrent reports whether a node is of a recurrent layer, whose weights the exporter joins and reorders.
func (a *apart) recurrent(n *wireNode) bool {
	return n.fx != nil && (n.op == "LSTM" && n.fx.op == "aten.lstm" || n.op == "GRU" && n.fx.op == "aten.gru")
}

// gateOrders is, for each of PyTorch's gates, its place in ONNX's order: i, f, g, o stand as i, o, f, c; r, z, n as z, r, h.
var gateOrders = map[string][]int64{"LSTM": {0, 2, 3, 1}, "GRU": {1, 0, 2}}

// gates gives back the weights or biases of a recurrent node: input 1, 2 or 3 of it.
func (a *apart) gates(n *wireNode, t *tensor) bool {
	in, order := slices.Index(n.in, t.name), gateOrders[n.op]
	list := fxRead.FindAllStringSubmatch(n.fx.arg(2), -1)
	w := a.byName[n.in[1]]
	if in < 1 || in > 3 || w == nil || len(w.dims) != 3 || len(t.dims) < 2 {
		return false
	}
	ways, gates := w.dims[0], int64(len(order))
	const most = 4 // weights and biases of a direction
	per := 2
	if strings.Contains(n.fx.arg(2), "bias") || n.fx.arg(3) == "True" {
		per = most
	}
	at := n.layer * int(ways) * per
	if at+int(ways)*per > len(list) || t.dims[0] != ways {
		return false
	}
	ports := []int{in - 1}
	if in == 3 {
		ports = []int{2, 3}
	}
	row := t.elems / ways / int64(len(ports)) / gates // elements of a gate
	if row*ways*int64(len(ports))*gates != t.elems {
		return false
	}
	var joined []string
	size := row * t.dtype.Size()
	for way := range ways {
		for k, port := range ports {
			target := a.o.placeholders[list[at+int(way)*per+port][1]]
			if target == "" || a.byName[target] != nil || a.isGiven(target) {
				return false
			}
			dims := slices.Clone(t.dims[1:])
			dims[0] = t.dims[1] / int64(len(ports))
			var runs []stretch
			base := (way*int64(len(ports)) + int64(k)) * gates
			for _, place := range order {
				runs = append(runs, stretch{(base + place) * size, size})
			}
			a.given = append(a.given, &givenBack{
				name: target, like: t, dtype: t.dtype, dims: dims,
				turn: func(d graph.Data) graph.Data { return picked{d, runs} },
			})
			pieces := make([]string, gates)
			for g := range pieces {
				pieces[g] = a.fresh(target + "_gate")
			}
			sizes := a.whole(target+"_gates", slices.Repeat([]int64{dims[0] / gates}, int(gates)))
			a.front = append(a.front, appendNode("Split", target+"/Split", []string{target, sizes}, pieces))
			byPlace := make([]string, gates)
			for g, place := range order {
				byPlace[place] = pieces[g]
			}
			joined = append(joined, byPlace...)
		}
	}
	flat := a.fresh(t.name)
	a.front = append(a.front,
		appendNode("Concat", flat, joined, []string{flat}, graph.Attr{Name: "axis", Value: int64(0)}),
		appendNode("Reshape", t.name, []string{flat, a.whole(t.name+"_shape", t.dims)}, []string{t.name}))
	a.drop[t.name] = true
	return true
}

// giveBias adds the bias that the exporter left out because it was all zeros.
func (a *apart) giveBias(n *wireNode) {
	if n.fx == nil || n.fused {
		return
	}
	arg, ok := strings.CutPrefix(n.fx.arg(fxBias(n.fx, n)), "%")
	target := a.o.placeholders[arg]
	if !ok || target == "" {
		return
	}
	w := a.byName[n.in[1]]
	if g := slices.IndexFunc(a.given, func(g *givenBack) bool { return g.name == n.in[1] }); w == nil && g >= 0 {
		w = &tensor{dtype: a.given[g].dtype, dims: a.given[g].dims}
	}
	if a.byName[target] == nil && !a.isGiven(target) {
		if w == nil || len(w.dims) < 2 {
			return
		}
		size := w.dims[0]
		switch {
		case n.op == "Gemm" && a.attrInt(n, "transB") == 0:
			size = w.dims[1]
		case n.op == "ConvTranspose":
			size = w.dims[1] * max(1, a.attrInt(n, "group"))
		}
		a.given = append(a.given, &givenBack{name: target, dtype: w.dtype, dims: []int64{size}})
	}
	n.in, n.changed = append(n.in, target), true
	a.placed[target] = true
}

func (a *apart) attrInt(n *wireNode, name string) (value int64) {
	for m := a.r.message("a node", n.b); m.next(); {
		if m.num != nodeAttr {
			continue
		}
		is, x := "", int64(0)
		for at := m.sub("an attribute"); at.next(); {
			switch at.num {
			case attrName:
				is = at.text()
			case attrI:
				x = at.int()
			}
		}
		if is == name {
			value = x
		}
	}
	return value
}

// findTied finds other names of parameters: a module reads a parameter that is listed under another module's name, and one of its own
// of that name is read by nobody.
func (a *apart) findTied() {
	for _, n := range a.nodes {
		if n.fx == nil || n.fused {
			continue
		}
		for _, p := range n.fx.reads {
			target := a.o.placeholders[p]
			at := strings.LastIndexByte(target, '.')
			if at < 0 {
				continue
			}
			other := n.module + target[at:]
			if _, listed := a.o.signature[other]; listed && other != target && !a.placed[other] && !a.present(other) && !a.isGiven(other) {
				a.tied[other] = target
			}
		}
	}
}

// findLost lists the parameters that no node reads although one did: the exporter made one node of two that computed
// the same, or left out a sum with 0 or a product with 1. A parameter that no node ever read is none of them.
func (a *apart) findLost(g *body) {
	gone := a.someGone(g)
	a.lost = slices.DeleteFunc(a.lost, func(name string) bool { return a.o.signature[name] != graph.Param })
	if !gone {
		return
	}
	for _, name := range a.o.targets {
		if a.o.signature[name] == graph.Param && !a.placed[name] && !a.present(name) && a.tied[name] == "" {
			a.lost = appendNew(a.lost, name)
		}
	}
}

// neutral are operators that the exporter leaves out if an operand changes nothing.
var neutral = []string{"mul", "add", "sub", "div"}

// someGone reports whether a node that read parameters is gone.
func (a *apart) someGone(g *body) bool {
	some := false
	look := func(reads, in []string) {
		for _, name := range reads {
			if a.made[name] {
				continue
			}
			base := baseName(name)
			alike := false
			for _, x := range in {
				by := a.makers[x]
				if by == nil || by.fx == nil || baseName(by.fx.name) != base || slices.Contains(reads, by.fx.name) {
					continue
				}
				alike = true
				for _, other := range a.nodes {
					if other.fx == nil || other.fx.name != by.fx.name {
						continue
					}
					for _, read := range other.in {
						t := a.byName[read]
						if t != nil && t.elems == 1 && a.o.signature[t.name] == graph.Param {
							a.lost = appendNew(a.lost, t.name) // one of the two may have read a number
						}
						some = some || t != nil && a.origin(t) != "" || a.isGiven(read)
					}
				}
			}
			some = some || !alike && slices.Contains(neutral, base)
		}
	}
	for _, n := range a.nodes {
		if n.fx != nil {
			look(n.fx.reads, n.in)
		}
	}
	var outs []string
	for _, b := range g.outputs {
		for m := a.r.message("an output", b); m.next(); {
			if m.num == valueName {
				name := m.text()
				outs = append(outs, name)
				if by := a.makers[name]; by != nil && by.fx != nil && by.fx.name != name && slices.Contains(neutral, baseName(name)) {
					some = true // it has the name of a node that is gone
				}
			}
		}
	}
	look(a.o.results, outs)
	return some
}

// whole adds a list of whole numbers, and returns its name.
func (a *apart) whole(name string, list []int64) string {
	return a.wholeIn(name, []int64{int64(len(list))}, list)
}

func (a *apart) wholeIn(name string, dims, list []int64) string {
	if a.taken[name] {
		name = a.fresh(name)
	}
	a.taken[name] = true
	shape := make([]int, len(dims))
	for i, d := range dims {
		shape[i] = int(d)
	}
	a.consts, a.names = append(a.consts, graph.TensorOf(graph.Int64, list, shape...)), append(a.names, name)
	return name
}

// bodies are the graph's nodes with the changes.
func (a *apart) bodies() [][]byte {
	list := slices.Clone(a.front)
	for _, n := range a.nodes {
		for _, one := range append([]*wireNode{n}, n.copies...) {
			list = append(list, a.encoded(one))
		}
	}
	return list
}

// encoded is a node with its inputs, outputs and name as changed.
func (a *apart) encoded(n *wireNode) []byte {
	if !n.changed {
		return n.b
	}
	var b []byte
	for _, in := range n.in {
		b = appendText(b, nodeInput, in)
	}
	for _, out := range n.out {
		b = appendText(b, nodeOutput, out)
	}
	b = appendText(b, nodeName, n.name)
	m := a.r.message("a node", n.b)
	for before := m.rest; m.next(); before = m.rest {
		if m.num != nodeInput && m.num != nodeOutput && m.num != nodeName {
			b = append(b, m.raw(before)...)
		}
	}
	return b
}

// numbers are a given parameter's numbers as the file has them.
func (a *apart) numbers(g *givenBack) graph.Data {
	if g.like == nil {
		n := g.dtype.Size()
		for _, d := range g.dims {
			n *= d
		}
		return graph.Bytes(make([]byte, n))
	}
	d := a.r.data(g.like)
	if g.turn != nil {
		d = g.turn(d)
	}
	return d
}

func appendNode(op, name string, in, out []string, attrs ...graph.Attr) (b []byte) {
	for _, s := range in {
		b = appendText(b, nodeInput, s)
	}
	for _, s := range out {
		b = appendText(b, nodeOutput, s)
	}
	b = appendText(b, nodeName, name)
	b = appendText(b, nodeOp, op)
	for _, x := range attrs {
		b = appendBytes(b, nodeAttr, appendAttr(nil, x))
	}
	return b
}

func appendTensorHead(name string, t graph.DType, dims []int64) (b []byte) {
	for _, d := range dims {
		b = appendInt(b, tensorDims, d)
	}
	b = appendInt(b, tensorType, int64(t))
	return appendText(b, tensorName, name)
}

func appendNew(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
