package api

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kinds"
)

// admitConfig sets the status of a config. It returns the errors of the source where a broken
// config is refused.
func admitConfig(opts *Options) func(ctx context.Context, config, old *v1.IgnitionConfig) field.ErrorList {
	return func(ctx context.Context, config, old *v1.IgnitionConfig) field.ErrorList {
		path := field.NewPath("spec", "config")
		strict, err := rejectsBroken(ctx, opts, config)
		if err != nil {
			return field.ErrorList{field.InternalError(path, err)}
		}
		found, err := opts.ConfigStatus.Admit(ctx, config, old, strict)
		if !strict {
			return nil
		}
		if err != nil {
			return field.ErrorList{field.InternalError(path, fmt.Errorf(
				"the source is not compiled yet, and broken configs are rejected here: try again (%w)", err))}
		}
		var errs field.ErrorList
		for _, f := range found {
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, f.WithHint()))
		}
		return errs
	}
}

// rejectsBroken reports whether a config is refused if its source does not compile: the flag,
// the annotation of the namespace and that of the config can each demand it.
func rejectsBroken(ctx context.Context, opts *Options, config *v1.IgnitionConfig) (bool, error) {
	if opts.RejectBrokenConfigs || config.Annotations[v1.AnnotationRejectBroken] == "true" {
		return true, nil
	}
	namespace := &v1.Namespace{}
	err := opts.Stores[kinds.Namespaces].Get(ctx, namespaceKey(config.Namespace), storage.GetOptions{ResourceVersion: "0"},
		namespace)
	if storage.IsNotFound(err) {
		return false, nil
	}
	return namespace.Annotations[v1.AnnotationRejectBroken] == "true", err
}
