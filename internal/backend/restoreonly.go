package backend

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/option"
	"glowplug/internal/store/backup"
	"glowplug/internal/store/kvstore"
)

// RestoredObject says what became of one object of a backup.
type RestoredObject struct {
	// Object is RESOURCE/NAMESPACE/NAME, and Did what was done.
	Object, Did string
}

// RestoreOnly puts single objects of a backup into a store that has others. only are each RESOURCE, RESOURCE/NAME or
// RESOURCE/NAMESPACE/NAME, with any name of the resource that kubectl takes. An object that is there stays, unless
// o.Replace is set.
func RestoreOnly(ctx context.Context, o RestoreOptions, only []string, dryRun bool) (done []RestoredObject, err error) {
	only = slices.Clone(only)
	for i, name := range only {
		resource, object, isOne := strings.Cut(name, "/")
		kind := kinds.Named(resource)
		if kind == nil {
			return nil, option.Bad("only", "%q: there is no resource %q, as ignitionconfigs is one", name, resource)
		}
		if only[i] = kind.Resource; isOne {
			only[i] += "/" + object
		}
	}
	if _, err := o.Source.Verify(); err != nil {
		return nil, err
	}
	opened, err := OpenStopped(ctx, &o.Options, Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	found := map[string]bool{}
	_, err = o.Source.Read(backup.Visitor{Record: func(resource string, r kvstore.Record) error {
		named := ""
		for _, name := range only {
			if object := resource + "/" + r.Key; object == name || strings.HasPrefix(object, name+"/") {
				named, found[name] = object, true
			}
		}
		if named == "" {
			return nil
		}
		did, err := restoreObject(ctx, opened.Stores[resource], r, o.Replace, dryRun)
		done = append(done, RestoredObject{named, did})
		return err
	}})
	if err != nil {
		return done, err
	}
	for _, name := range only {
		if !found[name] {
			return done, option.Bad("only", "the backup has no %s (an object of a namespace is RESOURCE/NAMESPACE/NAME)", name)
		}
	}
	return done, nil
}

// restoreObject puts one object into its bucket.
func restoreObject(ctx context.Context, store *kvstore.Store, r kvstore.Record, replace, dryRun bool) (
	did string, err error) {
	present, err := kvstore.Has(ctx, store, r.Key)
	switch {
	case err != nil:
		return "failed", err
	case present && !replace:
		return "is there, and stays as it is (--replace restores it)", nil
	case dryRun && present:
		return "would be replaced", nil
	case dryRun:
		return "would be restored", nil
	}
	if err := kvstore.PutRecord(ctx, store, r); err != nil {
		return "failed", err
	}
	if present {
		return "replaced", nil
	}
	return "restored", nil
}
