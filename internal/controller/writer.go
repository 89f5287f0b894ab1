package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/match"
)

const (
	// writeBurst is the number of writes that need not wait for each other.
	writeBurst = 20
	// writeTimeout ends a write that takes too long; it is tried again.
	writeTimeout = 10 * time.Second
	// AwayMin and AwayMax are the bounds of the pause between two attempts while the
	// store is away.
	AwayMin = 250 * time.Millisecond
	AwayMax = 10 * time.Second
	// RefusedPause is the pause after a status that is too large for the store: the operator may change the limits of
	// the NATS server.
	RefusedPause = time.Minute
)

// Store is the part of the store of a resource that a reconciler needs to write.
type Store interface {
	GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
		preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error
}

// ErrUnchanged ends an Update that has nothing to write.
var ErrUnchanged = errors.New("there is nothing to write")

// Update changes an object of a store, and returns it as it is stored then; nil where there is none, or change
// returns ErrUnchanged.
func Update[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, store Store, key string, change func(P) error) (P, error) {
	out := P(new(T))
	update := func(stored runtime.Object) (runtime.Object, error) { return stored, change(stored.(P)) }
	err := store.GuaranteedUpdate(ctx, key, out, false, nil, storage.SimpleUpdate(update), nil)
	switch {
	case errors.Is(err, ErrUnchanged) || storage.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return out, nil
}

// Recorder records Events.
type Recorder interface {
	Record(object v1.ObjectReference, eventType, reason, message string)
}

// NoRecorder records nothing.
var NoRecorder Recorder = noRecorder{}

type noRecorder struct{}

func (noRecorder) Record(v1.ObjectReference, string, string, string) {}

// Reference returns the reference of an Event to an object of a kind.
func Reference(kind string, ref match.Ref, uid types.UID) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: kind, APIVersion: v1.SchemeGroupVersion.String(), Namespace: ref.Namespace, Name: ref.Name, UID: string(uid),
	}
}

// HostReference is Reference for a host.
func HostReference(ref match.Ref, uid string) v1.ObjectReference {
	return Reference("BareMetalHost", ref, types.UID(uid))
}

// ConfigReference is Reference for a config.
func ConfigReference(config *v1.IgnitionConfig) v1.ObjectReference {
	return Reference("IgnitionConfig", match.Ref{Namespace: config.Namespace, Name: config.Name}, config.UID)
}

// MachineReference is Reference for an UnknownMachine.
func MachineReference(name string) v1.ObjectReference {
	return Reference("UnknownMachine", match.Ref{Name: name}, MachineUID(name))
}

// MachineUID returns the UID of the UnknownMachine with a name. It is always the same one:
// kubectl describe finds the events of an object without a namespace by its UID, and the
// events of a machine are written before its object, and outlast it.
func MachineUID(name string) types.UID {
	sum := sha256.Sum256([]byte("UnknownMachine " + name))
	sum[6] = sum[6]&0x0f | 0x80 // version 8 of RFC 9562
	sum[8] = sum[8]&0x3f | 0x80 // and its variant
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// MaxMessage bounds the message of an Event or of a condition, in bytes.
const MaxMessage = 1024

// ClipMessage shortens a message that is too long for an Event or a condition.
func ClipMessage(s string) string {
	if len(s) > MaxMessage {
		return strings.ToValidUTF8(s[:MaxMessage-len("…")], "") + "…"
	}
	return s
}

// Writer bounds the rate at which a reconciler with one worker writes into the store. While
// the store is away it waits, since that is no failure of a key.
type Writer struct {
	opts    WriterOptions
	limiter *rate.Limiter
}

// WriterOptions are the parts of a Writer.
type WriterOptions struct {
	// Name is that of the written objects, for the log.
	Name string
	// PerSecond bounds the writes, InStorm those while Storm reports a storm of boots.
	PerSecond, InStorm rate.Limit
	Storm              func() bool
	// Logger takes the messages that the store is away, and that it is back.
	Logger *slog.Logger
}

// NewWriter returns a Writer.
func NewWriter(opts WriterOptions) *Writer {
	return &Writer{opts: opts, limiter: rate.NewLimiter(opts.PerSecond, writeBurst)}
}

// Write calls write as soon as the rate allows, and again for as long as the store is
// away and ctx lasts. It returns the error of the last attempt.
func (w *Writer) Write(ctx context.Context, write func(context.Context) error) error {
	if w.opts.Storm() {
		w.limiter.SetLimit(w.opts.InStorm)
	} else {
		w.limiter.SetLimit(w.opts.PerSecond)
	}
	if err := w.limiter.Wait(ctx); err != nil {
		return err
	}
	for pause := AwayMin; ; pause = min(2*pause, AwayMax) {
		err := writeNow(ctx, write)
		if ctx.Err() != nil || !IsAway(err) {
			if pause > AwayMin {
				w.opts.Logger.Info("the store takes " + w.opts.Name + " again")
			}
			return err
		}
		if pause == AwayMin {
			w.opts.Logger.Warn("the store takes no "+w.opts.Name+"; they are kept and written later", "error", err)
		}
		if !Sleep(ctx, pause) {
			return err
		}
	}
}

// WriteRest calls write once for each key, until ctx ends or the store is away. It returns the number of keys that
// are left then, and the reason.
func WriteRest[K any](ctx context.Context, keys []K, write func(context.Context, K) error) (left int, err error) {
	for i, key := range keys {
		if err = ctx.Err(); err == nil {
			err = writeNow(ctx, func(ctx context.Context) error { return write(ctx, key) })
		}
		if IsAway(err) {
			return len(keys) - i, err
		}
	}
	return 0, nil
}

// writeNow calls write once, with a time limit.
func writeNow(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return write(ctx)
}

// IsAway reports whether an error says that the store cannot be reached, did not answer in
// time or is full. It says nothing about the written object.
func IsAway(err error) bool {
	var status apierrors.APIStatus
	isFull := errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || storage.IsUnreachable(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || isFull
}

// Sleep waits, and reports whether ctx goes on.
func Sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}
