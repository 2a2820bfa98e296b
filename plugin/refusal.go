package plugin

import "strings"

// refusal is why the service does not start. It is bad usage, so its exit code is 2.
type refusal string

func (r refusal) Error() string { return string(r) }

// Lines are the lines of what byHand says.
func (r refusal) Lines() []string { return strings.Split(string(r), "\n") }

// ExitCode is 2: bad usage.
func (refusal) ExitCode() int { return 2 }

const byHand refusal = `memopt serve: this command is started by a trainer, not by hand
  in Python:      memopt.plan("model.onnx", budget="8GB", dims={"batch": 8})
  in a terminal:  memopt plan model.onnx --budget 8GB --dims batch=8`
