package bootlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/session"
)

const (
	// maxMessage bounds a message, in bytes, but for its last record.
	maxMessage = 256 << 10
	// usualRecord is about the size of a record, in bytes.
	usualRecord = 256
	// publishTimeout bounds the write of one message.
	publishTimeout = 2500 * time.Millisecond
	// trimTimeout bounds the removal of old ones.
	trimTimeout = 10 * time.Second
)

// Append writes records, which are the log's from then on. When it returns nil they
// are durable, and with an exclusive log Taken has them. After an error some of them
// may be in the log.
func (l *Log) Append(ctx context.Context, records []Record) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	for len(records) > 0 {
		if l.opts.Room != nil {
			if err := l.opts.Room(min(maxMessage, len(records)*usualRecord)); err != nil {
				return err
			}
		}
		n, err := l.publish(ctx, records)
		if err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// publish writes one message of as many records as go into it, and tells how many
// these are.
func (l *Log) publish(ctx context.Context, records []Record) (n int, err error) {
	l.mu.Lock()
	js, down, last := l.js, l.down, l.last
	// A position is above all that is known of the host: its status may tell of
	// another log, or of this one before an older backup of it was restored.
	h := header{base: l.base, floor: l.floor}
	l.mu.Unlock()
	switch {
	case down != nil:
		return 0, down
	case !js.Conn().IsConnected():
		return 0, session.ErrAway
	}
	for _, r := range records {
		if r.After > h.base+last {
			h.base = r.After - last
		}
	}
	message := appendHeader(nil, h)
	for n < len(records) && len(message) < maxMessage {
		message = appendRecord(message, &records[n])
		n++
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	ack, err := js.Publish(ctx, l.subject, message, jetstream.WithExpectStream(Stream), jetstream.WithRetryAttempts(0))
	l.metrics.wrote(n, err, time.Since(began))
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return 0, fmt.Errorf("the boot log does not answer: %w", err)
	case err != nil:
		return 0, fmt.Errorf("writing the boot log: %w", err)
	case ack.Sequence <= last && l.opts.Exclusive:
		return 0, errReplaced
	}
	if l.opts.Exclusive {
		l.take(ack.Sequence, h, records[:n:n], true)
	} else {
		l.mu.Lock()
		l.base, l.last = max(l.base, h.base), max(l.last, ack.Sequence)
		l.mu.Unlock()
		l.keys.Reach(ack.Sequence)
	}
	return n, nil
}

// Trim removes the messages up to a sequence: everything that they say is in the
// status of hosts.
func (l *Log) Trim(ctx context.Context, upTo uint64) error {
	l.mu.Lock()
	js, down := l.js, l.down
	if down == nil {
		upTo = min(upTo, l.taken)
		l.floor = max(l.floor, upTo)
	}
	l.mu.Unlock()
	if down != nil {
		return down
	}
	if err := l.recordFloor(upTo); err != nil {
		return fmt.Errorf("trimming the boot log: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, Stream)
	if err == nil && stream.CachedInfo().State.FirstSeq <= upTo {
		err = stream.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
	}
	if err != nil {
		return fmt.Errorf("trimming the boot log: %w", err)
	}
	return nil
}
