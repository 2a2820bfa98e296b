// Command testserver is package echo as a binary, for tests in other languages.
package main

import (
	"os"

	"memopt/plugin/internal/echo"
)

func main() { os.Exit(echo.Run(os.Args[1:], os.Stdout, os.Stderr)) }
