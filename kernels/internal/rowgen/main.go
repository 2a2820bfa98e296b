// Command rowgen writes the vector forms of package f32's loops over rows:
// vector_amd64.s, vector_amd64.go and vector_noasm.go. A loop is a function of
// table.go over the values of one element; this program makes it as wide as
// the registers of AVX2 and of AVX-512 are. A test keeps what is committed as
// it is written here.
//
//	kernel.go  what a loop is made of
//	table.go   the loops
//	emit.go    from a loop to instructions: registers, forms, constants
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "rowgen:", err)
			os.Exit(1)
		}
	}
}
