package kvstore

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Every message of ours carries one header line,
//
//	Glowplug: sum=1c291ca3;uid=7f0c…;write=qK…;prev=42;expires=1735689600000
//
// with a checksum of the value (CRC-32C, hex), the object's UID, the id of the
// write, the revision of the message that it replaces (0: none), and for an object
// that expires the time in milliseconds since 1970. All members are optional:
// values that another program has put have none.
const (
	metaHeader   = "Glowplug"
	kvOperation  = "KV-Operation"
	markerReason = "Nats-Marker-Reason"
)

type messageMeta struct {
	sum     uint32
	hasSum  bool
	uid     string
	write   string
	prev    uint64 // the revision that it replaced, if hasPrev
	hasPrev bool
	expires time.Time
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }

func (m messageMeta) String() string {
	var members []string
	add := func(format string, value any) { members = append(members, fmt.Sprintf(format, value)) }
	if m.hasSum {
		add("sum=%08x", m.sum)
	}
	if m.uid != "" && !strings.ContainsAny(m.uid, ";\r\n") {
		add("uid=%s", m.uid)
	}
	if m.write != "" {
		add("write=%s", m.write)
	}
	if m.hasPrev {
		add("prev=%d", m.prev)
	}
	if !m.expires.IsZero() {
		add("expires=%d", m.expires.UnixMilli())
	}
	return strings.Join(members, ";")
}

// parseMeta reads the known members. A sum that cannot be read counts as one that does
// not agree.
func parseMeta(header string) messageMeta {
	var m messageMeta
	for header != "" {
		var member string
		member, header, _ = strings.Cut(header, ";")
		name, value, _ := strings.Cut(member, "=")
		switch name {
		case "sum":
			sum, err := strconv.ParseUint(value, 16, 32)
			m.sum, m.hasSum = uint32(sum), true
			if err != nil {
				m.sum = ^m.sum
			}
		case "uid":
			m.uid = value
		case "write":
			m.write = value
		case "prev":
			prev, err := strconv.ParseUint(value, 10, 64)
			m.prev, m.hasPrev = prev, err == nil
		case "expires":
			if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
				m.expires = time.UnixMilli(ms)
			}
		}
	}
	return m
}

// entry is one value of the mirror.
type entry struct {
	Item
	uid     string
	expires time.Time // zero: never
}

// change is what a message does to its key: it puts an entry or, with none,
// ends the key.
type change struct {
	messageMeta
	key     string
	rev     uint64
	put     *entry
	corrupt bool // the value does not agree with its checksum; put is nil
	skip    bool // the message is none of ours; only rev counts
}

// readChange interprets a message of the bucket. The value is copied out of the
// buffer that it shares with its headers.
func (b *bucket) readChange(subject string, header nats.Header, data []byte, seq uint64) (change, error) {
	key, err := decodeKey(strings.TrimPrefix(subject, b.subjectPrefix))
	if err != nil {
		return change{}, err
	}
	meta := parseMeta(header.Get(metaHeader))
	c := change{messageMeta: meta, key: key, rev: seq}
	if op := header.Get(kvOperation); op == "DEL" || op == "PURGE" || header.Get(markerReason) != "" {
		return c, nil
	}
	if meta.hasSum && meta.sum != checksum(data) {
		c.corrupt = true
		return c, nil
	}
	c.put = &entry{
		Item:    Item{Key: key, Revision: seq, Value: bytes.Clone(data), Foreign: meta.write == ""},
		uid:     strings.Clone(meta.uid), // a substring would keep the whole header in memory
		expires: meta.expires,
	}
	return c, nil
}

// message builds the message of a write, and the write's id.
func (b *bucket) message(w write) (msg *nats.Msg, id string, err error) {
	subject, err := b.subject(w.key)
	if err != nil {
		return nil, "", err
	}
	meta := messageMeta{write: nuid.Next(), uid: w.uid, expires: w.expires, prev: w.expect, hasPrev: true}
	msg = nats.NewMsg(subject)
	msg.Data = w.value
	if w.value == nil {
		msg.Header.Set(kvOperation, "DEL")
	} else {
		meta.sum, meta.hasSum = checksum(w.value), true
	}
	msg.Header.Set(metaHeader, meta.String())
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.expect, 10))
	return msg, meta.write, nil
}

// encode prepares the write of an object.
func (b *bucket) encode(key string, obj runtime.Object) (write, error) {
	if err := b.versioner.PrepareObjectForStorage(obj); err != nil {
		return write{}, fmt.Errorf("PrepareObjectForStorage failed: %w", err)
	}
	value, err := b.kind.Codec.Encode(obj)
	if err != nil {
		return write{}, err
	}
	w := write{key: key, value: value}
	if accessor, err := meta.Accessor(obj); err == nil {
		w.uid = string(accessor.GetUID())
	}
	return w, nil
}

// decode reads a value and gives it its revision.
func (b *bucket) decode(key string, value []byte, rev uint64, out runtime.Object) error {
	if err := b.kind.Codec.Decode(value, out); err != nil {
		return storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", b.storageKey(key), err))
	}
	return b.versioner.UpdateObject(out, rev)
}

// noteOf is the note that the key log keeps of an object.
func (b *bucket) noteOf(e *entry) string {
	if b.kind.Note == nil {
		return ""
	}
	return b.kind.Note(e.Value)
}
