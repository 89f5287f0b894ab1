package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/question"
)

// sharedSubject is the key of the record that the servers of a store share.
const sharedSubject = "$KV." + Bucket + ".credentials"

// entry is a key of the bucket; its revision is 0 where there is none.
type entry struct {
	content  []byte
	revision uint64
}

// Server returns the id of the server that has this directory. It is made once, and is not
// copied with other files of the server.
func (l *Ledger) Server() (id string, err error) {
	err = l.change(func(next *record) {
		if next.Server == "" {
			next.Server = rand.Text()
		}
		id = next.Server
	})
	return id, err
}

// Share calls merge with the record that the servers of the store share, nil where there is
// none, and writes what merge returns; nil: nothing. If another server writes it at the same
// time, merge is called again. Nothing is read or written of a store that is not the right one.
func (k *Keeper) Share(ctx context.Context, js jetstream.JetStream,
	merge func(record []byte) (next []byte, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := k.Guard(ctx, js); err != nil {
		return err
	}
	for range guardTries {
		found, err := question.Ask(ctx, func(ctx context.Context) (e entry, err error) {
			e.content, e.revision, err = read(ctx, js, sharedSubject)
			return e, err
		})
		if err != nil {
			return fmt.Errorf("reading what the servers of the store share: %w", err)
		}
		next, err := merge(found.content)
		if err != nil || next == nil {
			return err
		}
		if err := put(ctx, js, sharedSubject, next, found.revision); !errors.Is(err, errTaken) {
			return err
		}
	}
	return errTaken
}

// Forget removes the record that the servers of the store share. Servers that run write it
// again.
func (k *Keeper) Forget(ctx context.Context, js jetstream.JetStream) error {
	return k.Share(ctx, js, func(record []byte) ([]byte, error) {
		if len(record) == 0 {
			return nil, nil
		}
		return []byte{}, nil
	})
}
