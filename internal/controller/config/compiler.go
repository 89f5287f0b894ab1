package config

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// compiler runs compilations: no more at a time than there are processors, and one for all
// simultaneous calls with the same source.
type compiler struct {
	translate func(compile.Source) (*compile.Artifact, report.Report)
	flights   singleflight.Group
	slots     *semaphore.Weighted
	most      int64
	seconds   *prometheus.HistogramVec
}

// compilation is the result of compiling a source. The artifact is nil exactly where
// the report holds an error.
type compilation struct {
	artifact *compile.Artifact
	report   report.Report
}

func newCompiler(translate func(compile.Source) (*compile.Artifact, report.Report),
	registerer prometheus.Registerer) *compiler {
	most := int64(max(2, runtime.GOMAXPROCS(0)))
	c := &compiler{
		translate: translate, slots: semaphore.NewWeighted(most), most: most,
		seconds: promauto.With(registerer).NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glowplug_compile_duration_seconds",
			Help:    "Time that compiling a source took, by its format and its result (ready or error).",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"format", "result"}),
	}
	for _, format := range []string{compile.FormatButane, compile.FormatIgnition, compile.FormatKickstart} {
		c.seconds.WithLabelValues(format, "ready")
		c.seconds.WithLabelValues(format, "error")
	}
	return c
}

// run compiles a source and waits for the result until ctx ends. A compilation that has begun
// goes on then, for the next call; one that waits for a processor ends with the context of
// its first call.
func (c *compiler) run(ctx context.Context, src compile.Source) (*compilation, error) {
	key := fmt.Sprintf("%s %s %s %t %t\n%s", src.Type, src.Format, src.KickstartVersion, src.Template, src.WithoutForms,
		src.Config)
	for ctx.Err() == nil {
		done := c.flights.DoChan(key, func() (any, error) { return c.wholly(ctx, src) })
		select {
		case flight := <-done:
			if flight.Err == nil {
				return flight.Val.(*compilation), nil
			}
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// wholly compiles a source once a processor is free, and waits for that until ctx ends. Other than run it returns no
// earlier than the compilation ends.
func (c *compiler) wholly(ctx context.Context, src compile.Source) (*compilation, error) {
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.slots.Release(1)
	return c.measured(src), nil
}

func (c *compiler) measured(src compile.Source) *compilation {
	began := time.Now()
	artifact, found := c.guarded(src)
	result := "ready"
	if artifact == nil {
		result = "error"
	}
	c.seconds.WithLabelValues(src.Format, result).Observe(time.Since(began).Seconds())
	return &compilation{artifact, found}
}

// guarded compiles, and returns a panic as an error: a source must not end the server.
func (c *compiler) guarded(src compile.Source) (artifact *compile.Artifact, found report.Report) {
	defer func() {
		if p := recover(); p != nil {
			artifact, found = nil, report.Errorf("the compiler failed on this source (%v): please report it", p)
		}
	}()
	artifact, found = c.translate(src)
	if artifact == nil && !found.HasError() {
		found = append(found, report.Errorf("the compiler gave no result")...)
	}
	return artifact, found
}

// wait returns when no compilation runs, which takes two seconds at most.
func (c *compiler) wait() {
	if c.slots.Acquire(context.Background(), c.most) == nil {
		c.slots.Release(c.most)
	}
}

// source returns the source of a config. Its conversions are computed later.
func source(config *v1.IgnitionConfig) compile.Source {
	src := compile.SourceOf(config)
	src.WithoutForms = true
	return src
}
