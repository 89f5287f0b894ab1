package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/snapshot"
)

// adopt takes in a config that another program has put into the bucket, as if it had
// been applied: it is checked and compiled, and all that the server derives is derived
// anew. An event says so.
func (f *finisher) adopt(ctx context.Context, key string, ref snapshot.Ref) error {
	if !f.compiler.layering.isForeign(ref) {
		return nil
	}
	var config v1.IgnitionConfig
	err := f.store.Get(ctx, key, storage.GetOptions{}, &config)
	if storage.IsInternalError(err) { // it cannot be decoded, now or later
		f.recordAdoption(ref, "", err.Error())
		return nil
	}
	if err != nil {
		return ignoreNotFound(err)
	}
	config.Namespace, config.Name = ref.Namespace, ref.Name
	invalid := v1.ValidateIgnitionConfig(&config).ToAggregate()
	var j *job
	if invalid == nil {
		if j = f.compiler.run(ctx, Source(&config)); j == nil {
			return ctx.Err()
		}
	}
	var out v1.IgnitionConfig
	err = f.store.GuaranteedUpdate(ctx, key, &out, false, nil, func(obj runtime.Object, at storage.ResponseMeta) (runtime.Object, *uint64, error) {
		current := obj.(*v1.IgnitionConfig)
		if strconv.FormatUint(at.ResourceVersion, 10) != config.ResourceVersion {
			return nil, nil, errSettled // the newer one has been told of as well
		}
		current.Namespace, current.Name = ref.Namespace, ref.Name
		current.Generation++
		if current.UID == "" {
			current.UID = newUID()
		}
		if current.CreationTimestamp.IsZero() {
			current.CreationTimestamp = metav1.Now().Rfc3339Copy()
		}
		current.Status, current.Compiled = v1.IgnitionConfigStatus{}, nil
		if invalid != nil {
			current.Status = v1.IgnitionConfigStatus{
				Phase: v1.PhaseError, ErrorMessage: "the object is not valid: " + invalid.Error(), ObservedGeneration: current.Generation,
			}
			return current, nil, nil
		}
		settle(current, j, time.Now())
		f.compiler.layering.atOnce(current, time.Now())
		return current, nil, nil
	}, nil)
	switch {
	case errors.Is(err, errSettled):
		return nil
	case err != nil:
		return ignoreNotFound(err)
	}
	f.recordAdoption(ref, out.UID, out.Status.ErrorMessage)
	return nil
}

func (l *layering) isForeign(ref snapshot.Ref) bool {
	view := l.inv.View()
	defer view.End()
	c := view.Config(ref)
	return c != nil && c.Foreign
}

func (f *finisher) recordAdoption(ref snapshot.Ref, uid types.UID, problem string) {
	message := "the object was put into its bucket without the API, and was taken in as if it had been applied"
	if problem != "" {
		message = fmt.Sprintf("the object was put into its bucket without the API, and cannot be used: %s", problem)
	}
	f.logger.Warn(message, "config", ref.String())
	f.recorder.Record(v1.ObjectReference{
		Kind: "IgnitionConfig", APIVersion: v1.SchemeGroupVersion.String(),
		Namespace: ref.Namespace, Name: ref.Name, UID: string(uid),
	}, v1.EventWarning, "WrittenByHand", message)
}
