// Package autograd extends a forward graph to a whole training step: gradients by the
// operators' rules, then updates, all as ordinary nodes. It does not know operators by
// name, only their facets (Grad, NoGrad, Role, Optimizer).
//
// Nodes are in the order of a reverse walk. Gradients of values with several uses are
// accumulated as they are computed, and a parameter is updated as soon as its gradient is
// complete, so that gradients need not live until the end of the step. Clipping by the
// global norm needs all gradients, and so does loss scaling, which skips updates with
// infinities or NaNs; then all updates come at the end.
package autograd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// Options describes the step to make.
type Options struct {
	// Loss names the scalar to minimize; "" takes the only scalar float output.
	Loss string
	// Trainable and Frozen hold names and patterns of initializers: see Select.
	Trainable, Frozen []string
	// Optimizer is the name of an update rule; "" stops at the gradients.
	Optimizer string
	// Hyper overrides the rule's attributes (weight_decay, beta1, …).
	Hyper map[string]float64
	// ClipNorm limits the global norm of the gradients; 0 means no limit.
	ClipNorm float64
	// MicroBatches is the number of runs whose gradients are accumulated for one update; 0
	// is the same as 1.
	MicroBatches int
	// LossScale scales the gradient of the loss; the zero value does not.
	LossScale LossScale
	// KeepGrads makes the gradients outputs of the graph.
	KeepGrads bool
	// Results names outputs whose gradients the user provides; then there is no loss. A
	// border node (graph.Op.Border) reads all outputs and the new running statistics, and
	// outputs these gradients, in this order. The graph itself then has no outputs.
	Results []string
	// Inputs names inputs whose gradients are computed, like those of parameters.
	Inputs []string
	// Context cancels TrainStep (see package stop); may be nil.
	Context context.Context
}

// LossScale is a factor for the gradient of the loss that updates divide by again, so that
// small gradients do not underflow in 16-bit types. An update is skipped if any gradient
// has an infinity or NaN.
type LossScale struct {
	// Initial is the factor; 0 does not scale.
	Initial float64
	// Window makes the factor dynamic: it is halved after a skipped update, and doubled
	// after Window updates in a row. 0 keeps it constant.
	Window int
}

// The names of the inputs and states that TrainStep adds. Each run must set the learning rate and
// the micro-batch index.
const (
	LearningRate = "optimizer.lr"
	MicroBatch   = "optimizer.micro"
	Step         = "optimizer.step"
	Scale        = "optimizer.loss_scale"
	GoodUpdates  = "optimizer.good_updates"
)

// ErrNoLoss means that the graph has no loss.
var ErrNoLoss = errors.New("no output is a scalar float, so there is no loss")

// ErrManyLosses means that the loss must be named.
var ErrManyLosses = errors.New("several outputs are scalar floats")

// TrainStep returns a new graph: g with its backward pass and updates.
func TrainStep(g *graph.Graph, opt Options) (*graph.Graph, error) {
	stop.Poll(opt.Context)
	s := &step{opt: opt, g: g.CloneFor(2*len(g.Nodes), 2*len(g.Values))} // room for a typical step
	s.b = graph.NewBuilder(s.g)
	s.b.Context = opt.Context
	var err error
	wrap := func(f func() error) {
		stop.Poll(opt.Context)
		if err == nil {
			if e := graph.Try(func() { err = f() }); e != nil {
				err = e
			}
		}
	}
	wrap(s.findLoss)
	wrap(s.findTrainable)
	wrap(s.findPaths)
	wrap(s.chooseRule)
	wrap(s.prepareUpdates)
	wrap(s.backward)
	wrap(s.passStops)
	wrap(s.updateAll)
	if err != nil {
		return nil, err
	}
	stop.Poll(opt.Context)
	s.g.Prune()
	stop.Poll(opt.Context)
	if err := s.g.Check(); err != nil {
		panic(fmt.Sprintf("autograd: the step is not a valid graph: %v", err))
	}
	return s.g, nil
}

type step struct {
	opt Options
	g   *graph.Graph
	b   *graph.Builder

	params   []*graph.Value // trainable, in order of definition
	trained  []bool         // by value ID: is one of params
	needs    []bool         // by value ID: depends on a trainable parameter through floats
	reaches  []bool         // by value ID: the loss depends on the value through floats
	sum      []*graph.Value // by value ID: the gradient so far
	lastUse  []int          // by value ID: first node that reads it, the last one in reverse; −1 if none
	rule     *graph.Op      // the optimizer
	attrs    graph.A        // of its nodes
	slots    []graph.Port   // its states for each parameter
	lr       *graph.Value
	micro    *graph.Value
	steps    *graph.Value   // number of updates so far
	count    *graph.Value   // number of this update, from 1
	scaling  *graph.Value   // the loss scale; nil if there is none
	good     *graph.Value   // updates since the loss scale changed; nil if it is constant
	scale    *graph.Value   // factor for gradients; nil is 1
	results  []*graph.Value // Options.Results, or else the loss
	complete []graph.Grad
}

func (s *step) findLoss() error {
	if s.opt.Results != nil {
		return s.findResults()
	}
	err := s.findOneLoss()
	s.results = []*graph.Value{s.g.Loss}
	return err
}

// findResults finds the outputs of Options.Results.
func (s *step) findResults() error {
	s.g.Loss = nil
	for i, name := range s.opt.Results {
		v := s.g.ByName(name)
		switch {
		case v == nil || !slices.Contains(s.g.Outputs, v):
			return fmt.Errorf("no output is named %q; outputs are %s", name, names(s.g.Outputs))
		case !v.Type.IsFloat():
			return fmt.Errorf("output %s has no gradient, as it is not a float", v)
		case slices.Contains(s.opt.Results[:i], name):
			return fmt.Errorf("the gradient of output %q is given twice", name)
		}
		s.results = append(s.results, v)
	}
	if len(s.results) == 0 {
		return fmt.Errorf("no output is named to provide gradients for; outputs are %s", names(s.g.Outputs))
	}
	return nil
}

func (s *step) findOneLoss() error {
	var scalars []*graph.Value
	for _, v := range s.g.Outputs {
		if v.Type.IsFloat() && v.Shape.Elems().Is(1) {
			scalars = append(scalars, v)
		}
	}
	switch {
	case s.opt.Loss != "":
		v := s.g.ByName(s.opt.Loss)
		if v == nil {
			return fmt.Errorf("no value is named %q; outputs are %s", s.opt.Loss, names(s.g.Outputs))
		}
		if !v.Type.IsFloat() || !v.Shape.Elems().Is(1) {
			return fmt.Errorf("the loss must be a scalar float, but %s is not", v)
		}
		s.g.Loss = v
		if !slices.Contains(s.g.Outputs, v) {
			s.g.Outputs = append(s.g.Outputs, v)
		}
	case len(scalars) == 1:
		s.g.Loss = scalars[0]
	case len(scalars) == 0:
		return fmt.Errorf("%w; outputs are %s", ErrNoLoss, names(s.g.Outputs))
	default:
		return fmt.Errorf("%w: %s", ErrManyLosses, names(scalars))
	}
	return nil
}

func names(vs []*graph.Value) string {
	if len(vs) == 0 {
		return "none"
	}
	var parts []string
	for i, v := range vs {
		if i == 8 {
			parts = append(parts, fmt.Sprintf("and %d more", len(vs)-i))
			break
		}
		parts = append(parts, v.String())
	}
	return strings.Join(parts, ", ")
}

func (s *step) findTrainable() (err error) {
	if _, err = Select(s.g, s.opt.Trainable, s.opt.Frozen); err != nil {
		return err
	}
	replaced := map[*graph.Value]bool{} // running statistics are not trained
	for _, u := range s.g.Updates {
		replaced[u.State] = true
	}
	s.trained = make([]bool, len(s.g.Values))
	for _, v := range s.g.Values {
		if v.Kind == graph.Param && v.Type.IsFloat() && !replaced[v] {
			s.params = append(s.params, v)
			s.trained[v.ID] = true
		}
	}
	for i, name := range s.opt.Inputs {
		v := s.g.ByName(name)
		switch {
		case v == nil || v.Kind != graph.Input:
			return fmt.Errorf("no input is named %q; inputs are %s", name, names(s.g.Inputs))
		case !v.Type.IsFloat():
			return fmt.Errorf("input %s has no gradient, as it is not a float", v)
		case slices.Contains(s.opt.Inputs[:i], name):
			return fmt.Errorf("input %q is named twice in the inputs to differentiate", name)
		}
		s.params = append(s.params, v)
		s.trained[v.ID] = true
	}
	if len(s.params) == 0 {
		return fmt.Errorf("nothing to train: the graph has no float initializer that is a parameter")
	}
	return nil
}

// findPaths marks the values between trainable parameters and the loss.
func (s *step) findPaths() error {
	n := len(s.g.Values)
	s.needs, s.reaches = slices.Clone(s.trained), make([]bool, n)
	s.sum, s.lastUse = make([]*graph.Value, n), slices.Repeat([]int{-1}, n)
	for _, node := range s.g.Nodes {
		if !node.Op.NoGrad && slices.ContainsFunc(node.Inputs, func(v *graph.Value) bool { return v != nil && s.needs[v.ID] }) {
			for _, v := range node.Outputs {
				if v != nil && v.Type.IsFloat() {
					s.needs[v.ID] = true
				}
			}
		}
	}
	for _, v := range s.results {
		s.reaches[v.ID] = true
	}
	for _, node := range slices.Backward(s.g.Nodes) {
		if node.Op.NoGrad || !slices.ContainsFunc(node.Outputs, func(v *graph.Value) bool { return v != nil && s.reaches[v.ID] }) {
			continue
		}
		for _, v := range node.Inputs {
			if v != nil && v.Type.IsFloat() {
				s.reaches[v.ID] = true
				s.lastUse[v.ID] = int(node.ID)
			}
		}
	}
	if !slices.ContainsFunc(s.results, func(v *graph.Value) bool { return s.needs[v.ID] }) {
		return fmt.Errorf("%s depends on no trainable parameter", s.goal())
	}
	s.params = slices.DeleteFunc(s.params, func(v *graph.Value) bool { return !s.reaches[v.ID] })
	return nil
}

// chooseRule finds the optimizer and checks the settings of updates.
func (s *step) chooseRule() error {
	if !(s.opt.ClipNorm >= 0) || s.opt.MicroBatches < 0 {
		return fmt.Errorf("the clip norm (%v) and the number of micro-batches (%d) must not be negative", s.opt.ClipNorm, s.opt.MicroBatches)
	}
	if l := s.opt.LossScale; !(l.Initial >= 0) || math.IsInf(float64(float32(l.Initial)), 0) || l.Window < 0 {
		return fmt.Errorf("the loss scale (%v) and its window (%d) must not be negative, and the scale must be a finite float32", l.Initial, l.Window)
	}
	if s.opt.Optimizer == "" {
		if s.opt.LossScale.Initial > 0 {
			return fmt.Errorf("a loss scale needs an optimizer")
		}
		if s.opt.ClipNorm > 0 {
			return fmt.Errorf("a clip norm needs an optimizer")
		}
		return nil
	}
	s.rule = s.g.Lib.Optimizer(s.opt.Optimizer)
	if s.rule == nil {
		return fmt.Errorf("unknown optimizer %q; available: %s", s.opt.Optimizer, strings.Join(s.g.Lib.Optimizers(), ", "))
	}
	ports, _ := s.rule.Ports()
	s.slots, s.attrs = ports[5:], graph.A{} // param, grad, lr, scale and step come before
	var known []string
	for _, a := range s.rule.AttrSpecs() {
		known = append(known, a.Name)
		if x, ok := s.opt.Hyper[a.Name]; ok {
			s.attrs[a.Name] = x
			if a.Kind == graph.AttrInt {
				s.attrs[a.Name] = int64(x)
			}
		}
	}
	for _, h := range slices.Sorted(maps.Keys(s.opt.Hyper)) {
		if !slices.Contains(known, h) {
			return fmt.Errorf("optimizer %s has no setting %q; it has %s", s.opt.Optimizer, h, strings.Join(known, ", "))
		}
	}
	return nil
}

// prepareUpdates adds the inputs and states of the optimizer.
func (s *step) prepareUpdates() error {
	if err := s.checkNames(); err != nil {
		return err
	}
	if s.rule != nil {
		s.lr = s.define(graph.Input, LearningRate, graph.Float32, graph.Shape{})
		s.steps = s.define(graph.State, Step, graph.Int64, graph.Shape{})
		s.b.Phase = graph.Updating
		switch l := s.opt.LossScale; {
		case l.Initial == 0:
			s.countUpdate(nil)
		case l.Window == 0:
			s.scaling = s.b.Num(graph.Float32, l.Initial)
		default:
			s.scaling = s.define(graph.State, Scale, graph.Float32, graph.Shape{})
			s.good = s.define(graph.State, GoodUpdates, graph.Int64, graph.Shape{})
		}
	}
	if n := s.opt.MicroBatches; n > 1 {
		s.micro = s.define(graph.Input, MicroBatch, graph.Int64, graph.Shape{})
		if s.rule != nil {
			s.scale = s.b.Num(graph.Float32, 1/float64(n))
		}
	}
	return nil
}

// countUpdate increments the number of updates, unless a negative scale skips this one.
func (s *step) countUpdate(scale *graph.Value) {
	s.count = s.b.Apply(s.g.Lib.Role(graph.RoleCount), nil, 1, s.steps, scale)[0]
	s.g.Updates = append(s.g.Updates, graph.Update{State: s.steps, New: s.count})
}

// seedOf is the initial gradient of a scaled loss with the given type and rank.
func (s *step) seedOf(t graph.DType, rank int) *graph.Value {
	return s.b.Apply(s.g.Lib.Role(graph.RoleLossSeed), graph.A{"initial": s.opt.LossScale.Initial, "to": int64(t), "rank": rank}, 1, s.scaling)[0]
}

// define adds an input or state of the step; checkNames has checked that the name is free.
func (s *step) define(kind graph.Kind, name string, t graph.DType, shape graph.Shape) *graph.Value {
	v, err := s.b.Define(kind, name, t, shape)
	if err != nil {
		panic(fmt.Sprintf("autograd: %v", err))
	}
	return v
}

// checkNames fails if the model uses a name that the step needs.
func (s *step) checkNames() error {
	var own []string
	if s.rule != nil {
		own = append(own, LearningRate, Step)
		if s.opt.LossScale.Window > 0 {
			own = append(own, Scale, GoodUpdates)
		}
	}
	if s.opt.MicroBatches > 1 {
		own = append(own, MicroBatch)
	}
	for _, p := range s.params {
		if s.opt.MicroBatches > 1 {
			own = append(own, sumName(p))
		}
		for _, slot := range s.slots {
			own = append(own, slotName(slot, p))
		}
	}
	for _, name := range own {
		if s.g.ByName(name) != nil {
			return fmt.Errorf("the model has a value named %q, which is reserved for the training step", name)
		}
	}
	return nil
}

func sumName(p *graph.Value) string                   { return "accumulated." + p.Name }
func slotName(slot graph.Port, p *graph.Value) string { return "optimizer." + slot.Name + "." + p.Name }

// goal describes what is differentiated, for errors.
func (s *step) goal() string {
	if s.g.Loss != nil {
		return fmt.Sprintf("the loss %q", s.g.Loss.Name)
	}
	return "the results (" + names(s.results) + ")"
}

// seed builds the gradients of the results.
func (s *step) seed() error {
	loss := s.g.Loss
	switch {
	case loss == nil:
		s.hand()
	case s.scaling != nil:
		s.b.Scope = "grad/" + loss.Name
		s.sum[loss.ID] = s.seedOf(loss.Type, loss.Rank())
		s.b.Scope = ""
	default:
		one := graph.NewTensor(loss.Type, slices.Repeat([]int{1}, loss.Rank())...)
		one.SetFloat(0, 1)
		seed, err := s.b.Const(s.b.Fresh("grad/"+loss.Name), one)
		if err != nil {
			return err
		}
		s.sum[loss.ID] = seed
	}
	return nil
}

// hand inserts a border node between the passes, which reads the results of the forward pass and
// outputs their gradients.
func (s *step) hand() {
	all := slices.Clone(s.results)
	for _, v := range s.g.Outputs {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	for _, u := range s.g.Updates {
		if !slices.Contains(all, u.New) {
			all = append(all, u.New)
		}
	}
	var others []int64 // without a gradient
	for i := range all[len(s.results):] {
		others = append(others, int64(len(s.results)+i))
	}
	attrs := graph.A{}
	if others != nil {
		attrs["non_differentiable_outputs"] = others
	}
	s.b.Phase, s.b.Scope = graph.Forward, "border"
	seeds := s.b.Apply(s.g.Lib.Role(graph.RoleBorder), attrs, len(s.results), all...)
	s.b.Phase, s.b.Scope = graph.Backward, ""
	for i, v := range s.results {
		s.sum[v.ID] = seeds[i]
	}
	s.g.Outputs = nil
}

// backward walks the forward nodes in reverse and adds the gradients of each.
func (s *step) backward() error {
	forward := slices.Clone(s.g.Nodes)
	s.b.Phase = graph.Backward
	if err := s.seed(); err != nil {
		return err
	}
	for _, v := range s.results {
		if s.lastUse[v.ID] < 0 { // otherwise its gradient is not complete yet
			s.finish(v)
		}
	}
	for _, n := range slices.Backward(forward) {
		if n.Phase != graph.Forward {
			continue
		}
		if err := s.node(n); err != nil {
			return err
		}
		// Gradients of parameters that are first read here are complete.
		for i, v := range n.Inputs {
			if v != nil && s.lastUse[v.ID] == int(n.ID) && !slices.Contains(n.Inputs[:i], v) {
				s.finish(v)
			}
		}
	}
	if len(s.complete) == 0 {
		return fmt.Errorf("%s has no gradient in any trainable parameter: %s", s.goal(), names(s.params))
	}
	return nil
}

// passStops bypasses nodes that stop gradients, which are not needed any more. The border keeps
// reading the results by name.
func (s *step) passStops() error {
	for _, n := range s.g.Nodes {
		if n.Op.Border {
			continue
		}
		for i, v := range n.Inputs {
			for v != nil && v.Def != nil && v.Def.StopsGradient() {
				v = v.Def.Inputs[0]
			}
			n.Inputs[i] = v
		}
	}
	return nil
}

// node adds the gradients of n's inputs.
func (s *step) node(n *graph.Node) error {
	wanted := func(v *graph.Value) bool {
		return v != nil && v.Type.IsFloat() && s.needs[v.ID] && s.reaches[v.ID]
	}
	dy := make([]*graph.Value, len(n.Outputs))
	any := false
	for i, v := range n.Outputs {
		if v != nil {
			dy[i] = s.sum[v.ID]
			any = any || dy[i] != nil
		}
	}
	if !any || n.Op.NoGrad || !slices.ContainsFunc(n.Inputs, wanted) {
		return nil
	}
	if n.Op.Grad == nil {
		return fmt.Errorf("node %q (%s) has no gradient, and parameter %q needs one: %s",
			n.Name, n.Op.FullName(), s.pathFrom(n).Name, s.pathText(n))
	}
	s.b.Scope = n.GradientScope()
	defer func() { s.b.Scope = "" }()
	for i, dx := range n.Op.Grad(s.b, n, dy) {
		v := n.In(i)
		if dx == nil && wanted(v) && v.Def != nil && slices.Contains(n.Op.Fixed, i) {
			return fmt.Errorf("node %q (%s) has no gradient for its input %q, which depends on parameters", n.Name, n.Op.FullName(), v.Name)
		}
		if dx == nil || !wanted(v) {
			continue
		}
		if dx.Type != v.Type || !mayEqual(dx.Shape, v.Shape) {
			panic(fmt.Sprintf("autograd: operator %s: gradient %s for input %s", n.Op.FullName(), dx, v))
		}
		if before := s.sum[v.ID]; before != nil {
			dx = s.b.Apply(s.g.Lib.Role(graph.RoleSum), nil, 1, before, dx)[0]
		}
		s.sum[v.ID] = dx
	}
	return nil
}

// mayEqual reports whether two shapes may be equal. Dims that the forward pass assumes to be equal
// may have different names, so gradients may, too.
func mayEqual(a, b graph.Shape) bool {
	return slices.EqualFunc(a, b, func(a, b graph.Dim) bool {
		order, known := a.Compare(b)
		return !known || order == 0
	})
}

// pathFrom finds a trainable parameter that n depends on.
func (s *step) pathFrom(n *graph.Node) *graph.Value {
	for {
		i := slices.IndexFunc(n.Inputs, func(v *graph.Value) bool { return v != nil && s.needs[v.ID] })
		v := n.Inputs[i]
		if v.Def == nil {
			return v
		}
		n = v.Def
	}
}

// pathText shows the path from n to the loss, for errors.
func (s *step) pathText(n *graph.Node) string {
	uses := s.g.Uses()
	text := n.Name
	for hops := 0; ; hops++ {
		i := slices.IndexFunc(n.Outputs, func(v *graph.Value) bool { return v != nil && s.reaches[v.ID] })
		v := n.Outputs[i]
		switch {
		case v == s.g.Loss:
			return text + " → loss " + v.Name
		case s.g.Loss == nil && slices.Contains(s.results, v):
			return text + " → " + v.Name
		}
		next := slices.IndexFunc(uses.Of(v), func(m *graph.Node) bool {
			return !m.Op.NoGrad && slices.ContainsFunc(m.Outputs, func(v *graph.Value) bool { return v != nil && s.reaches[v.ID] })
		})
		n = uses.Of(v)[next]
		if hops < 6 {
			text += " → " + n.Name
		} else if hops == 6 {
			text += " → …"
		}
	}
}

// finish is called when the gradient of v is complete. For a parameter it accumulates the gradient,
// and updates the parameter unless updates wait for all gradients.
func (s *step) finish(v *graph.Value) {
	d := s.sum[v.ID]
	if d == nil || !s.trained[v.ID] {
		return
	}
	if s.micro != nil {
		acc := s.define(graph.State, sumName(v), v.Type, v.Shape)
		d = s.b.Apply(s.g.Lib.Role(graph.RoleAccumulate), nil, 1, acc, d, s.micro)[0]
		s.g.Updates = append(s.g.Updates, graph.Update{State: acc, New: d})
	}
	pair := graph.Grad{Param: v, Grad: d}
	s.complete = append(s.complete, pair)
	s.g.Grads = append(s.g.Grads, pair)
	if s.opt.KeepGrads {
		s.g.Outputs = append(s.g.Outputs, d)
	}
	if s.rule != nil && !s.waits() {
		s.update(pair)
	}
}

// waits reports whether updates need all gradients.
func (s *step) waits() bool { return s.opt.ClipNorm > 0 || s.scaling != nil }

// updateAll appends the updates that have waited for all gradients.
func (s *step) updateAll() error {
	if s.rule == nil || !s.waits() {
		return nil
	}
	s.b.Phase = graph.Updating
	if s.opt.ClipNorm > 0 {
		s.clip()
	}
	if s.scaling != nil {
		s.unscale()
	}
	for _, p := range s.complete {
		s.update(p)
	}
	return nil
}

// clip limits the global norm of the gradients.
func (s *step) clip() {
	norm := s.opt.ClipNorm
	if n := s.opt.MicroBatches; n > 1 {
		norm *= float64(n) // the accumulated gradients are sums, not means
	}
	limit := s.b.Num(graph.Float32, norm)
	if s.scaling != nil {
		limit = s.b.Apply(s.g.Lib.Role(graph.RoleScale), nil, 1, limit, s.seedOf(graph.Float32, 0))[0]
	}
	factor := s.b.Apply(s.g.Lib.Role(graph.RoleClip), nil, 1, s.withGrads(limit)...)[0]
	if s.scale != nil {
		factor = s.b.Apply(s.g.Lib.Role(graph.RoleScale), nil, 1, factor, s.scale)[0]
	}
	s.scale = factor
}

// unscale computes the factor that undoes the loss scale, or −1 to skip the update, and the next
// loss scale.
func (s *step) unscale() {
	initial := graph.A{"initial": s.opt.LossScale.Initial}
	s.scale = s.b.Apply(s.g.Lib.Role(graph.RoleUnscale), initial, 1, s.withGrads(s.scaling, s.scale)...)[0]
	s.countUpdate(s.scale)
	if s.good == nil {
		return
	}
	attrs := graph.A{"initial": s.opt.LossScale.Initial, "window": s.opt.LossScale.Window}
	next := s.b.Apply(s.g.Lib.Role(graph.RoleNextLossScale), attrs, 2, s.scaling, s.good, s.scale)
	s.g.Updates = append(s.g.Updates, graph.Update{State: s.scaling, New: next[0]}, graph.Update{State: s.good, New: next[1]})
}

// withGrads appends all gradients to a list of inputs.
func (s *step) withGrads(in ...*graph.Value) []*graph.Value {
	for _, p := range s.complete {
		in = append(in, p.Grad)
	}
	return in
}

// update appends the rule for one parameter, with its states.
func (s *step) update(p graph.Grad) {
	phase, scope := s.b.Phase, s.b.Scope
	s.b.Phase, s.b.Scope = graph.Updating, "update/"+p.Param.Name
	defer func() { s.b.Phase, s.b.Scope = phase, scope }()
	in := make([]*graph.Value, 0, 5+len(s.slots))
	in = append(in, p.Param, p.Grad, s.lr, s.scale, s.count)
	for _, slot := range s.slots {
		in = append(in, s.define(graph.State, slotName(slot, p.Param), p.Param.Type, p.Param.Shape))
	}
	outs := s.b.Apply(s.rule, s.attrs, 1+len(s.slots), in...)
	for i, o := range outs {
		s.g.Updates = append(s.g.Updates, graph.Update{State: in[s.rule.Overwrites[i]], New: o})
	}
}
