package backend

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/budget"
	"glowplug/internal/credentials"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/keyfile"
	"glowplug/internal/option"
	"glowplug/internal/store/backup"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/objects"
	"glowplug/internal/version"
)

// ID returns the identity of the store; "": it is not known yet.
func (b *Backend) ID() string { return b.ledger.ID() }

// Backup writes a backup of the store, as it is at one moment, with the credentials of the data directory. It is
// refused where the store has lost something: in the series of backups, one that lacks it would replace one that
// has it.
func (b *Backend) Backup(ctx context.Context, w io.Writer) (backup.Manifest, error) {
	saved := backedUp()
	var stores []*kvstore.Store
	for _, kind := range saved {
		store := b.Stores[kind.Resource]
		if lost := len(store.Lost()); lost > 0 || b.IsLost(kind.Resource) {
			return backup.Manifest{}, fmt.Errorf("there is no backup, since the store has lost %s: restore them from an earlier "+
				"backup with `glowplug restore --only`, or accept the loss", kind.Resource)
		}
		stores = append(stores, store)
	}
	files, err := credentials.BackedUp(b.options.DataDir, b.options.PKIDir)
	if err != nil {
		return backup.Manifest{}, err
	}
	views, settled, err := kvstore.Cut(ctx, stores)
	if err != nil {
		return backup.Manifest{}, err
	}
	m := backup.Manifest{
		Program: version.Version, Created: time.Now().UTC().Truncate(time.Second), Store: b.ledger.ID(), Settled: settled,
	}
	var sources []backup.Source
	for i, view := range views {
		kind := saved[i]
		m.Kinds = append(m.Kinds, backup.Kind{Resource: kind.Resource, Revision: view.Revision(), Objects: view.Len()})
		sources = append(sources, backup.Source{
			Kind: m.Kinds[i], Records: view.Records,
			Portable: func(value []byte) ([]byte, error) { return objects.Portable(kind, value) },
		})
	}
	var extra []backup.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		extra = append(extra, backup.File{Name: name, Content: files[name]})
	}
	return m, backup.Write(ctx, w, m, extra, sources, budget.NewPacer(ctx, b.deps.Asked).Pause)
}

// backedUp returns the kinds that a backup has, those first that others use: the reverse of kinds.All.
func backedUp() (saved []*kinds.Kind) {
	for _, kind := range slices.Backward(kinds.All()) {
		if !kind.Passing {
			saved = append(saved, kind)
		}
	}
	return saved
}

// OpenStopped opens the store of a server that does not run, and reads it. Its error is that of a start.
func OpenStopped(ctx context.Context, o *Options, deps Deps) (*Backend, error) {
	if o.NATSURL == "" && !ledger.Holds(o.DataDir) {
		return nil, option.Bad("data-dir", "%s has no store: name the data directory of the server", o.DataDir)
	}
	deps.Registerer, deps.KeepBoots, deps.MemoryLimit = prometheus.NewRegistry(), boots.Limits{}, math.MaxInt64
	b, err := Open(ctx, o, deps)
	if err != nil {
		return nil, err
	}
	// A store that root has read has files of root.
	b.closers = slices.Insert(b.closers, 0, func() { _ = keyfile.GiveTree(o.DataDir) })
	working, cancel := context.WithCancel(ctx)
	var running wait.Group
	for _, part := range b.storeParts(nil) {
		running.StartWithContext(working, part)
	}
	b.onClose(func() {
		cancel()
		running.Wait()
	})
	if err := awaitRead(ctx, b); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// awaitRead returns once all buckets were read, or with the reason why one is not.
func awaitRead(ctx context.Context, b *Backend) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := fmt.Errorf("the store was not read within %v", readTimeout)
	_ = wait.PollUntilContextCancel(ctx, storeRetry, true, func(context.Context) (bool, error) {
		select {
		case err = <-b.failed:
			return true, nil
		default:
		}
		for _, kind := range kinds.All() {
			if b.IsLost(kind.Resource) {
				continue
			}
			if unread := unread(b.Stores[kind.Resource]); unread != nil {
				err = unread
				return false, nil
			}
		}
		err = nil
		return true, nil
	})
	return err
}

// readTimeout bounds the time in which a store is read.
const readTimeout = 2 * time.Minute
