package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"cellproxy/backend/load"
)

// bar shows on a terminal how far a load is. Elsewhere it shows nothing.
type bar struct {
	bar   *progressbar.ProgressBar // nil: nothing
	timed bool                     // it goes by time
	began time.Time
}

func newBar(l load.Load, terminal *os.File) *bar {
	b := &bar{timed: l.Requests == 0}
	if !term.IsTerminal(int(terminal.Fd())) {
		return b
	}
	most := l.Requests
	if b.timed {
		most = l.Duration.Milliseconds()
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(terminal), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(!b.timed),
	}
	if !b.timed {
		options = append(options, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("requests"))
	}
	b.bar = progressbar.NewOptions64(most, options...)
	b.bar.RenderBlank()
	return b
}

// show is told how many requests are answered.
func (b *bar) show(done int64) {
	if b.bar == nil {
		return
	}
	if b.began.IsZero() {
		b.began = time.Now()
	}
	if b.timed {
		done = time.Since(b.began).Milliseconds()
	}
	b.bar.Set64(min(done, b.bar.GetMax64()))
}

// clear makes room for the report.
func (b *bar) clear() {
	if b.bar != nil {
		b.bar.Clear()
	}
}
