package onnx

import (
	"path"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Whether an initializer is a parameter follows from the file's metadata or else from its name,
// never from its contents.
//
// PyTorch's exporter (torch.onnx.export with dynamo=True) writes three kinds of metadata:
// the kind of each initializer, at its value; the program's signature, at the graph, with a line
// for each parameter and buffer; and, at values that its optimizer folded, the names of all values
// that went into it. In files without these, names decide: see names.go.

// The exporter's metadata keys.
const (
	kindKey      = "pkg.torch.export.graph_signature.InputSpec.kind"
	signatureKey = "pkg.torch.export.ExportedProgram.graph_signature"
	foldedKey    = "pkg.onnxscript.optimizer.folded_from"
)

// torchKinds translates the exporter's kinds.
var torchKinds = map[string]graph.Kind{
	"PARAMETER": graph.Param, "BUFFER": graph.ModelBuffer, "CONSTANT_TENSOR": graph.Const,
}

// Origin is what is known of a float initializer beyond its kind.
type Origin struct {
	// Folded says that it is the result of constant folding, and From names the parameters
	// and buffers that it was folded from, as far as the file says.
	From   []string
	Folded bool
	// Unsure says that its kind was guessed from its readers.
	Unsure bool
}

// origins is the exporter's metadata about initializers.
type origins struct {
	kinds     map[string]graph.Kind // by name
	folded    map[string][]string   // by name, what a value was folded from
	signature map[string]graph.Kind // all parameters and buffers, by name in the model
	targets   []string              // their names in order
	// The names of parameters and buffers in the exporter's program, and those of its results.
	placeholders map[string]string
	results      []string
	found        map[string]source // cache of sources
}

func (r *reader) readOrigins(g *body) *origins {
	o := &origins{kinds: map[string]graph.Kind{}, folded: map[string][]string{}, signature: map[string]graph.Kind{}, found: map[string]source{}, placeholders: map[string]string{}}
	for _, list := range [][][]byte{g.infos, g.inputs} {
		for _, b := range list {
			o.info(r.message("a value", b))
		}
	}
	for line := range strings.SplitSeq(g.signature, "\n") {
		o.line(line)
	}
	return o
}

// info reads the metadata of a ValueInfoProto.
func (o *origins) info(m *message) {
	name, kind, folded := "", "", ""
	for m.next() {
		switch m.num {
		case valueName:
			name = m.text()
		case valueMetadata:
			switch key, value := m.entry(); key {
			case kindKey:
				kind = value
			case foldedKey:
				folded = value
			}
		}
	}
	if k, ok := torchKinds[kind]; ok {
		o.kinds[name] = k
	}
	if folded != "" {
		o.folded[name] = pythonStrings(folded)
	}
}

// line reads a line of a signature: p_wte_weight: PARAMETER target='wte.weight'. Lines of
// inputs and outputs have no target or another kind.
func (o *origins) line(line string) {
	name, spec, ok := strings.Cut(line, ": ")
	word, rest, _ := strings.Cut(spec, " ")
	if word == "USER_OUTPUT" {
		o.results = append(o.results, strings.TrimSpace(name))
	}
	kind, known := torchKinds[word]
	if !ok || !known {
		return
	}
	_, target, ok := strings.Cut(rest, "target=")
	if names := pythonStrings(target); ok && len(names) > 0 {
		o.signature[names[0]] = kind
		o.placeholders[strings.TrimSpace(name)] = names[0]
		o.targets = append(o.targets, names[0])
	}
}

// pythonStrings lists the string literals in Python source, as in ['a', "b's"].
func pythonStrings(s string) (list []string) {
	for {
		at := strings.IndexAny(s, `'"`)
		if at < 0 {
			return list
		}
		mark, text := s[at], []byte(nil)
		i := at + 1
		for ; i < len(s) && s[i] != mark; i++ {
			if s[i] == '\\' && i+1 < len(s) {
				i++
			}
			text = append(text, s[i])
		}
		list = append(list, string(text))
		s = s[min(i+1, len(s)):]
	}
}

// says is the kind that the exporter recorded for an initializer.
func (o *origins) says(name string) (graph.Kind, bool) {
	if k, ok := o.kinds[name]; ok {
		return k, true
	}
	k, ok := o.signature[name]
	return k, ok
}

// known reports whether the file says which initializers are parameters.
func (o *origins) known() bool { return len(o.kinds) > 0 || len(o.signature) > 0 }

// source is what a value was folded from.
type source struct {
	kind graph.Kind // ModelBuffer if folded from any buffer, else Param if from any parameter, else Const
	from []string   // the first few parameters and buffers
}

// sources finds what a value was folded from. The exporter's list also has intermediate values,
// which have lists of their own, and constants.
func (o *origins) sources(name string) source {
	const most = 8
	if s, ok := o.found[name]; ok {
		return s
	}
	s := source{kind: graph.Const}
	o.found[name] = s // ends cycles
	for _, part := range o.folded[name] {
		of := source{from: []string{part}}
		var said bool
		if of.kind, said = o.says(part); !said {
			of = o.sources(part)
		}
		if of.kind == graph.Const {
			continue
		}
		if of.kind == graph.ModelBuffer || s.kind == graph.Const {
			s.kind = of.kind
		}
		for _, f := range of.from {
			if len(s.from) < most && !slices.Contains(s.from, f) {
				s.from = append(s.from, f)
			}
		}
	}
	o.found[name] = s
	return s
}

// parts lists all parameters and buffers that a value was folded from.
func (o *origins) parts(name string) (list []string) {
	seen := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, part := range o.folded[name] {
			if _, said := o.says(part); said {
				list = appendNew(list, part)
			} else {
				follow(part)
			}
		}
	}
	follow(name)
	return list
}

// stored is an initializer that may be trained.
type stored struct {
	name  string // in the file
	value *graph.Value
}

// tellKinds makes each float initializer a parameter, a buffer or a constant. Files written by
// memopt have kinds in their metadata, and files with a border have their parameters as inputs.
func (r *reader) tellKinds(top *scope) {
	if _, ours := r.model.metadata[metaLoss]; ours || r.border() != nil {
		return
	}
	uses := r.b.Graph.Uses()
	r.source.Origins = map[string]Origin{}
	for _, s := range r.stored {
		kind, origin := r.kindOf(s, uses)
		s.value.Kind = kind
		if origin.Folded {
			r.source.Origins[s.value.Name] = origin
		}
	}
	if a := r.apart; a != nil {
		r.source.Lost, r.source.Fused, r.source.Rows, r.source.Tied = a.lost, a.fused, a.parts, a.tied
	} else {
		r.findLost(top)
		r.findShared(uses)
	}
}

// findShared lists parameters that nodes of several modules read, in files of PyTorch's older exporter: it may have merged equal ones,
// and only the nodes' names, /layers.0/norm1/Add, say where they stood.
func (r *reader) findShared(uses *graph.Uses) {
	if r.origins.known() || r.model.producer != torchProducer {
		return
	}
	for _, s := range r.stored {
		if s.value.Kind != graph.Param {
			continue
		}
		first := ""
		for _, n := range seenBy(s.value, uses, 0) {
			switch module := path.Dir(n.Name); {
			case !strings.HasPrefix(module, "/"):
			case first == "":
				first = module
			case module != first:
				r.source.Shared = appendNew(r.source.Shared, s.name)
			}
		}
	}
}

// kindOf decides what an initializer is.
func (r *reader) kindOf(s stored, uses *graph.Uses) (graph.Kind, Origin) {
	if kind, said := r.origins.says(s.name); said {
		return kind, Origin{}
	}
	if r.fixed[s.value] {
		return graph.Const, Origin{}
	}
	if r.origins.known() {
		if r.origins.folded[s.name] != nil {
			of := r.origins.sources(s.name)
			return of.kind, Origin{From: of.from, Folded: of.kind != graph.Const}
		}
		return byReaders(s.value, uses)
	}
	switch {
	case isStatistic(s.value, uses):
		return graph.ModelBuffer, Origin{}
	case isConstantName(s.name):
		return graph.Const, Origin{}
	case isBufferName(s.name, s.value.Rank()):
		return graph.ModelBuffer, Origin{}
	case isMadeUp(s.name):
		return byReaders(s.value, uses)
	}
	return graph.Param, Origin{}
}

// findLost lists parameters of the signature that are not in the file, which does not say where they were read: the
// exporter merged equal ones, fused them, or omitted them.
func (r *reader) findLost(top *scope) {
	used := map[string]bool{}
	for name := range r.origins.folded {
		if top.has(name) {
			for _, part := range r.origins.sources(name).from {
				used[part] = true
			}
		}
	}
	for _, name := range r.origins.targets {
		if r.origins.signature[name] == graph.Param && !top.has(name) && !used[name] {
			r.source.Lost = appendNew(r.source.Lost, name)
		}
	}
}
