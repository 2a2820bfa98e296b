package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/memopt/forward"
	"memopt/memopt/session"
	"memopt/plugin"
)

// runner is a forward session of the service.
type runner struct {
	s     *session.Session
	cfg   configs.Config
	slots map[uint64]bool // buffers created by this session
}

func openForward(ctx context.Context, r plugin.OpenRequest) (plugin.Opened, error) {
	j, warnings, err := hosted(ctx, "run", r.Model, r.Settings, r.Caller, nil)
	if err != nil {
		return plugin.Opened{}, err
	}
	cfg := j.cfg
	if to := cfg.OptimizedModelPath; to != "" {
		all := []destination{{"optimized_model_filepath", to}}
		if beside := cfg.OptimizedModelFile; beside != "" {
			all = append(all, destination{"optimized_weights_file", filepath.Join(filepath.Dir(to), beside)})
		}
		if err := writable(all, append(cfg.Files(), j.model)); err != nil {
			return plugin.Opened{}, err
		}
	}
	j.busy("reading the model")
	m := session.Model{Arena: r.Arena, Bytes: r.Bytes}
	if m.Path = j.model; r.Model == "" {
		m.Path = ""
	}
	given := slices.DeleteFunc(slices.Clone(r.Given), func(t plugin.Tensor) bool {
		if t.Role != "file" {
			return false
		}
		if m.Files == nil {
			m.Files = map[string][]byte{}
		}
		m.Files[t.Name] = t.Bytes
		return true
	})
	if m.Given, err = tensorsIn(given); err != nil {
		return plugin.Opened{}, asInput(err)
	}
	s, err := forward.Open(ctx, m, cfg, "")
	if err != nil {
		return plugin.Opened{}, refusedRequest(err)
	}
	warnings = append(warnings, forward.Warnings(s, cfg)...)
	sig := s.Signature
	data, err := json.Marshal(signatureJSON(s))
	if err != nil {
		s.Close()
		return plugin.Opened{}, err
	}
	return plugin.Opened{Session: &runner{s, cfg, map[uint64]bool{}}, Inputs: ports(sig.Inputs), Outputs: ports(sig.Outputs), Device: s.Device(), JSON: string(data), Warnings: warnings}, nil
}

// signatureJSON is the JSON description of a model for a host.
func signatureJSON(s *session.Session) any {
	sig := s.Signature
	type port struct {
		Name  string   `json:"name"`
		Type  string   `json:"type"` // as ONNX writes it
		Shape []string `json:"shape"`
		Rank  bool     `json:"ranked"`
		For   []string `json:"denotations"` // by dim
	}
	list := func(ps []onnx.Port) []port {
		all := []port{}
		for _, p := range ps {
			all = append(all, port{p.Name, p.Type, append([]string{}, p.Shape...), p.Ranked, append([]string{}, p.Denoted...)})
		}
		return all
	}
	return struct {
		Format       string            `json:"format"`
		Inputs       []port            `json:"inputs"`
		Outputs      []port            `json:"outputs"`
		Overridable  []port            `json:"overridable"`
		Initializers []string          `json:"initializers"`
		Device       string            `json:"device"`
		Producer     string            `json:"producer"`
		Domain       string            `json:"domain"`
		Description  string            `json:"description"`
		Graph        string            `json:"graph"`
		GraphDoc     string            `json:"graph_description"`
		Version      int64             `json:"version"`
		Metadata     map[string]string `json:"metadata"`
	}{"memopt.session/1", list(sig.Inputs), list(sig.Outputs), list(sig.Overridable), append([]string{}, sig.Initializers...), s.Device(),
		sig.Producer, sig.Domain, sig.Doc, sig.Graph, sig.GraphDoc, sig.Version, sig.Metadata}
}

// ports converts inputs or outputs to the protocol's type.
func ports(in []onnx.Port) (out []plugin.Value) {
	for _, p := range in {
		v := plugin.Value{Name: p.Name, Type: p.Type, Shape: p.Shape}
		if p.Of.Valid() {
			v.Type = p.Of.String()
		}
		out = append(out, v)
	}
	return out
}

// tensorsIn converts tensors of a host, whose bytes are in its arena.
func tensorsIn(in []plugin.Tensor) (map[string]*graph.Tensor, error) {
	all := map[string]*graph.Tensor{}
	for _, t := range in {
		x, err := tensorIn(t)
		if err != nil {
			return nil, err
		}
		if all[t.Name] != nil {
			return nil, fmt.Errorf("tensor %q is given twice", t.Name)
		}
		all[t.Name] = x
	}
	return all, nil
}

func tensorIn(t plugin.Tensor) (*graph.Tensor, error) {
	of, ok := graph.ParseDType(t.Type)
	if !ok {
		return nil, fmt.Errorf("tensor %q has element type %q, which is not supported", t.Name, t.Type)
	}
	if t.Bytes == nil {
		return nil, fmt.Errorf("tensor %q has no span", t.Name)
	}
	x := &graph.Tensor{Type: of, Bytes: t.Bytes, Shape: make([]int, len(t.Shape))}
	n := of.Size()
	for i, d := range t.Shape {
		if d < 0 || d > 0 && n > int64(len(t.Bytes))/d {
			return nil, fmt.Errorf("tensor %q is %s%v, and its span has %d bytes", t.Name, t.Type, t.Shape, len(t.Bytes))
		}
		x.Shape[i] = int(d)
		n *= d
	}
	if n != int64(len(t.Bytes)) {
		return nil, fmt.Errorf("tensor %q is %s%v, and its span has %d bytes", t.Name, t.Type, t.Shape, len(t.Bytes))
	}
	return x, nil
}

func tensorOutOf(name string, x *graph.Tensor) plugin.Tensor {
	t := plugin.Tensor{Name: name, Type: x.Type.String(), Role: "output", Shape: make([]int64, len(x.Shape)), Bytes: x.Bytes}
	for i, d := range x.Shape {
		t.Shape[i] = int64(d)
	}
	return t
}

// Bind returns the shapes of the outputs for given shapes of inputs; −1 is a size that depends on
// values.
func (r *runner) Bind(ctx context.Context, inputs []plugin.Tensor, _ plugin.Progress) (b plugin.Bound, err error) {
	shapes := map[string][]int{}
	for _, t := range inputs {
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			shape[i] = int(d)
		}
		shapes[t.Name] = shape
	}
	out, known, err := r.s.Shapes(ctx, shapes)
	if err != nil {
		return b, asInput(err)
	}
	b = plugin.Bound{ID: 1, Known: known}
	for _, o := range out {
		b.Tensors = append(b.Tensors, tensorOutOf(o.Name, o.Tensor))
	}
	return b, nil
}

// Place does nothing: each run says where its tensors are.
func (r *runner) Place(uint64, [][]byte) error { return nil }

// Run runs the session on inputs in the arena. Outputs without a span go to the request's room;
// those that do not fit are kept by the session.
func (r *runner) Run(ctx context.Context, q plugin.RunRequest) (reply plugin.RunReply, err error) {
	o, err := runOptions(q.Options)
	if err != nil {
		return reply, asInput(err)
	}
	in, places, err := r.inputs(q.Inputs)
	if err != nil {
		return reply, asInput(err)
	}
	o.Inputs = places
	const align = 64
	free := q.Room
	place := map[string]int64{}
	room := func(name string) func(*graph.Tensor, int64) ([]byte, error) {
		return func(_ *graph.Tensor, n int64) ([]byte, error) {
			skip := (align - (q.RoomAt+int64(len(q.Room)-len(free)))%align) % align
			if n > int64(len(free))-skip || n < 0 {
				return nil, nil
			}
			at := int64(len(q.Room)-len(free)) + skip
			free = q.Room[at+n:]
			place[name] = q.RoomAt + at
			return q.Room[at : at+n : at+n], nil
		}
	}
	var fetches []session.Fetch
	inBuffer := map[string]bool{}
	for _, t := range q.Outputs {
		f := session.Fetch{Name: t.Name, Place: room(t.Name), OnDevice: t.Role == "device"}
		if t.Bytes != nil {
			f.Place = func(x *graph.Tensor, n int64) ([]byte, error) { return boundFor(t, x, n) }
			if p, ok := r.seen(t); ok {
				f.Bound = func(x *graph.Tensor, n int64) (session.Place, error) {
					_, err := boundFor(t, x, n)
					return p, err
				}
			}
		}
		if t.Buffer != 0 {
			inBuffer[t.Name] = true
			if f.Slot = r.slot(t.Buffer); t.Bytes != nil {
				return reply, asInput(fmt.Errorf("output %q has a span and buffer %d; give one", t.Name, t.Buffer))
			}
		}
		fetches = append(fetches, f)
	}
	if fetches == nil {
		for _, p := range r.s.Signature.Outputs {
			fetches = append(fetches, session.Fetch{Name: p.Name, Place: room(p.Name)})
		}
	}
	for _, t := range q.Inputs {
		if t.Role == "same" {
			if o.Same == nil {
				o.Same = map[string]bool{}
			}
			o.Same[t.Name] = true
		}
	}
	result, err := forward.Once(ctx, r.s, r.cfg, in, fetches, o)
	if err != nil {
		return reply, refusedRequest(asInput(err))
	}
	reply.Seconds = result.Took.Seconds()
	for _, out := range result.Outputs {
		at := int64(plugin.InSpan)
		if p, is := place[out.Name]; is {
			at = p
		} else if out.Kept || inBuffer[out.Name] {
			at = plugin.Nowhere
		}
		reply.Outputs, reply.At = append(reply.Outputs, tensorOutOf(out.Name, out.Tensor)), append(reply.At, at)
	}
	data, err := json.Marshal(runJSON(result))
	reply.JSON = string(data)
	return reply, err
}

// boundFor is the host's span for an output.
func boundFor(t plugin.Tensor, x *graph.Tensor, n int64) ([]byte, error) {
	if t.Type != "" && t.Type != x.Type.String() {
		return nil, fmt.Errorf("it is %s, but is bound as %s", x.Type, t.Type)
	}
	if t.Role == "atmost" { // t.Shape bounds the shape
		for i := range t.Shape {
			if len(t.Shape) != len(x.Shape) || int64(x.Shape[i]) > t.Shape[i] {
				return nil, fmt.Errorf("it is %s%v, but at most %v is bound for it", x.Type, x.Shape, t.Shape)
			}
		}
		if n > int64(len(t.Bytes)) {
			return nil, fmt.Errorf("it is %s%v of %d bytes, but %d bytes are bound for it", x.Type, x.Shape, n, len(t.Bytes))
		}
		return t.Bytes[:n:n], nil
	}
	if t.Shape != nil || int64(len(t.Bytes)) != n {
		same := len(t.Shape) == len(x.Shape)
		for i := range t.Shape {
			same = same && t.Shape[i] == int64(x.Shape[i])
		}
		if !same {
			return nil, fmt.Errorf("it is %s%v, but the tensor bound for it has shape %v and %d bytes", x.Type, x.Shape, t.Shape, len(t.Bytes))
		}
	}
	return t.Bytes, nil
}

// runOptions parses the options of a run, by ONNX Runtime's names.
func runOptions(in map[string]string) (o session.RunOptions, err error) {
	for name, value := range in {
		switch name {
		case "memory.enable_memory_arena_shrinkage":
			if o.Shrink = value != ""; o.Shrink {
				for part := range strings.SplitSeq(value, ";") {
					if device, number, ok := strings.Cut(part, ":"); !ok || device != "cpu" && device != "gpu" || number != "0" {
						return o, fmt.Errorf("%s: %q is not an arena; use cpu:0 or gpu:0", name, part)
					}
				}
			}
		case "only_execute_path_to_fetches": // every run does
		default:
			return o, fmt.Errorf("unknown run option %q", name)
		}
	}
	return o, nil
}

func runJSON(r *session.Result) any {
	return struct {
		CopiedIn  int64 `json:"copied_in"`
		CopiedOut int64 `json:"copied_out"`
		Known     bool  `json:"pattern_known"`
		Height    int64 `json:"pattern_bytes"`
		Bound     int64 `json:"bytes_alive"`
		Returned  int64 `json:"returned"`
	}{r.CopiedIn, r.CopiedOut, r.Known, r.Height, r.Bound, r.Returned}
}

// Sync copies results that did not fit into the room to spans that the host has now.
func (r *runner) Sync(_ context.Context, _ uint64, tensors []plugin.Tensor, toService bool) error {
	if toService {
		return asInput(fmt.Errorf("a forward session takes its inputs with each run; Sync to the service is for training sessions"))
	}
	for _, t := range tensors {
		if t.Buffer != 0 {
			b, err := buffers.Find(t.Buffer)
			if err == nil {
				err = b.ReadAt(t.Bytes, t.At)
			}
			if err != nil {
				return asInput(fmt.Errorf("tensor %q: %w", t.Name, err))
			}
			continue
		}
		_, read, ok := r.s.Kept(t.Name)
		if !ok {
			return asInput(fmt.Errorf("no result %q of the last run is kept", t.Name))
		}
		if err := read(t.Bytes); err != nil {
			return asInput(err)
		}
	}
	return nil
}

func (r *runner) Stats(shrink bool) (plugin.Answer, error) {
	returned := int64(0)
	if shrink {
		returned = r.s.Shrink()
	}
	data, err := json.Marshal(struct {
		session.Stats
		Returned int64 `json:"returned"` // by the requested shrink
	}{r.s.Stats(), returned})
	return plugin.Answer{JSON: string(data)}, err
}

func (r *runner) Close() error {
	r.Drop(slices.Collect(maps.Keys(r.slots)))
	return r.s.Close()
}

// buffers holds the device buffers of all forward sessions of the service.
var buffers session.Slots

// slot finds or creates the buffer of an ID; a new one belongs to this session.
func (r *runner) slot(id uint64) *session.Slot {
	s, made := buffers.Make(id)
	if made {
		r.slots[id] = true
	}
	return s
}

// Drop frees buffers, whichever session created them.
func (r *runner) Drop(ids []uint64) {
	if len(ids) == 0 {
		return
	}
	buffers.Drop(ids...)
	for _, id := range ids {
		delete(r.slots, id)
	}
	r.s.Tidy()
}

// seen is the device's address of a span that is bound permanently, if the device can access it.
func (r *runner) seen(t plugin.Tensor) (session.Place, bool) {
	if !t.Bound {
		return session.Place{}, false
	}
	return r.s.Seen(t.Bytes)
}

// inputs converts the inputs of a run, and returns the places of those that the device reads
// directly.
func (r *runner) inputs(all []plugin.Tensor) (map[string]*graph.Tensor, map[string]session.Place, error) {
	spans, places := make([]plugin.Tensor, 0, len(all)), map[string]session.Place{}
	in := map[string]*graph.Tensor{}
	for _, t := range all {
		if t.Buffer == 0 {
			spans = append(spans, t)
			if p, ok := r.seen(t); ok {
				places[t.Name] = p
			}
			continue
		}
		b, err := buffers.Find(t.Buffer)
		of, known := graph.ParseDType(t.Type)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		case !known:
			return nil, nil, fmt.Errorf("tensor %q has element type %q, which is not supported", t.Name, t.Type)
		case t.Bytes != nil:
			return nil, nil, fmt.Errorf("tensor %q has a span and buffer %d; give one", t.Name, t.Buffer)
		case in[t.Name] != nil:
			return nil, nil, fmt.Errorf("tensor %q is given twice", t.Name)
		}
		x := &graph.Tensor{Type: of, Shape: make([]int, len(t.Shape))}
		for i, d := range t.Shape {
			x.Shape[i] = int(d)
		}
		in[t.Name], places[t.Name] = x, session.Place{Buffer: b, At: t.At}
	}
	rest, err := tensorsIn(spans)
	if err != nil {
		return nil, nil, err
	}
	for name, x := range rest {
		if in[name] != nil {
			return nil, nil, fmt.Errorf("tensor %q is given twice", name)
		}
		in[name] = x
	}
	return in, places, nil
}
