package ledger

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/question"
)

// leaderSubjects begins the keys of the records which server leads some work. The name of the work follows.
const leaderSubjects = "$KV." + Bucket + ".leader."

// Leaders are the records which server of the store leads some work, each with the name of the work.
type Leaders struct {
	keeper *Keeper
	js     jetstream.JetStream
}

// Leaders returns the records in a store.
func (k *Keeper) Leaders(js jetstream.JetStream) *Leaders { return &Leaders{k, js} }

// Read returns a record and its revision; 0: there is none.
func (l *Leaders) Read(ctx context.Context, name string) (content []byte, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := question.Ask(ctx, func(ctx context.Context) (e entry, err error) {
		e.content, e.revision, err = read(ctx, l.js, leaderSubjects+name)
		return e, err
	})
	return found.content, found.revision, err
}

// Take writes a record that still has the revision expect; 0: there is none. It returns its new revision; 0: somebody
// else wrote it first. Nothing is written into a store that is not the right one.
func (l *Leaders) Take(ctx context.Context, name string, content []byte, expect uint64) (revision uint64, err error) {
	if err := l.keeper.Guard(ctx, l.js); err != nil {
		return 0, err
	}
	return l.Renew(ctx, name, content, expect)
}

// Renew is Take of a record that this server has written last. It does not look at the store: no other one has the
// record at this revision.
func (l *Leaders) Renew(ctx context.Context, name string, content []byte, expect uint64) (revision uint64, err error) {
	revision, err = publish(ctx, l.js, leaderSubjects+name, content, expect)
	if errors.Is(err, errTaken) {
		return 0, nil
	}
	return revision, err
}
