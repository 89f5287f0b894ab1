package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/replicas"
)

// A backup is restored into an embedded store beside the present one: it is built in the folder restoring of the data
// directory, and renamed to restored once all of it is on the disk. Then it takes the place of the present one. Where
// that is broken off, whoever opens the directory next goes on with it. So a directory has the former store or the
// restored one, whenever the power goes.
const (
	buildingDir = "restoring"
	builtDir    = "restored"
	// replacedFile is in builtDir where the former store is kept: its content is the name of the folder for it.
	replacedFile = "keep-former-in"
)

// storeParts are what makes a store in a data directory, in the order in which they are replaced.
var storeParts = []string{"nats", keyDir, recordFile}

// Building is a store that takes the place of that in a data directory. Until Close nobody else has the directory: two
// that build there at once would put a mixture in its place.
type Building struct {
	// Dir is the folder in which it is built.
	Dir    string
	parent string
	lock   *lock
}

// Build begins to build a store. What an earlier attempt has left there is removed. The error of a directory that
// somebody else holds is a *LockedError.
func Build(dir string) (*Building, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	b := &Building{Dir: filepath.Join(dir, buildingDir), parent: dir, lock: lock}
	if err = os.RemoveAll(b.Dir); err == nil {
		err = os.Mkdir(b.Dir, 0o700)
	}
	if err != nil {
		lock.unlock()
		return nil, err
	}
	return b, nil
}

// Close removes what was built and is not in its place, and lets others have the directory.
func (b *Building) Close() error {
	defer b.lock.unlock()
	return os.RemoveAll(b.Dir)
}

// Replace puts the store that was built, with the files beside it, in the place of that in the data directory, durably.
// The former store is moved into a folder of the directory, or removed where keep is "".
func (b *Building) Replace(keep string) error {
	dir, building := b.parent, b.Dir
	if keep != "" {
		if err := os.WriteFile(filepath.Join(building, replacedFile), []byte(keep), 0o600); err != nil {
			return err
		}
	}
	// A part that the new store does not have yet takes the place of the former one as well.
	if err := os.MkdirAll(filepath.Join(building, keyDir), 0o700); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(building, "store.lock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncTree(building); err != nil {
		return err
	}
	if err := os.Rename(building, filepath.Join(dir, builtDir)); err != nil {
		return err
	}
	if err := SyncDir(dir); err != nil {
		return err
	}
	return finishReplace(dir)
}

// finishReplace goes on with a Replace, from whatever step it has reached. The caller has the lock.
func finishReplace(dir string) error {
	built := filepath.Join(dir, builtDir)
	if _, err := os.Stat(built); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	keep, err := os.ReadFile(filepath.Join(built, replacedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, part := range storeParts {
		if err := replacePart(dir, built, part, string(keep)); err != nil {
			return fmt.Errorf("the restored store cannot take the place of the former one: %w", err)
		}
	}
	if err := takeFiles(built, dir); err != nil {
		return fmt.Errorf("the restored files cannot take their place: %w", err)
	}
	if err := os.RemoveAll(built); err != nil {
		return err
	}
	return SyncDir(dir)
}

// replacePart moves a part into its place, unless an earlier attempt has done so.
func replacePart(dir, built, part, keep string) error {
	from, to := filepath.Join(built, part), filepath.Join(dir, part)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	former := os.RemoveAll
	if keep != "" {
		former = func(path string) error {
			if err := os.MkdirAll(filepath.Join(dir, keep), 0o700); err != nil {
				return err
			}
			err := os.Rename(path, filepath.Join(dir, keep, part))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
	}
	if err := former(to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(dir)
}

// takeFiles moves the other files, such as the CA, into their places.
func takeFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == replacedFile {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.Rename(path, target); err != nil {
			return err
		}
		return SyncDir(filepath.Dir(target))
	})
}

// syncTree waits until all files and folders below a path are on the disk.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		return SyncDir(path) // a file as well
	})
}

// restoringSubject is the key that a store in an external NATS has while a backup is restored into it.
const restoringSubject = "$KV." + Bucket + ".restoring"

// unrestored is why a store with that key is refused.
func unrestored(since string) *Mismatch {
	return &Mismatch{
		Reason: "a backup is being restored into this store since " + since + ", or that was broken off: it is not whole",
		Remedy: "wait for the end of `glowplug restore`, or run it again",
	}
}

// BeginRestore marks the store in an external NATS: until EndRestore no server follows it.
func (k *Keeper) BeginRestore(ctx context.Context, js jetstream.JetStream) error {
	_, revision, err := read(ctx, js, restoringSubject)
	if err != nil {
		return err
	}
	if _, err := replicas.Create(ctx, js, identityConfig(), k.wanted()); err != nil {
		return fmt.Errorf("making the bucket %s: %w", Bucket, err)
	}
	return put(ctx, js, restoringSubject, []byte(time.Now().UTC().Format(time.RFC3339)), revision)
}

// EndRestore takes what is stored now for the whole store, and gives it an identity of its own, which it returns.
func (k *Keeper) EndRestore(ctx context.Context, js jetstream.JetStream) (id string, err error) {
	_, seen, err := k.look(ctx, js)
	if err != nil {
		return "", err
	}
	for name, f := range seen.buckets {
		if f.unknown {
			return "", fmt.Errorf("bucket %s does not answer", name)
		}
	}
	id, err = k.acceptSurvey(ctx, js, &Survey{seen: seen, place: k.ledger.place})
	if err != nil || k.ledger.place == Embedded {
		return id, err
	}
	_, revision, err := read(ctx, js, restoringSubject)
	if err != nil {
		return "", err
	}
	return id, put(ctx, js, restoringSubject, nil, revision)
}
