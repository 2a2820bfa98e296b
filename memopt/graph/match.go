package graph

import "slices"

// Match is one try to see an operator in pieces. A Fuse rule walks from Node,
// the last piece, back through Piece, builds the one node with Builder, and
// returns what stands for Node's outputs; nil says that it is not there. Every
// output of a piece but the last must be read by pieces alone: what somebody
// else needs has to be computed anyway, and then two things would be held where
// one was. The driver sees to that, not the rule.
type Match struct {
	Builder *Builder
	Node    *Node

	uses    *Uses
	result  map[*Value]bool
	changed map[*Value]bool // is another number in the next step
	pieces  []*Node
}

// Piece takes the node that makes v as output 0 into the pattern, if it is of
// that operator and in the phase of Node; else it gives nil.
func (m *Match) Piece(v *Value, op string) *Node {
	n := m.Maker(v, op)
	if n != nil && !slices.Contains(m.pieces, n) {
		m.pieces = append(m.pieces, n)
	}
	return n
}

// Maker is the node that makes v as output 0, if it is of that operator and in
// the phase of Node. It is not taken into the pattern.
func (m *Match) Maker(v *Value, op string) *Node {
	if v == nil || v.Def == nil || v.Out != 0 || m.isNew(v) || v.Def.Phase != m.Node.Phase || v.Def.Op.FullName() != op {
		return nil
	}
	return v.Def
}

// Inner is Piece for a value that a single node reads.
func (m *Match) Inner(v *Value, op string) *Node {
	if m.Maker(v, op) == nil || v.Def != m.Node && (m.result[v] || len(m.Readers(v)) != 1) {
		return nil
	}
	return m.Piece(v, op)
}

// Readers lists the nodes that read v; nil if they are not known yet.
func (m *Match) Readers(v *Value) []*Node {
	if m.isNew(v) {
		return nil
	}
	return m.uses.Of(v)
}

// IsResult reports whether v is looked at from outside the graph.
func (m *Match) IsResult(v *Value) bool { return m.result[v] }

// isNew: v was made in this walk and its readers are counted in the next.
func (m *Match) isNew(v *Value) bool { return int(v.ID)+2 >= len(m.uses.start) }

// KeepsSums reports whether the gradients of a value that the pieces read still add up
// in their order, and so to the same bits, where one node reads it in the place of
// Node: nothing else reads it in between, or they are two at most.
func (m *Match) KeepsSums(v *Value) bool {
	if v == nil || v.Kind == Const || v.Kind == ModelBuffer || v.Kind == Input || !v.Type.IsFloat() {
		return true // it has no gradient
	}
	all, own, between := 0, 0, false
	for _, r := range m.Readers(v) {
		for _, x := range r.Inputs {
			switch {
			case x != v:
				continue
			case r == m.Node || slices.Contains(m.pieces, r):
				own++
			case own > 0 && r.ID < m.Node.ID:
				between = true
			}
			all++
		}
	}
	return own > 0 && all <= 2 || own == 1 && !between
}

// Either tries alternatives in turn; what one of them took in vain is
// forgotten. It reports whether one succeeded.
func (m *Match) Either(tries ...func() bool) bool {
	taken := len(m.pieces)
	for _, try := range tries {
		if try() {
			return true
		}
		m.pieces = m.pieces[:taken]
	}
	return false
}

// Number is the one number that v is: a constant, or an initializer that is
// not trained.
func (m *Match) Number(v *Value) (x float64, ok bool) {
	if v == nil || v.Kind != Const && v.Kind != ModelBuffer || m.changed[v] || !v.Shape.Elems().Is(1) {
		return 0, false
	}
	if v.Data == nil && v.Ints == nil {
		return 0, false
	}
	t, err := v.Tensor(&Binding{memo: map[*poly]int64{}})
	if err != nil {
		return 0, false
	}
	return t.Float(0), true
}

// closed reports whether nothing else reads what is between the pieces.
func (m *Match) closed() bool {
	for _, p := range m.pieces {
		if p == m.Node {
			continue
		}
		for _, v := range p.Outputs {
			if v == nil {
				continue
			}
			if m.result[v] {
				return false
			}
			for _, r := range m.Readers(v) {
				if r != m.Node && !slices.Contains(m.pieces, r) {
					return false
				}
			}
		}
	}
	return true
}
