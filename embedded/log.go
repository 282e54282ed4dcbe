package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// errListen marks a start that failed because a port was taken meanwhile.
var errListen = errors.New("cannot listen")

// serverLog passes the server's errors on and drops the rest: at lower levels
// every stop is a page of noise.
type serverLog struct {
	out     *slog.Logger
	started *atomic.Bool
}

var _ log.Logger = serverLog{}

func newServerLog(out *slog.Logger) serverLog {
	return serverLog{out: out, started: &atomic.Bool{}}
}

// fatal carries a fatal log entry up to recoverFatal.
type fatal struct{ err error }

func recoverFatal(err *error) {
	switch cause := recover().(type) {
	case nil:
	case fatal:
		*err = cause.err
	default:
		panic(cause)
	}
}

// Debug implements log.Logger.
func (l serverLog) Debug(string, ...tag.Tag) {}

// Info implements log.Logger.
func (l serverLog) Info(string, ...tag.Tag) {}

// Warn implements log.Logger.
func (l serverLog) Warn(string, ...tag.Tag) {}

// Error implements log.Logger.
func (l serverLog) Error(message string, tags ...tag.Tag) {
	l.out.LogAttrs(context.Background(), slog.LevelError, message, attributes(tags)...)
}

// DPanic implements log.Logger.
func (l serverLog) DPanic(message string, tags ...tag.Tag) { l.Error(message, tags...) }

// Panic implements log.Logger.
func (l serverLog) Panic(message string, tags ...tag.Tag) {
	l.Error(message, tags...)
	panic(message)
}

// Fatal ends the process, as the server expects it to; while the server starts
// it ends the start only.
func (l serverLog) Fatal(message string, tags ...tag.Tag) {
	l.Error(message, tags...)
	if l.started.Load() {
		os.Exit(1)
	}
	panic(fatal{fatalError(message, tags)})
}

func fatalError(message string, tags []tag.Tag) error {
	var details []string
	for _, t := range tags {
		details = append(details, fmt.Sprint(t.Value()))
	}
	err := fmt.Errorf("temporal server: %s: %s", message, strings.Join(details, ", "))
	if strings.Contains(message, "gRPC listener") {
		return fmt.Errorf("%w: %w", errListen, err)
	}
	return err
}

// With implements log.WithLogger.
func (l serverLog) With(tags ...tag.Tag) log.Logger {
	return serverLog{out: slog.New(l.out.Handler().WithAttrs(attributes(tags))), started: l.started}
}

func attributes(tags []tag.Tag) []slog.Attr {
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	return attrs
}
