package api

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "glowplug/api/v1"
)

// admitConfig sets the status of a config. It returns the errors of the source where a broken
// config is refused.
func admitConfig(opts *Options) func(ctx context.Context, config, old *v1.IgnitionConfig) field.ErrorList {
	return func(ctx context.Context, config, old *v1.IgnitionConfig) field.ErrorList {
		if a := attemptOf(ctx); a != nil && a.checks {
			a.found, a.failure = opts.ConfigStatus.Check(ctx, config)
			return nil
		}
		strict := rejectsBroken(opts, config)
		found, err := opts.ConfigStatus.Admit(ctx, config, old, strict || isCollected(ctx))
		if !strict {
			return nil
		}
		path := field.NewPath("spec", "config")
		if err != nil {
			return field.ErrorList{field.InternalError(path, fmt.Errorf(
				"the source is not compiled yet, and broken configs are rejected here: try again (%w)", err))}
		}
		if len(found) > 0 && opts.rights.concealsFindings(ctx, config) {
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, v1.ConfidentialFindings)}
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
func rejectsBroken(opts *Options, config *v1.IgnitionConfig) bool {
	return opts.RejectBrokenConfigs || config.Annotations[v1.AnnotationRejectBroken] == "true" ||
		opts.Inventory.View().RejectsBroken(config.Namespace)
}
