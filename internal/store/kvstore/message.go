package kvstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/store/encryption"
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

// entry is one value of the mirror, decrypted.
type entry struct {
	Item
	uid     string
	expires time.Time // zero: never
	// stale is true where the value in the bucket is encrypted with another key than that
	// of new values, is not encrypted although new values are, or was upgraded.
	stale bool
}

// change is what a message does to its key: it puts an entry or, with none,
// ends the key.
type change struct {
	messageMeta
	key     string
	rev     uint64
	put     *entry
	corrupt error // why the value cannot be used; put is nil then
	skip    bool  // the message is none of ours; only rev counts
}

// errChecksum is of a value that is not what was written.
var errChecksum = errors.New("its checksum does not agree")

// errForeignKey is of a message whose subject is no key of ours.
var errForeignKey = errors.New("leaving out a value whose key is not ours")

// readChange interprets a message of the bucket. The value is copied out of the
// buffer that it shares with its headers. Its error is errForeignKey, or says that the value
// cannot be decrypted or read now, but may be later.
func (b *bucket) readChange(ctx context.Context, subject string, header nats.Header, data []byte, seq uint64) (change,
	error) {
	key, err := decodeKey(strings.TrimPrefix(subject, b.subjectPrefix))
	if err != nil {
		return change{}, fmt.Errorf("%w: %w", errForeignKey, err)
	}
	meta := parseMeta(header.Get(metaHeader))
	c := change{messageMeta: meta, key: key, rev: seq}
	if isDeletion(header) {
		return c, nil
	}
	if meta.hasSum && meta.sum != checksum(data) {
		c.corrupt = errChecksum
		return c, nil
	}
	value, stale, err := b.opts.Cipher.Decrypt(ctx, b.storageKey(key), data)
	if permanent := new(encryption.KeyError); errors.As(err, &permanent) {
		c.corrupt = permanent
		return c, nil
	}
	if err != nil {
		return change{}, err
	}
	value = bytes.Clone(value)
	if b.kind.Upgrade != nil {
		newer, err := b.kind.Upgrade(value)
		if err != nil {
			return change{}, fmt.Errorf("%s %s: %w", b.kind.Resource, key, err)
		}
		if newer != nil {
			value, stale = newer, true
		}
	}
	c.put = &entry{
		Item:    Item{Key: key, Revision: seq, Value: value, Foreign: meta.write == ""},
		uid:     strings.Clone(meta.uid), // a substring would keep the whole header in memory
		expires: meta.expires,
		stale:   stale,
	}
	return c, nil
}

func isDeletion(header nats.Header) bool {
	return slices.Contains([]string{"DEL", "PURGE"}, header.Get(kvOperation)) || header.Get(markerReason) != ""
}

// messages builds the messages of writes that are done together, and their common id.
func (b *bucket) messages(ctx context.Context, ws []write) (msgs []*nats.Msg, id string, err error) {
	id = nuid.Next()
	for _, w := range ws {
		msg, err := b.message(ctx, w, id)
		if err != nil {
			return nil, "", err
		}
		msgs = append(msgs, msg)
	}
	return msgs, id, nil
}

// message builds the message of a write.
func (b *bucket) message(ctx context.Context, w write, id string) (msg *nats.Msg, err error) {
	subject, err := b.subject(w.key)
	if err != nil {
		return nil, err
	}
	meta := messageMeta{write: id, uid: w.uid, expires: w.expires, prev: w.expect, hasPrev: true}
	msg = nats.NewMsg(subject)
	if w.value == nil {
		msg.Header.Set(kvOperation, "DEL")
	} else {
		if msg.Data, err = b.opts.Cipher.Encrypt(ctx, b.storageKey(w.key), w.value); err != nil {
			refused := apierrors.NewServiceUnavailable(err.Error())
			refused.ErrStatus.Details = retryDetails
			return nil, refused
		}
		meta.sum, meta.hasSum = checksum(msg.Data), true
	}
	msg.Header.Set(metaHeader, meta.String())
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.expect, 10))
	return msg, nil
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
