// Package controller runs reconcilers: functions that bring the status of one object, or
// state that is derived from it, into agreement with its spec. Each kind of derived state
// has a package below this one.
//
// A change queues the key of its object. A key that is queued several times before it is
// reconciled is reconciled once, and never by two workers at a time. A reconciler reads the
// current state, so that the order of the changes does not matter.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// Bounds of the pause after a failure, which doubles with each failure of a key.
const (
	DefaultRetryMin = 200 * time.Millisecond
	DefaultRetryMax = time.Minute
)

// Options are the parts of a Controller. K is the type of its keys, such as a
// reference to an object, or a struct of a reference and a phase.
type Options[K comparable] struct {
	// Name is the controller's, in lower case, for metrics and logs.
	Name string
	// Reconcile brings the object of a key up to date. It is called again after
	// requeueAfter where that is positive, and after a pause where err is not nil.
	Reconcile func(ctx context.Context, key K) (requeueAfter time.Duration, err error)
	// List returns every key that there is, to be queued; nil: there is none at a start. It is called at each start
	// of Run, and again after a pause where it fails.
	List func(ctx context.Context) ([]K, error)
	// LowPriority reports whether a key always waits until no other key of its group is queued; nil: no
	// key does. EnqueueLow queues any key like that.
	LowPriority func(K) bool
	// Group returns the group of a key; nil: there is one group. The groups with queued keys take turns,
	// so that many keys of one do not delay those of another.
	Group func(K) string
	// Workers is the number of reconcilers that run at the same time; 0 is 1.
	Workers int
	// Timeout ends the context of one reconcile; 0: there is no limit.
	Timeout time.Duration
	// RetryMin and RetryMax are the bounds of the pause after a failure; 0 is the
	// default.
	RetryMin, RetryMax time.Duration
	// Metrics counts reconciles; nil: they are not counted.
	Metrics *Metrics
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// Controller is a queue of keys and the workers that reconcile them.
type Controller[K comparable] struct {
	opts Options[K]

	mu sync.Mutex
	// queue is nil while Run does not run: a client-go queue cannot be used again after
	// it was shut down.
	queue workqueue.TypedRateLimitingInterface[K]

	lowMu sync.Mutex
	// low has the queued keys: true for those that EnqueueLow alone has queued.
	low map[K]bool
}

// New returns a Controller, which reconciles nothing before Run.
func New[K comparable](opts Options[K]) *Controller[K] {
	opts.Workers = max(opts.Workers, 1)
	opts.RetryMin, opts.RetryMax = cmp.Or(opts.RetryMin, DefaultRetryMin), cmp.Or(opts.RetryMax, DefaultRetryMax)
	if opts.Group == nil {
		opts.Group = func(K) string { return "" }
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	c := &Controller[K]{opts: opts, low: map[K]bool{}}
	opts.Metrics.register(opts.Name, c.Pending)
	return c
}

// Enqueue queues a key. It never blocks. While Run does not run the key is dropped,
// since the next Run begins with List.
func (c *Controller[K]) Enqueue(key K) { c.EnqueueAfter(key, 0) }

// EnqueueAfter queues a key after a pause, so that changes which come together are
// reconciled together. The earliest time of several calls counts.
func (c *Controller[K]) EnqueueAfter(key K, pause time.Duration) {
	c.enqueue(key, pause, false)
}

// EnqueueLow queues a key with low priority: it waits until no other key of its group is queued. Enqueue
// and EnqueueAfter raise the priority.
func (c *Controller[K]) EnqueueLow(key K) { c.enqueue(key, 0, true) }

func (c *Controller[K]) enqueue(key K, pause time.Duration, isLow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		return
	}
	c.lowMu.Lock()
	if _, isQueued := c.low[key]; !isQueued || !isLow {
		c.low[key] = isLow
	}
	c.lowMu.Unlock()
	c.queue.AddAfter(key, pause)
}

// Pending returns the number of keys that are queued; those with a pause do not count
// before it is over.
func (c *Controller[K]) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		return 0
	}
	return c.queue.Len()
}

// Run reconciles until ctx ends, and returns once the last reconciler has returned. It may
// be called again afterwards, but not by two callers at the same time.
func (c *Controller[K]) Run(ctx context.Context) {
	queue := c.newQueue()
	c.mu.Lock()
	c.queue = queue
	c.mu.Unlock()

	var workers sync.WaitGroup
	for range c.opts.Workers {
		workers.Go(func() {
			for c.reconcileNext(ctx, queue) {
			}
		})
	}
	if c.opts.List != nil {
		workers.Go(func() { c.list(ctx, queue) })
	}
	<-ctx.Done()
	c.mu.Lock()
	c.queue = nil
	c.mu.Unlock()
	queue.ShutDown()
	workers.Wait()
}

func (c *Controller[K]) isLow(key K) bool {
	if c.opts.LowPriority != nil && c.opts.LowPriority(key) {
		return true
	}
	c.lowMu.Lock()
	defer c.lowMu.Unlock()
	return c.low[key]
}

func (c *Controller[K]) newQueue() workqueue.TypedRateLimitingInterface[K] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](c.opts.RetryMin, c.opts.RetryMax)
	queue := &turns[K]{group: c.opts.Group, isLow: c.isLow, queues: map[string]*priorityQueue[K]{}}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[K]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Queue: queue}),
		}),
	})
}

// list queues all keys, and tries again until it succeeds.
func (c *Controller[K]) list(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) {
	for pause := c.opts.RetryMin; ; pause = min(2*pause, c.opts.RetryMax) {
		err := guard(func() error {
			keys, err := c.opts.List(ctx)
			for _, key := range keys {
				queue.Add(key)
			}
			return err
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		c.opts.Logger.Warn("listing failed and is tried again", "controller", c.opts.Name, "error", err, "pause", pause)
		if !Sleep(ctx, pause) {
			return
		}
	}
}

// reconcileNext reconciles one key, and reports whether there may be another.
func (c *Controller[K]) reconcileNext(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	c.lowMu.Lock()
	delete(c.low, key)
	c.lowMu.Unlock()
	if ctx.Err() != nil {
		return true // the rest of the queue is dropped
	}
	began := time.Now()
	requeueAfter, err := c.reconcile(ctx, key)
	if ctx.Err() != nil {
		return true
	}
	c.opts.Metrics.reconciled(c.opts.Name, time.Since(began), requeueAfter, err)
	if err != nil {
		c.opts.Logger.Warn("reconciling failed and is tried again", "controller", c.opts.Name, "key", fmt.Sprint(key),
			"error", err)
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	if requeueAfter > 0 {
		queue.AddAfter(key, requeueAfter)
	}
	return true
}

// reconcile calls the reconciler; a panic of it is an error.
func (c *Controller[K]) reconcile(ctx context.Context, key K) (requeueAfter time.Duration, err error) {
	if c.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Timeout)
		defer cancel()
	}
	err = guard(func() error {
		requeueAfter, err = c.opts.Reconcile(ctx, key)
		return err
	})
	return requeueAfter, err
}

// guard calls f, and returns a panic of it as an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	return f()
}

// panicError is a panic of a reconciler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// Metrics counts what all controllers of a server do.
type Metrics struct {
	registerer prometheus.Registerer
	reconciles *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
}

// NewMetrics registers the metrics of controllers.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		registerer: registerer,
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_controller_reconciles_total",
			Help: "Reconciles by controller and result: success, requeue_after, error or panic.",
		}, []string{"controller", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glowplug_controller_reconcile_seconds",
			Help:    "Time that one reconcile takes, by controller.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}, []string{"controller"}),
	}
	registerer.MustRegister(m.reconciles, m.seconds)
	return m
}

// The results of reconciles.
const (
	resultSuccess = "success"
	resultRequeue = "requeue_after"
	resultError   = "error"
	resultPanic   = "panic"
)

// register registers a controller and the depth of its queue.
func (m *Metrics) register(name string, depth func() int) {
	if m == nil {
		return
	}
	for _, result := range []string{resultSuccess, resultRequeue, resultError, resultPanic} {
		m.reconciles.WithLabelValues(name, result)
	}
	m.seconds.WithLabelValues(name)
	m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "glowplug_controller_queue_depth",
		Help:        "Keys that are queued for a controller.",
		ConstLabels: prometheus.Labels{"controller": name},
	}, func() float64 { return float64(depth()) }))
}

func (m *Metrics) reconciled(name string, took, requeueAfter time.Duration, err error) {
	if m == nil {
		return
	}
	result := resultSuccess
	var panicked *panicError
	switch {
	case errors.As(err, &panicked):
		result = resultPanic
	case err != nil:
		result = resultError
	case requeueAfter > 0:
		result = resultRequeue
	}
	m.reconciles.WithLabelValues(name, result).Inc()
	m.seconds.WithLabelValues(name).Observe(took.Seconds())
}
