// Package arena allocates memory for values that no plan has placed, and keeps an account of
// everything that a session holds.
//
// An Arena takes regions of memory, splits them into chunks, and merges freed chunks. Regions are
// kept until Shrink, or until memory runs out. The strategy decides on their sizes: kNextPowerOfTwo
// and kSameAsRequested are ONNX Runtime's, and have its options; planned is for users that allocate
// one block of a plan's height at a time, and holds no more than the largest of them.
//
//	account := arena.NewAccount(limit)
//	err := account.Take("weights", n)     // memory outside the arena is entered by hand
//	a := arena.New(arena.Options{Account: account})
//	c, err := a.Alloc(n, "activations")
//	… c.Bytes …
//	a.Free(c)
//	returned := a.Shrink()
//
// An account has one limit, which is checked before memory is taken. Exceeding it is an error that
// says what was requested, what is held and by which owners, and changes nothing.
package arena
