package main

import (
	"fmt"
	"io"
	"log/slog"
)

// The values of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

// newLogger returns a logger that writes a line for each event of at least a
// level, which may be changed later.
func newLogger(w io.Writer, format string, level *slog.LevelVar) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == logJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// parseLevel returns the level of a name: debug, info, warn or error.
func parseLevel(name string) (level slog.Level, err error) {
	switch name {
	case "debug", "info", "warn", "error":
		return level, level.UnmarshalText([]byte(name))
	}
	return level, fmt.Errorf("%q is none of debug, info, warn, error", name)
}
