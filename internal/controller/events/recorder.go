// Package events records Kubernetes Events. They are kept in memory, in bounded numbers, and
// written a few a second, so that neither a storm of boots nor an address scan waits for
// the store or fills it.
//
// A Recorder is built on the runtime of controllers: its keys are events with
// occurrences that are not written yet. docs/internals/dependencies.md says why it is not
// client-go's recorder.
package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

const (
	// gap is the least time between two writes of the same event. It does not hold for
	// steps.
	gap = 10 * time.Second
	// maxWritten bounds the events that are remembered after they were written, for
	// writtenLife: in this time the limits do not apply to their repetitions.
	maxWritten  = 1 << 13
	writtenLife = 10 * time.Minute
	// perSecond bounds the writes, and inStorm those while a storm of boots goes on.
	perSecond = 100
	inStorm   = 5
)

// class is a group of events with a bound of its own on the unwritten ones. Shutdown writes
// a lower class first.
type class int

const (
	// alarms include wrong secrets, and reports of omissions.
	alarms class = iota
	others
	// steps are the steps of boots. A storm of boots makes some for each machine, so that
	// they are written last.
	steps
	classes
)

var bounds = [classes]int{alarms: 1 << 12, others: 1 << 12, steps: 1 << 16}

// Values of the label cause.
const (
	causeFull     = "full"
	causeLimited  = "limited"
	causeFailed   = "failed"
	causeShutdown = "shutdown"
)

// Options are the parts of a Recorder.
type Options struct {
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
	// Registerer takes the metrics of notices and dropped events; nil keeps none.
	Registerer prometheus.Registerer
	// Metrics counts the writes; nil: they are not counted.
	Metrics *controller.Metrics
	// Instance names this process in events; "": the machine's name.
	Instance string
}

// Recorder takes events. Its methods are safe for concurrent use and, but for Run and
// Shutdown, do not block.
type Recorder struct {
	opts    Options
	queue   *controller.Controller[*event]
	dropped *prometheus.CounterVec
	notices *prometheus.CounterVec
	// omissions is the key of the report of omissions.
	omissions *event

	mu     sync.Mutex
	store  controller.Store // nil before Run
	writer *controller.Writer
	// events are the unwritten ones, and unwritten is their number by class. written has the
	// time of the last write of other events.
	events    map[key]*event
	unwritten [classes]int
	written   *cache.LRUExpireCache
	limits    limits
	closed    bool
}

// event is an event with unwritten occurrences.
type event struct {
	key   key
	class class
	occurrences
}

// String returns the event's key in the store.
func (e *event) String() string { return e.key.path() }

// New returns a Recorder, which writes nothing before Run.
func New(opts Options) *Recorder {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Instance == "" {
		opts.Instance, _ = os.Hostname()
	}
	metrics := promauto.With(opts.Registerer)
	r := &Recorder{
		opts: opts, omissions: &event{}, events: make(map[key]*event), limits: newLimits(),
		written: cache.NewLRUExpireCache(maxWritten),
		dropped: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_journal_dropped_total",
			Help: "Events that were given up: too many were pending, too many different ones came, " +
				"the store refused it, or the server stopped.",
			ConstLabels: prometheus.Labels{"kind": "event"},
		}, []string{"cause"}),
		notices: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_notices_total",
			Help: "Findings about requests of machines, of which events are made, by reason: " +
				strings.Join(decide.Reasons, ", ") + ".",
		}, []string{"reason"}),
	}
	for _, reason := range decide.Reasons { // a rate needs the series from the start
		r.notices.WithLabelValues(reason)
	}
	for _, cause := range []string{causeLimited, causeFull, causeFailed, causeShutdown} {
		r.dropped.WithLabelValues(cause)
	}
	r.queue = controller.New(controller.Options[*event]{
		Name: "events", Reconcile: r.reconcile, List: r.list,
		LowPriority: func(e *event) bool { return e.class == steps },
		Metrics:     opts.Metrics, Logger: opts.Logger,
	})
	return r
}

// Record records an event about an object: eventType is Normal or Warning, reason a
// word, message a sentence without secrets.
func (r *Recorder) Record(object v1.ObjectReference, eventType, reason, message string) {
	object.ResourceVersion = "" // the event is the same one later
	r.record(key{object, eventType, reason, controller.ClipMessage(message)}, others, message)
}

// RecordStep records a step of a boot.
func (r *Recorder) RecordStep(host model.Ref, uid, reason, message string) {
	object := controller.HostReference(host, uid)
	r.record(key{object, v1.EventNormal, reason, controller.ClipMessage(message)}, steps, message)
}

// LoginRefused records a login to an image's target with a wrong secret. All such logins to
// an image are one event with the newest message: a client that guesses cannot fill the
// store, nor prevent the event.
func (r *Recorder) LoginRefused(image *model.Image, message string) {
	object := controller.Reference("ISCSICdrom", image.Ref, types.UID(image.UID))
	r.record(key{object, v1.EventWarning, ReasonLoginRefused, ReasonLoginRefused}, alarms, message)
}

func (r *Recorder) record(k key, c class, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordLocked(k, c, message)
}

// Notice records the event of a notice. The number of different events that clients can
// cause is limited, and the omission of others is an event, too. An alarm is never omitted:
// where there are too many, those of one host are one event.
func (r *Recorder) Notice(n decide.Notice) {
	r.notices.WithLabelValues(n.Reason).Inc()
	now, k, c := time.Now(), keyOf(&n), others
	if n.IsAlarm() {
		c = alarms
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, isKnown := r.written.Get(k)
	switch {
	case isKnown || r.events[k] != nil || r.limits.allow(&n, now):
		r.recordLocked(k, c, n.Message)
	case n.IsAlarm():
		k.text = ""
		r.recordLocked(k, c, n.Message)
	default:
		r.drop(causeLimited, 1)
		// The list of UnknownMachines has every unknown machine.
		if n.Reason != decide.ReasonUnknownHost && r.limits.omit(&n) {
			r.queue.EnqueueAfter(r.omissions, omissionPeriod)
		}
	}
}

// recordLocked adds an occurrence of an event. A new event is dropped where its class has
// too many unwritten ones.
func (r *Recorder) recordLocked(k key, c class, message string) {
	now, e := time.Now(), r.events[k]
	switch {
	case r.closed:
		return
	case e == nil && r.unwritten[c] >= bounds[c]:
		r.drop(causeFull, 1)
		return
	case e == nil:
		e = &event{key: k, class: c}
		r.events[k] = e
		r.unwritten[c]++
		var pause time.Duration
		if c != steps {
			if written, isKnown := r.written.Get(k); isKnown {
				pause = gap - now.Sub(written.(time.Time))
			}
		}
		r.queue.EnqueueAfter(e, pause)
	}
	e.add(occurrences{count: 1, first: now, last: now, message: controller.ClipMessage(message)})
}

func (r *Recorder) drop(cause string, n int) { r.dropped.WithLabelValues(cause).Add(float64(n)) }

// Pending returns the number of unwritten events.
func (r *Recorder) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// Run writes events until ctx ends, fewer while storm reports a storm of boots. While the
// store is away they are kept. It is called once; Shutdown writes the rest.
func (r *Recorder) Run(ctx context.Context, store controller.Store, storm func() bool) {
	r.mu.Lock()
	r.store = store
	r.writer = controller.NewWriter(controller.WriterOptions{
		Name: "events", PerSecond: perSecond, InStorm: inStorm, Storm: storm, Logger: r.opts.Logger,
	})
	r.mu.Unlock()
	r.queue.Run(ctx)
}

// list queues the events and omissions from before Run.
func (r *Recorder) list(context.Context) ([]*event, error) {
	return append([]*event{r.omissions}, r.unwrittenEvents()...), nil
}

// unwrittenEvents returns the unwritten events, by class and age.
func (r *Recorder) unwrittenEvents() []*event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.events), func(a, b *event) int {
		return cmp.Or(cmp.Compare(a.class, b.class), a.first.Compare(b.first))
	})
}

// reconcile writes an event. An event that the store refuses is dropped: it would be refused
// again.
func (r *Recorder) reconcile(ctx context.Context, e *event) (requeueAfter time.Duration, err error) {
	if e == r.omissions {
		r.reportOmissions()
		return 0, nil
	}
	err = r.writer.Write(ctx, func(ctx context.Context) error { return r.write(ctx, e) })
	if err == nil || ctx.Err() != nil {
		return 0, err
	}
	r.opts.Logger.Error("an event is given up, since the store refuses it", "key", e.String(), "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(e)
	r.drop(causeFailed, 1)
	return 0, nil
}

// write writes the occurrences of an event. Occurrences during the write are written later,
// or together with these if the write fails.
func (r *Recorder) write(ctx context.Context, e *event) error {
	r.mu.Lock()
	written := e.occurrences
	e.occurrences = occurrences{}
	r.mu.Unlock()
	if written.count == 0 { // it was queued twice
		return nil
	}
	err := written.write(ctx, r.store, &e.key, r.opts.Instance)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.events[e.key] != e: // it was forgotten during the write
		return nil
	case err != nil:
		written.add(e.occurrences)
		e.occurrences = written
		return err
	}
	if e.class != steps {
		r.written.Add(e.key, time.Now(), writtenLife)
	}
	if e.count == 0 {
		r.forgetLocked(e)
	} else {
		r.queue.EnqueueAfter(e, gap)
	}
	return nil
}

// Forget drops the unwritten events of a namespace that was deleted.
func (r *Recorder) Forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.key.object.Namespace == namespace {
			r.forgetLocked(e)
		}
	}
}

func (r *Recorder) forgetLocked(e *event) {
	if r.events[e.key] != e { // it was forgotten while it was written
		return
	}
	e.occurrences = occurrences{}
	delete(r.events, e.key)
	r.unwritten[e.class]--
}

// reportOmissions makes an event and a log line of each omission.
func (r *Recorder) reportOmissions() {
	r.mu.Lock()
	omissions := r.limits.reset()
	for _, o := range omissions {
		message := fmt.Sprintf(
			"%d events %s were left out within a minute; the last one: %s", o.count, o.reason, o.last)
		r.recordLocked(key{OfNobody, v1.EventWarning, ReasonEventsLeftOut, o.reason}, alarms, message)
	}
	r.mu.Unlock()
	for _, o := range omissions {
		r.opts.Logger.Warn("events were left out: there were too many",
			"reason", o.reason, "count", o.count, "last", o.last)
	}
}

// Shutdown writes the rest once Run has returned, for as long as ctx lasts. The error says
// how many events are lost. Later events are ignored.
func (r *Recorder) Shutdown(ctx context.Context) error {
	r.reportOmissions()
	_, failure := controller.WriteRest(ctx, r.unwrittenEvents(), r.write)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	lost := len(r.events)
	if lost == 0 {
		return nil
	}
	r.drop(causeShutdown, lost)
	return fmt.Errorf("%d events could not be written: %w", lost, cmp.Or(failure, errRefused))
}

var errRefused = errors.New("the store refuses them")
