package events

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
)

const (
	// eventSeconds is how long an event lives after it was last seen: a day.
	eventSeconds = uint64(24 * 60 * 60)
	// maxObjectName bounds the part of an event's name that is its object's.
	maxObjectName = 200
	// component is the name under which events are reported.
	component = "glowplug"
)

// Reasons of events that this package makes.
const (
	ReasonEventsLeftOut = "EventsLeftOut"
	ReasonLoginRefused  = "LoginRefused"
)

// key identifies an event. Its name does not depend on the replica or the start, so that all
// of them write the same object.
type key struct {
	object                  v1.ObjectReference
	eventType, reason, text string
}

// namespace returns the event's namespace: that of its object or, if that has none, as for an
// event of Kubernetes about a Node, "default".
func (k *key) namespace() string {
	if k.object.Namespace == "" {
		return v1.NamespaceDefault
	}
	return k.object.Namespace
}

// name returns the event's name.
func (k *key) name() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		k.object.Kind, k.object.Namespace, k.object.Name, k.object.UID, k.eventType, k.reason, k.text,
	}, "\x00")))
	name := k.object.Name
	if len(name) > maxObjectName {
		name = strings.TrimRight(name[:maxObjectName], ".-")
	}
	return name + "." + hex.EncodeToString(sum[:8])
}

// path returns the key of the event in the store.
func (k *key) path() string { return "/events/" + k.namespace() + "/" + k.name() }

// OfNobody is the object of events that are about no single object.
var OfNobody = v1.ObjectReference{Kind: "Namespace", APIVersion: "v1", Name: v1.NamespaceDefault}

// keyOf returns the key of a notice's event.
func keyOf(n *decide.Notice) key {
	k := key{object: OfNobody, eventType: v1.EventWarning, reason: n.Reason, text: n.Key}
	if n.Machine != "" {
		k.object = controller.MachineReference(n.Machine)
	}
	if n.Reason == decide.ReasonUnknownHost || n.Reason == decide.ReasonClaimIgnored {
		k.eventType = v1.EventNormal
	}
	if n.Host != nil {
		k.object = controller.HostReference(n.Host.Ref, n.Host.UID)
	}
	return k
}

// occurrences are those of an event since its last write.
type occurrences struct {
	count       int32
	first, last time.Time
	message     string
}

// combinedPrefix begins the message of an event whose occurrences had different messages, as
// it does in the events of Kubernetes: the count is that of all, the message of the last one.
const combinedPrefix = "(combined from similar events): "

// combine returns the message of an event after one more occurrence.
func combine(former, newest string) string {
	if former == "" || former == newest {
		return newest
	}
	return controller.ClipMessage(combinedPrefix + strings.TrimPrefix(newest, combinedPrefix))
}

// add adds later occurrences.
func (o *occurrences) add(later occurrences) {
	switch {
	case later.count == 0:
	case o.count == 0:
		*o = later
	default:
		o.count = saturated(o.count, later.count)
		o.last, o.message = later.last, combine(o.message, later.message)
	}
}

func saturated(a, b int32) int32 { return int32(min(int64(a)+int64(b), math.MaxInt32)) }

// write adds the occurrences to the stored event, or stores its first version.
func (o *occurrences) write(ctx context.Context, store controller.Store, k *key, instance string) error {
	update := func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		e, ttl := input.(*v1.Event), eventSeconds
		if e.Name == "" {
			*e = v1.Event{
				TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{
					Namespace: k.namespace(), Name: k.name(), UID: uuid.NewUUID(),
					CreationTimestamp: metav1.Time{Time: o.first},
				},
				InvolvedObject: k.object, Reason: k.reason, Type: k.eventType,
				FirstTimestamp: metav1.Time{Time: o.first}, Source: v1.EventSource{Component: component},
				ReportingController: component,
			}
		}
		e.ReportingInstance, e.Source.Host = instance, instance
		e.Count = saturated(e.Count, o.count)
		e.LastTimestamp, e.Message = metav1.Time{Time: o.last}, combine(e.Message, o.message)
		return e, &ttl, nil
	}
	return store.GuaranteedUpdate(ctx, k.path(), &v1.Event{}, true, nil, update, nil)
}

const (
	// maxSources bounds the token buckets of clients.
	maxSources = 1 << 12
	// omissionPeriod is the time between two reports of omissions.
	omissionPeriod = time.Minute
)

// perMinute limits the number of different events: burst at once, then n a minute. Repetitions of an event do not
// count.
func perMinute(n, burst int) limit.Rate {
	return limit.Rate{Every: time.Minute / time.Duration(n), Burst: burst}
}

var (
	// ofSource limits one client and one reason, so that a client cannot use up the budget
	// of the others.
	ofSource = perMinute(6, 20)
	// The others limit all clients and one reason: a client that changes its address or
	// hardware address must not fill the store. ofStrangers are the events that any client
	// can cause; beyond ofAlarms there is one event a host.
	ofStrangers = perMinute(10, 50)
	ofHosts     = perMinute(30, 100)
	ofAlarms    = perMinute(10, 100)
)

// budgetOf returns the budget of a reason for all clients.
func budgetOf(n *decide.Notice) limit.Rate {
	switch {
	case n.IsAlarm():
		return ofAlarms
	case n.Reason == decide.ReasonUnknownHost || n.Reason == decide.ReasonClaimIgnored:
		return ofStrangers
	}
	return ofHosts
}

// sourceKey is a client that causes events for a reason.
type sourceKey struct {
	reason string
	from   netaddr.Source
}

// omission counts the events of a reason that were left out.
type omission struct {
	reason string
	count  int
	last   string // the message of the last event
}

// limits bound the events that clients can cause. The recorder's mutex guards it.
type limits struct {
	reasons map[string]*rate.Limiter // reasons are a handful of constants
	sources limit.Table[sourceKey, *rate.Limiter]
	omitted map[string]*omission
}

func newLimits() limits {
	return limits{
		reasons: map[string]*rate.Limiter{}, omitted: map[string]*omission{},
		sources: limit.Buckets[sourceKey](maxSources, ofSource),
	}
}

// allow reports whether a new event may be recorded.
func (l *limits) allow(n *decide.Notice, now time.Time) bool {
	if n.From != (netaddr.Source{}) && !l.sources.Of(sourceKey{n.Reason, n.From}).AllowN(now, 1) {
		return false
	}
	all := l.reasons[n.Reason]
	if all == nil {
		all = budgetOf(n).Bucket()
		l.reasons[n.Reason] = all
	}
	return all.AllowN(now, 1)
}

// omit counts an event that is left out, and reports whether it is the first one
// since the last reset.
func (l *limits) omit(n *decide.Notice) (first bool) {
	first = len(l.omitted) == 0
	o := l.omitted[n.Reason]
	if o == nil {
		o = &omission{reason: n.Reason}
		l.omitted[n.Reason] = o
	}
	o.count++
	o.last = n.Message
	return first
}

// reset returns the omissions, and begins to count again.
func (l *limits) reset() []*omission {
	all := slices.SortedFunc(maps.Values(l.omitted), func(a, b *omission) int { return cmp.Compare(a.reason, b.reason) })
	clear(l.omitted)
	return all
}
