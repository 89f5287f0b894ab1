package image

import (
	"context"
	"errors"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/image"
)

const storePrefix = "/iscsicdroms"

func storeKey(ref Ref) string { return storePrefix + "/" + ref.String() }

var errDeleted = errors.New("the ISCSICdrom was deleted")

// listerWatcher lists and watches a store. The store cannot send a list as a watch.
type listerWatcher struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by client-go.
func (listerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// newInformer returns the informer that calls OnAdd, OnUpdate and OnDelete.
func (c *Controller) newInformer() cache.Controller {
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: listerWatcher{&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				return c.listCdroms(ctx, opts)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				from := opts
				from.ResourceVersion = o.ResourceVersion
				return c.opts.Store.Watch(ctx, storePrefix, from)
			},
		}},
		ObjectType: &v1.ISCSICdrom{}, Handler: c,
	})
	return informer
}

// Bounds of the pause between two lists while the store is away.
const (
	listPauseMin = 10 * time.Millisecond
	listPauseMax = time.Second
)

// listCdroms returns all CD-ROMs. It waits for a store that is away, as it is at each
// start until it was read: client-go would log an error, and list again later.
func (c *Controller) listCdroms(ctx context.Context, opts storage.ListOptions) (runtime.Object, error) {
	for pause := listPauseMin; ; pause = min(2*pause, listPauseMax) {
		list := &v1.ISCSICdromList{}
		err := c.opts.Store.GetList(ctx, storePrefix, opts, list)
		if err == nil || !controller.IsAway(err) || ctx.Err() != nil {
			return list, err
		}
		if !controller.Sleep(ctx, pause) {
			return list, err
		}
	}
}

// OnAdd implements cache.ResourceEventHandler.
func (c *Controller) OnAdd(object any, _ bool) { c.OnUpdate(nil, object) }

// OnUpdate implements cache.ResourceEventHandler.
func (c *Controller) OnUpdate(_, object any) {
	cdrom := object.(*v1.ISCSICdrom)
	ref := image.RefOf(cdrom)
	c.state(ref)
	before := c.images.Put(cdrom)
	c.mu.Lock()
	close(c.put)
	c.put = make(chan struct{})
	c.mu.Unlock()
	if before != nil && before.UID != cdrom.UID {
		c.endTransfers(ref, before.UID)
		c.opts.Deleted(ref)
	}
	// Servers with directories of their own may see an image in different states. If each
	// replaced the other's status by its own, they would write without end.
	// A spec of another program's need not have another generation.
	known := before != nil && before.UID == cdrom.UID && before.Generation == cdrom.Generation &&
		before.Status.Release == cdrom.Status.Release && apiequality.Semantic.DeepEqual(before.Spec, cdrom.Spec)
	if !known {
		c.runtime.Enqueue(ref)
	}
}

// OnDelete implements cache.ResourceEventHandler. The files of a CD-ROM that was deleted
// are removed. Those of one that is missing from a list are kept: the store may be
// another one by mistake.
func (c *Controller) OnDelete(object any) {
	missing, isMissing := object.(cache.DeletedFinalStateUnknown)
	if isMissing {
		object = missing.Obj
	}
	cdrom, ok := object.(*v1.ISCSICdrom)
	if !ok {
		return
	}
	ref := image.RefOf(cdrom)
	s := c.state(ref)
	c.images.Remove(ref, cdrom.UID)
	d := doomed{uid: cdrom.UID, ends: c.endTransfers(ref, cdrom.UID)}
	if !isMissing {
		c.mu.Lock()
		s.doomed = append(s.doomed, d)
		c.mu.Unlock()
		c.opts.Deleted(ref)
	}
	c.runtime.Enqueue(ref)
}

// endTransfers cancels the transfers of an object. The end of each closes one channel.
func (c *Controller) endTransfers(ref Ref, uid types.UID) []<-chan struct{} {
	c.statuses.forget(ref)
	return append(c.uploads.cancel(ref, uid), c.downloads.cancel(ref)...)
}

// awaitPut waits until a CD-ROM that was made a moment ago has been put, but not for
// ever: another may have taken its place.
func (c *Controller) awaitPut(ctx context.Context, cdrom *v1.ISCSICdrom) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	for {
		c.mu.Lock()
		put := c.put
		c.mu.Unlock()
		if now := c.images.Cdrom(image.RefOf(cdrom)); now != nil && now.UID == cdrom.UID {
			return
		}
		select {
		case <-put:
		case <-ctx.Done():
			return
		}
	}
}

// putTimeout is how long awaitPut waits.
const putTimeout = time.Second

// doomed is an object that was deleted, and its transfers, which were cancelled.
type doomed struct {
	uid  types.UID
	ends []<-chan struct{}
}

// known returns the UIDs of all CD-ROMs.
func (c *Controller) known() map[string]bool {
	known := map[string]bool{}
	for _, ref := range c.images.Refs() {
		if cdrom := c.images.Cdrom(ref); cdrom != nil {
			known[image.PlainUID(string(cdrom.UID))] = true
		}
	}
	return known
}
