package audit

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	pluginlog "k8s.io/apiserver/plugin/pkg/audit/log"
)

const (
	// flushInterval is how long a line waits for others, with which it is written.
	flushInterval = 20 * time.Millisecond
	// pieceSize is about how much is written at once, in bytes: less than the smallest file.
	pieceSize = 64 << 10
)

// pieces have the memory for lines.
var pieces = sync.Pool{New: func() any {
	p := make([]byte, 0, pieceSize+pieceSize/8)
	return &p
}}

// batchSize is the number of answers whose lines are made in one go: many lines after each other take half of the
// time of as many lines between the other work of requests. Each keeps the memory of its request until then.
const batchSize = 64

// errFull is the library's error of a buffer that is full.
var errFull = errors.New("audit buffer queue blocked")

// sent is an answer, the time at which it was given, and what the policy says of it.
type sent struct {
	Answer
	at    time.Time
	level auditinternal.Level
}

// buffer has the answers that wait to be written. No answer waits for the writer: answers that do not fit
// are lost, and counted like those of the library's buffer.
type buffer struct {
	out  io.Writer
	wake chan struct{}
	done chan struct{}

	mu      sync.Mutex
	answers []sent    // fewer than batchSize
	waiting []*[]byte // whole lines, in pieces
	// n answers and lines wait, and writing lines are being written.
	n, writing int
}

// newBuffer makes a buffer that writes until stop is closed, and then what is left; then it closes done.
func newBuffer(out io.Writer, stop <-chan struct{}) *buffer {
	b := &buffer{
		out: out, answers: make([]sent, 0, batchSize), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go b.run(stop)
	return b
}

// add adds a copy of an answer, whose texts are cleaned first: the lines of others are made while the lock is held.
func (b *buffer) add(a *Answer, level auditinternal.Level) {
	a.clean()
	b.mu.Lock()
	full := b.n+b.writing >= maxBuffered
	if !full {
		b.answers = b.answers[:len(b.answers)+1]
		last := &b.answers[len(b.answers)-1]
		last.Answer, last.at, last.level = *a, time.Now(), level
		b.n++
	}
	first := b.n == 1
	if len(b.answers) == batchSize {
		b.makeLinesLocked()
	}
	b.mu.Unlock()
	switch {
	case full:
		observe(level)
		lose(buffered.PluginName, errFull, 1)
	case first:
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

func (b *buffer) run(stop <-chan struct{}) {
	defer close(b.done)
	timer := time.NewTimer(flushInterval)
	defer timer.Stop()
	for {
		select {
		case <-b.wake:
		case <-stop:
			b.flush()
			return
		}
		timer.Reset(flushInterval)
		select {
		case <-timer.C:
		case <-stop:
		}
		b.flush()
	}
}

// makeLinesLocked makes the lines of the answers.
func (b *buffer) makeLinesLocked() {
	for i := range b.answers {
		last := b.lastLocked()
		*last = appendLine(*last, &b.answers[i].Answer, b.answers[i].at)
		observe(b.answers[i].level)
	}
	clear(b.answers)
	b.answers = b.answers[:0]
}

// lastLocked returns the piece for the next line.
func (b *buffer) lastLocked() *[]byte {
	if n := len(b.waiting); n > 0 && len(*b.waiting[n-1]) < pieceSize {
		return b.waiting[n-1]
	}
	last := pieces.Get().(*[]byte)
	*last = (*last)[:0]
	b.waiting = append(b.waiting, last)
	return last
}

// flush writes the lines that wait.
func (b *buffer) flush() {
	b.mu.Lock()
	b.makeLinesLocked()
	waiting := b.waiting
	b.waiting = nil
	b.n, b.writing = 0, b.n
	b.mu.Unlock()
	for _, piece := range waiting {
		writeLines(b.out, *piece)
		pieces.Put(piece)
	}
	b.mu.Lock()
	b.writing = 0
	b.mu.Unlock()
}

// writeLines writes whole lines. Those that are not written to their end are lost, and counted like those of the
// library's writer.
func writeLines(out io.Writer, lines []byte) {
	if n, err := out.Write(lines); err != nil {
		lose(pluginlog.PluginName, err, bytes.Count(lines[n:], []byte("\n")))
	}
}

// lose counts and logs events that are lost.
func lose(plugin string, cause error, n int) {
	lost := make([]*auditinternal.Event, n)
	for i := range lost {
		lost[i] = &auditinternal.Event{}
	}
	audit.HandlePluginError(plugin, cause, lost...)
}
