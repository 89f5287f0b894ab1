package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"glowplug/internal/domain/report"
)

const (
	barWidth = 30
	barPause = 100 * time.Millisecond
)

// progress is a bar on a terminal; elsewhere it is silent.
type progress struct {
	w       io.Writer // nil: silent
	label   string
	total   int64
	now     int64
	color   bool
	text    func(total int64) string // what all of it is called
	drawnAt time.Time
}

// newProgress returns a bar for total bytes of the named file.
func newProgress(w io.Writer, name string, total int64) *progress {
	return newBar(w, filepath.Base(name), total, report.Size)
}

// newCountProgress returns a bar for a number of objects.
func newCountProgress(w io.Writer, label string, total int64) *progress {
	return newBar(w, label, total, func(n int64) string { return fmt.Sprintf("%d objects", n) })
}

func newBar(w io.Writer, label string, total int64, text func(int64) string) *progress {
	p := &progress{label: label, total: total, text: text}
	if isTerminal(w) {
		p.w, p.color = w, colored(w)
	}
	return p
}

// isTerminal reports whether a writer is a terminal that can move its cursor.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// colored reports whether output has colors: on a terminal, unless NO_COLOR is set.
func colored(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

// printReport prints the findings of a source.
func printReport(w io.Writer, name string, source []byte, found report.Report) error {
	return report.Fprint(w, name, source, found, colored(w))
}

// add counts bytes that are done, and draws the bar every 100 ms.
func (p *progress) add(n int64) {
	p.now += n
	if p.w == nil || time.Since(p.drawnAt) < barPause && p.now < p.total {
		return
	}
	p.drawnAt = time.Now()
	fmt.Fprint(p.w, "\r"+p.line())
}

// Write implements io.Writer: it counts what is written.
func (p *progress) Write(content []byte) (int, error) {
	p.add(int64(len(content)))
	return len(content), nil
}

// line returns the bar as text.
func (p *progress) line() string {
	part := min(float64(p.now)/float64(max(p.total, 1)), 1)
	full := int(part * barWidth)
	bar := strings.Repeat("#", full)
	if p.color {
		bar = "\x1b[32m" + bar + "\x1b[0m"
	}
	return fmt.Sprintf("%s [%s%s] %3d%% of %s", p.label, bar, strings.Repeat(".", barWidth-full), int(part*100),
		p.text(p.total))
}

// done ends the line that was drawn.
func (p *progress) done() {
	if p.w != nil && !p.drawnAt.IsZero() {
		fmt.Fprintln(p.w)
	}
}
