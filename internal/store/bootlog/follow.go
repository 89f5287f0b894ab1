package bootlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"glowplug/internal/store/question"
)

const (
	fetchMessages = 500
	fetchBytes    = 32 << 20
	heartbeat     = 2 * time.Second
	// stallTimeout is how long a message that is there may take to come. After that
	// it cannot be read.
	stallTimeout = 3 * time.Second
	// lagTimeout is the same for the first maxLags consumers of a log that others
	// write as well: one that lives on a server which is behind brings nothing, and
	// the next may live on another.
	lagTimeout = 400 * time.Millisecond
	maxLags    = 8
)

var (
	errGap    = errors.New("a message of the boot log was missed")
	errBehind = errors.New("the newest messages of the boot log did not come; asking again")
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
	// With a name of our own, a repeated request finds the consumer that the first has made.
	name := nuid.Next()
	messages, err := openMessages(ctx, js, name, from)
	if err != nil {
		return fmt.Errorf("reading the boot log: %w", err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer func() {
		stop()
		messages.Stop()
		if js.Conn().IsConnected() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = js.DeleteConsumer(ctx, Stream, name)
		}
	}()
	// What the consumer's server has is all that there is only where no other server
	// can be ahead of it, and where nobody else trims.
	mayLag, stall := !l.opts.Exclusive && l.stalls < maxLags, stallTimeout
	if mayLag {
		stall = lagTimeout
	}
	for delivered := uint64(1); ; delivered++ {
		var opts []jetstream.NextOpt
		if unread {
			opts = []jetstream.NextOpt{jetstream.NextMaxWait(stall)}
		}
		msg, err := messages.Next(opts...)
		switch {
		case errors.Is(err, nats.ErrTimeout) && mayLag:
			l.stalls++
			return errBehind
		case errors.Is(err, nats.ErrTimeout): // what is left cannot be read
			unread = false
			if err := l.finish(last); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("reading the boot log: %w", err)
		default:
			end, err := l.receive(msg, delivered, last, !mayLag)
			if err != nil {
				return err
			}
			if unread && end {
				unread = false
				if err := l.finish(last); err != nil {
					return err
				}
			}
		}
		if !unread && l.opts.Exclusive {
			return nil
		}
	}
}

// openMessages makes an ephemeral consumer of the messages from a sequence on.
func openMessages(
	ctx context.Context, js jetstream.JetStream, name string, from uint64,
) (jetstream.MessagesContext, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	consumer, err := question.Ask(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		consumer, err := js.CreateConsumer(ctx, Stream, jetstream.ConsumerConfig{
			Name:      name,
			AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
			InactiveThreshold: time.Minute, MemoryStorage: true, Replicas: 1,
		})
		if errors.Is(err, jetstream.ErrConsumerExists) {
			return js.Consumer(ctx, Stream, name)
		}
		return consumer, err
	})
	if err != nil {
		return nil, err
	}
	return consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(fetchMessages, fetchBytes),
		jetstream.PullHeartbeat(heartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
}

// receive applies the message that was delivered as the n-th. It reports whether it was
// the last one of the log: it has the sequence last, or the consumer has no more, which
// counts where its server has all messages (current).
func (l *Log) receive(msg jetstream.Msg, n, last uint64, current bool) (end bool, err error) {
	meta, err := msg.Metadata()
	if err != nil {
		return false, fmt.Errorf("reading the boot log: %w", err)
	}
	if meta.Sequence.Consumer != n {
		return false, errGap
	}
	l.received(meta.Sequence.Stream, msg.Data(), msg.Subject() == l.subject)
	return meta.Sequence.Stream >= last || meta.NumPending == 0 && current, nil
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
