package bootlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/session"
	"glowplug/internal/store/snapshot"
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

// publish writes one message with as many records as fit, and returns their number.
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

// version is the first byte of every message.
const version = 1

var errFormat = errors.New("the message is not one of the boot log, or is damaged")

// header precedes the records of a message.
type header struct {
	// base is what is added to the sequence of a message to make the position of
	// its records.
	base uint64
	// floor is the sequence up to which messages were no longer needed when this
	// one was written.
	floor uint64
}

// appendHeader and appendRecord write a message, readMessage reads it.
func appendHeader(b []byte, h header) []byte {
	b = append(b, version)
	b = binary.AppendUvarint(b, h.base)
	return binary.AppendUvarint(b, h.floor)
}

func appendRecord(b []byte, r *Record) []byte {
	p := &r.Progress
	for _, s := range [...]string{r.Host.Namespace, r.Host.Name, r.UID, p.State, p.Rearmed, r.Config.Namespace,
		r.Config.Name, r.Hash} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, t := range [...]time.Time{p.Seen, p.Script, p.Boot} {
		nanoseconds := int64(0) // never
		if !t.IsZero() {
			nanoseconds = t.UnixNano()
		}
		b = binary.AppendVarint(b, nanoseconds)
	}
	b = binary.AppendVarint(b, p.Boots)
	return binary.AppendUvarint(b, r.After)
}

func readMessage(data []byte) (header, []Record, error) {
	r := reader{data: data}
	if len(data) == 0 || data[0] != version {
		return header{}, nil, errFormat
	}
	r.data = data[1:]
	h := header{base: r.uvarint(), floor: r.uvarint()}
	var records []Record
	for len(r.data) > 0 && !r.bad {
		records = append(records, r.record())
	}
	if r.bad {
		return header{}, nil, errFormat
	}
	return h, records, nil
}

// reader reads the parts of a message. After the first that is not there it is bad.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) record() (rec Record) {
	p := &rec.Progress
	for _, s := range [...]*string{
		&rec.Host.Namespace, &rec.Host.Name, &rec.UID, &p.State, &p.Rearmed, &rec.Config.Namespace, &rec.Config.Name,
		&rec.Hash,
	} {
		*s = r.str()
	}
	p.State = snapshot.StateOf(p.State)
	for _, t := range [...]*time.Time{&p.Seen, &p.Script, &p.Boot} {
		if nanoseconds := r.varint(); nanoseconds != 0 {
			*t = time.Unix(0, nanoseconds).UTC()
		}
	}
	p.Boots = r.varint()
	rec.After = r.uvarint()
	return rec
}

func (r *reader) str() string {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.data)) {
		r.bad = true
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.data)
	r.skip(n)
	return v
}

// skip goes on behind a number of n bytes.
func (r *reader) skip(n int) {
	if n <= 0 {
		r.bad, r.data = true, nil
		return
	}
	r.data = r.data[n:]
}
