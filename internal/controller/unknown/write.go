package unknown

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
)

// Store is the part of the store that the recorder needs.
type Store interface {
	controller.Store
	Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
		validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error
}

// Run writes the machines until ctx ends, fewer while storm reports a storm of boots. While
// the store is away they are kept. It is called once; Shutdown writes the rest.
func (r *Recorder) Run(ctx context.Context, store Store, storm func() bool) {
	r.mu.Lock()
	r.store = store
	r.writer = controller.NewWriter(controller.WriterOptions{
		Name: "unknown machines", PerSecond: perSecond, InStorm: inStorm, Storm: storm, Logger: r.opts.Logger,
	})
	r.mu.Unlock()
	defer r.changes.Follow(ctx, r.changed)()
	r.queue.Run(ctx)
}

// list queues the machines from before Run.
func (r *Recorder) list(context.Context) ([]string, error) { return append(r.pending(), sweepKey), nil }

// pending returns the names of machines that have to be written or deleted.
func (r *Recorder) pending() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, m := range r.byName {
		if m.unwritten > 0 {
			names = append(names, name)
		}
	}
	for name := range r.gone {
		names = append(names, name)
	}
	return names
}

// Shutdown writes the rest once Run has returned, for as long as ctx lasts.
func (r *Recorder) Shutdown(ctx context.Context) error {
	_, err := controller.WriteRest(ctx, r.pending(), r.write)
	return err
}

// reconcile writes or deletes a machine. One that the store refuses is dropped.
func (r *Recorder) reconcile(ctx context.Context, name string) (requeueAfter time.Duration, err error) {
	if name == sweepKey {
		r.sweep()
		return sweepPeriod, nil
	}
	r.mu.Lock()
	m := r.byName[name]
	if m != nil {
		m.due = time.Time{}
	}
	idle := !r.gone[name] && (m == nil || m.unwritten == 0)
	r.mu.Unlock()
	if idle {
		return 0, nil
	}
	err = r.writer.Write(ctx, func(ctx context.Context) error { return r.write(ctx, name) })
	if err == nil || ctx.Err() != nil {
		return 0, err
	}
	r.opts.Logger.Error("an unknown machine is dropped, since the store refuses it", "name", name, "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped.WithLabelValues(causeFailed).Inc()
	delete(r.gone, name)
	if m := r.byName[name]; m != nil {
		r.remove(m)
	}
	return 0, nil
}

// write deletes a machine that is gone, or adds its requests to its object.
func (r *Recorder) write(ctx context.Context, name string) error {
	r.mu.Lock()
	m := r.byName[name]
	if m != nil && r.opts.IsHost(m.mac, m.addr) {
		r.drop(m)
	}
	if m = r.byName[name]; m == nil && !r.gone[name] {
		r.mu.Unlock()
		return nil
	}
	if m == nil {
		r.mu.Unlock()
		return r.delete(ctx, name)
	}
	delete(r.gone, name) // the machine has asked again
	count, changed, status := m.unwritten, m.changed, m.status.DeepCopy()
	m.unwritten, m.changed = 0, false
	r.mu.Unlock()

	err := r.store.GuaranteedUpdate(ctx, prefix+name, &v1.UnknownMachine{}, true, nil, adding(name, count, status), nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		m.unwritten, m.changed = m.unwritten+count, m.changed || changed
		return err
	}
	now := time.Now()
	if m.written = now; r.byName[name] != m {
		r.gone[name] = true // it went meanwhile
		r.queue.Enqueue(name)
		return nil
	}
	if m.stored = true; m.unwritten > 0 {
		m.due = time.Time{}
		r.schedule(m, now)
	}
	return nil
}

// adding returns the update that adds requests to the object of a machine.
func adding(name string, count int64, status *v1.UnknownMachineStatus) storage.UpdateFunc {
	return func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		object := input.(*v1.UnknownMachine)
		if object.Name == "" {
			*object = v1.UnknownMachine{ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: status.FirstSeen,
			}}
		}
		object.UID = controller.MachineUID(name) // also of an object that an earlier release wrote
		merged := status.DeepCopy()
		merge(merged, &object.Status)
		merged.Count = object.Status.Count + count
		object.Status = *merged
		return object, nil, nil
	}
}

// delete deletes the object of a machine.
func (r *Recorder) delete(ctx context.Context, name string) error {
	err := r.store.Delete(ctx, prefix+name, &v1.UnknownMachine{}, nil, rest.ValidateAllObjectFunc, nil,
		storage.DeleteOptions{})
	if err != nil && !storage.IsNotFound(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, name)
	return nil
}
