package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/memopt/exit"
	"memopt/memopt/lab/verify"
)

// verifyOps is ops --verify: it runs the ONNX project's node tests in a folder or a zip. Failed are
// tests where the library's result is wrong.
func verifyOps(c *cli.Context, path string, asJSON bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return asInput(err)
	}
	zipped := strings.HasSuffix(path, ".zip")
	if !zipped && !info.IsDir() {
		return usage("--verify takes a folder of node tests or a zip of it, not the file %s", path)
	}
	var cases fs.FS = os.DirFS(path)
	if zipped {
		z, closer, err := verify.OpenZip(path)
		if err != nil {
			return asInput(err)
		}
		defer closer.Close()
		cases = z
	}
	report, err := verify.Run(cases)
	if err != nil {
		return asInput(err)
	}
	failed := report.Count(verify.Failed)
	if asJSON {
		err = printJSON(c.App.Writer, map[string]any{"format": "memopt.verify/1", "ops": report.Rows(), "cases": report.Results,
			"passed": report.Count(verify.Passed), "failed": failed, "not_applicable": report.Count(verify.NotApplicable)})
	} else {
		_, err = fmt.Fprint(c.App.Writer, report.Table())
	}
	if err == nil && failed > 0 {
		err = cannot{fmt.Sprintf("%d of the cases in %s failed", failed, path)}
	}
	return err
}

// cannot is a request that is understood but cannot be met.
type cannot struct{ msg string }

func (e cannot) Error() string { return e.msg }
func (e cannot) ExitCode() int { return exit.CodeCannot }
