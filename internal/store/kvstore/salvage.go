package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A record whose bits have flipped on the disk is gone: the server answers "not
// found" for its key, says that it is healthy, and a consumer that comes upon it
// waits for ever. The server still lists the key, and that names the object.

// salvage completes a load that has stalled: it reads every key that the server
// lists and the consumer did not deliver, one by one.
func (l *loading) salvage(ctx context.Context, stream jetstream.Stream) error {
	l.opts.Logger.Warn("the bucket's next message does not come: reading the rest key by key", "read", l.tree.Len())
	infoCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := stream.Info(infoCtx, jetstream.WithSubjectFilter(l.subjectPrefix+">"))
	if err != nil {
		return fmt.Errorf("listing the bucket's keys: %w", err)
	}
	for subject := range info.State.Subjects {
		key, err := decodeKey(strings.TrimPrefix(subject, l.subjectPrefix))
		if _, seen := l.last[key]; err != nil || seen {
			continue
		}
		c, err := l.salvageKey(ctx, stream, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			l.bad[key], l.unreadable[key] = true, true
			l.opts.Logger.Error("a stored object cannot be read any more: its record is damaged. Apply it again, or restore "+
				"it from a backup",
				"object", l.kind.Resource+"/"+key)
		case err != nil:
			return fmt.Errorf("reading the bucket: %w", err)
		default:
			l.add(c)
		}
	}
	l.rev = max(l.rev, info.State.LastSeq)
	return nil
}

func (l *loading) salvageKey(ctx context.Context, stream jetstream.Stream, subject string) (change, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return change{}, err
	}
	return l.readChange(raw.Subject, nats.Header(raw.Header), raw.Data, raw.Sequence)
}
