package bootlog

import (
	"encoding/binary"
	"errors"
	"time"

	"glowplug/internal/store/snapshot"
)

// version is the first byte of every message.
const version = 1

var errFormat = errors.New("the message is not one of the boot log, or is damaged")

// header is what stands before the records of a message.
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
