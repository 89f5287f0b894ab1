package progress

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
)

const (
	// eventSeconds is how long an event lives after it was last seen: a day.
	eventSeconds = uint64(24 * 60 * 60)
	// maxMessage bounds the message of an event or condition, in bytes.
	maxMessage = 1024
	// maxObjectName bounds the part of an event's name that is its object's.
	maxObjectName = 200
	// component is who reports events.
	component = "glowplug"
	// unknownName stands for the machine of an event that is about no host.
	unknownName = "unknown"

	// ReasonEventsLeftOut is the reason of the event that others were left out.
	ReasonEventsLeftOut = "EventsLeftOut"
)

// eventKey is what makes two events the same. Replicas and restarts come to the
// same name, and so to the same object.
type eventKey struct {
	object                 v1.ObjectReference
	eventType, reason, key string
}

// stepKey is the key of an event of what a machine has done. There are two of each
// boot and more, so it is quick to hash.
type stepKey struct {
	machine         *machine
	reason, message string
}

// stepItem is such an event that waits to be written, or was written lately.
type stepItem = item[stepKey, eventNews]

// event gives the key of the event.
func (k *stepKey) event() eventKey {
	object := v1.ObjectReference{
		Kind: "BareMetalHost", APIVersion: "v1",
		Namespace: k.machine.ref.Namespace, Name: k.machine.ref.Name, UID: k.machine.uid,
	}
	return eventKey{object: object, eventType: v1.EventNormal, reason: k.reason, key: clip(k.message, maxMessage)}
}

// namespace is the event's namespace: its object's.
func (k *eventKey) namespace() string {
	if k.object.Namespace == "" {
		return v1.NamespaceDefault
	}
	return k.object.Namespace
}

// name is the event's name.
func (k *eventKey) name() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		k.object.Kind, k.object.Namespace, k.object.Name, k.object.UID, k.eventType, k.reason, k.key,
	}, "\x00")))
	name := k.object.Name
	if len(name) > maxObjectName {
		name = strings.TrimRight(name[:maxObjectName], ".-")
	}
	return name + "." + hex.EncodeToString(sum[:8])
}

// eventNews is how often an event was seen since it was last written.
type eventNews struct {
	count       int32
	first, last time.Time
	message     string
}

func (n *eventNews) seen(now time.Time, message string) {
	n.add(eventNews{count: 1, first: now, last: now, message: message})
}

// add adds what came later.
func (n *eventNews) add(newer eventNews) {
	if n.count == 0 {
		*n = newer
		return
	}
	n.count = saturated(n.count, newer.count)
	n.last, n.message = newer.last, newer.message
}

func saturated(a, b int32) int32 { return int32(min(int64(a)+int64(b), math.MaxInt32)) }

// update gives the update of the stored event, or its first version.
func (n *eventNews) update(key eventKey, instance string) storage.UpdateFunc {
	return func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		e, ttl := input.(*v1.Event), eventSeconds
		if e.Name == "" {
			object := key.object
			object.Namespace = key.namespace()
			*e = v1.Event{
				TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{
					Namespace: key.namespace(), Name: key.name(), UID: uuid.NewUUID(), CreationTimestamp: metav1.Time{Time: n.first},
				},
				InvolvedObject: object, Reason: key.reason, Type: key.eventType,
				FirstTimestamp: metav1.Time{Time: n.first}, Source: v1.EventSource{Component: component},
				ReportingController: component,
			}
		}
		e.ReportingInstance, e.Source.Host = instance, instance
		e.Count = saturated(e.Count, n.count)
		e.LastTimestamp, e.Message = metav1.Time{Time: n.last}, n.message
		return e, &ttl, nil
	}
}

// unknownKey is the key of an event that is about no host.
func unknownKey(eventType, reason, key string) eventKey {
	object := v1.ObjectReference{
		Kind: "BareMetalHost", APIVersion: "v1", Namespace: v1.NamespaceDefault, Name: unknownName,
	}
	return eventKey{object: object, eventType: eventType, reason: reason, key: key}
}

// keyOf gives the key of a notice's event, and its type.
func keyOf(n *decide.Notice) eventKey {
	key := unknownKey(v1.EventWarning, n.Reason, n.Key)
	if n.Reason == decide.ReasonUnknownHost || n.Reason == decide.ReasonClaimIgnored {
		key.eventType = v1.EventNormal
	}
	if n.Host != nil {
		key.object.Namespace, key.object.Name, key.object.UID = n.Host.Namespace, n.Host.Name, n.Host.UID
	}
	return key
}

func clip(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
	}
	return s
}
