// Package session keeps a forward program open and runs it for inputs of any shapes.
//
//	s, err := session.Open(ctx, session.Model{Path: "model.onnx"}, session.Options{MemoryLimit: 1 << 30})
//	r, err := s.Run(ctx, map[string]*graph.Tensor{"x": x}, nil, session.RunOptions{})
//
// Weights exist once, in the mapped file if they are aligned there. For the shapes of a run there
// is a pattern: a schedule of the planner's, with each value's place in one block, and a device that
// runs it. The most recent patterns are cached, by all shapes. Results are written to the caller's
// memory, or kept by the session.
//
// Devices differ in whose memory they work in. The processor works in what each run gives it: inputs
// and results where the caller has them, and a block, or an allocation for each value, of the arena.
// Other devices have memory of their own, which is on the account while their pattern is cached, and
// are opened for the places of the inputs and results that are bound.
//
// A model is read once, with names for dims. If that is impossible (shapes that depend on values of
// inputs, loops over a dim, dims of size 0), it is read for given shapes and, if necessary, values
// of inputs; a few such programs are cached, too.
//
// Everything that a session holds is on one account with a limit: weights, the arena of patterns
// and other values, copies of inputs, and kept results.
package session
