package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/option"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
)

// openKeys reads the keys of the store. The file that --encrypt makes may be missing yet.
func (b *Backend) openKeys() error {
	file := b.options.encryptionFile()
	if _, err := os.Stat(file); file == "" || b.options.Encrypt && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return b.loadKeys(file)
}

// makeKey makes a key where --encrypt asks for one and there is none.
func (b *Backend) makeKey() (err error) {
	file := b.options.encryptionFile()
	if file == "" || b.keys != nil {
		return nil
	}
	if b.madeKey, err = encryption.Make(file); err != nil {
		return option.Bad("encrypt", "%v", err)
	}
	return b.loadKeys(file)
}

func (b *Backend) loadKeys(file string) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	b.onClose(cancel)
	if b.keys, err = encryption.Load(ctx, file, "glowplug"); err != nil {
		if b.options.Encrypt {
			return option.Bad("encrypt", "the key of the store cannot be read: put the copy of %s back: %v", file, err)
		}
		return option.Bad(encryptionFlag, "%v", err)
	}
	var resources []schema.GroupResource
	for _, kind := range kinds.All() {
		resources = append(resources, kind.GroupResource())
	}
	for _, unknown := range b.keys.Unknown(resources) {
		b.deps.Logger.Warn("the encryption configuration names a resource that the store does not have", "resource", unknown,
			"file", file)
	}
	return nil
}

// acceptKeys returns an error for an embedded store, which is not opened yet, if a bucket has values that cannot
// be decrypted. A KMS plugin that does not answer is asked again by checkKeys.
func (b *Backend) acceptKeys(metadata func(bucket string) map[string]string) error {
	for _, kind := range kinds.All() {
		cipher := b.keys.Of(kind.GroupResource())
		err := kvstore.CheckKeys(context.Background(), objects.Stored(kind), cipher, metadata(objects.Bucket(kind)))
		if errors.As(err, new(*encryption.KeyError)) {
			return b.withKeyFile(err)
		}
	}
	return nil
}

// withKeyFile adds where the keys are from.
func (b *Backend) withKeyFile(err error) error {
	if file := b.options.encryptionFile(); file != "" {
		return fmt.Errorf("%w. The keys are read from %s", err, file)
	}
	return err
}

// checkKeys makes the server stop if a bucket has values that cannot be decrypted. Nothing was
// written by then.
func (b *Backend) checkKeys(ctx context.Context) {
	var checks errgroup.Group
	for _, store := range b.Stores {
		checks.Go(func() error {
			if err := store.CheckKeys(ctx, b.js); errors.As(err, new(*encryption.KeyError)) {
				return err
			}
			return nil // what cannot be asked now is asked again before the bucket is read
		})
	}
	err, file := checks.Wait(), b.options.encryptionFile()
	switch {
	case err == nil && b.madeKey:
		b.deps.Logger.Info("made a key for the store: keep a copy of it apart from the store, which cannot be read without it",
			"file", file)
		return
	case err == nil:
		return
	case b.madeKey:
		_ = os.Remove(file) // nothing is encrypted with the new key
	}
	b.failed <- b.withKeyFile(err)
	<-ctx.Done() // so that no store is opened
}
