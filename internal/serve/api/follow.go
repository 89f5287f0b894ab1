package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/store/snapshot"
)

// Keys in the queue with these in front ask for something else than to finish a
// config: to see whether it has to be merged anew, to see that of those right above
// it or of all above it, to judge it, and to take in one that another program has put
// into the bucket.
const (
	checkPrefix = "check:"
	abovePrefix = "above:"
	towerPrefix = "tower:"
	judgePrefix = "judge:"
	adoptPrefix = "adopt:"
)

// changed is told of every config that changes, by whomever, and of those with layers
// when they are read: it queues what there is to see to.
func (f *finisher) changed(old, now *snapshot.Config) {
	c := cmp.Or(now, old)
	key := configKey(c.Namespace, c.Name)
	if now != nil && now.Foreign {
		f.queue.Add(adoptPrefix + key)
	}
	if now != nil && now.Stack != nil {
		f.queue.Add(checkPrefix + key)
	}
	view := f.compiler.layering.inv.View()
	isLayer := view.IsLayer(c.Ref)
	view.End()
	switch {
	case !isLayer || old != nil && now != nil && looksTheSame(old, now):
	case slices.Equal(layersOf(old), layersOf(now)):
		f.queue.Add(abovePrefix + key)
	default:
		// A layer of a layer came or went: the way down may be too long now for any
		// config above, or be a circle.
		f.queue.Add(towerPrefix + key)
	}
}

// special does what a key with a prefix asks for.
func (f *finisher) special(ctx context.Context, prefix, key string) error {
	namespace, name, _ := strings.Cut(strings.TrimPrefix(key, "/"+IgnitionConfigs+"/"), "/")
	ref := snapshot.Ref{Namespace: namespace, Name: name}
	switch prefix {
	case judgePrefix:
		return f.judge(ctx, key)
	case adoptPrefix:
		return f.adopt(ctx, key, ref)
	case checkPrefix:
		unsettled, unjudged := f.compiler.layering.look(ref)
		if unsettled {
			f.queue.Add(key)
		}
		if unjudged {
			f.judgeLater(key)
		}
	default:
		for _, ref := range f.compiler.layering.above(ref, prefix == towerPrefix) {
			f.queue.Add(configKey(ref.Namespace, ref.Name))
		}
	}
	return nil
}

// look tells whether a config may have to be merged anew, and whether it has to be
// judged.
func (l *layering) look(ref snapshot.Ref) (unsettled, unjudged bool) {
	view := l.inv.View()
	defer view.End()
	c := view.Config(ref)
	if c == nil || c.Stack == nil {
		return false, false
	}
	return isUnsettled(view, c), c.Unjudged
}

// above lists the configs right above one, or all, that may have to be merged anew;
// the lower first, so that those above both are merged once.
func (l *layering) above(ref snapshot.Ref, all bool) []snapshot.Ref {
	view := l.inv.View()
	var refs []snapshot.Ref
	seen := map[snapshot.Ref]bool{}
	for next := view.Above(ref); len(next) > 0; next = next[1:] {
		if c := next[0]; !seen[c.Ref] {
			seen[c.Ref] = true
			refs = append(refs, c.Ref)
			if all {
				next = append(next, view.Above(c.Ref)...)
			}
		}
	}
	view.End()
	heights := map[snapshot.Ref]int{}
	refs = slices.DeleteFunc(refs, func(ref snapshot.Ref) bool {
		view := l.inv.View() // let go in between: boots are answered from it
		defer view.End()
		c := view.Config(ref)
		if c == nil || !isUnsettled(view, c) {
			return true
		}
		heights[ref] = compile.Height(c.Name, layersOf(c), view.Layers(c.Namespace))
		return false
	})
	slices.SortFunc(refs, func(a, b snapshot.Ref) int {
		return cmp.Or(cmp.Compare(heights[a], heights[b]), a.Compare(b))
	})
	return refs
}

func layersOf(c *snapshot.Config) []string {
	if c == nil || c.Stack == nil {
		return nil
	}
	return c.Stack.Layers
}

// looksTheSame reports whether two versions of a layer give the same merged configs.
func looksTheSame(a, b *snapshot.Config) bool {
	return a.Hash == b.Hash && a.Type == b.Type && a.Template == b.Template && a.Failing == b.Failing && a.Pending == b.Pending &&
		a.ErrorMessage == b.ErrorMessage && slices.Equal(layersOf(a), layersOf(b))
}

// relay merges a config over its layers as they are when it is written: whoever was
// faster has seen no newer ones.
func (f *finisher) relay(ctx context.Context, key string) error {
	var out, last v1.IgnitionConfig
	var phase, message string
	err := f.store.GuaranteedUpdate(ctx, key, &out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		current := obj.(*v1.IgnitionConfig)
		if ownOf(current) == nil {
			return nil, errSettled
		}
		phase, message = current.Status.Phase, current.Status.ErrorMessage
		last.ObjectMeta = current.ObjectMeta
		f.compiler.layering.lay(current, math.MaxInt, time.Now())
		return current, nil
	}), nil)
	switch {
	case errors.Is(err, errSettled):
		return nil
	case apierrors.IsRequestEntityTooLargeError(err):
		return f.refused(ctx, &last, err)
	case err != nil:
		return ignoreNotFound(err)
	}
	if out.Status.Phase != v1.PhasePending && (out.Status.Phase != phase || out.Status.ErrorMessage != message) {
		f.record(&out)
	}
	return nil
}

// judgeLater queues a config whose status does not say what it can be given as. That
// takes several times what merging takes, and machines do not wait for it.
func (f *finisher) judgeLater(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue.Len() == 0 {
		f.queue.Add(judgePrefix + key)
		return
	}
	f.unjudged[key] = struct{}{}
}

// judgeSome takes up what judgeLater has put off, where nothing else is to be done.
func (f *finisher) judgeSome() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue.Len() > 0 {
		return
	}
	n := 0
	for key := range f.unjudged {
		delete(f.unjudged, key)
		f.queue.Add(judgePrefix + key)
		if n++; n == finishWorkers {
			return
		}
	}
}

// judge writes what a config can be given as, if that is not said.
func (f *finisher) judge(ctx context.Context, key string) error {
	var config v1.IgnitionConfig
	if err := f.store.Get(ctx, key, storage.GetOptions{}, &config); err != nil {
		return ignoreNotFound(err)
	}
	if !isUnjudged(&config) {
		return nil
	}
	judge(&config)
	err := f.store.GuaranteedUpdate(ctx, key, &v1.IgnitionConfig{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		current := obj.(*v1.IgnitionConfig)
		if !isUnjudged(current) || current.Compiled.Hash != config.Compiled.Hash {
			return nil, errSettled
		}
		current.Status.Servable = config.Status.Servable
		return current, nil
	}), nil)
	switch {
	case errors.Is(err, errSettled):
		return nil
	case apierrors.IsRequestEntityTooLargeError(err):
		f.logger.Warn("it cannot be said what a config can be given as", "config", key, "error", err)
		return nil
	}
	return ignoreNotFound(err)
}
