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
)

// Store is the part of the store of a resource that a reconciler needs to write.
type Store interface {
	GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
		preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error
}

// Recorder records Events.
type Recorder interface {
	Record(object v1.ObjectReference, eventType, reason, message string)
}

// HostReference returns the reference of an Event to a host.
func HostReference(ref match.Ref, uid string) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "BareMetalHost", APIVersion: "v1", Namespace: ref.Namespace, Name: ref.Name, UID: uid,
	}
}

// ConfigReference returns the reference of an Event to a config.
func ConfigReference(config *v1.IgnitionConfig) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "IgnitionConfig", APIVersion: v1.SchemeGroupVersion.String(),
		Namespace: config.Namespace, Name: config.Name, UID: string(config.UID),
	}
}

// MachineReference returns the reference of an Event to an UnknownMachine.
func MachineReference(name string) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "UnknownMachine", APIVersion: v1.SchemeGroupVersion.String(), Name: name, UID: string(MachineUID(name)),
	}
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
		err := WriteNow(ctx, write)
		if ctx.Err() != nil || !IsAway(err) {
			if pause > AwayMin {
				w.opts.Logger.Info("the store takes " + w.opts.Name + " again")
			}
			return err
		}
		if pause == AwayMin {
			w.opts.Logger.Warn("the store takes no "+w.opts.Name+"; they are kept and written later", "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// WriteNow calls write once, with a time limit.
func WriteNow(ctx context.Context, write func(context.Context) error) error {
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
