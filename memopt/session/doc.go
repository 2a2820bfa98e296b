// Package session holds a forward program open and runs it for inputs of any shapes.
//
//	s, err := session.Open(ctx, session.Model{Path: "model.onnx"}, session.Options{MemoryLimit: 1 << 30})
//	r, err := s.Run(ctx, map[string]*graph.Tensor{"x": x}, nil, session.RunOptions{})
//
// Weights are there once, in the model's file where they lie aligned. For the shapes of a
// run there is a pattern: every value's place in one block, by live ranges; patterns are
// kept for as many shapes as the session is allowed to, by the shapes in full. Results are
// written where the caller wants them, or where the session keeps them.
//
// A model is read once, with its dims as names. What cannot be read so (shapes that follow
// from numbers of inputs, loops over a dim, dims of size 0) is read for the shapes and, if it
// must be, the numbers of a run; a few such readings are kept, too.
//
// All that a session holds is on one account, which has its limit: weights, the arena that
// patterns and other values lie in, copies of inputs, results that it keeps.
package session
