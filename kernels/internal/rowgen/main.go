// Command rowgen writes the vector forms of package f32's loops over rows:
// vector_amd64.s, vector_amd64.go and vector_noasm.go. table.go writes a loop as a
// function of one element; this program vectorizes it for AVX2 and AVX-512. A test checks
// that the committed files are up to date.
//
//	kernel.go  the operations of a loop
//	table.go   the loops
//	emit.go    code generation: registers, instruction forms, constants
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
