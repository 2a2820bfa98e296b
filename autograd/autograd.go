// Package autograd extends a forward graph to a whole training step: gradients
// by the operators' own rules, then updates, all as ordinary nodes. It knows
// no operator by name; it reads facets (Grad, NoGrad, Role, Optimizer).
//
// The step comes out in the order of a reverse walk. A gradient that is summed
// from several uses is added up as the parts appear, and a parameter is
// updated as soon as its gradient is complete, so gradients do not wait for
// the end of the step. Clipping by the global norm needs all of them at once,
// and so does a scaled loss, which leaves out an update of gradients that are
// no numbers; then the updates stand at the end.
package autograd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"memopt/memopt/graph"
	"memopt/memopt/stop"
)

// Options says what step to make.
type Options struct {
	// Loss names the scalar to lower; "" takes the only scalar float output.
	Loss string
	// Trainable and Frozen hold names and patterns of initializers: see Select.
	Trainable, Frozen []string
	// Optimizer is the name of an update rule; "" stops at the gradients.
	Optimizer string
	// Hyper overrides the rule's attributes (weight_decay, beta1, …).
	Hyper map[string]float64
	// ClipNorm limits the norm of all gradients together; 0 does not.
	ClipNorm float64
	// MicroBatches is how many runs share one update; 0 and 1 mean each.
	MicroBatches int
	// LossScale seeds the gradient of the loss; the zero one does not.
	LossScale LossScale
	// KeepGrads makes the gradients outputs, so that they outlive the step.
	KeepGrads bool
	// Results names the outputs whose gradients the user gives, so that there is no
	// loss: a node that is a border (graph.Op.Border) reads all outputs and the new
	// values of running statistics, and makes those gradients, in this order. The
	// outputs are the border's then, and the graph's no more.
	Results []string
	// Inputs names inputs whose gradients are wanted as those of parameters are.
	Inputs []string
	// Context ends TrainStep, which polls it as package stop says; nil is none.
	Context context.Context
}

// LossScale is a factor that the loss's gradient begins with and that is taken
// off again before the update, so that small gradients do not vanish in a
// narrow type. An update is left out if any gradient is infinite or no number.
type LossScale struct {
	// Initial is the factor; 0 does not scale.
	Initial float64
	// Window lets the factor find itself: half as much after an update that was
	// left out, twice as much after that many updates in a row. 0 keeps it.
	Window int
}

// The names of the inputs and states that TrainStep adds. The learning rate
// and the micro-batch index are fed in every run.
const (
	LearningRate = "optimizer.lr"
	MicroBatch   = "optimizer.micro"
	Step         = "optimizer.step"
	Scale        = "optimizer.loss_scale"
	GoodUpdates  = "optimizer.good_updates"
)

// ErrNoLoss is that the graph has nothing to lower.
var ErrNoLoss = errors.New("no output is a scalar float, so there is no loss")

// ErrManyLosses is that the loss has to be named.
var ErrManyLosses = errors.New("several outputs are scalar floats")

// TrainStep returns a new graph: g with its backward pass and updates.
func TrainStep(g *graph.Graph, opt Options) (*graph.Graph, error) {
	stop.Poll(opt.Context)
	s := &step{opt: opt, g: g.CloneFor(2*len(g.Nodes), 2*len(g.Values))} // a common step's
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
	reaches  []bool         // by value ID: the loss depends on it through floats
	sum      []*graph.Value // by value ID: the gradient so far
	lastUse  []int          // by value ID: first node in order that reads it, -1 if none
	rule     *graph.Op      // the optimizer
	attrs    graph.A        // of its nodes
	slots    []graph.Port   // the states that it keeps for each parameter
	lr       *graph.Value
	micro    *graph.Value
	steps    *graph.Value   // updates that were done
	count    *graph.Value   // number of this update, from 1
	scaling  *graph.Value   // the loss scale; nil if there is none
	good     *graph.Value   // updates since it changed; nil if it does not
	scale    *graph.Value   // factor for gradients; nil is 1
	results  []*graph.Value // those of Options.Results; else the loss alone
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

// findResults finds the outputs whose gradients are given.
func (s *step) findResults() error {
	s.g.Loss = nil
	for i, name := range s.opt.Results {
		v := s.g.ByName(name)
		switch {
		case v == nil || !slices.Contains(s.g.Outputs, v):
			return fmt.Errorf("no output is named %q; outputs are %s", name, names(s.g.Outputs))
		case !v.Type.IsFloat():
			return fmt.Errorf("output %s has no gradient, as it has no floats", v)
		case slices.Contains(s.opt.Results[:i], name):
			return fmt.Errorf("the gradient of output %q is given twice", name)
		}
		s.results = append(s.results, v)
	}
	if len(s.results) == 0 {
		return fmt.Errorf("no output is named whose gradient is given; outputs are %s", names(s.g.Outputs))
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
			return fmt.Errorf("the loss must be one float, but %s is not", v)
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
			return fmt.Errorf("input %s has no gradient, as it has no floats", v)
		case slices.Contains(s.opt.Inputs[:i], name):
			return fmt.Errorf("the gradient of input %q is asked for twice", name)
		}
		s.params = append(s.params, v)
		s.trained[v.ID] = true
	}
	if len(s.params) == 0 {
		return fmt.Errorf("nothing to train: the graph has no float initializer that is a parameter")
	}
	return nil
}

// findPaths marks what lies between a trainable parameter and the loss.
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

// chooseRule finds the optimizer and looks at the settings of updates.
func (s *step) chooseRule() error {
	if !(s.opt.ClipNorm >= 0) || s.opt.MicroBatches < 0 {
		return fmt.Errorf("clip norm %v and %d micro-batches: neither can be less than 0", s.opt.ClipNorm, s.opt.MicroBatches)
	}
	if l := s.opt.LossScale; !(l.Initial >= 0) || math.IsInf(float64(float32(l.Initial)), 0) || l.Window < 0 {
		return fmt.Errorf("loss scale %v for %d updates: neither can be less than 0, nor the scale more than float32 holds", l.Initial, l.Window)
	}
	if s.opt.Optimizer == "" {
		if s.opt.LossScale.Initial > 0 {
			return fmt.Errorf("a scaled loss needs an optimizer that takes the scale off")
		}
		if s.opt.ClipNorm > 0 {
			return fmt.Errorf("clipping needs an optimizer to scale for")
		}
		return nil
	}
	s.rule = s.g.Lib.Optimizer(s.opt.Optimizer)
	if s.rule == nil {
		return fmt.Errorf("no optimizer is called %q; there are %s", s.opt.Optimizer, strings.Join(s.g.Lib.Optimizers(), ", "))
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

// countUpdate numbers the update; one of a negative scale does not count.
func (s *step) countUpdate(scale *graph.Value) {
	s.count = s.b.Apply(s.g.Lib.Role(graph.RoleCount), nil, 1, s.steps, scale)[0]
	s.g.Updates = append(s.g.Updates, graph.Update{State: s.steps, New: s.count})
}

// seedOf is the gradient of a scaled loss of some type and rank by itself.
func (s *step) seedOf(t graph.DType, rank int) *graph.Value {
	return s.b.Apply(s.g.Lib.Role(graph.RoleLossSeed), graph.A{"initial": s.opt.LossScale.Initial, "to": int64(t), "rank": rank}, 1, s.scaling)[0]
}

// define adds an input or state of the step's own, under a name that checkNames
// found free.
func (s *step) define(kind graph.Kind, name string, t graph.DType, shape graph.Shape) *graph.Value {
	v, err := s.b.Define(kind, name, t, shape)
	if err != nil {
		panic(fmt.Sprintf("autograd: %v", err))
	}
	return v
}

// checkNames refuses a model that uses a name which the step needs.
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
			return fmt.Errorf("the model has a value named %q, but the step needs that name for its own", name)
		}
	}
	return nil
}

func sumName(p *graph.Value) string                   { return "accumulated." + p.Name }
func slotName(slot graph.Port, p *graph.Value) string { return "optimizer." + slot.Name + "." + p.Name }

// goal is what the gradients are of, for errors.
func (s *step) goal() string {
	if s.g.Loss != nil {
		return fmt.Sprintf("the loss %q", s.g.Loss.Name)
	}
	return "what the step results in (" + names(s.results) + ")"
}

// seed gives the results their gradients.
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

// hand puts a border between the passes, which hands over what the forward pass came to
// and makes the gradients of the results.
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

// backward walks the forward nodes in reverse and lets each add its gradients.
func (s *step) backward() error {
	forward := slices.Clone(s.g.Nodes)
	s.b.Phase = graph.Backward
	if err := s.seed(); err != nil {
		return err
	}
	for _, v := range s.results {
		if s.lastUse[v.ID] < 0 { // or else it is not complete yet
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
		// Parameters first read here have their whole gradient now.
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

// passStops has the readers of a node that stops gradients read its input: it has done
// its work. Results that are handed over keep their names.
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

// node adds the gradients that flow through n.
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
			return fmt.Errorf("node %q (%s) has no gradient for its input %q, and what makes that depends on parameters", n.Name, n.Op.FullName(), v.Name)
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

// mayEqual: dims that the forward pass takes to be equal, as of two images that
// are joined, are so under names of their own in its gradients.
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

// pathText shows the nodes from n to the loss.
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

// finish is called when the gradient of v is complete; for a parameter that
// is the moment to accumulate, and to update it if nothing else must be known.
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

// waits reports whether no parameter is updated before all gradients are known.
func (s *step) waits() bool { return s.opt.ClipNorm > 0 || s.scaling != nil }

// updateAll updates everything that has waited for the whole of the gradient.
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

// clip limits the norm of all gradients together.
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

// unscale takes the loss scale off, or says that there is no update; then the
// scale changes and the update does not count.
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

// withGrads is some inputs with every gradient behind them.
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
