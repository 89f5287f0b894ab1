// Package audit is the audit trail: a file with a line of audit.k8s.io/v1 for each request of a
// user and each answer to a machine. The events, the policy and the backend of requests are those of
// the Kubernetes library; the lines of answers to machines are written here, in the same form.
package audit

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	pluginlog "k8s.io/apiserver/plugin/pkg/audit/log"
)

// The modes, which are those of kube-apiserver.
const (
	ModeBatch          = "batch"
	ModeBlocking       = "blocking"
	ModeBlockingStrict = "blocking-strict"
)

// Stdout is the path of the standard output.
const Stdout = "-"

// Buffered events at most, without and with bodies.
const (
	maxBuffered       = 10_000
	maxBufferedBodies = 1_000
)

// Options are the options of a Trail, with the meaning that they have for kube-apiserver.
type Options struct {
	Path, PolicyFile string
	// MaxAge is in days, MaxSize in MiB.
	MaxAge, MaxBackups, MaxSize int
	Mode                        string
}

// Trail is an open audit trail. It is safe for concurrent use.
type Trail struct {
	policy  *Policy
	backend audit.Backend // of requests of users
	lines   *lines
	buffer  *buffer // of answers to machines; nil: the line of each is written at once
	// machines are the decisions of the policy on machines without a credential.
	machines decisions
	closer   io.Closer
	stop     chan struct{}
}

// Open opens the file of a trail, or writes to stdout. The error is that of the path.
func Open(o *Options, policy *Policy, stdout io.Writer) (*Trail, error) {
	out := io.WriteCloser(kept{stdout})
	if o.Path != Stdout {
		if err := prepare(o.Path); err != nil {
			return nil, err
		}
		out = &lumberjack.Logger{Filename: o.Path, MaxAge: o.MaxAge, MaxBackups: o.MaxBackups, MaxSize: o.MaxSize}
	}
	return start(out, policy, o.Mode), nil
}

// prepare creates the file where it does not exist, for its owner alone.
func prepare(path string) error {
	// A pipe would be opened when somebody reads it.
	if found, err := os.Stat(path); err == nil && !found.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// start returns a trail that writes to out.
func start(out io.WriteCloser, policy *Policy, mode string) *Trail {
	t := &Trail{
		policy: policy, lines: &lines{out: out}, closer: out, stop: make(chan struct{}),
		machines: decisions{known: make(map[asked]decision)},
	}
	backend := pluginlog.NewBackend(t.lines, pluginlog.FormatJson, auditv1.SchemeGroupVersion)
	switch mode {
	case ModeBlocking:
		backend = lenient{backend}
	case ModeBatch:
		size := maxBuffered
		if policy.bodies {
			size = maxBufferedBodies
		}
		// kube-apiserver has these options for its log in this mode.
		backend = buffered.NewBackend(backend, buffered.BatchConfig{BufferSize: size, MaxBatchSize: 1})
		t.buffer = newBuffer(t.lines, t.stop)
	}
	t.backend = backend
	_ = t.backend.Run(t.stop) // neither backend has an error
	return t
}

// Policy returns the policy of the trail.
func (t *Trail) Policy() audit.PolicyRuleEvaluator { return t.policy }

// Sink returns the sink of the events of a request of the API from an address.
func (t *Trail) Sink(from netip.Addr) audit.Sink { return sink{t.backend, from} }

// Close writes what is buffered, until ctx ends. Later events are lost.
func (t *Trail) Close(ctx context.Context) error {
	close(t.stop)
	closed := make(chan error, 1)
	go func() {
		if t.buffer != nil {
			<-t.buffer.done
		}
		t.backend.Shutdown()
		closed <- t.closer.Close()
	}()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the last audit events could not be written: %w", ctx.Err())
	}
}

// lenient is a backend whose failures fail no request.
type lenient struct{ audit.Backend }

func (l lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	l.Backend.ProcessEvents(events...)
	return true
}

// kept is a writer that stays open.
type kept struct{ io.Writer }

func (kept) Close() error { return nil }

// lines writes whole lines: after a write that failed, perhaps in the middle of a line, the next
// event begins on a line of its own.
type lines struct {
	mu     sync.Mutex
	out    io.Writer
	broken bool
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		if _, err := l.out.Write([]byte("\n")); err != nil {
			return 0, err
		}
		l.broken = false
	}
	n, err := l.out.Write(p)
	l.broken = n > 0 && n < len(p)
	return n, err
}
