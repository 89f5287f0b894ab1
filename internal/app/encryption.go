package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"glowplug/internal/credentials"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
)

const encryptionFlag = "encryption-provider-config"

// addEncryptionFlags declares the flags of the encryption of the store.
func addEncryptionFlags(fs *pflag.FlagSet, o *Options) {
	fs.StringVar(&o.EncryptionConfig, encryptionFlag, "", "YAML file with the keys that the store is encrypted with, "+
		"an EncryptionConfiguration as for kube-apiserver; read at the start (default: the store is not encrypted)")
	fs.BoolVar(&o.Encrypt, "encrypt", false, "encrypt the store with a key that the first start makes in "+
		encryption.OwnFile+" of --pki-dir; without that file nothing of the store can be read")
}

// checkEncryption checks the flags of the encryption.
func checkEncryption(s *settings) error {
	if s.EncryptionConfig == "" {
		return nil
	}
	if s.Encrypt {
		return bad("encrypt", "makes a key of its own: give it or --%s, not both", encryptionFlag)
	}
	if _, err := os.Stat(s.EncryptionConfig); err != nil {
		return bad(encryptionFlag, "%v", err)
	}
	return nil
}

// encryptionFile returns the file with the keys of the store; "": there is none.
func encryptionFile(s *settings) string {
	if s.Encrypt {
		return filepath.Join(cmp.Or(s.PKIDir, credentials.Folder(s.DataDir)), encryption.OwnFile)
	}
	return s.EncryptionConfig
}

// openKeys reads the keys of the store. The file that --encrypt makes may be missing yet.
func openKeys(a builder) error {
	file := encryptionFile(a.settings)
	if _, err := os.Stat(file); file == "" || a.settings.Encrypt && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return loadKeys(a, file)
}

// makeKey makes a key where --encrypt asks for one and there is none.
func makeKey(a builder) (err error) {
	file := encryptionFile(a.settings)
	if file == "" || a.keys != nil {
		return nil
	}
	if a.madeKey, err = encryption.Make(file); err != nil {
		return bad("encrypt", "%v", err)
	}
	return loadKeys(a, file)
}

func loadKeys(a builder, file string) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	a.onClose(cancel)
	if a.keys, err = encryption.Load(ctx, file, "glowplug"); err != nil {
		if a.settings.Encrypt {
			return bad("encrypt", "the key of the store cannot be read: put the copy of %s back: %v", file, err)
		}
		return bad(encryptionFlag, "%v", err)
	}
	var resources []schema.GroupResource
	for _, kind := range kinds.All() {
		resources = append(resources, kind.GroupResource())
	}
	for _, unknown := range a.keys.Unknown(resources) {
		a.log.Warn("the encryption configuration names a resource that the store does not have", "resource", unknown,
			"file", file)
	}
	return nil
}

// acceptKeys refuses an embedded store, which is not opened yet, if a bucket has values that cannot
// be decrypted. A KMS plugin that does not answer is asked again by checkKeys.
func acceptKeys(a *App) acceptance {
	return func(metadata func(bucket string) map[string]string) error {
		for _, kind := range kinds.All() {
			cipher := a.keys.Of(kind.GroupResource())
			err := kvstore.CheckKeys(context.Background(), objects.Stored(kind), cipher, metadata(objects.Bucket(kind)))
			if errors.As(err, new(*encryption.KeyError)) {
				return withKeyFile(a.settings, err)
			}
		}
		return nil
	}
}

// withKeyFile adds where the keys are from.
func withKeyFile(s *settings, err error) error {
	if file := encryptionFile(s); file != "" {
		return fmt.Errorf("%w. The keys are read from %s", err, file)
	}
	return err
}

// checkKeys makes the server stop if a bucket has values that cannot be decrypted. Nothing was
// written by then.
func checkKeys(ctx context.Context, a *App) {
	var checks errgroup.Group
	for _, store := range a.stores {
		checks.Go(func() error {
			if err := store.CheckKeys(ctx, a.backend.js); errors.As(err, new(*encryption.KeyError)) {
				return err
			}
			return nil // what cannot be asked now is asked again before the bucket is read
		})
	}
	err, file := checks.Wait(), encryptionFile(a.settings)
	switch {
	case err == nil && a.madeKey:
		a.log.Info("made a key for the store: keep a copy of it apart from the store, which cannot be read without it",
			"file", file)
		return
	case err == nil:
		return
	case a.madeKey:
		_ = os.Remove(file) // nothing is encrypted with the new key
	}
	a.failed <- withKeyFile(a.settings, err)
	<-ctx.Done() // so that no store is opened
}

// stopped returns the error of a part that cannot go on, or nil once ctx ends.
func stopped(ctx context.Context, a *App) error {
	select {
	case err := <-a.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// rewriteAll returns the function that writes values again that are not encrypted as new ones are.
func rewriteAll(stores map[string]*kvstore.Store) func(context.Context) (written, left int, err error) {
	return func(ctx context.Context) (written, left int, err error) {
		for _, store := range stores {
			w, l, err := store.Rewrite(ctx)
			written, left = written+w, left+l
			if err != nil {
				return written, left, err
			}
		}
		return written, left, nil
	}
}
