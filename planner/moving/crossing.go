package moving

// Crossing is a span that is elsewhere at launch At, which is in an idle time of it.
type Crossing struct {
	Span int32
	Idle Idle
	At   int32
}

// Moves takes each span elsewhere for as long as it can be. waits: launches wait for each copy to end; otherwise copies run
// beside them, those back as late as they can without being waited for. Spans have bytes.
func (l *Line) Moves(all []Crossing, waits bool) (moves []Move) {
	if waits {
		for _, c := range all {
			moves = append(moves, Move{Span: c.Span, Out: c.Idle.From, Gone: c.Idle.From, In: c.Idle.To, Back: c.Idle.To})
		}
	} else {
		m := l.mover(newClocks(l), ways[0])
		place := map[Idle]int32{} // in m.idles, by span and its beginning
		for i, d := range m.idles {
			place[Idle{d.span, d.from}] = int32(i)
		}
		for _, c := range all {
			m.take(&lowering{index: len(m.aways), with: away{idle: place[Idle{c.Span, c.Idle.From}], lo: c.At, hi: c.At + 1}})
		}
		moves = m.moves
	}
	sortMoves(moves)
	return moves
}
