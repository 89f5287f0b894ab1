// Package host writes the status of BareMetalHosts: the state of their newest boots, and the conditions
// IdentityUnique and ConfigReadable.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/model"
	"glowplug/internal/feed"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/snapshot"
)

const (
	// perSecond bounds the writes, and inStorm those during a storm of boots: the boots are stored, so that the
	// statuses can wait.
	perSecond = 500
	inStorm   = 10
	// retryMin is the least pause after a write that the store refuses.
	retryMin = time.Second
)

// StatusOptions are the parts of a StatusWriter.
type StatusOptions struct {
	// Boots has the newest boots of hosts.
	Boots *boots.Tracker
	// Inventory has the conflicts of hosts.
	Inventory *snapshot.Inventory
	// Host returns a host of the snapshot, or nil.
	Host func(model.Ref) *model.Host
	// Events records changes of conditions.
	Events controller.Recorder
	// Metrics counts the writes; nil: they are not counted.
	Metrics *controller.Metrics
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// StatusWriter is the writer of BareMetalHost.status. Its methods are safe for
// concurrent use. Only Run and Shutdown block.
type StatusWriter struct {
	opts    StatusOptions
	due     *feed.Subscription[boots.Due]
	changes *feed.Subscription[snapshot.Change]
	queue   *controller.Controller[model.Ref]
	writer  *controller.Writer

	mu    sync.Mutex
	store controller.Store // nil before Run
	// findings are those of hosts that have a conflict, or whose conditions are not written
	// yet.
	findings map[model.Ref]*findings
}

// NewStatusWriter returns a StatusWriter, which writes nothing before Run.
func NewStatusWriter(opts StatusOptions) *StatusWriter {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	w := &StatusWriter{
		opts: opts, due: opts.Boots.Subscribe(), changes: opts.Inventory.Subscribe(),
		findings: make(map[model.Ref]*findings),
		writer: controller.NewWriter(controller.WriterOptions{
			Name: "host status", PerSecond: perSecond, InStorm: inStorm, Storm: opts.Boots.Storm, Logger: opts.Logger,
		}),
	}
	w.queue = controller.New(controller.Options[model.Ref]{
		Name: "hosts", Reconcile: w.reconcile, RetryMin: retryMin,
		List:    func(context.Context) ([]model.Ref, error) { return w.unwritten(), nil },
		Metrics: opts.Metrics, Logger: opts.Logger,
	})
	return w
}

// advanced takes a host whose machine has got on in its boot.
func (w *StatusWriter) advanced(due boots.Due) {
	if due != (boots.Due{}) {
		w.queue.EnqueueAfter(due.Host, due.Pause)
		return
	}
	for _, ref := range w.opts.Boots.Unwritten() {
		w.queue.Enqueue(ref)
	}
}

// Pending returns the number of hosts whose conditions are not written yet.
func (w *StatusWriter) Pending() int { return len(w.pending()) }

// Run writes statuses until ctx ends. Statuses are pending while the store is away. Run is
// called once; Shutdown writes the rest.
func (w *StatusWriter) Run(ctx context.Context, store controller.Store) {
	w.mu.Lock()
	w.store = store
	w.mu.Unlock()
	defer w.due.Follow(ctx, w.advanced)()
	defer w.changes.Follow(ctx, w.changed)()
	w.queue.Run(ctx)
}

// Shutdown writes the rest once Run has returned, for as long as ctx lasts. After the next
// start, statuses that are missing are written from the boots.
func (w *StatusWriter) Shutdown(ctx context.Context) error {
	if left, err := controller.WriteRest(ctx, w.unwritten(), w.write); err != nil {
		return fmt.Errorf("%d statuses of hosts could not be written: %w", left, err)
	}
	return nil
}

// unwritten returns the hosts whose status is not up to date.
func (w *StatusWriter) unwritten() []model.Ref {
	return append(w.opts.Boots.Unwritten(), w.pending()...)
}

// reconcile writes the status of a host, unless it is up to date.
func (w *StatusWriter) reconcile(ctx context.Context, ref model.Ref) (requeueAfter time.Duration, err error) {
	if !w.opts.Boots.IsUnwritten(ref) && !w.findingsOf(ref).isPending() {
		return 0, nil
	}
	return 0, w.writer.Write(ctx, func(ctx context.Context) error { return w.write(ctx, ref) })
}

// write writes the status of a host. A change of a condition is an event, too.
func (w *StatusWriter) write(ctx context.Context, ref model.Ref) error {
	found := w.findingsOf(ref)
	machine, isUnwritten := w.opts.Boots.BeginWrite(ref)
	if !found.isPending() && (!isUnwritten || w.includes(&machine)) {
		w.opts.Boots.EndWrite(&machine, nil)
		return nil
	}
	u := update{machine: machine, findings: found, conflicts: conflictsOf(w.opts.Inventory.View(), ref), at: time.Now()}
	err := w.store.GuaranteedUpdate(ctx, "/baremetalhosts/"+ref.String(), &v1.BareMetalHost{}, false, nil, u.apply, nil)
	if storage.IsNotFound(err) {
		err = boots.ErrGone
	}
	if err == nil && machine.UID != u.uid { // the stored host is a new one of the same name
		w.opts.Boots.EndWrite(&machine, boots.ErrGone)
	} else {
		w.opts.Boots.EndWrite(&machine, err)
	}
	if err != nil && !errors.Is(err, boots.ErrGone) {
		return err
	}
	w.forget(ref, found)
	for _, c := range u.transitions {
		w.opts.Events.Record(conditionEvent(ref, u.uid, c))
	}
	return nil
}

// includes reports whether the status of a host in the snapshot has the state of its newest boot: the server that has
// stored the boot may have written it, now or before a restart.
func (w *StatusWriter) includes(m *boots.Machine) bool {
	if w.opts.Host == nil || m.Own {
		return false
	}
	host := w.opts.Host(m.Host)
	return host != nil && host.UID == m.UID && m.IsIn(&host.Progress)
}

// update is one write of a status.
type update struct {
	machine  boots.Machine // zero: the progress in the status is up to date
	findings *findings     // nil: there are none
	// conflicts has a sentence for each conflict that the host has now.
	conflicts []string
	at        time.Time

	// uid is the UID of the stored host, and transitions are the conditions that change.
	uid         string
	transitions []*metav1.Condition
}

// apply is the storage.UpdateFunc.
func (u *update) apply(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	host := input.(*v1.BareMetalHost)
	u.uid, u.transitions = string(host.UID), nil
	isPending := u.findings.isPending() && u.findings.uid == u.uid
	if u.machine.UID != u.uid && !isPending {
		return nil, nil, boots.ErrGone
	}
	if u.machine.UID == u.uid {
		writeProgress(&host.Status, &u.machine)
	}
	for _, c := range u.conditions(host, isPending) {
		if meta.SetStatusCondition(&host.Status.Conditions, *c) {
			u.transitions = append(u.transitions, c)
		}
	}
	return host, nil, nil
}

// writeProgress writes the state of a machine's boot into a status.
func writeProgress(s *v1.BareMetalHostStatus, m *boots.Machine) {
	p := &m.Progress
	s.State, s.Rearmed, s.BootCount, s.Provisioning = cmp.Or(p.State, s.State), p.Rearmed, p.Boots, p.Window.Status()
	s.LastSeen, s.LastScript, s.LastBoot = model.StatusTime(p.Seen), model.StatusTime(p.Script), model.StatusTime(p.Boot)
	if m.Config != (model.Ref{}) {
		s.LastConfig, s.LastConfigHash = m.Config.String(), m.Hash
	}
}
