package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/hashicorp/go-hclog"

	"memopt/memopt/visible"
)

// newLogger writes what the caller's logger would let through, one JSON object a line, because a program reads it:
// the host. The handler keeps today's standard error, whatever os.Stderr becomes later.
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

// hclogTo is the logger go-plugin asks for. Everything goes on to slog; failed also gets the text of each error, which
// is the only way go-plugin tells why it did not start.
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

// Accept takes one message of go-plugin; its key, value list is slog's too.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	s.to.Log(context.Background(), slogLevels[level], msg, args...)
	if level == hclog.Error {
		for i := 1; i < len(args); i += 2 {
			msg += fmt.Sprintf(": %v", args[i])
		}
		s.failed(msg)
	}
}
