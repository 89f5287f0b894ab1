package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is a message of a stream. Its data and headers must not be kept.
type Message struct {
	Subject  string
	Header   nats.Header
	Data     []byte
	Sequence uint64
}

// ReadAll calls each with the messages that a stream has at the call, in their order. A record that NATS cannot read is
// left out: unreadable is how many are missing of those that NATS counts.
func ReadAll(ctx context.Context, js jetstream.JetStream, stream string, each func(Message) error) (unreadable uint64,
	err error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("opening the stream %s: %w", stream, err)
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return 0, nil
	}
	c, err := Open(ctx, js, stream, state.FirstSeq, readMessages, readBytes)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	read, next := uint64(0), state.FirstSeq
	for outstanding := c.Pending; outstanding > 0 && next <= state.LastSeq; {
		msg, meta, err := c.Next(true, false)
		if errors.Is(err, ErrStalled) {
			break
		}
		if err != nil {
			return 0, err
		}
		outstanding, next = meta.NumPending, meta.Sequence.Stream+1
		if read++; meta.Sequence.Stream > state.LastSeq {
			break // it is newer than the call
		}
		if err := each(Message{msg.Subject(), msg.Headers(), msg.Data(), meta.Sequence.Stream}); err != nil {
			return 0, err
		}
		if outstanding == 0 {
			return 0, nil
		}
	}
	// A consumer waits for ever at a damaged record: the rest is read one by one.
	for ; next <= state.LastSeq; next++ {
		raw, err := s.GetMsg(ctx, next)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reading the stream %s: %w", stream, err)
		}
		read++
		if err := each(Message{raw.Subject, raw.Header, raw.Data, raw.Sequence}); err != nil {
			return 0, err
		}
	}
	now, err := s.Info(ctx)
	if err != nil || now.State.LastSeq != state.LastSeq || now.State.Msgs < read {
		return 0, err // it has changed meanwhile: the counts say nothing
	}
	return now.State.Msgs - read, nil
}

// readMessages and readBytes bound what ReadAll has in memory. One message may be larger than 8 MiB.
const readMessages, readBytes = 500, 32 << 20
