package plugin

import "strings"

// refusal is the reason why the service does not start. It is bad usage: exit code 2.
type refusal string

func (r refusal) Error() string { return string(r) }

// Lines splits the text into lines.
func (r refusal) Lines() []string { return strings.Split(string(r), "\n") }

// ExitCode is that of bad usage.
func (refusal) ExitCode() int { return 2 }

const byHand refusal = `memopt serve: this command is started by a trainer, not by hand
  in Python:      memopt.plan("model.onnx", budget="8GB", dims={"batch": 8})
  in a terminal:  memopt plan model.onnx --budget 8GB --dims batch=8`
