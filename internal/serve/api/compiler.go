package api

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// compiler runs compilations, no more at a time than the machine has processors,
// and each source once however many ask for it.
type compiler struct {
	compile func(compile.Source) (*compile.Artifact, report.Report)
	slots   chan struct{}
	// patience is how long a write waits for its compilation; what takes longer is
	// stored as Pending and finished in the background.
	patience time.Duration
	seconds  *prometheus.HistogramVec
	layering *layering

	mu      sync.Mutex
	running map[compile.Source]*job
	jobs    sync.WaitGroup
}

// job is one compilation. Its results may be read once done is closed.
type job struct {
	done     chan struct{}
	artifact *compile.Artifact
	report   report.Report
}

func newCompiler(fn func(compile.Source) (*compile.Artifact, report.Report), l *layering, registerer prometheus.Registerer) *compiler {
	c := &compiler{
		compile:  fn,
		slots:    make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
		patience: time.Second,
		running:  map[compile.Source]*job{},
		layering: l,
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glowplug_compile_duration_seconds",
			Help:    "Time that compiling a source took, by its format and what came of it (ready or error).",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"format", "result"}),
	}
	if registerer != nil {
		registerer.MustRegister(c.seconds)
	}
	return c
}

// run compiles src and waits for it until ctx ends; then it gives nil, and the
// compilation, where it had begun, goes on for the next who asks.
func (c *compiler) run(ctx context.Context, src compile.Source) *job {
	j := c.find(src)
	if j == nil {
		select {
		case c.slots <- struct{}{}:
			j = c.begin(src)
		case <-ctx.Done():
			return nil
		}
	}
	select {
	case <-j.done:
		return j
	case <-ctx.Done():
		return nil
	}
}

func (c *compiler) find(src compile.Source) *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[src]
}

// begin starts a compilation in the slot that the caller holds, or joins one that
// has begun meanwhile.
func (c *compiler) begin(src compile.Source) *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.running[src]; j != nil {
		<-c.slots
		return j
	}
	j := &job{done: make(chan struct{})}
	c.running[src] = j
	c.jobs.Go(func() {
		began := time.Now()
		j.artifact, j.report = c.guarded(src)
		result := "ready"
		if j.artifact == nil {
			result = "error"
		}
		c.seconds.WithLabelValues(src.Format, result).Observe(time.Since(began).Seconds())
		c.mu.Lock()
		delete(c.running, src)
		c.mu.Unlock()
		<-c.slots
		close(j.done)
	})
	return j
}

// guarded compiles, and makes an error of a panic: a source must never take the
// server down.
func (c *compiler) guarded(src compile.Source) (artifact *compile.Artifact, rep report.Report) {
	defer func() {
		if p := recover(); p != nil {
			artifact, rep = nil, report.Errorf("the compiler failed on this source (%v): please report it", p)
		}
	}()
	artifact, rep = c.compile(src)
	if artifact == nil && !rep.HasError() {
		rep = append(rep, report.Errorf("the compiler gave no result")...)
	}
	return artifact, rep
}

// wait returns when no compilation runs, or with an error when ctx ends.
func (c *compiler) wait(ctx context.Context) error {
	idle := make(chan struct{})
	go func() { c.jobs.Wait(); close(idle) }()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("compilations are still running: %w", ctx.Err())
	}
}
