package planner

// FileFormulas is a plan's peak and cost as functions of the dims.
type FileFormulas struct {
	// Peak lists the formulas of which the peak is the largest.
	Peak       []FilePeak  `json:"peak"`
	Flops      string      `json:"flops"`
	ExtraFlops string      `json:"extra_flops"`
	Ranges     []FileRange `json:"ranges"`
}

// FilePeak is the bytes alive at a node.
type FilePeak struct {
	Formula string `json:"formula"`
	Node    string `json:"node"`
}

// FileRange is the sizes of one dim for which the formulas hold.
type FileRange struct {
	Dim    string      `json:"dim"`
	At     int64       `json:"at"`
	From   int64       `json:"from"`
	To     int64       `json:"to"`
	Pieces []FilePiece `json:"pieces"`
}

// FilePiece says which formula is the peak over a stretch of sizes.
type FilePiece struct {
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Formula string `json:"formula"`
	Node    string `json:"node"`
}

// fileFormulas is nil where a formula is too large to be one.
func (p *Plan) fileFormulas() *FileFormulas {
	f, err := p.Formulas()
	if err != nil {
		return nil
	}
	out := &FileFormulas{Peak: []FilePeak{}, Flops: f.Flops, ExtraFlops: f.ExtraFlops, Ranges: []FileRange{}}
	for _, x := range f.Peaks {
		out.Peak = append(out.Peak, FilePeak(x))
	}
	for _, r := range f.Ranges {
		x := FileRange{Dim: r.Dim, At: r.At, From: r.From, To: r.To}
		for _, piece := range r.Pieces {
			x.Pieces = append(x.Pieces, FilePiece(piece))
		}
		out.Ranges = append(out.Ranges, x)
	}
	return out
}
