package graph

import "slices"

// Match is an attempt to match a pattern of nodes. A Fuse rule walks back from Node, the last
// piece, with Piece, builds the fused node with Builder, and returns the replacements of
// Node's outputs, or nil if the pattern does not match. Outputs of all other pieces must be
// read only by pieces: a value that others read is computed anyway, and fusing would then hold
// more. The caller checks that, not the rule.
type Match struct {
	Builder *Builder
	Node    *Node

	uses    *Uses
	result  map[*Value]bool
	changed map[*Value]bool // updated by the step
	pieces  []*Node
}

// Piece is Maker, and adds the node to the pattern.
func (m *Match) Piece(v *Value, op string) *Node {
	n := m.Maker(v, op)
	if n != nil && !slices.Contains(m.pieces, n) {
		m.pieces = append(m.pieces, n)
	}
	return n
}

// Maker is the node whose output 0 is v if it has that operator and the phase of Node, else nil.
func (m *Match) Maker(v *Value, op string) *Node {
	if v == nil || v.Def == nil || v.Out != 0 || m.isNew(v) || v.Def.Phase != m.Node.Phase || v.Def.Op.FullName() != op {
		return nil
	}
	return v.Def
}

// Inner is Piece for a value with a single reader.
func (m *Match) Inner(v *Value, op string) *Node {
	if m.Maker(v, op) == nil || v.Def != m.Node && (m.result[v] || len(m.Readers(v)) != 1) {
		return nil
	}
	return m.Piece(v, op)
}

// Readers lists the nodes that read v; nil if v is new and they are not known yet.
func (m *Match) Readers(v *Value) []*Node {
	if m.isNew(v) {
		return nil
	}
	return m.uses.Of(v)
}

// IsResult reports whether v is visible from outside the graph.
func (m *Match) IsResult(v *Value) bool { return m.result[v] }

// isNew reports whether v was made in this pass; its readers are counted in the next.
func (m *Match) isNew(v *Value) bool { return int(v.ID)+2 >= len(m.uses.start) }

// KeepsSums reports whether v's gradient is still summed in the same order, and so has the same
// bits, if one node in the place of Node replaces the pieces that read v: no other node reads v
// in between, or the gradient has at most two terms.
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

// Either tries alternatives in turn, dropping the pieces of those that fail. It reports whether
// one succeeded.
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

// Number is v's single element, if v is a constant or an initializer that is not trained.
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

// closed reports whether values inside the pattern are read only by its pieces.
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
