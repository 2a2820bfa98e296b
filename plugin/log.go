package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/hashicorp/go-hclog"

	"memopt/internal/visible"
)

// newLogger logs at the level of the default logger, one JSON object a line, for the host to parse.
// The handler keeps the current standard error, whatever os.Stderr becomes later.
func newLogger() *slog.Logger {
	level := slog.LevelError
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if slog.Default().Enabled(context.Background(), l) {
			level = l
			break
		}
	}
	return slog.New(slog.NewJSONHandler(visible.NewWriter(os.Stderr), &slog.HandlerOptions{Level: level}))
}

// hclogTo is the logger for go-plugin. Messages are forwarded to slog; failed also gets the text of
// each error, the only way to learn why go-plugin did not start.
func hclogTo(logger *slog.Logger, failed func(string)) hclog.Logger {
	h := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Trace})
	h.RegisterSink(&sink{logger, failed})
	return h
}

type sink struct {
	to     *slog.Logger
	failed func(string)
}

var slogLevels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug - 4,
	hclog.Debug: slog.LevelDebug,
	hclog.Info:  slog.LevelInfo,
	hclog.Warn:  slog.LevelWarn,
	hclog.Error: slog.LevelError,
}

// Accept forwards a message of go-plugin; its key-value list has slog's form.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	s.to.Log(context.Background(), slogLevels[level], msg, args...)
	if level == hclog.Error {
		for i := 1; i < len(args); i += 2 {
			msg += fmt.Sprintf(": %v", args[i])
		}
		s.failed(msg)
	}
}
