package boots

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/question"
	"glowplug/internal/store/session"
)

const (
	// maxScan is how many messages one call reads at most.
	maxScan = 20_000
	// maxWindow is how many messages are in memory at the same time.
	maxWindow = 2000
	// minWidth is of how many sequences a part is at least.
	minWidth = 64
	// maxFetch is how many messages NATS is asked for at the same time.
	maxFetch = 500
	// readings is how often a part is read again, if messages are removed at the same time.
	readings = 10
	// scanTime is how long a call goes on to read, and scanTimeout how long it waits for NATS.
	scanTime    = 2 * time.Second
	scanTimeout = 10 * time.Second
)

// Get returns a boot that was superseded. The error is a 404 if the history does not have it.
func (h *History) Get(ctx context.Context, namespace, name string) (*v1.Boot, error) {
	host, number, ok := splitName(name)
	if !ok || namespace == "" {
		return nil, apierrors.NewNotFound(kinds.Of(kinds.Boots).GroupResource(), name)
	}
	var found *v1.Boot
	var failure error
	for next := uint64(0); ; {
		var err error
		next, err = h.scan(ctx, subject(namespace, host), next, math.MaxInt, func(m session.Message) bool {
			if numberOf(m.Header) == number {
				found, failure = h.decode(ctx, m)
			}
			return numberOf(m.Header) > number
		})
		switch {
		case err != nil || failure != nil:
			return nil, errors.Join(err, failure)
		case found != nil:
			return found, nil
		case next == 0:
			return nil, apierrors.NewNotFound(kinds.Of(kinds.Boots).GroupResource(), name)
		}
	}
}

// page calls each with boots, the newest first, and the sizes of their messages, until it returns false: those of a
// host, or of all hosts with host "", or of all namespaces with namespace "". It begins with the newest one, or goes on
// where another page has ended. next is where the next page goes on; 0: there is none. A page may have fewer boots than
// usual, or none, although there are more. A boot that cannot be read is left out.
func (h *History) page(ctx context.Context, namespace, host string, before uint64, usual int,
	each func(*v1.Boot, int) bool) (next uint64, err error) {
	if host != "" {
		usual = math.MaxInt // a host has few messages, and they are far apart
	}
	var unread int
	var unreadErr error
	next, err = h.scan(ctx, subject(namespace, host), before, usual, func(m session.Message) bool {
		boot, err := h.decode(ctx, m)
		if err != nil {
			unread, unreadErr = unread+1, err
			return true
		}
		return each(boot, len(m.Data))
	})
	if unread > 0 {
		h.opts.Logger.Warn("boots of the history cannot be read", "boots", unread, "error", unreadErr)
	}
	return next, err
}

// Purge removes the boots of a host, or of all hosts with host "".
func (h *History) Purge(ctx context.Context, namespace, host string) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	_, stream, err := h.use()
	if err == nil {
		err = h.opts.Writable()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	clear(h.known)
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject(namespace, host))); err != nil {
		return h.noticed(fmt.Errorf("removing boots from the history: %w", err))
	}
	return nil
}

// end returns the position after the newest message.
func (h *History) end(ctx context.Context) (uint64, error) {
	info, err := h.info(ctx)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq + 1, nil
}

func (h *History) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	_, stream, err := h.use()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := question.Ask(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) { return stream.Info(ctx) })
	if err != nil {
		return nil, h.noticed(fmt.Errorf("reading the history of boots: %w", err))
	}
	return info, nil
}

// scan calls each with the messages of a subject before a sequence, the newest first, until it returns false, or
// maxScan were read, or scanTime has passed. before 0 is the end. next is where to go on; 0: there are no more. NATS
// reads forward only, so parts of the stream are read and reversed: of as many sequences as the caller usually needs,
// and of more where few of them have messages of the subject.
func (h *History) scan(ctx context.Context, subject string, before uint64, usual int, each func(session.Message) bool) (
	next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	info, err := h.info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return 0, err
	}
	first, end := max(info.State.FirstSeq, 1), info.State.LastSeq+1
	if before > 0 {
		end = min(end, before)
	}
	width := uint64(max(usual, minWidth))
	began, tries := time.Now(), 0
	for scanned := 0; end > first && scanned < maxScan && time.Since(began) < scanTime; {
		width = min(width, end-first)
		from := end - width
		messages, err := h.window(ctx, subject, from, end)
		switch {
		case errors.Is(err, errTooMany):
			width = max(width/8, maxWindow)
			continue
		case errors.Is(err, errIncomplete) && tries < readings:
			tries++
			continue
		case err != nil:
			return 0, h.noticed(fmt.Errorf("reading the history of boots: %w", err))
		}
		for i := len(messages) - 1; i >= 0; i-- {
			if !each(messages[i]) {
				return messages[i].Sequence, nil
			}
		}
		scanned += len(messages)
		if uint64(len(messages)) <= width/4 {
			width *= 4
		}
		end, tries = from, 0
	}
	if end <= first {
		return 0, nil
	}
	return end, nil
}

var (
	// errTooMany is the error of a part with more than maxWindow messages.
	errTooMany = errors.New("too many messages")
	// errIncomplete is the error of a part of which not all messages came: some are removed at the same time.
	errIncomplete = errors.New("NATS did not send all messages that it has; try again")
)

// window returns the messages of a subject from a sequence to another one, in their order.
func (h *History) window(ctx context.Context, subject string, from, to uint64) (messages []session.Message, err error) {
	_, stream, err := h.use()
	if err != nil {
		return nil, err
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name: nuid.Next(), AckPolicy: jetstream.AckNonePolicy, FilterSubject: subject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		InactiveThreshold: scanTimeout, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) }() // or it ends by itself
	for left := consumer.CachedInfo().NumPending; left > 0; {
		fetched, err := consumer.FetchNoWait(int(min(left, to-from, maxFetch)))
		if err != nil {
			return nil, err
		}
		last := uint64(0)
		for msg := range fetched.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return nil, err
			}
			if last, left = meta.Sequence.Stream, meta.NumPending; last < to {
				messages = append(messages, session.Message{
					Subject: msg.Subject(), Header: msg.Headers(), Data: msg.Data(), Sequence: last,
				})
			}
		}
		switch err := fetched.Error(); {
		case err != nil:
			return nil, err
		case last == 0:
			return nil, errIncomplete
		case last+1 >= to:
			return messages, nil
		case len(messages) > maxWindow:
			return nil, errTooMany
		}
	}
	return messages, nil
}

// decode returns the boot of a message.
func (h *History) decode(ctx context.Context, m session.Message) (*v1.Boot, error) {
	namespace, host, err := splitSubject(m.Subject)
	if err != nil {
		return nil, err
	}
	name := namespace + "/" + host + "." + strconv.FormatInt(numberOf(m.Header), 10)
	value, _, err := h.opts.Cipher.Decrypt(ctx, name, m.Data)
	if err != nil {
		return nil, err
	}
	if newer, err := h.kind.Upgrade(value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	} else if newer != nil {
		value = newer
	}
	boot := &v1.Boot{}
	return boot, h.kind.Codec.Decode(value, boot)
}
