package api

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
)

// change is an object in place of another one: old is nil for a new object, and now for one that
// is deleted.
type change struct{ old, now object }

// object returns the object after the change or, where it is deleted, before it.
func (c *change) object() object {
	if c.now != nil {
		return c.now
	}
	return c.old
}

// attempt is the last attempt of a request to write or delete an object. The library calls its
// hooks before an object is stored, and again where the store has another one by then, as after a
// delete: only the last attempt was stored.
type attempt struct {
	change
	// view has the objects before the write.
	view            model.View
	isNoted, dryRun bool
	// began is when the work on the write began.
	began time.Time
	// isBlind is true where the user gives a value that he may not read.
	isBlind bool
	// collected is true for a dry run whose change is collected: nothing follows it.
	collected bool
	// checks is true for a config that is compiled and never stored: found has its findings, failure why these are not
	// known.
	checks  bool
	found   report.Report
	failure error
}

type attemptKey struct{}

// withAttempt returns a context for one write. A dry run whose changes are collected already has
// an attempt.
func (e *endpoint) withAttempt(ctx context.Context, dryRun []string) (context.Context, *attempt) {
	if a := attemptOf(ctx); a != nil {
		return ctx, a
	}
	a := &attempt{dryRun: dryrun.IsDryRun(dryRun), began: time.Now(), view: e.inventory.View()}
	addTrace(ctx, func(t *traceData) { t.dryRun = a.dryRun }) // which a body may say as well as the query
	return context.WithValue(ctx, attemptKey{}, a), a
}

// attemptOf returns the attempt of a request; nil: it has none.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// isCollected reports whether a request is a dry run whose changes are collected.
func isCollected(ctx context.Context) bool {
	a := attemptOf(ctx)
	return a != nil && a.collected
}

// note keeps an attempt.
func note(ctx context.Context, c change) {
	if a := attemptOf(ctx); a != nil {
		a.change, a.isNoted = c, true
	}
}

// finish is called after a write or delete that has succeeded.
func (e *endpoint) finish(ctx context.Context, a *attempt) {
	if !a.isNoted || a.collected {
		return
	}
	for _, f := range e.finished {
		f(ctx, a)
	}
}

// Create stores a new object.
func (e *endpoint) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	if err := e.secrecy.restore(obj, nil); err != nil {
		return nil, err
	}
	if err := e.check(ctx, obj.(object), e.Store.New().(object)); err != nil {
		return nil, err
	}
	ctx, a := e.withAttempt(ctx, options.DryRun)
	out, err := e.Store.Create(ctx, obj, validate, options)
	if err == nil {
		e.finish(ctx, a)
	}
	return e.secrecy.redact(ctx, out), err
}

// Delete deletes an object.
func (e *endpoint) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := e.ready(ctx, options.DryRun); err != nil {
		return nil, false, err
	}
	ctx, a := e.withAttempt(ctx, options.DryRun)
	deletable := e.deletable(validate, options)
	noted := func(ctx context.Context, obj runtime.Object) error {
		// An object with finalizers is deleted by the update that removes the last of them.
		if deleted, ok := obj.(object); ok && len(deleted.GetFinalizers()) == 0 {
			note(ctx, change{old: deleted.DeepCopyObject().(object)})
		}
		return deletable(ctx, obj)
	}
	out, gone, err := e.Store.Delete(ctx, name, noted, options)
	if err == nil {
		e.finish(ctx, a)
	}
	return e.secrecy.redact(ctx, out), gone, err
}
