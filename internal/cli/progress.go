package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
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
	drawnAt time.Time
}

// newProgress begins a bar for total bytes of the named file.
func newProgress(w io.Writer, name string, total int64) *progress {
	p := &progress{label: filepath.Base(name), total: total}
	if file, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w, p.color = w, colored(w)
		}
	}
	return p
}

// add counts bytes that are done, and draws from time to time.
func (p *progress) add(n int64) {
	p.now += n
	if p.w == nil || time.Since(p.drawnAt) < barPause && p.now < p.total {
		return
	}
	p.drawnAt = time.Now()
	fmt.Fprint(p.w, "\r"+p.line())
}

// line is the bar as it is now.
func (p *progress) line() string {
	part := 1.0
	if p.total > 0 {
		part = min(float64(p.now)/float64(p.total), 1)
	}
	full := int(part * barWidth)
	bar := strings.Repeat("#", full)
	if p.color {
		bar = "\x1b[32m" + bar + "\x1b[0m"
	}
	return fmt.Sprintf("%s [%s%s] %3d%% of %s", p.label, bar, strings.Repeat(".", barWidth-full), int(part*100),
		byteCount(p.total))
}

// done ends the line that was drawn.
func (p *progress) done() {
	if p.w != nil && !p.drawnAt.IsZero() {
		fmt.Fprintln(p.w)
	}
}

// byteCount writes a number of bytes for people.
func byteCount(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < 4 {
		value /= unit
		prefix++
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGTP"[prefix])
}
