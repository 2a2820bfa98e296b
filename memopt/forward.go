package memopt

import (
	"context"
	"errors"

	"memopt/configs"
	"memopt/memopt/arena"
	"memopt/memopt/session"
	"memopt/planner"
)

// OpenForward holds a forward program open, as settings say.
func OpenForward(ctx context.Context, m session.Model, c configs.Config) (*session.Session, error) {
	o := session.Options{
		Optimize: c.Optimize, Pattern: c.MemoryPattern, Patterns: c.MaxPatterns, MemoryLimit: c.MemoryLimit, Seed: c.Seed, SaveTo: c.OptimizedModelPath,
		Arena: arena.Options{Strategy: arena.Strategy(c.ArenaStrategy), InitialChunkBytes: c.InitialChunk, InitialGrowthBytes: c.InitialGrowth,
			MaxDeadBytes: c.MaxDead, MaxPowerOfTwoBytes: c.MaxPowerOfTwo, Off: !c.CPUArena},
	}
	kind, which, err := findDevice(c.Device)
	if err != nil {
		return nil, err
	}
	if o.Kind = kind.name; kind.lowered {
		o.Lowered = true
		o.Device = func(s *planner.Schedule) (session.Device, error) { return kind.open(s, which, c.FastPaths) }
	}
	s, err := session.Open(ctx, m, o)
	if err != nil && !coded(err) {
		err = input(err)
	}
	return s, err
}

// coded reports whether an error has an exit code.
func coded(err error) bool {
	var c interface{ ExitCode() int }
	return errors.As(err, &c)
}
