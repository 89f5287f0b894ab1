package bootlog

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/session"
)

const (
	fetchMessages = 500
	fetchBytes    = 32 << 20
)

// follow reads what the log has and, where others write into it, what comes.
func (l *Log) follow(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo) error {
	l.mu.Lock()
	from := l.taken + 1
	l.mu.Unlock()
	unread := info.State.Msgs > 0 && info.State.LastSeq >= from
	if !unread {
		if err := l.finish(info.State.LastSeq); err != nil {
			return err
		}
	}
	if unread || !l.opts.Exclusive {
		if err := l.consume(ctx, js, from, info.State.LastSeq, unread); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// consume applies the messages from a sequence on. With an exclusive log it returns
// after the last one: this process writes all later ones.
func (l *Log) consume(ctx context.Context, js jetstream.JetStream, from, last uint64, unread bool) error {
	consumer, err := session.Open(ctx, js, Stream, from, fetchMessages, fetchBytes)
	if err != nil {
		return err
	}
	defer consumer.Close()
	// What the consumer's server has is all that there is only where no other server
	// can be ahead of it, and where no other server trims.
	mayLag := !l.opts.Exclusive && l.stalls < session.MaxLags
	for {
		msg, meta, err := consumer.Next(unread, mayLag)
		var end bool
		switch {
		case errors.Is(err, session.ErrStalled) && mayLag:
			l.stalls++
			return err
		case errors.Is(err, session.ErrStalled): // what is left cannot be read
			end = true
		case err != nil:
			return err
		default:
			l.received(meta.Sequence.Stream, msg.Data(), msg.Subject() == l.subject)
			end = meta.Sequence.Stream >= last || meta.NumPending == 0 && !mayLag
		}
		if unread && end {
			unread = false
			if err := l.finish(last); err != nil {
				return err
			}
		}
		if !unread && l.opts.Exclusive {
			return nil
		}
	}
}

// received takes a message.
func (l *Log) received(sequence uint64, data []byte, own bool) {
	l.miss(sequence)
	h, records, err := readMessage(data)
	if err != nil {
		l.opts.Logger.Error("leaving out a message of the boot log", "sequence", sequence, "error", err)
		l.metrics.lost.Add(1)
	}
	l.take(sequence, h, records, own)
}

// take hands on a message that is in the log.
func (l *Log) take(sequence uint64, h header, records []Record, own bool) {
	l.mu.Lock()
	l.last, l.taken = max(l.last, sequence), sequence
	l.base, l.floor = max(l.base, h.base), max(l.floor, h.floor)
	l.keys.Reach(sequence)
	live := l.loaded
	l.mu.Unlock()
	for i := range records {
		records[i].Progress.Position = h.base + sequence
	}
	l.opts.Taken(Batch{Sequence: sequence, Own: own, Live: live, Records: records})
}

// miss notes the messages before a sequence that did not come. Those after the
// first of the log are at hand in order, since it is trimmed at its beginning only;
// which is the first of a log that others trim is not known.
func (l *Log) miss(sequence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (l.taken > 0 || l.opts.Exclusive) && sequence > l.taken+1 && !l.loaded {
		l.holes = append(l.holes, hole{l.taken + 1, sequence - 1})
	}
}

// setLoaded says that the log was read up to a sequence. What is missing of it and
// was still needed is lost.
func (l *Log) setLoaded(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = max(l.taken, last)
	l.loaded, l.down = true, nil
	lost := uint64(0)
	for _, h := range l.holes {
		if h.to > l.floor {
			lost += h.to - max(h.from-1, l.floor)
		}
	}
	if l.holes = nil; lost > 0 {
		l.metrics.lost.Add(float64(lost))
		l.opts.Logger.Error("messages of the boot log are missing: the state of machines that booted last may be older "+
			"than it was. "+
			"Look at hosts whose status.state is not Provisioned although they are, and set it", "messages", lost)
	}
}
