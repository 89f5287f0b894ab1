package bootlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/domain/model"
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
		if err := l.opts.Writable(); err != nil {
			return err
		}
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
		h.windows = h.windows || r.Progress.Window != nil
		if r.After > h.base+last {
			h.base = r.After - last
		}
	}
	message := appendHeader(l.message[:0], h)
	for n < len(records) && len(message) < maxMessage {
		message = appendRecord(message, h, &records[n])
		n++
	}
	l.message = message
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
	err := l.opts.Writable()
	if err == nil {
		err = l.recordFloor(upTo)
	}
	if err != nil {
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

// The first byte of every message is its version. Each record of the second one has the use of a
// provisioning window. A message without one is of the first version, which earlier releases read.
const (
	version       = 1
	windowVersion = 2
)

var errFormat = errors.New("the message is not one of the boot log, or is damaged")

// header precedes the records of a message.
type header struct {
	// base is what is added to the sequence of a message to make the position of
	// its records.
	base uint64
	// floor is the sequence up to which messages were no longer needed when this
	// one was written.
	floor uint64
	// windows is true where the records have the use of windows.
	windows bool
}

// appendHeader and appendRecord write a message, readMessage reads it.
func appendHeader(b []byte, h header) []byte {
	if h.windows {
		b = append(b, windowVersion)
	} else {
		b = append(b, version)
	}
	b = binary.AppendUvarint(b, h.base)
	return binary.AppendUvarint(b, h.floor)
}

func appendRecord(b []byte, h header, r *Record) []byte {
	p := &r.Progress
	for _, s := range [...]string{r.Host.Namespace, r.Host.Name, r.UID, p.State, p.Rearmed, r.Config.Namespace,
		r.Config.Name, r.Hash} {
		b = appendString(b, s)
	}
	for _, t := range [...]time.Time{p.Seen, p.Script, p.Boot} {
		b = appendTime(b, t)
	}
	b = binary.AppendVarint(b, p.Boots)
	b = binary.AppendUvarint(b, r.After)
	if h.windows {
		b = appendWindow(b, p.Window)
	}
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	nanoseconds := int64(0) // never
	if !t.IsZero() {
		nanoseconds = t.UnixNano()
	}
	return binary.AppendVarint(b, nanoseconds)
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendWindow writes the use of a window; nil is 0.
func appendWindow(b []byte, w *model.Window) []byte {
	if w == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	b = appendTime(appendTime(appendTime(b, w.Opened), w.Closed), w.Token)
	b = binary.AppendVarint(binary.AppendVarint(b, w.Fetches), w.Boot)
	b = appendAddr(b, w.First)
	b = binary.AppendUvarint(b, uint64(len(w.Clients)))
	for _, client := range w.Clients {
		b = appendAddr(b, client)
	}
	return b
}

// appendAddr writes an address as text; none is "".
func appendAddr(b []byte, addr netip.Addr) []byte {
	var room [64]byte
	text := addr.AppendTo(room[:0])
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func readMessage(data []byte) (header, []Record, error) {
	r := reader{data: data}
	if len(data) == 0 || data[0] != version && data[0] != windowVersion {
		return header{}, nil, errFormat
	}
	r.data = data[1:]
	h := header{base: r.uvarint(), floor: r.uvarint(), windows: data[0] == windowVersion}
	var records []Record
	for len(r.data) > 0 && !r.bad {
		record := r.record()
		if h.windows {
			record.Progress.Window = r.window()
		}
		records = append(records, record)
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
	p.State = model.StateOf(p.State)
	for _, t := range [...]*time.Time{&p.Seen, &p.Script, &p.Boot} {
		*t = r.time()
	}
	p.Boots = r.varint()
	rec.After = r.uvarint()
	return rec
}

func (r *reader) window() *model.Window {
	if r.uvarint() == 0 {
		return nil
	}
	w := &model.Window{Opened: r.time(), Closed: r.time(), Token: r.time(), Fetches: r.varint(), Boot: r.varint()}
	w.First, _ = netip.ParseAddr(r.str()) // "" is none
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		if client, err := netip.ParseAddr(r.str()); err == nil {
			w.Clients = append(w.Clients, client)
		}
	}
	return w
}

// time returns a time; 0 is zero.
func (r *reader) time() time.Time {
	if nanoseconds := r.varint(); nanoseconds != 0 {
		return time.Unix(0, nanoseconds).UTC()
	}
	return time.Time{}
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
