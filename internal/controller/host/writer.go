package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/store/progress"
	"glowplug/internal/store/snapshot"
)

const (
	// perSecond bounds the writes. Fewer are made while a storm of boots goes on: the
	// boot log has what the statuses would say.
	perSecond = 500
	inStorm   = 10
	// retryMin and retryMax are the bounds of the pause after a write that the store,
	// though it is there, refuses.
	retryMin = time.Second
	retryMax = time.Minute
)

// StatusOptions are the parts of a StatusWriter.
type StatusOptions struct {
	// Progress is how far the boots of hosts are.
	Progress *progress.Tracker
	// Host returns a host as the snapshot has it, nil where it has none; nil: it is not
	// asked.
	Host func(snapshot.Ref) *snapshot.Host
	// Events takes changes of conditions.
	Events controller.Recorder
	// Metrics counts the writes; nil: they are not counted.
	Metrics *controller.Metrics
	// Logger takes what goes wrong; nil discards it.
	Logger *slog.Logger
}

// StatusWriter is the writer of BareMetalHost.status. Its methods are safe for
// concurrent use and, but for Run and Shutdown, do not block.
type StatusWriter struct {
	opts   StatusOptions
	queue  *controller.Controller[snapshot.Ref]
	writer *controller.Writer

	mu    sync.Mutex
	store controller.Store // nil before Run
	// findings are those of hosts that have a conflict, or whose conditions are to be
	// written: at most one of each host.
	findings map[snapshot.Ref]*findings
}

// NewStatusWriter returns a StatusWriter, which writes nothing before Run.
func NewStatusWriter(opts StatusOptions) *StatusWriter {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	w := &StatusWriter{
		opts: opts, findings: make(map[snapshot.Ref]*findings),
		writer: controller.NewWriter(controller.WriterOptions{
			Name: "host status", PerSecond: perSecond, InStorm: inStorm, Storm: opts.Progress.Storm, Logger: opts.Logger,
		}),
	}
	w.queue = controller.New(controller.Options[snapshot.Ref]{
		Name: "hosts", Reconcile: w.reconcile, List: w.list, RetryMin: retryMin, RetryMax: retryMax,
		Metrics: opts.Metrics, Logger: opts.Logger,
	})
	return w
}

// Changed implements progress.Statuses.
func (w *StatusWriter) Changed(host snapshot.Ref, pause time.Duration) {
	w.queue.EnqueueAfter(host, pause)
}

// Pending returns the number of hosts whose conditions are to be written.
func (w *StatusWriter) Pending() int { return len(w.pending()) }

// Run writes statuses until ctx ends. While the store is away they are kept. It is
// called once; Shutdown writes what is left.
func (w *StatusWriter) Run(ctx context.Context, store controller.Store) {
	w.mu.Lock()
	w.store = store
	w.mu.Unlock()
	w.queue.Run(ctx)
}

// Shutdown writes what is left when Run has returned, at once and for as long as ctx
// lasts. A status whose state is in the boot log is written by the next start.
func (w *StatusWriter) Shutdown(ctx context.Context) error {
	refs := w.unwritten()
	for i, ref := range refs {
		err := ctx.Err()
		if err == nil {
			err = controller.WriteNow(ctx, func(ctx context.Context) error { return w.write(ctx, ref) })
		}
		if controller.IsAway(err) {
			return fmt.Errorf("%d statuses of hosts could not be written: %w", len(refs)-i, err)
		}
	}
	return nil
}

func (w *StatusWriter) list(_ context.Context, enqueue func(snapshot.Ref)) error {
	for _, ref := range w.unwritten() {
		enqueue(ref)
	}
	return nil
}

// unwritten returns the hosts whose status is to be written.
func (w *StatusWriter) unwritten() []snapshot.Ref {
	return append(w.opts.Progress.Unwritten(), w.pending()...)
}

// reconcile writes the status of a host, if it lacks something.
func (w *StatusWriter) reconcile(ctx context.Context, ref snapshot.Ref) (requeueAfter time.Duration, err error) {
	if !w.opts.Progress.IsUnwritten(ref) && !w.findingsOf(ref).isPending() {
		return 0, nil
	}
	return 0, w.writer.Write(ctx, func(ctx context.Context) error { return w.write(ctx, ref) })
}

// write writes the status of a host. A change of a condition is an event, too.
func (w *StatusWriter) write(ctx context.Context, ref snapshot.Ref) error {
	found := w.findingsOf(ref)
	machine, isUnwritten := w.opts.Progress.BeginWrite(ref)
	if !found.isPending() && (!isUnwritten || w.includes(&machine)) {
		w.opts.Progress.EndWrite(&machine, nil)
		return nil
	}
	u := update{machine: machine, findings: found, at: time.Now()}
	err := w.store.GuaranteedUpdate(ctx, "/baremetalhosts/"+ref.String(), &v1.BareMetalHost{}, false, nil, u.apply, nil)
	if storage.IsNotFound(err) || apierrors.IsNotFound(err) {
		err = progress.ErrGone
	}
	if err == nil && machine.UID != u.uid {
		w.opts.Progress.EndWrite(&machine, progress.ErrGone)
	} else {
		w.opts.Progress.EndWrite(&machine, err)
	}
	if err != nil && !errors.Is(err, progress.ErrGone) {
		return err
	}
	w.forget(ref, found)
	for _, c := range u.transitions {
		w.opts.Events.Record(conditionEvent(ref, u.uid, c))
	}
	return nil
}

// includes reports whether the status of a host, as the snapshot has it, says all that
// the boot log does: another server may have written it.
func (w *StatusWriter) includes(m *progress.Machine) bool {
	if w.opts.Host == nil || !m.Logged {
		return false
	}
	host := w.opts.Host(m.Ref)
	return host != nil && host.UID == m.UID && host.Progress.Position >= m.Progress.Position
}
