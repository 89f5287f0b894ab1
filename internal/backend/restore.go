package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/credentials"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/keyfile"
	"glowplug/internal/store/backup"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/objects"
)

// revisionGap is the distance of the resourceVersions of a restored kind from those of the backup and of the replaced
// store: more than were written since, so that a client which has seen such a revision learns that it is gone.
const revisionGap = 10_000_000

// Source is a backup that can be read more than once.
type Source struct {
	// File is its path, and Identity that of the keys of age; "": it is not encrypted.
	File, Identity string
}

// Read reads the backup and verifies it, see backup.Read.
func (s Source) Read(visit backup.Visitor) (backup.Manifest, error) {
	f, err := os.Open(s.File)
	if err != nil {
		return backup.Manifest{}, err
	}
	defer f.Close()
	plain, err := backup.Unseal(f, s.Identity)
	if err != nil {
		return backup.Manifest{}, err
	}
	m, err := backup.Read(plain, visit)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.File, err)
	}
	return m, err
}

// Verify reads all of the backup, and checks that each of its objects can be stored.
func (s Source) Verify() (backup.Manifest, error) {
	seen := map[string]bool{}
	return s.Read(backup.Visitor{
		Manifest: func(m backup.Manifest) error {
			for _, saved := range m.Kinds {
				if kinds.Of(saved.Resource) == nil {
					return fmt.Errorf("the backup has %s, of which this glowplug knows nothing: use glowplug %s or later",
						saved.Resource, m.Program)
				}
			}
			return nil
		},
		Record: func(resource string, r kvstore.Record) error {
			object := resource + "/" + r.Key
			if seen[object] {
				return errors.New("the backup has it twice")
			}
			seen[object] = true
			if err := kvstore.CheckKey(r.Key); err != nil {
				return err
			}
			return objects.CheckPortable(kinds.Of(resource), r.Key, r.Value)
		},
	})
}

// RestoreOptions say where a backup is restored to.
type RestoreOptions struct {
	Options
	Source Source
	// Replace allows that the store has objects: Save writes a backup of them before, and returns where it is.
	Replace bool
	Save    func(ctx context.Context, write func(io.Writer) error) (path string, err error)
	// Restoring is called after each object, and Warn with what is no error.
	Restoring func()
	Warn      func(message, remedy string)
}

// Restored is the result of a restore.
type Restored struct {
	Manifest backup.Manifest
	// Store is the identity of the restored store; Saved the backup of the former one, Kept the folder with its
	// files where there is no such backup; "": there is none.
	Store, Saved, Kept string
}

// Present counts the objects that a restore would replace. A new server makes the namespace default by itself.
func Present(s *ledger.Survey) (n int) {
	for _, b := range s.Buckets {
		switch kind := kindOf(b.Name); {
		case kind == nil || kind.Transient:
		case kind.Resource == kinds.Namespaces:
			n += max(b.Objects+b.Unreadable-1, 0)
		default:
			n += b.Objects + b.Unreadable
		}
	}
	return n
}

// Restore verifies a backup and puts its content into a store. If it is broken off, an embedded store is the former one
// or the restored one; one in an external NATS is not used by any server until Restore was called again.
func Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	manifest, err := o.Source.Verify()
	if err != nil {
		return nil, err
	}
	r := &restore{o: o, result: &Restored{Manifest: manifest}}
	run := r.embedded
	if o.NATSURL != "" {
		run = r.external
	}
	err = run(ctx)
	if given := keyfile.GiveTree(o.DataDir); err == nil {
		err = given
	}
	if err != nil {
		return nil, err
	}
	return r.result, nil
}

type restore struct {
	o      RestoreOptions
	result *Restored
	// reached are the revisions of the store that is replaced, by bucket, as far as they are known.
	reached map[string]uint64
}

// save writes a backup of the present store, if it has objects.
func (r *restore) save(ctx context.Context) error {
	opened, err := OpenStopped(ctx, &r.o.Options, Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer opened.Close()
	path, err := r.o.Save(ctx, func(w io.Writer) error {
		_, err := opened.Backup(ctx, w)
		return err
	})
	if err == nil {
		r.result.Saved = path
	}
	return err
}

// embedded builds a store beside the present one, and puts it in its place.
func (r *restore) embedded(ctx context.Context) error {
	o := r.o
	if ledger.Holds(o.DataDir) {
		if err := r.check(ctx); err != nil {
			return err
		}
	}
	building, err := ledger.Build(o.DataDir)
	if err != nil {
		return err
	}
	o.DataDir, o.PKIDir = building.Dir, cmp.Or(o.PKIDir, credentials.Folder(o.DataDir))
	err = r.into(ctx, &o.Options, func(*Backend) error { return nil })
	if err == nil {
		err = building.Replace(r.result.Kept)
	}
	return errors.Join(err, building.Close())
}

// into fills a store, which empty makes ready for that. The folder of the options is, or becomes, the data directory.
func (r *restore) into(ctx context.Context, o *Options, empty func(*Backend) error) error {
	b := newBackend(o, Deps{Logger: slog.New(slog.DiscardHandler)})
	defer b.Close()
	if err := r.openKeys(b); err != nil {
		return err
	}
	if err := b.open(ctx, toRestore); err != nil {
		return err
	}
	if err := empty(b); err != nil {
		return err
	}
	return r.fill(ctx, b, o.DataDir)
}

// openKeys reads the key of a store that is encrypted, or makes it.
func (r *restore) openKeys(b *Backend) error {
	err := errors.Join(b.openKeys(), b.makeKey())
	if err == nil && b.madeKey {
		r.o.Warn("made a key for the store in "+b.options.encryptionFile(),
			"keep a copy of it apart from the store, which cannot be read without it")
	}
	return err
}

// check refuses a store with objects, or saves it.
func (r *restore) check(ctx context.Context) error {
	survey, err := r.survey(ctx)
	switch {
	case errors.As(err, new(*ledger.LockedError)):
		return err
	case err != nil && !r.o.Replace:
		return fmt.Errorf("what is in %s cannot be looked at: %w (--replace keeps its files, and restores the backup)",
			r.o.DataDir, err)
	case err == nil && Present(survey) == 0:
		return nil
	case err == nil && !r.o.Replace:
		return r.refused(Present(survey))
	}
	switch err := r.save(ctx); {
	case errors.As(err, new(*ledger.LockedError)):
		return err
	case err != nil:
		r.result.Kept = "former-" + time.Now().UTC().Format("20060102T150405Z")
		r.o.Warn(fmt.Sprintf("there is no backup of the present store: %v", err),
			"its files are kept in "+filepath.Join(r.o.DataDir, r.result.Kept)+"; remove them once nothing in them is needed")
	}
	return nil
}

func (r *restore) refused(present int) error {
	return &ledger.Mismatch{
		Reason: fmt.Sprintf("the store has %d objects", present),
		Remedy: "--replace writes a backup of them and puts those of " + r.o.Source.File + " in their place; " +
			"--only RESOURCE/NAMESPACE/NAME restores single objects",
	}
}

func (r *restore) survey(ctx context.Context) (*ledger.Survey, error) {
	store, err := OpenStore(ctx, OperatorOptions{Options: r.o.Options, Look: true}, r.o.Warn)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	survey, err := store.Survey(ctx)
	r.note(survey)
	return survey, err
}

func (r *restore) note(survey *ledger.Survey) {
	if survey == nil {
		return
	}
	r.reached = map[string]uint64{}
	for _, b := range survey.Buckets {
		r.reached[b.Name] = max(b.Revision, b.Reached)
	}
}

// takeFile puts a file of a backup into the folder that becomes the data directory. The CA in a --pki-dir of its own,
// which other servers may have as well, stays.
func (r *restore) takeFile(name string, content []byte, dataDir string) error {
	path, ok := credentials.PathOfBackup(dataDir, r.o.PKIDir, name)
	if !ok {
		return nil
	}
	if r.o.PKIDir == "" || filepath.Dir(path) != filepath.Clean(r.o.PKIDir) {
		return credentials.WriteBackedUp(path, content)
	}
	present, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return credentials.WriteBackedUp(path, content)
	case err != nil:
		return err
	case string(present) != string(content):
		r.o.Warn(path+" differs from the backup, and stays",
			"tokens of the backup are refused with another CA: copy its CA there to have them accepted")
	}
	return nil
}

// external restores into NATS itself.
func (r *restore) external(ctx context.Context) error {
	store, err := OpenStore(ctx, OperatorOptions{Options: r.o.Options}, r.o.Warn)
	if err != nil {
		return err
	}
	survey, err := store.Survey(ctx)
	store.Close()
	if err != nil {
		return err
	}
	r.note(survey)
	if n := Present(survey); n > 0 && !survey.Unrestored() {
		if !r.o.Replace {
			return r.refused(n)
		}
		if err := r.save(ctx); err != nil {
			return fmt.Errorf("there is no backup of the present store: %w", err)
		}
	}
	return r.into(ctx, &r.o.Options, func(b *Backend) error {
		if err := b.keeper.BeginRestore(ctx, b.js); err != nil {
			return err
		}
		for _, stream := range streamsOfStore() {
			if err := b.js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				return fmt.Errorf("removing the former %s: %w", stream, err)
			}
		}
		return nil
	})
}

// streamsOfStore are the streams of all objects and of the history.
func streamsOfStore() (streams []string) {
	for _, kind := range kinds.All() {
		streams = append(streams, ledger.StreamOf(objects.Bucket(kind)))
	}
	return append(streams, boots.HistoryStream, boots.ContentStream)
}

// fill writes the content of the backup into the buckets, and gives the store an identity.
func (r *restore) fill(ctx context.Context, b *Backend, dataDir string) error {
	fillers := map[string]*kvstore.Filler{}
	_, err := r.o.Source.Read(backup.Visitor{
		Manifest: func(m backup.Manifest) (err error) {
			for _, saved := range m.Kinds {
				kind := kinds.Of(saved.Resource)
				opts := kvstore.Options{Replicas: b.replicas, Cipher: b.keys.Of(kind.GroupResource())}
				after := max(saved.Revision, r.reached[objects.Bucket(kind)]) + revisionGap
				fillers[kind.Resource], err = kvstore.Fill(ctx, b.js, objects.Stored(kind), opts, after)
				if err != nil {
					return err
				}
			}
			return nil
		},
		File: func(f backup.File) error { return r.takeFile(f.Name, f.Content, dataDir) },
		Record: func(resource string, record kvstore.Record) error {
			r.o.Restoring()
			return fillers[resource].Add(ctx, record)
		},
	})
	if err != nil {
		return err
	}
	for _, filler := range fillers {
		if err := filler.Close(ctx); err != nil {
			return err
		}
	}
	r.result.Store, err = b.keeper.EndRestore(ctx, b.js)
	return err
}

// Preview is what a restore would find.
type Preview struct {
	Manifest backup.Manifest
	// Present has the number of objects of the store, by resource.
	Present map[string]int
	// IsRefused is true where the restore needs Replace.
	IsRefused bool
}

// PreviewRestore verifies a backup, and counts what the store has of each resource.
func PreviewRestore(ctx context.Context, o RestoreOptions) (*Preview, error) {
	m, err := o.Source.Verify()
	if err != nil {
		return nil, err
	}
	p := &Preview{Manifest: m, Present: map[string]int{}}
	if o.NATSURL == "" && !ledger.Holds(o.DataDir) {
		return p, nil
	}
	survey, err := (&restore{o: o}).survey(ctx)
	if err != nil {
		return nil, err
	}
	p.IsRefused = Present(survey) > 0 && !survey.Unrestored() && !o.Replace
	for _, b := range survey.Buckets {
		if kind := kindOf(b.Name); kind != nil {
			p.Present[kind.Resource] = b.Objects
		}
	}
	return p, nil
}
