// Package arena lends memory for values whose lives nobody has placed, and keeps one
// account of all that a session holds.
//
// An Arena takes regions of memory, cuts chunks from them and joins those again when they
// are given back. Regions stay until Shrink, or until memory is short. How large they are
// is the strategy: kNextPowerOfTwo and kSameAsRequested are ONNX Runtime's, with its names
// for what can be set; planned is for users that ask for one block of a plan's height at a
// time, and holds no more than the largest of them.
//
//	account := arena.NewAccount(limit)
//	err := account.Take("weights", n)     // nothing that a session holds is outside of it
//	a := arena.New(arena.Options{Account: account})
//	c, err := a.Alloc(n, "activations")
//	… c.Bytes …
//	a.Free(c)
//	returned := a.Shrink()
//
// An account has one limit, which every byte is checked against before it is had. What is
// over it is an error that tells what was asked for, what is held and by whom, and leaves
// everything as it was.
package arena
