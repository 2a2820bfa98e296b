package bench

import (
	"slices"
	"time"
)

// Side repeats a step and measures it.
type Side interface {
	Run(n int) (Time, error)
	Close()
}

// Time is seconds by two clocks.
type Time struct{ Wall, CPU float64 }

// Figure is the time of one step: the fastest by each clock, and the median of wall time.
type Figure struct{ Wall, CPU, Median float64 }

// rounds is the number of turns of each side, their least length, and the rest before each.
type rounds struct {
	count       int
	least, rest time.Duration
}

func (r rounds) measure(sides ...Side) ([]Figure, error) {
	steps := make([]int, len(sides))
	for i, s := range sides {
		n, err := r.steps(s)
		if err != nil {
			return nil, err
		}
		steps[i] = n
	}
	took := make([][]Time, len(sides))
	for range r.count {
		for i, s := range sides {
			time.Sleep(r.rest)
			t, err := s.Run(steps[i])
			if err != nil {
				return nil, err
			}
			n := float64(steps[i])
			took[i] = append(took[i], Time{t.Wall / n, t.CPU / n})
		}
	}
	figures := make([]Figure, len(sides))
	for i := range sides {
		figures[i] = figure(took[i])
	}
	return figures, nil
}

// steps finds the number of steps in a turn. The first run is a warm-up.
func (r rounds) steps(s Side) (int, error) {
	if _, err := s.Run(1); err != nil {
		return 0, err
	}
	for n := 1; ; {
		t, err := s.Run(n)
		if err != nil {
			return 0, err
		}
		want := r.least.Seconds()
		if t.Wall >= want/2 || n >= 1<<20 {
			return max(1, int(float64(n)*want/max(t.Wall, want/2))), nil
		}
		n *= int(min(16, max(2, want/max(t.Wall, 1e-9))))
	}
}

func figure(ts []Time) Figure {
	walls := make([]float64, len(ts))
	cpu := ts[0].CPU
	for i, t := range ts {
		walls[i] = t.Wall
		cpu = min(cpu, t.CPU)
	}
	slices.Sort(walls)
	return Figure{Wall: walls[0], CPU: cpu, Median: walls[len(walls)/2]}
}

// local is a side in this process.
type local struct {
	step  func() error
	close func()
}

func (l local) Run(n int) (Time, error) {
	wall, cpu := time.Now(), processTime()
	for range n {
		if err := l.step(); err != nil {
			return Time{}, err
		}
	}
	return Time{time.Since(wall).Seconds(), (processTime() - cpu).Seconds()}, nil
}

func (l local) Close() {
	if l.close != nil {
		l.close()
	}
}
