// Package progress writes down what happens to machines. What happens is noted in
// memory, at once. What decides the next boot of a machine then goes into the boot
// log, many hosts in one write, and from there into the status of hosts. Events,
// and when a machine was last seen, are written a few a second, so that a storm of
// boots, or an address scan, neither waits for the store nor fills it.
package progress

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

const (
	// maxEvents bounds the events that wait to be written. What waits of hosts is
	// bounded by their number.
	maxEvents = 1 << 12
	// maxSteps bounds the events of what machines have done, of which a storm of boots
	// makes some for each.
	maxSteps = 1 << 16
	// hostGap and eventGap are the least times between two writes of the same
	// object.
	hostGap  = 5 * time.Second
	eventGap = 10 * time.Second
	// eventKeep is how long an event is remembered, to be seen again for free.
	eventKeep = 10 * time.Minute
	// eventsPerSecond bounds the writes of events, statusesPerSecond those of
	// statuses. Fewer are written while a storm of boots goes on: the boot log has
	// what the statuses would say.
	eventsPerSecond   = 100
	eventsInRush      = 5
	statusesPerSecond = 500
	statusesInRush    = 10
	// writeBurst may be written at once.
	writeBurst = 20
)

// Store is the part of the store of a resource that a journal needs.
type Store interface {
	GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
		preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error
}

// Options are what a Tracker stands on.
type Options struct {
	// Hosts and Events are the stores of baremetalhosts and events.
	Hosts, Events Store
	// Log is the boot log, whose messages are given to Take.
	Log Log
	// Host gives a host as the inventory has it, nil where it has none; nil: it is
	// not asked.
	Host func(snapshot.Ref) *snapshot.Host
	// Logger takes what goes wrong; nil: nobody.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
	// Instance names this process in events; "": the machine's name.
	Instance string
}

// Tracker is the news that waits to be written. Its methods are safe for concurrent
// use and, but for Complete, do not block.
type Tracker struct {
	opts    Options
	metrics *metrics
	// The channels hold one: there may be something due.
	wakeLog, wakeHosts, wakeEvents chan struct{}

	statuses *rate.Limiter
	happened *rate.Limiter

	mu sync.Mutex
	// unlogged are the machines whose state is to be written into the boot log, in
	// order.
	unlogged []*machine
	// urgent is true where a machine waits for one of them, and recorded is when some
	// were written last.
	urgent   bool
	recorded time.Time
	// rushUntil is when the storm of boots is over, as far as is known.
	rushUntil time.Time
	// taken is the newest message of the boot log that was taken.
	taken uint64
	// states are the hosts whose status lacks what the boot log has, hosts those of
	// which there is other news.
	states *queue[snapshot.Ref, struct{}]
	hosts  *queue[snapshot.Ref, hostNews]
	// events are those that wait to be written, but for those of machines' steps.
	events *queue[eventKey, eventNews]
	steps  *queue[stepKey, eventNews]
	// limits bound the events that clients can cause.
	limits limits
	// machines are the hosts that have done something since the start.
	machines machines
	// conflicting are the hosts that have a conflict now.
	conflicting map[snapshot.Ref]struct{}
	closed      bool
}

// New makes a Tracker. It needs no store before Run.
func New(opts Options) *Tracker {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Instance == "" {
		opts.Instance, _ = os.Hostname()
	}
	j := &Tracker{
		opts:        opts,
		wakeLog:     make(chan struct{}, 1),
		wakeHosts:   make(chan struct{}, 1),
		wakeEvents:  make(chan struct{}, 1),
		statuses:    rate.NewLimiter(statusesPerSecond, writeBurst),
		happened:    rate.NewLimiter(eventsPerSecond, writeBurst),
		states:      newQueue[snapshot.Ref, struct{}](0, 0, 0),
		hosts:       newQueue[snapshot.Ref, hostNews](0, hostGap, 0),
		events:      newQueue[eventKey, eventNews](maxEvents, eventGap, eventKeep),
		steps:       newQueue[stepKey, eventNews](maxSteps, eventGap, 0),
		limits:      newLimits(),
		machines:    newMachines(),
		conflicting: make(map[snapshot.Ref]struct{}),
	}
	j.metrics = newMetrics(opts.Registerer, j)
	return j
}

// hostNews gives the news of a host, to be added to.
func (j *Tracker) hostNews(host *snapshot.Host, now time.Time) (news *hostNews, wake bool) {
	it, wake, _ := j.hosts.touch(host.Ref, now)
	news = &it.news
	if news.uid != host.UID {
		*news = hostNews{uid: host.UID}
	}
	return news, wake
}

// ConflictChanged notes with whom a host shares a hardware or IP address now.
func (j *Tracker) ConflictChanged(change snapshot.ConflictChange) {
	now, sentences := time.Now(), make([]string, 0, len(change.Conflicts))
	for _, c := range change.Conflicts {
		sentences = append(sentences, c.String())
	}
	j.note(j.wakeHosts, func() bool {
		if len(sentences) > 0 {
			j.conflicting[change.Host.Ref] = struct{}{}
		} else {
			delete(j.conflicting, change.Host.Ref)
		}
		news, wake := j.hostNews(change.Host, now)
		news.conflicts = &sentences
		return wake
	})
}

// ConfigReadable notes why a host's image cannot read its config, in a sentence, or
// with "" that it can.
func (j *Tracker) ConfigReadable(host *snapshot.Host, sentence string) {
	now := time.Now()
	j.note(j.wakeHosts, func() bool {
		news, wake := j.hostNews(host, now)
		news.unreadable = &sentence
		return wake
	})
}

// Notice notes what deserves an event. Of those that clients can cause only so many
// different ones are made; that others were left out is an event, too. An alarm is
// never left out: where there are too many, those of one host are one event.
func (j *Tracker) Notice(n decide.Notice) {
	now := time.Now()
	key := keyOf(&n)
	j.note(j.wakeEvents, func() (wake bool) {
		switch {
		case j.events.known(key) || j.limits.allow(&n, now):
		case n.IsAlarm():
			key.key = ""
		default:
			j.metrics.drop(kindEvent, causeLimited)
			j.limits.omit(&n, now)
			return false
		}
		return j.noteEvent(key, n.Message, now)
	})
}

// Record notes an event about an object: eventType is Normal or Warning, reason
// a word, message a sentence without secrets.
func (j *Tracker) Record(object v1.ObjectReference, eventType, reason, message string) {
	object.ResourceVersion = "" // the event is the same one later
	message = clip(message, maxMessage)
	key := eventKey{object: object, eventType: eventType, reason: reason, key: message}
	now := time.Now()
	j.note(j.wakeEvents, func() bool { return j.noteEvent(key, message, now) })
}

// LoginRefused notes that a login to an image's target did not know its secret. All of
// an image are one event, which message is the newest of: whoever guesses cannot fill
// the store with them, nor keep one from being made.
func (j *Tracker) LoginRefused(image *snapshot.Image, message string) {
	key := eventKey{
		object: v1.ObjectReference{
			Kind: "ISCSICdrom", APIVersion: "v1", Namespace: image.Namespace, Name: image.Name, UID: image.UID,
		},
		eventType: v1.EventWarning, reason: ReasonLoginRefused, key: ReasonLoginRefused,
	}
	now := time.Now()
	j.note(j.wakeEvents, func() bool { return j.noteEvent(key, message, now) })
}

// noteEvent notes an event. The caller holds the lock.
func (j *Tracker) noteEvent(key eventKey, message string, now time.Time) (wake bool) {
	it, wake, lost := j.events.touch(key, now)
	if lost {
		j.metrics.drop(kindEvent, causeFull)
	}
	it.news.seen(now, clip(message, maxMessage))
	return wake
}

// tellOmissions makes an event and a log line of what the limits have left out. wait
// is the time until there is something to tell, negative where there is nothing.
func (j *Tracker) tellOmissions(now time.Time, all bool) (wait time.Duration) {
	j.mu.Lock()
	omissions, wait := j.limits.take(now, all)
	for _, o := range omissions {
		j.noteEvent(unknownKey(v1.EventWarning, ReasonEventsLeftOut, o.reason), fmt.Sprintf(
			"%d events %s were left out within a minute; the last one: %s", o.count, o.reason, o.last), now)
	}
	j.mu.Unlock()
	for _, o := range omissions {
		j.opts.Logger.Warn("events were left out: there were too many", "reason", o.reason, "count", o.count, "last", o.last)
	}
	return wait
}

// note takes news under the lock. take tells whether the writer is to be woken.
func (j *Tracker) note(writer chan struct{}, take func() (wake bool)) {
	j.mu.Lock()
	wake := !j.closed && take()
	j.mu.Unlock()
	if wake {
		signal(writer)
	}
}

// signal wakes a writer.
func signal(writer chan struct{}) {
	select {
	case writer <- struct{}{}:
	default:
	}
}

// pending counts what waits: records for the boot log, and what is in it and in no
// status yet; other news of hosts; and events.
func (j *Tracker) pending() (records, states, hosts, events int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.unlogged), j.states.dirty, j.hosts.dirty, j.events.dirty + j.steps.dirty
}
