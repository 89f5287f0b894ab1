package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/workqueue"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd"
)

const (
	finishWorkers = 2
	finishTimeout = 30 * time.Second
	// refusedRetry is the pause after a result that the store does not take: the NATS
	// server may be given another configuration.
	refusedRetry = time.Minute
	scanPage     = 500
)

// finisher compiles what was stored as Pending, and writes the result where the
// source is still the one that was compiled. It merges configs anew when a layer
// of theirs has changed.
type finisher struct {
	compiler *compiler
	store    storage.Interface
	recorder Recorder
	logger   *slog.Logger
	queue    workqueue.TypedRateLimitingInterface[string]
	workers  sync.WaitGroup

	mu sync.Mutex
	// unjudged are keys of configs that are judged once the queue is empty.
	unjudged map[string]struct{}
}

func newFinisher(c *compiler, store storage.Interface, recorder Recorder, logger *slog.Logger) *finisher {
	return &finisher{
		compiler: c, store: store, recorder: recorder, logger: logger, unjudged: map[string]struct{}{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, time.Minute)),
	}
}

// start works until stop. ctx ends what is under way.
func (f *finisher) start(ctx context.Context) {
	for range finishWorkers {
		f.workers.Go(func() {
			for f.next(ctx) {
			}
		})
	}
	f.workers.Go(func() { f.resume(ctx) })
}

func (f *finisher) stop() {
	f.queue.ShutDown()
	f.workers.Wait()
}

// written reports a config that was compiled as it was written, or queues it.
func (f *finisher) written(config *v1.IgnitionConfig) {
	if awaitsHosts(config) {
		return
	}
	if config.Status.Phase == v1.PhasePending {
		f.queue.Add(configKey(config.Namespace, config.Name))
		return
	}
	f.record(config)
}

func (f *finisher) next(ctx context.Context) bool {
	key, shutdown := f.queue.Get()
	if shutdown {
		return false
	}
	defer f.judgeSome()
	defer f.queue.Done(key)
	if err := f.finish(ctx, key); err != nil && ctx.Err() == nil {
		f.logger.Warn("a config could not be finished; trying again", "config", key, "error", err)
		f.queue.AddRateLimited(key)
		return true
	}
	f.queue.Forget(key)
	return true
}

// errSettled says that there is nothing left to do for a config.
var errSettled = errors.New("the config is no longer pending with this source")

func (f *finisher) finish(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if prefix, rest, ok := strings.Cut(key, "/"); ok && prefix != "" {
		return f.special(ctx, prefix, "/"+rest)
	}
	var config v1.IgnitionConfig
	if err := f.store.Get(ctx, key, storage.GetOptions{}, &config); err != nil {
		return ignoreNotFound(err)
	}
	switch {
	case ownOf(&config) != nil:
		return f.relay(ctx, key)
	case !isUnfinished(&config), awaitsHosts(&config):
		return nil
	}
	src := Source(&config)
	j := f.compiler.run(ctx, src)
	if j == nil {
		return ctx.Err()
	}
	var out v1.IgnitionConfig
	err := f.store.GuaranteedUpdate(ctx, key, &out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		current := obj.(*v1.IgnitionConfig)
		if !isUnfinished(current) || Source(current) != src {
			return nil, errSettled
		}
		settle(current, j, time.Now())
		f.compiler.layering.atOnce(current, time.Now())
		return current, nil
	}), nil)
	switch {
	case errors.Is(err, errSettled):
		return nil
	case apierrors.IsRequestEntityTooLargeError(err):
		return f.refused(ctx, &config, err)
	case err != nil:
		return ignoreNotFound(err)
	}
	if out.Status.Phase != v1.PhasePending {
		f.record(&out)
	}
	return nil
}

// refusedResult begins the message of a config whose compilation the store does not
// take.
const refusedResult = "what it compiles to cannot be stored: "

// isUnfinished reports whether the compilation of a config is pending, or its result
// was refused by the store.
func isUnfinished(config *v1.IgnitionConfig) bool {
	return config.Status.Phase == v1.PhasePending ||
		config.Status.Phase == v1.PhaseError && strings.HasPrefix(config.Status.ErrorMessage, refusedResult)
}

// refused says in the status of a config that its newest compilation cannot be stored,
// and tries again later. What is served stays.
func (f *finisher) refused(ctx context.Context, config *v1.IgnitionConfig, cause error) error {
	key := configKey(config.Namespace, config.Name)
	f.queue.AddAfter(key, refusedRetry)
	message := fmt.Sprintf("%s%v: %s, or make the config or its layers smaller", refusedResult, cause, natsd.PayloadRemedy)
	err := f.store.GuaranteedUpdate(ctx, key, &v1.IgnitionConfig{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		current := obj.(*v1.IgnitionConfig)
		status := &current.Status
		if current.UID != config.UID || current.Generation != config.Generation || status.Phase == v1.PhaseError && status.ErrorMessage == message {
			return nil, errSettled
		}
		status.Phase, status.ErrorMessage, status.Warnings = v1.PhaseError, message, nil
		status.ObservedGeneration = current.Generation
		return current, nil
	}), nil)
	switch {
	case errors.Is(err, errSettled):
		return nil
	case err != nil && !apierrors.IsRequestEntityTooLargeError(err):
		return ignoreNotFound(err)
	}
	told := &v1.IgnitionConfig{ObjectMeta: config.ObjectMeta}
	told.Status.Phase, told.Status.ErrorMessage = v1.PhaseError, message
	f.record(told) // also where there is no room even for the sentence
	return nil
}

// resume queues what a server that was stopped left Pending.
func (f *finisher) resume(ctx context.Context) {
	for {
		err := f.scan(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (f *finisher) scan(ctx context.Context) error {
	opts := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), Limit: scanPage,
		GetAttrs: storage.DefaultNamespaceScopedAttr,
	}}
	for {
		var list v1.IgnitionConfigList
		if err := f.store.GetList(ctx, "/"+IgnitionConfigs, opts, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if isUnfinished(&list.Items[i]) {
				f.queue.Add(configKey(list.Items[i].Namespace, list.Items[i].Name))
			}
		}
		if list.Continue == "" {
			return nil
		}
		opts.Predicate.Continue = list.Continue
	}
}

// record makes an event of a compilation, which kubectl describe shows.
func (f *finisher) record(config *v1.IgnitionConfig) {
	ref := v1.ObjectReference{
		Kind: "IgnitionConfig", APIVersion: v1.SchemeGroupVersion.String(),
		Namespace: config.Namespace, Name: config.Name, UID: string(config.UID),
	}
	if config.Status.Phase == v1.PhaseError {
		f.recorder.Record(ref, v1.EventWarning, "CompileFailed", config.Status.ErrorMessage)
		return
	}
	f.recorder.Record(ref, v1.EventNormal, "Compiled", "compiled to "+humanBytes(config.Status.CompiledSize)+", "+shortHash(config.Status.ConfigHash))
}

func configKey(namespace, name string) string {
	return "/" + IgnitionConfigs + "/" + namespace + "/" + name
}

func ignoreNotFound(err error) error {
	if storage.IsNotFound(err) {
		return nil
	}
	return err
}

// newObjectMeta is the metadata of an object that the server makes itself.
func newObjectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: newUID(), CreationTimestamp: metav1.Now().Rfc3339Copy()}
}
